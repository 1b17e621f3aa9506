//! `rowkey purge`.

use futures_util::stream;
use rowkey::patterns::job::Job;
use rowkey::{DynamicEntity, StorageAccount, Table};
#[cfg(unix)]
use rowkey_emulator::Fault;
use rowkey_emulator::{Operation, Server, Targets};

use crate::support::{Account, SECRET};
#[cfg(unix)]
use crate::support::{signalled, started};

const PARTITIONS: usize = 40;
/// Every third entity stays.
const ROWS: usize = 60;
const KEPT: usize = PARTITIONS * ROWS / 3;
const SELECTED: usize = PARTITIONS * ROWS - KEPT;

fn table(account: &Account) -> Table {
    let storage = StorageAccount::from_connection_string(account.server.connection_string());
    storage.unwrap().table("orders")
}

/// Entities in two pages and more.
async fn fill(account: &Account) {
    let rows = (0..PARTITIONS * ROWS).map(|number| {
        let partition = format!("hidden-{:02}", number / ROWS);
        let mut row = DynamicEntity::new(partition, format!("{:02}", number % ROWS));
        row.set("Keep", number % 3 == 0);
        row
    });
    Job::upsert(&table(account), stream::iter(rows)).run().await.unwrap();
}

/// How many entities there are that stay, and others.
async fn rows(account: &Account) -> (usize, usize) {
    let all = table(account).scan::<DynamicEntity>();
    let all = all.scan_policy(rowkey::ScanPolicy::Allow).all().await.unwrap();
    let kept = all.iter().filter(|row| row.entity.get_as::<bool>("Keep").unwrap()).count();
    (kept, all.len() - kept)
}

async fn filled() -> Account {
    let account = Account::with_orders().await;
    fill(&account).await;
    account
}

const FILTER: [&str; 4] = ["purge", "orders", "--filter", "Keep eq false"];

fn deleted(count: usize) -> String {
    format!("{{\"table\":\"orders\",\"deleted\":{count},\"skipped\":0}}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_that_select_narrow_each_other() {
    let account = filled().await;
    let dry = |args: &[&str]| {
        let line = account.ok(["purge", "orders", "--dry-run"].iter().chain(args));
        let count = line.strip_prefix("{\"table\":\"orders\",\"would_delete\":").unwrap();
        count.trim_end_matches("}\n").parse::<usize>().unwrap()
    };
    let partition = ["--partition", "hidden-07"];
    assert_eq!(dry(&["--all"]), PARTITIONS * ROWS);
    assert_eq!(dry(&["--filter", "Keep eq false"]), SELECTED);
    assert_eq!(dry(&partition), ROWS);
    assert_eq!(dry(&[&partition[..], &["--filter", "Keep eq false"]].concat()), ROWS * 2 / 3);
    assert_eq!(dry(&["--older-than", "1h"]), 0, "all were written just now");
    assert_eq!(dry(&["--older-than", "0s"]), PARTITIONS * ROWS);
    assert_eq!(dry(&[&partition[..], &["--older-than", "30d"]].concat()), 0);
    assert_eq!(rows(&account).await, (KEPT, SELECTED), "nothing was deleted");

    let purge = [&FILTER[..], &partition, &["--yes"]].concat();
    assert_eq!(account.ok(&purge), deleted(ROWS * 2 / 3));
    assert_eq!(account.ok(FILTER.iter().chain(&["--yes"])), deleted(SELECTED - ROWS * 2 / 3));
    assert_eq!(rows(&account).await, (KEPT, 0));
    assert_eq!(account.ok(&purge), deleted(0));
    let csv = account.ok(["purge", "orders", "--all", "-y", "--output", "csv"]);
    assert_eq!(csv, format!("table,deleted,skipped\norders,{KEPT},0\n"));
    account.ok(["count", "orders"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_deleted_without_a_selection_and_a_confirmation() {
    let account = Account::with_orders().await;
    table(&account).insert(&DynamicEntity::new("p", "r")).await.unwrap();
    let sent = account.server.count_requests(Operation::QueryEntities);
    let error = account.fails(2, ["purge", "orders", "--yes"]);
    assert!(error.contains("nothing selects entities of orders; add --filter"), "{error}");
    let error = account.fails(2, ["purge", "orders", "--all"]);
    assert!(error.contains("refused to delete entities of orders"), "{error}");
    assert!(error.contains("add --yes, or --dry-run"), "{error}");
    for wrong in [
        &["purge", "--yes"][..],
        &["purge", "orders", "--all", "--partition", "p", "--yes"],
        &["purge", "orders", "--tables", "o*", "--yes"],
        &["purge", "--tables", "o*", "--filter", "N eq 1", "--yes"],
        &["purge", "orders", "--older-than", "soon", "--yes"],
        &["purge", "orders", "--filter", "N greater 5", "--yes"],
    ] {
        account.fails(2, wrong);
    }
    sent.check(0);
    account.fails(3, ["purge", "absent", "--all", "--yes"]);
    account.ok(["get", "orders", "p", "r"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_dropped_by_the_pattern_of_their_names() {
    let account = Account::with_orders().await;
    for name in ["log202401", "log202402", "log202501", "catalog2024"] {
        account.ok(["tables", "create", name]);
    }
    let would = account.ok(["purge", "--tables", "log2024*", "--dry-run"]);
    assert_eq!(
        would,
        "{\"table\":\"log202401\",\"would_drop\":true}\n{\"table\":\"log202402\",\"would_drop\":true}\n"
    );
    let error = account.fails(2, ["purge", "--tables", "log2024*"]);
    let refused = "refused to drop 2 tables with all their entities: log202401, log202402: there is no terminal";
    assert!(error.contains(refused), "{error}");
    let dropped = account.ok(["purge", "--tables", "LOG2024*", "--yes"]);
    assert!(dropped.ends_with("{\"table\":\"log202402\",\"dropped\":true}\n"), "{dropped}");
    let left = account.ok(["tables", "--output", "csv"]);
    assert_eq!(left, "table\ncatalog2024\nlog202501\norders\n");
    assert_eq!(account.ok(["purge", "--tables", "log2024*", "--yes"]), "");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_purge_that_is_killed_anywhere_goes_on_and_deletes_nothing_else() {
    // One range has a first page of 25 partitions, whose checkpoint is stored, and a second one.
    for (nth, places, passed) in
        [(1, "8", None), (7, "8", None), (23, "8", None), (38, "1", Some(1000))]
    {
        let account = filled().await;
        let job = ["--checkpoint", "position", "--concurrency", places, "--yes"];
        let args = [&FILTER[..], &job].concat();
        // With all later ones: what is sent when the program is killed must not be executed after that.
        let held = Fault::on(Operation::Transaction).nth(nth).times(u64::MAX).hold();
        let done = signalled(started(&account, &args, held).await, "-KILL");
        assert_eq!((done.code, &*done.out), (-1, ""), "{done:?}");
        let (kept, left) = rows(&account).await;
        assert!(kept == KEPT && left > 0 && left <= SELECTED, "{left}");

        let done = account.run(&args);
        assert_eq!(done.code, 0, "{done:?}");
        // What a killed program deleted after its last checkpoint is in no count.
        let before = done.err.rsplit_once(" after ").and_then(|(_, rest)| rest.split_once(' '));
        let before = before.map_or(0, |(count, _)| count.parse::<usize>().unwrap());
        assert!(passed.is_none_or(|passed| passed == before), "{done:?}");
        assert_eq!(done.out, deleted(before + left), "killed at transaction {nth}");
        assert_eq!(rows(&account).await, (KEPT, 0));
        assert!(!account.path("position").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_purge_deletes_all_the_same() {
    // Five hundred entities a second: a quarter of what the client begins with.
    let targets = Targets { entities_per_partition: 500, ..Targets::default() };
    let server = Server::builder().account("shop", [SECRET]).throttle(targets);
    let server = server.start().await.unwrap();
    let account = Account { server, folder: tempfile::tempdir().unwrap() };
    account.ok(["tables", "create", "orders"]);
    let rows = (0..1000).map(|number| DynamicEntity::new("hidden", format!("{number:04}")));
    Job::upsert(&table(&account), stream::iter(rows)).run().await.unwrap();
    assert_eq!(account.ok(["purge", "orders", "--partition", "hidden", "--yes"]), deleted(1000));
    assert_eq!(account.ok(["count", "orders"]), "{\"table\":\"orders\",\"entities\":0}\n");
}
