//! `rowkey copy --sync`: afterwards both tables hold the same, and nothing is deleted that another program has just written.

use rowkey::patterns::job::Job;
use rowkey::{DynamicEntity, Key, Match, StorageAccount, Table};
use rowkey_emulator::Operation;
#[cfg(unix)]
use rowkey_emulator::{Fault, Injected};

#[cfg(unix)]
use crate::support::started;
use crate::support::{Account, finish};

fn table(account: &Account, name: &str) -> Table {
    let storage = StorageAccount::from_connection_string(account.server.connection_string());
    storage.unwrap().table(name)
}

fn key(number: usize) -> DynamicEntity {
    DynamicEntity::new(format!("hidden-{:02}", number % 30), format!("{number:05}"))
}

/// Writes these entities, which no source has.
async fn add(table: &Table, numbers: std::ops::Range<usize>) {
    let rows = futures_util::stream::iter(numbers.map(key));
    Job::upsert(table, rows).run().await.unwrap();
}

/// A table `orders`, and a table `replica` with entities that it lacks, others that differ and without some.
async fn differing() -> Account {
    let account = Account::start().await;
    account.fill("orders", 6, 300).await;
    account.ok(["copy", "orders", "replica"]);
    let replica = table(&account, "replica");
    add(&replica, 0..2_500).await;
    for row in ["00000", "00150", "00299"] {
        let mut changed = DynamicEntity::new("device-003", row);
        changed.set("Number", "another type");
        replica.upsert(&changed).await.unwrap();
        let gone = Key::<DynamicEntity>::new("device-005", row);
        replica.delete(gone, Match::Any).await.unwrap();
    }
    for key in [("a", ""), ("device-003", "00150x"), ("z", "9")] {
        replica.insert(&DynamicEntity::new(key.0, key.1)).await.unwrap();
    }
    account
}

const SYNC: [&str; 4] = ["copy", "orders", "replica", "--sync"];

#[tokio::test(flavor = "multi_thread")]
async fn what_the_source_does_not_have_is_deleted_after_the_copy() {
    let account = differing().await;
    let before = account.entities("replica");
    let source = account.entities("orders");
    let dry = account.ok(SYNC.iter().chain(&["--dry-run"]));
    assert_eq!(
        dry,
        "{\"from\":\"orders\",\"to\":\"replica\",\"would_copy\":1801,\"rejected\":0,\"would_delete\":2503}\n"
    );
    assert_eq!(account.entities("replica"), before, "nothing was written");
    let done = account.ok(SYNC.iter().chain(&["--yes"]));
    assert_eq!(
        done,
        "{\"from\":\"orders\",\"to\":\"replica\",\"copied\":1801,\"rejected\":0,\"deleted\":2503,\"skipped\":0}\n"
    );
    assert_eq!(account.entities("replica"), source);
    assert_eq!(account.entities("orders"), source);
    // Where nothing is to be deleted, no read is sent to make sure of it.
    let reads = account.server.count_requests(Operation::GetEntity);
    assert!(account.ok(SYNC.iter().chain(&["-y"])).contains("\"deleted\":0,\"skipped\":0"));
    reads.check(0);
    account.ok(["check", "orders", "replica"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_does_not_exist_is_created() {
    let account = Account::start().await;
    account.fill("orders", 2, 30).await;
    let dry = account.ok(["copy", "orders", "new", "--sync", "--dry-run"]);
    assert!(dry.contains("\"would_copy\":61,\"rejected\":0,\"would_delete\":0}"), "{dry}");
    assert!(account.server.snapshot().table("new").is_none());
    account.ok(["copy", "orders", "new", "--sync", "--yes"]);
    assert_eq!(account.entities("new"), account.entities("orders"));
    account.fails(3, ["copy", "ordes", "new", "--sync", "--yes"]);
    assert_eq!(
        account.entities("new"),
        account.entities("orders"),
        "not of a source that is missing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_synchronized_by_itself() {
    let account = differing().await;
    let replica = table(&account, "replica");
    replica.insert(&DynamicEntity::new("device-002", "x")).await.unwrap();
    let done = account.ok(SYNC.iter().chain(&["--partition", "device-003", "--yes"]));
    assert!(done.contains("\"copied\":300,\"rejected\":0,\"deleted\":1,\"skipped\":0"), "{done}");
    assert!(replica.get(Key::<DynamicEntity>::new("device-002", "x")).await.unwrap().is_some());
    assert!(replica.get(Key::<DynamicEntity>::new("z", "9")).await.unwrap().is_some());
    let of = |table: &str| {
        let all = account.entities(table).into_iter();
        all.filter(|row| row.starts_with("\"device-003\"")).collect::<Vec<_>>()
    };
    assert_eq!(of("replica"), of("orders"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_changed_without_a_confirmation_or_by_flags_that_select_by_content() {
    let account = differing().await;
    let before = account.entities("replica");
    let error = account.fails(2, SYNC);
    let refused = "refused to delete entities of replica that orders does not have: there is no terminal to ask on; add --yes, or \
                   --dry-run";
    assert!(error.contains(refused), "{error}");
    for flag in [["--since", "1d"], ["--filter", "Number lt 3"]] {
        let error = account.fails(2, SYNC.iter().chain(&["--yes"]).chain(&flag));
        assert!(
            error.contains("--sync deletes what the source does not have")
                && error.contains(flag[0]),
            "{error}"
        );
        account.fails(2, SYNC.iter().chain(&["--dry-run"]).chain(&flag));
    }
    assert_eq!(account.entities("replica"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_whose_signature_hides_entities_is_refused() {
    let account = differing().await;
    let before = account.entities("replica");
    let sas = ["sas", "table", "orders", "--permissions", "r", "--expires", "1h", "--as"];
    let connection =
        |range: &[&str]| account.ok(sas.iter().chain(&["connection-string"]).chain(range));
    let part = connection(&["--partition", "device-003"]);
    let copy = ["copy", "--connection-string-env", "SOURCE", "--to-connection-string-env", "TO"];
    let run = |source: &str, flag: &str| {
        let mut command =
            account.command(copy.iter().chain(&["orders", "replica", "--sync", flag]));
        command.env("SOURCE", source.trim()).env("TO", account.server.connection_string());
        finish(&mut command)
    };
    for flag in ["--yes", "--dry-run"] {
        let done = run(&part, flag);
        assert_eq!((done.code, &*done.out), (2, ""), "{done:?}");
        assert!(done.err.contains("is for a range of keys"), "{done:?}");
        assert!(!done.err.contains("sig="), "{done:?}");
    }
    assert_eq!(account.entities("replica"), before);
    let done = run(&connection(&[]), "--yes");
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(account.entities("replica"), account.entities("orders"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_the_source_lacks_are_listed_and_stay() {
    let (account, other) = (Account::start().await, Account::start().await);
    account.fill("orders", 2, 30).await;
    account.fill("users", 1, 5).await;
    other.fill("archive", 1, 5).await;
    other.fill("Users", 3, 5).await;
    let args = ["copy", "--all", "--sync", "--to-connection-string-env", "OTHER"];
    let run = |flags: &[&str]| {
        let mut command = account.command(args.iter().chain(flags));
        finish(command.env("OTHER", other.server.connection_string()))
    };
    let notice = "rowkey: tables of the destination that the source does not have are not dropped: archive\n";
    let done = run(&["--dry-run"]);
    assert_eq!((done.code, &*done.err), (0, notice), "{done:?}");
    assert!(
        done.out.contains("\"to\":\"users\",\"would_copy\":6,\"rejected\":0,\"would_delete\":10}"),
        "{done:?}"
    );
    let done = run(&[]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("of 2 tables that the source does not have"), "{done:?}");
    let done = run(&["--yes", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.err.starts_with("{\"notice\":{") && done.err.contains("[\"archive\"]"),
        "{done:?}"
    );
    for (from, to) in [("orders", "orders"), ("users", "Users")] {
        assert_eq!(other.entities(to), account.entities(from));
    }
    assert_eq!(other.entities("archive").len(), 6);
    assert_eq!(run(&["--yes"]).err, notice);
}

/// Waits for the end of a program that was held back.
#[cfg(unix)]
fn released((running, held): (std::process::Child, Injected)) -> (i32, String, String) {
    drop(held);
    let output = running.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code().unwrap(), out, err)
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_between_the_comparison_and_the_deletion_stays() {
    let account = Account::start().await;
    account.fill("orders", 1, 10).await;
    account.ok(["copy", "orders", "replica"]);
    let (orders, replica) = (table(&account, "orders"), table(&account, "replica"));
    add(&replica, 0..40).await;
    // The destination has been read, and the source as well.
    let args = [&SYNC[..], &["--yes"]].concat();
    let running = started(&account, &args, Fault::on(Operation::GetEntity).hold()).await;
    let mut written = key(3);
    written.set("New", true);
    replica.upsert(&written).await.unwrap();
    replica.delete(key(4).key(), Match::Any).await.unwrap();
    // The reads that make sure were held, and find these.
    for number in 0..40 {
        if number % 7 == 5 {
            orders.insert(&key(number)).await.unwrap();
        }
    }
    let (code, out, err) = released(running);
    assert_eq!((code, &*err), (0, ""), "{out}");
    let kept = account.entities("replica");
    assert!(kept.iter().any(|row| row.contains("\"New\"")), "{kept:?}");
    assert!(out.contains("\"skipped\":1}"), "{out}");
    let both: Vec<_> = (0..40).filter(|number| number % 7 == 5).map(key).collect();
    let mut found = 0;
    for row in both {
        found += usize::from(replica.get(row.key()).await.unwrap().is_some());
    }
    assert_eq!(kept.len(), 11 + 1 + found, "{out}");
    assert!(found > 0, "{out}");
    // The next run deletes what only the destination has.
    account.ok(SYNC.iter().chain(&["--yes"]));
    assert_eq!(account.entities("replica"), account.entities("orders"));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_of_a_copy_is_not_that_of_a_synchronization() {
    let account = differing().await;
    let job = ["--checkpoint", "position", "--concurrency", "1", "--yes"];
    let args = [&SYNC[..], &job].concat();
    // The first deletion is sent when the copy is done.
    let held = Fault::on(Operation::GetEntity).nth(1).hold();
    let running = started(&account, &args, held).await;
    assert_eq!(crate::support::signalled(running, "-KILL").code, -1);
    let error = account.fails(2, ["copy", "orders", "replica", "--checkpoint", "position"]);
    assert!(error.contains("belongs to the job `synchronize`"), "{error}");
    let done = account.run(&args);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("\"copied\":1801,"), "{done:?}");
    assert_eq!(account.entities("replica"), account.entities("orders"));
}
