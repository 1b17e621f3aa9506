//! `rowkey copy`, `export` and `import`: every format and place, rejected entities, and wrong usage.

use std::fs;

use rowkey::edm::{DateTime, Guid};
use rowkey::{DynamicEntity, Transaction};
use rowkey_emulator::{ErrorCode, Fault, Snapshot, StoredEntity};

use crate::support::{Account, finish};

/// The entities of a table, without their Timestamps, as text.
pub(crate) fn entities(snapshot: &Snapshot, table: &str) -> Vec<String> {
    let table = snapshot.table(table).unwrap();
    let text = |row: StoredEntity<'_>| {
        let mut properties: Vec<_> = row.properties().collect();
        properties.sort_by_key(|(name, _)| *name);
        format!("{:?} {:?} {properties:?}", row.partition_key(), row.row_key())
    };
    table.entities().map(text).collect()
}

impl Account {
    /// Fills a table with rows of several partitions and types.
    pub(crate) async fn fill(&self, table: &str, partitions: usize, rows: usize) {
        let account =
            rowkey::StorageAccount::from_connection_string(self.server.connection_string())
                .unwrap();
        let table = account.table(table);
        table.create_if_missing().await.unwrap();
        for partition in 0..partitions {
            let rows: Vec<_> = (0..rows)
                .map(|row| {
                    let key = format!("device-{partition:03}");
                    let mut entity = DynamicEntity::new(key, format!("{row:05}"));
                    entity.set("Number", i32::try_from(row).unwrap());
                    entity.set("Count", i64::try_from(row).unwrap() << 33);
                    entity.set("Ratio", if row % 7 == 0 { f64::NAN } else { 5.0 });
                    entity
                })
                .collect();
            for hundred in rows.chunks(100) {
                let all = hundred.iter().fold(table.transaction(), Transaction::insert);
                all.submit().await.unwrap();
            }
        }
        let mut all = DynamicEntity::new("", "");
        all.set("Binary", vec![0_u8, 255]);
        all.set("Boolean", false);
        all.set("DateTime", "9999-12-31T23:59:59.9999999Z".parse::<DateTime>().unwrap());
        all.set("Double", f64::NEG_INFINITY);
        all.set("Guid", Guid::from_u128(7));
        all.set("Int32", i32::MIN);
        all.set("Int64", i64::MAX);
        all.set("String", "");
        table.insert(&all).await.unwrap();
    }

    pub(crate) fn entities(&self, table: &str) -> Vec<String> {
        entities(&self.server.snapshot(), table)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_copied_to_another_and_to_another_account() {
    let (account, other) = (Account::start().await, Account::start().await);
    account.fill("orders", 6, 150).await;
    let copied = account.ok(["copy", "orders", "archive"]);
    assert_eq!(copied, "{\"from\":\"orders\",\"to\":\"archive\",\"copied\":901,\"rejected\":0}\n");
    assert_eq!(account.entities("archive"), account.entities("orders"));

    let mut command =
        account.command(["copy", "archive", "again", "--to-connection-string-env", "OTHER"]);
    let done = finish(command.env("OTHER", other.server.connection_string()));
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(other.entities("again"), account.entities("orders"));

    let args = ["copy", "--all", "--to-connection-string-env", "OTHER"];
    let mut command = account.command([&args[..], &["--dry-run"]].concat());
    let done = finish(command.env("OTHER", other.server.connection_string()));
    assert_eq!((done.code, done.out.lines().count()), (0, 2), "{done:?}");
    assert!(other.server.snapshot().table("orders").is_none(), "nothing was written");
    let mut command = account.command(args);
    let done = finish(command.env("OTHER", other.server.connection_string()));
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(other.entities("orders"), account.entities("orders"));
    assert_eq!(other.entities("archive"), account.entities("orders"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_table_is_copied() {
    let account = Account::start().await;
    account.fill("orders", 3, 10).await;
    account.ok(["copy", "orders", "one", "--partition", "device-001"]);
    assert_eq!(account.entities("one").len(), 10);
    account.ok(["copy", "orders", "few", "--filter", "Number lt 3"]);
    assert_eq!(account.entities("few").len(), 9);
    account.ok(["copy", "orders", "recent", "--since", "1h"]);
    assert_eq!(account.entities("recent").len(), 31);
    account.ok(["copy", "orders", "none", "--since", "2999-01-01T00:00:00Z"]);
    assert_eq!(account.entities("none").len(), 0);

    let error = account.fails(2, ["copy", "orders", "part", "--since", "soon"]);
    assert!(error.contains("--since: a duration is"), "{error}");
    let error = account.fails(2, ["copy", "orders", "part", "--filter", "Number lt"]);
    assert!(error.contains("--filter"), "{error}");
    let error = account.fails(2, ["copy", "orders", "Orders"]);
    assert!(error.contains("cannot be copied to itself"), "{error}");
    let there = account.server.connection_string().replace("127.0.0.1", "localhost");
    let mut command =
        account.command(["copy", "orders", "orders", "--to-connection-string-env", "TO"]);
    let done = finish(command.env("TO", &there));
    assert_eq!((done.code, &*done.out), (2, ""), "{done:?}");
    assert!(
        there.contains("localhost") && done.err.contains("cannot be copied to itself"),
        "{done:?}"
    );
    let error = account.fails(2, ["copy", "--all"]);
    assert!(error.contains("--to-profile"), "{error}");
    let error = account.fails(3, ["copy", "missing", "part"]);
    assert!(error.contains("missing"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_entities_are_in_a_file_with_the_reason_and_can_be_imported_again() {
    let account = Account::start().await;
    account.fill("orders", 3, 10).await;
    let other = Account::start().await;
    other.ok(["tables", "create", "orders"]);
    let refused =
        other.server.inject(Fault::any().nth(3).times(1).reject(ErrorCode::REQUEST_BODY_TOO_LARGE));
    let mut command =
        account.command(["copy", "orders", "orders", "--to-connection-string-env", "OTHER"]);
    let done = finish(command.env("OTHER", other.server.connection_string()));
    drop(refused);
    assert_eq!(done.code, 8, "{done:?}");
    assert!(done.err.contains("rejected entities are in orders.rejects.jsonl"), "{done:?}");
    let rejects = fs::read_to_string(account.path("orders.rejects.jsonl")).unwrap();
    let lines =
        rejects.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let (mut count, mut again) = (0, String::new());
    for line in lines {
        assert!(
            line["error"].as_str().unwrap().contains("a limit of the service was exceeded"),
            "{line}"
        );
        again.push_str(&line["entity"].to_string());
        again.push('\n');
        count += 1;
    }
    assert_eq!(other.entities("orders").len() + count, 31);
    assert!(count > 0);
    let done = other.fed(&again, ["import", "orders", "-"]);
    assert_eq!((done.code, &*done.err), (0, ""), "{done:?}");
    assert_eq!(other.entities("orders"), account.entities("orders"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_format_and_place_comes_back_exactly() {
    let account = Account::start().await;
    account.fill("orders", 4, 30).await;
    let expected = account.entities("orders");
    let files = [
        "a.jsonl",
        "a.jsonl.gz",
        "a.csv",
        "a.csv.gz",
        "a.json",
        "a.json.gz",
        "a.parquet",
        "folder",
    ];
    for (number, file) in files.into_iter().enumerate() {
        let exported = account.ok(["export", "orders", file]);
        assert!(exported.contains("\"exported\":121"), "{exported}");
        let table = format!("table{number}");
        let imported = account.ok(["import", &table, file]);
        assert_eq!(
            imported,
            format!("{{\"table\":\"{table}\",\"imported\":121,\"rejected\":0}}\n")
        );
        assert_eq!(account.entities(&table), expected, "{file}");
        let dry = account.ok(["import", "nowhere", file, "--dry-run"]);
        assert!(dry.contains("\"would_import\":121"), "{dry}");
    }
    assert!(account.server.snapshot().table("nowhere").is_none());
    for (format, table) in
        [("json-lines", "text0"), ("csv", "text1"), ("json", "text2"), ("azcopy", "text3")]
    {
        let out = account.ok(["export", "orders", "-", "--format", format]);
        let done = account.fed(&out, ["import", table, "-", "--format", format]);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(account.entities(table), expected, "{format}");
    }
    account.ok(["export", "orders", "backups/a/orders", "--container"]);
    account.ok(["import", "blobs", "backups/a/orders", "--container"]);
    assert_eq!(account.entities("blobs"), expected);

    let error = account.fails(2, ["export", "orders", "folder"]);
    assert!(error.contains("there is a backup already"), "{error}");
    let error = account.fails(2, ["import", "part", "a.unknown"]);
    assert!(error.contains("--format"), "{error}");
    let error = account.fails(2, ["export", "orders", "b.jsonl", "--checkpoint", "c"]);
    assert!(error.contains("export to a folder"), "{error}");
    assert!(!account.path("b.jsonl").exists(), "no part of a file");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_backed_up_and_restored() {
    let (account, other) = (Account::start().await, Account::start().await);
    account.fill("orders", 2, 30).await;
    account.fill("users", 1, 5).await;
    account.ok(["tables", "create", "empty"]);
    let exported = account.ok(["export", "--all", "backup"]);
    assert_eq!(exported.lines().count(), 3, "{exported}");
    // A second run keeps what is whole.
    fs::remove_dir_all(account.path("backup/users")).unwrap();
    assert_eq!(account.ok(["export", "--all", "backup"]).lines().count(), 3);
    let folder = account.path("backup");
    let imported = other.ok([std::ffi::OsStr::new("import"), "--all".as_ref(), folder.as_os_str()]);
    assert_eq!(imported.lines().count(), 3, "{imported}");
    for table in ["orders", "users", "empty"] {
        assert_eq!(other.entities(table), account.entities(table), "{table}");
    }

    // A backup that is damaged stops all of them before the first entity is written.
    let third = Account::start().await;
    let file = fs::read_dir(account.path("backup/users")).unwrap();
    let file = file.map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| !path.ends_with("manifest.json")).unwrap();
    fs::write(file, "").unwrap();
    third.fails(2, [std::ffi::OsStr::new("import"), "--all".as_ref(), folder.as_os_str()]);
    assert_eq!(third.server.snapshot().tables().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_from_a_damaged_backup_and_no_content_is_shown() {
    let account = Account::start().await;
    account.fill("orders", 2, 30).await;
    account.ok(["export", "orders", "backup", "--compression", "none"]);
    let file = fs::read_dir(account.path("backup"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("device", "secret", 1)).unwrap();
    let error = account.fails(2, ["import", "restored", "backup"]);
    assert!(error.contains("SHA-256") && !error.contains("secret"), "{error}");
    assert!(account.server.snapshot().table("restored").is_none());
    let done = account.fed("{\"PartitionKey\":\"secret\"}\n", ["import", "restored", "-"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("line 1: RowKey: it is absent"), "{done:?}");
    assert!(!done.err.contains("secret"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn how_existing_entities_are_treated_is_a_choice() {
    let account = Account::with_orders().await;
    let one = r#"{"PartitionKey":"p","RowKey":"1","A":1}"#;
    let two = r#"{"PartitionKey":"p","RowKey":"1","B":2}"#;
    account.fed(one, ["import", "orders", "-"]);
    let done = account.fed(two, ["import", "orders", "-", "--write", "insert"]);
    assert_eq!(done.code, 8, "{done:?}");
    assert!(account.entities("orders")[0].contains("\"A\""));
    assert_eq!(account.fed(one, ["import", "orders", "-", "--write", "insert"]).code, 0);
    account.fed(two, ["import", "orders", "-", "--write", "merge"]);
    let merged = account.entities("orders").remove(0);
    assert!(merged.contains("\"A\"") && merged.contains("\"B\""), "{merged}");
    account.fed(two, ["import", "orders", "-"]);
    assert!(!account.entities("orders")[0].contains("\"A\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_partitions_of_a_sorted_backup_are_written_at_the_same_time() {
    use std::collections::BTreeMap;

    use rowkey_transfer::backup::{FileEncoder, Manifest};
    use rowkey_transfer::{Compression, Row};

    let account = Account::start().await;
    let folder = account.path("backup");
    fs::create_dir(&folder).unwrap();
    let files = (0..6).map(|partition| {
        let name = format!("{partition}.jsonl.gz");
        let mut file = FileEncoder::new(Vec::new(), &name, Compression::Gzip).unwrap();
        for row in 0..1_500 {
            let row = DynamicEntity::new(format!("p{partition}"), format!("{row:05}"));
            file.write(&Row::new(row)).unwrap();
        }
        let (listed, bytes) = file.finish().unwrap();
        fs::write(folder.join(name), bytes).unwrap();
        listed
    });
    let now = "2026-11-20T12:34:56Z".parse().unwrap();
    let manifest = Manifest::new("orders", now, now, files.collect()).unwrap();
    fs::write(folder.join("manifest.json"), manifest.to_json()).unwrap();

    // Fewer groups wait than one partition has.
    account.ok(["import", "orders", "backup", "--concurrency", "2"]);
    let storage =
        rowkey::StorageAccount::from_connection_string(account.server.connection_string()).unwrap();
    let all = storage.table("orders").scan::<DynamicEntity>();
    let all = all.scan_policy(rowkey::ScanPolicy::Allow).all().await.unwrap();
    assert_eq!(all.len(), 9_000);
    let mut times: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in all {
        times.entry(row.entity.partition_key).or_default().push(row.timestamp);
    }
    for times in times.values_mut() {
        times.sort();
    }
    // The last group of a partition waits for more of it until the end.
    let begun = times.values().map(|times| times[0]);
    let half = times.values().map(|times| times[times.len() / 2]);
    assert!(begun.max() < half.min(), "each begins before half of another one is written");
}
