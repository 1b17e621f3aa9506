//! `rowkey check`.

use std::fs;

use futures_util::stream;
use rowkey::patterns::job::Job;
use rowkey::{DynamicEntity, StorageAccount, Table};
use rowkey_emulator::{Operation, Server};
use rowkey_transfer::backup::{FileEncoder, Manifest};
use rowkey_transfer::{Compression, Row};

use crate::support::{Account, finish};

fn storage(server: &Server) -> StorageAccount {
    StorageAccount::from_connection_string(server.connection_string()).unwrap()
}

fn row(number: usize) -> DynamicEntity {
    // Partitions of very different sizes, so that pages end inside of them and between them.
    let partition = number.isqrt() / 7;
    let mut row = DynamicEntity::new(format!("hidden-{partition:02}"), format!("{number:04}"));
    row.set("Number", i32::try_from(number).unwrap());
    row.set("Ratio", f64::NAN);
    row
}

const ROWS: usize = 2_500;

async fn fill(table: &Table) {
    table.create_if_missing().await.unwrap();
    Job::upsert(table, stream::iter((0..ROWS).map(row))).run().await.unwrap();
}

/// Two tables that hold the same.
async fn twins() -> Account {
    let account = Account::start().await;
    for name in ["orders", "copies"] {
        fill(&storage(&account.server).table(name)).await;
    }
    account
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_hold_the_same_are_found_to_do_so() {
    let account = twins().await;
    let before = account.server.journal();
    let line = account.ok(["check", "orders", "copies"]);
    assert_eq!(
        line,
        "{\"table\":\"orders\",\"other\":\"copies\",\"same\":2500,\"different\":0,\"missing\":0,\"surplus\":0,\"unreadable\":0}\n"
    );
    // Not one for each entity.
    let queries = account.server.journal().since(&before).count(Operation::QueryEntities);
    assert!(queries < 120, "{queries}");
    // Empty tables are the same, too.
    account.ok(["tables", "create", "one"]);
    account.ok(["tables", "create", "two"]);
    assert!(account.ok(["check", "one", "two"]).contains("\"same\":0,"));
    let line = account.ok(["check", "orders", "--output", "csv"]);
    assert_eq!(line, "table,readable,unreadable\norders,2500,0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_difference_is_found_wherever_it_is() {
    let account = twins().await;
    let storage = storage(&account.server);
    let (orders, copies) = (storage.table("orders"), storage.table("copies"));
    let key = |number| {
        let row = row(number);
        rowkey::Key::<DynamicEntity>::new(row.partition_key, row.row_key)
    };
    // At both ends, around the end of a page, and in between.
    for number in [0, 998, 999, 1000, 1700, ROWS - 1] {
        copies.delete(key(number), rowkey::Match::Any).await.unwrap();
    }
    for (number, change) in [(1, 0), (1001, 1), (1500, 2)] {
        let mut row = row(number);
        match change {
            0 => row.set("Number", i64::try_from(number).unwrap()),
            1 => row.set("Added", ""),
            _ => row.set("Ratio", 0.5),
        };
        copies.upsert(&row).await.unwrap();
    }
    for (partition, row) in [("a", "1"), ("hidden-03", "0700x"), ("hidden-03x", "1"), ("z", "9")] {
        copies.insert(&DynamicEntity::new(partition, row)).await.unwrap();
    }
    let done = account.run(["check", "orders", "copies"]);
    assert_eq!(done.code, 8, "{done:?}");
    assert_eq!(
        done.out,
        "{\"table\":\"orders\",\"other\":\"copies\",\"same\":2491,\"different\":3,\"missing\":6,\"surplus\":4,\"unreadable\":0}\n"
    );
    for text in [
        "rowkey: missing: the other table does not have it (6 entities)",
        "rowkey: different: both have it, with different `Number` (1 entity)",
        "rowkey: different: both have it, with different `Added` (1 entity)",
        "rowkey: orphaned: only the other table has it (4 entities)",
        " are missing, ",
    ] {
        assert!(done.err.contains(text), "{}", done.err);
    }
    assert!(!done.err.contains("hidden"), "{}", done.err);
    let done = account.run(["check", "orders", "copies", "--show-keys", "--json"]);
    assert_eq!((done.code, done.err.lines().count()), (8, 3 + 6 + 4 + 1), "{done:?}");
    assert!(done.err.contains("\"partition_key\":\"hidden-03x\""), "{}", done.err);

    // The other way round.
    let done = account.run(["check", "copies", "orders"]);
    assert!(done.out.contains("\"different\":3,\"missing\":4,\"surplus\":6,"), "{done:?}");
    orders.delete_table().await.unwrap();
    account.fails(3, ["check", "copies", "orders"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_entities_are_found_among_many_without_reading_all_of_them() {
    let account = Account::with_orders().await;
    let storage = storage(&account.server);
    let (many, few) = (storage.table("orders"), storage.table("few"));
    let rows = (0..20_000)
        .map(|number| DynamicEntity::new(format!("p{:02}", number / 500), format!("{number:05}")));
    Job::upsert(&many, stream::iter(rows)).run().await.unwrap();
    few.create().await.unwrap();
    for key in [("p00", "00001"), ("p39", "19999"), ("q", "missing")] {
        few.insert(&DynamicEntity::new(key.0, key.1)).await.unwrap();
    }
    let before = account.server.journal();
    let done = account.run(["check", "few", "orders", "--concurrency", "1"]);
    assert_eq!(done.code, 8, "{done:?}");
    assert!(
        done.out.contains("\"same\":2,\"different\":0,\"missing\":1,\"surplus\":19998,"),
        "{done:?}"
    );
    // Twenty pages of keys with three queries each; of the twenty pages between the few, three are read, and five more
    // queries find the others.
    let queries = account.server.journal().since(&before).count(Operation::QueryEntities);
    assert!(queries <= 92, "{queries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_two_accounts_are_compared() {
    let account = Account::with_orders().await;
    let other = Server::start().await.unwrap();
    fill(&storage(&account.server).table("orders")).await;
    fill(&storage(&other).table("orders")).await;
    let check = |args: &[&str]| {
        let mut command = account.command(["check", "orders"]);
        finish(command.env("OTHER", other.connection_string()).args(args))
    };
    let to = ["--to-connection-string-env", "OTHER"];
    let done = check(&to);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("\"other\":\"orders\",\"same\":2500,"), "{done:?}");
    let done = check(&[&["absent"][..], &to].concat());
    assert_eq!(done.code, 3, "{done:?}");

    account.fed(other.connection_string(), ["profile", "add", "other"]);
    storage(&other).table("orders").insert(&DynamicEntity::new("p", "r")).await.unwrap();
    let done = check(&["orders", "--to-profile", "other"]);
    assert_eq!(done.code, 8, "{done:?}");
    assert!(done.out.contains("\"surplus\":1,"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_are_wrong_usage() {
    let account = Account::with_orders().await;
    let error = account.fails(2, ["check", "orders", "Orders"]);
    assert!(error.contains("Orders") || error.contains("is one table"), "{error}");
    for wrong in [
        &["check"][..],
        &["check", "orders", "other", "--backup", "."],
        &["check", "--backup", ".", "--to-profile", "other"],
        &["check", "orders", "--to-profile", "a", "--to-connection-string-env", "b"],
    ] {
        account.fails(2, wrong);
    }
    account.fails(3, ["check", "absent"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_whole_or_the_damaged_files_are_named() {
    let account = Account::start().await;
    let folder = account.path("backup");
    let check = ["check", "--backup", "backup"];
    assert!(account.fails(3, check).contains("no folder backup"));
    fs::create_dir(&folder).unwrap();
    assert!(account.fails(8, check).contains("backup: there is no manifest"));

    let mut files = Vec::new();
    for (number, compression) in [Compression::None, Compression::Gzip].into_iter().enumerate() {
        let name = format!("orders-{number}.jsonl");
        let mut file = FileEncoder::new(Vec::new(), &name, compression).unwrap();
        for number in 0..300 {
            file.write(&Row::new(row(number))).unwrap();
        }
        let (listed, bytes) = file.finish().unwrap();
        fs::write(folder.join(name), bytes).unwrap();
        files.push(listed);
    }
    let now = "2026-11-20T12:34:56Z".parse().unwrap();
    let manifest = Manifest::new("orders", now, now, files).unwrap().to_json();
    fs::write(folder.join("manifest.json"), &manifest).unwrap();
    // No account is needed.
    let whole =
        "{\"backup\":\"backup\",\"table\":\"orders\",\"files\":2,\"entities\":600,\"damaged\":0}\n";
    let mut command = crate::support::program(&account.folder);
    assert_eq!(finish(command.args(check)).out, whole);

    let path = folder.join("orders-1.jsonl");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let done = account.run(check);
    assert_eq!(done.code, 8, "{done:?}");
    assert!(done.out.contains("\"damaged\":1}"), "{done:?}");
    assert!(
        done.err.contains("rowkey: backup/orders-1.jsonl") && !done.err.contains("hidden"),
        "{done:?}"
    );
    assert!(done.err.ends_with("is not whole: 1 of 2 files are damaged\n"), "{done:?}");
    fs::remove_file(folder.join("orders-0.jsonl")).unwrap();
    assert!(account.run(check).out.contains("\"damaged\":2}"));
    fs::write(folder.join("manifest.json"), &manifest[..50]).unwrap();
    assert!(account.fails(8, check).contains("manifest.json"));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_goes_on_with_the_same_server_alone() {
    use rowkey_emulator::Fault;

    // Accounts of one name, as two emulators have them.
    let (one, other) = (twins().await, twins().await);
    let args = ["check", "orders", "copies", "--checkpoint", "position", "--concurrency", "1"];
    let held = Fault::on(Operation::QueryEntities).nth(6).hold();
    let running = crate::support::started(&one, &args, held).await;
    assert_eq!(crate::support::signalled(running, "-KILL").code, -1);
    fs::copy(one.path("position"), other.path("position")).unwrap();
    let error = other.fails(2, args);
    assert!(error.contains("another `tables`"), "{error}");
    assert_eq!(one.run(args).code, 0);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_that_is_killed_goes_on() {
    use rowkey_emulator::Fault;

    let account = twins().await;
    storage(&account.server).table("copies").insert(&DynamicEntity::new("a", "1")).await.unwrap();
    let args = ["check", "orders", "copies", "--checkpoint", "position", "--concurrency", "1"];
    // Of a page and what is between its keys, and of both jobs.
    for nth in [3, 6, 11, 18] {
        let held = Fault::on(Operation::QueryEntities).nth(nth).hold();
        let running = crate::support::started(&account, &args, held).await;
        assert_eq!(crate::support::signalled(running, "-KILL").code, -1);
        let done = account.run(args);
        assert_eq!(done.code, 8, "{done:?}");
        let counts = "\"same\":2500,\"different\":0,\"missing\":0,\"surplus\":1,";
        assert!(done.out.contains(counts), "killed at query {nth}: {done:?}");
        assert!(!account.path("position").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_compared_with_a_backup() {
    let account = Account::with_orders().await;
    let orders = storage(&account.server).table("orders");
    fill(&orders).await;
    let folder = account.path("backup");
    fs::create_dir(&folder).unwrap();
    let write = |pages: &[std::ops::Range<usize>]| {
        // The order of the rows means nothing.
        let files = pages.iter().enumerate().map(|(number, page)| {
            let name = format!("orders-{number}.jsonl.gz");
            let mut file = FileEncoder::new(Vec::new(), &name, Compression::Gzip).unwrap();
            page.clone().for_each(|number| file.write(&Row::new(row(number))).unwrap());
            let (listed, bytes) = file.finish().unwrap();
            fs::write(folder.join(name), bytes).unwrap();
            listed
        });
        let now = "2026-11-20T12:34:56Z".parse().unwrap();
        let manifest = Manifest::new("orders", now, now, files.collect()).unwrap();
        fs::write(folder.join("manifest.json"), manifest.to_json()).unwrap();
    };
    let check = ["check", "orders", "--backup", "backup"];
    let counts = |same, different, missing, surplus| {
        format!(
            "{{\"table\":\"orders\",\"backup\":\"backup\",\"same\":{same},\"different\":{different},\"missing\":{missing},\"surplus\":{surplus},\"unreadable\":0}}\n"
        )
    };
    write(&[1500..2000, 0..1500, 2000..ROWS]);
    assert_eq!(account.ok(check), counts(ROWS, 0, 0, 0));

    // An entity that is there twice would hide one that the backup lacks.
    write(&[1500..2000, 0..1500, 2000..ROWS - 1, 0..1]);
    let error = account.fails(8, check);
    assert!(error.contains("has an entity twice"), "{error}");

    // One changed, one deleted, two new ones, and a file that lacks ten.
    let mut changed = row(7);
    changed.set("Number", "seven");
    orders.upsert(&changed).await.unwrap();
    let gone = row(1999);
    let gone = rowkey::Key::<DynamicEntity>::new(gone.partition_key, gone.row_key);
    orders.delete(gone, rowkey::Match::Any).await.unwrap();
    for key in ["1", "2"] {
        orders.insert(&DynamicEntity::new("z", key)).await.unwrap();
    }
    write(&[1510..2000, 0..1500, 2000..ROWS]);
    let done = account.run(check);
    assert_eq!((done.code, &*done.out), (8, &*counts(ROWS - 12, 1, 12, 1)), "{done:?}");
    assert!(done.err.contains("both have it, with different `Number` (1 entity)"), "{done:?}");

    let path = folder.join("orders-1.jsonl.gz");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    let done = account.run(check);
    assert_eq!(done.code, 8, "{done:?}");
    assert!(done.out.contains("\"damaged\":1}"), "{done:?}");
}

/// A table of several files, exported to a folder and to a container.
async fn backed_up() -> Account {
    let account = Account::with_orders().await;
    fill(&storage(&account.server).table("orders")).await;
    account.ok(["export", "orders", "backup"]);
    account.ok(["export", "orders", "backups/a/orders", "--container"]);
    account
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_in_a_container_is_checked_as_one_in_a_folder() {
    let account = backed_up().await;
    let check = ["check", "--backup", "backups/a/orders", "--container"];
    let line = account.ok(check);
    assert!(
        line.contains("\"table\":\"orders\"")
            && line.ends_with("\"entities\":2500,\"damaged\":0}\n"),
        "{line}"
    );
    let both = ["check", "orders", "--backup", "backups/a/orders", "--container"];
    assert!(
        account.ok(both).contains("\"same\":2500,\"different\":0,\"missing\":0,\"surplus\":0,")
    );
    storage(&account.server).table("orders").insert(&DynamicEntity::new("z", "1")).await.unwrap();
    let done = account.run(both);
    assert!(done.code == 8 && done.out.contains("\"missing\":1,"), "{done:?}");
    assert!(done.err.contains("the command is done; of 2501 entities 1 are missing"), "{done:?}");

    let container = storage(&account.server).container("backups");
    let names = container.blobs().all().await.unwrap();
    let file = names.iter().find(|blob| blob.name.contains(".jsonl")).unwrap();
    container.blob(&file.name).delete_if_exists().await.unwrap();
    let done = account.run(both);
    assert!(done.code == 8 && done.out.contains("\"damaged\":1}"), "{done:?}");
    let named = format!("rowkey: backups/{}: the file is missing", file.name);
    assert!(done.err.contains(&named), "{done:?}");

    account.fails(3, ["check", "--backup", "absent/a", "--container"]);
    account.fails(8, ["check", "--backup", "backups/absent", "--container"]);
    account.fails(2, ["check", "orders", "--container"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_azcopy_is_checked_as_well() {
    let account = Account::with_orders().await;
    fill(&storage(&account.server).table("orders")).await;
    let folder = account.path("old");
    fs::create_dir(&folder).unwrap();
    let name = "shop_orders_20180528T030611.6482709Z";
    let lines = account.ok(["export", "orders", "-", "--format", "azcopy"]);
    let file = format!("{name}_0_0_0AB9AC20.json");
    fs::write(folder.join(&file), &lines).unwrap();
    let time = "2018-05-28T03:06:11.6482709Z".parse().unwrap();
    let manifest = rowkey_transfer::azcopy::Manifest::new("shop", "orders", time, 1).to_json();
    fs::write(folder.join(format!("{name}.manifest")), manifest).unwrap();
    let line = account.ok(["check", "--backup", "old"]);
    assert_eq!(
        line,
        "{\"backup\":\"old\",\"table\":\"orders\",\"files\":1,\"entities\":2500,\"damaged\":0}\n"
    );
    assert!(account.ok(["check", "orders", "--backup", "old"]).contains("\"same\":2500,"));
    fs::write(folder.join(&file), &lines[..lines.len() / 2]).unwrap();
    let done = account.run(["check", "--backup", "old"]);
    assert!(done.code == 8 && done.out.contains("\"damaged\":1}"), "{done:?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_with_a_backup_that_is_killed_goes_on_in_both_halves() {
    use rowkey_emulator::Fault;

    let account = backed_up().await;
    storage(&account.server).table("orders").insert(&DynamicEntity::new("a", "1")).await.unwrap();
    let args = ["check", "orders", "--backup", "backup", "--checkpoint", "position"];
    let args = [&args[..], &["--concurrency", "1"]].concat();
    let before = account.server.journal();
    assert_eq!(account.run(&args).code, 8);
    let whole = account.server.journal().since(&before).count(Operation::QueryEntities);
    // In the comparison, and in the last page of the count. A signal that can be handled stores the last position.
    for (nth, signal, code, most) in
        [(2, "-KILL", -1, whole), (5, "-KILL", -1, whole), (whole as u64, "-TERM", 143, 2)]
    {
        let held = Fault::on(Operation::QueryEntities).nth(nth).hold();
        let running = crate::support::started(&account, &args, held).await;
        assert_eq!(crate::support::signalled(running, signal).code, code);
        let before = account.server.journal();
        let done = account.run(&args);
        assert_eq!(done.code, 8, "{done:?}");
        let counts = "\"same\":2500,\"different\":0,\"missing\":1,\"surplus\":0,";
        assert!(done.out.contains(counts), "stopped at query {nth}: {done:?}");
        let again = account.server.journal().since(&before).count(Operation::QueryEntities);
        assert!(again <= most, "{again} of {whole} queries after query {nth}");
        assert!(!account.path("position").exists());
    }
}
