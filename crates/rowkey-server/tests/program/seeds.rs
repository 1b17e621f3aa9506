//! `--seed`: the files that it takes, folders of them, locations, and what is refused.

use rowkey_emulator::Service;

use crate::work::{Started, Work};

const JSON: &str = r#"{
  "tables": {"orders": [{"PartitionKey": "contoso", "RowKey": "1", "Price": 3.5}]},
  "queues": {"work": ["a message"]},
  "containers": {"invoices": {"a.txt": {"file": "files/a.txt"}}}
}"#;
/// As `rowkey export` writes it.
const LINES: &str = concat!(
    r#"{"PartitionKey":"sales","RowKey":"7","Timestamp":"2026-11-20T12:34:56.7654321Z","Age":36,"#,
    r#""Pay":{"Edm.Int64":"90000"}}"#,
    "\n"
);
/// The SHA-256 of these lines.
const SHA256: &str = "9d3db36bb6e5ed605b54c1b3b54cf32ef48253de0e11b1faecc7aa070495827b";

/// A manifest of one file with these lines.
fn manifest(file: &str, sha256: &str) -> String {
    let bytes = LINES.len();
    format!(
        r#"{{"format":"rowkey-backup","version":1,"table":"staff","encoding":"json-lines",
        "started":"2026-11-20T12:34:56Z","ended":"2026-11-20T12:34:57Z","rows":1,"bytes":{bytes},
        "files":[{{"name":"{file}","rows":1,"bytes":{bytes},"sha256":"{sha256}","compression":"none"}}]}}"#
    )
}

/// The body of a response to a query of a table.
fn entities(started: &Started, table: &str) -> String {
    let answer = started.connect(Service::Table).send("GET", &format!("/{table}()"), &[], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[test]
fn json_fills_all_services_and_files_are_found_beside_it() {
    let work = Work::new().with("seeds/seed.json", JSON).with("seeds/files/a.txt", "hello");
    let started = work.starts(&["--seed", "seeds/seed.json"]);
    assert!(entities(&started, "orders").contains(r#""Price":3.5"#));
    let answer = started.connect(Service::Blob).send("GET", "/invoices/a.txt", &[], "");
    assert_eq!((answer.status, &*answer.body), (200, "hello"));
    let answer = started.connect(Service::Queue).send("GET", "/work/messages", &[], "");
    assert!(answer.body.contains("a message"), "{answer:?}");
    let log = started.end();
    assert!(
        log.contains("seeded: 1 entities in 1 tables, 1 messages in 1 queues, 1 blobs"),
        "{log}"
    );
}

#[test]
fn a_folder_has_all_kinds_and_flags_are_repeated() {
    let work = Work::new()
        .with("seeds/seed.json", JSON)
        .with("seeds/files/a.txt", "hello")
        .with("seeds/people.jsonl", LINES)
        .with("seeds/README.md", "about them")
        .with("seeds/staff/manifest.json", manifest("staff-00000.jsonl", SHA256))
        .with("seeds/staff/staff-00000.jsonl", LINES)
        .with("more/others.ndjson", LINES);
    let started = work.starts(&["--seed", "seeds", "--seed", "more/others.ndjson"]);
    assert!(entities(&started, "orders").contains("contoso"));
    for table in ["people", "staff", "others"] {
        let body = entities(&started, table);
        assert!(body.contains(r#""Age":36"#) && body.contains(r#""Pay":"90000""#), "{body}");
    }
    // A file of a backup is of the table that the manifest names; the manifest stands for the folder.
    for seed in ["seeds/staff", "seeds/staff/manifest.json", "seeds/staff/staff-00000.jsonl"] {
        let started = work.starts(&["--seed", seed]);
        assert!(entities(&started, "staff").contains("sales"), "{seed}");
    }
}

#[test]
fn seeds_are_for_new_locations() {
    let json = r#"{
      "tables": {"orders": [{"PartitionKey": "contoso", "RowKey": "1"}]},
      "queues": {"work": ["a", "b"]},
      "containers": {"invoices": {"a.txt": {"text": "hello"}}}
    }"#;
    let work = Work::new().with("seed.json", json);
    let flags = ["--location", "data", "--seed", "seed.json"];
    let count = |started: &Started| {
        let target = "/work/messages?peekonly=true&numofmessages=32";
        let answer = started.connect(Service::Queue).send("GET", target, &[], "");
        answer.body.matches("<QueueMessage>").count()
    };
    let started = work.starts(&flags);
    assert_eq!(count(&started), 2);
    assert!(started.end().contains("seeded: "));
    let started = work.starts(&flags);
    assert_eq!(count(&started), 2);
    assert!(entities(&started, "orders").contains("contoso"));
    let answer = started.connect(Service::Blob).send("GET", "/invoices/a.txt", &[], "");
    assert_eq!((answer.status, &*answer.body), (200, "hello"));
    let log = started.end();
    assert!(log.contains("seeds have no effect: they are for new locations"), "{log}");
    // A seed that fails leaves the location new.
    let work = work.with("bad.json", r#"{"tables": {"t": []}}"#);
    let log = work.run(&["--location", "other", "--seed", "seed.json", "--seed", "bad.json"], &[]);
    assert!(log.is_err());
    let started = work.starts(&["--location", "other", "--seed", "seed.json"]);
    assert_eq!(count(&started), 2);
}

#[test]
fn what_is_no_seed_is_refused_with_its_name_and_its_place() {
    let wrong = "f".repeat(64);
    let work = Work::new()
        .with("typo.json", r#"{"tabels": {}}"#)
        .with("entity.json", r#"{"tables": {"orders": [{"PartitionKey": "p"}]}}"#)
        .with("lease.json", r#"{"account": "other"}"#)
        .with("missing.json", r#"{"containers": {"invoices": {"a": {"file": "none.txt"}}}}"#)
        .with("data.csv", "PartitionKey,RowKey\n")
        .with("orders.jsonl", "{\"PartitionKey\":\"p\"}\n")
        .with("2026.jsonl", LINES)
        .with("empty/README.md", "x")
        .with(
            "newer/manifest.json",
            manifest("a.jsonl", &wrong).replace("version\":1", "version\":9"),
        )
        .with("lost/manifest.json", manifest("lost-00000.jsonl", &wrong))
        .with("changed/manifest.json", manifest("changed-00000.jsonl", &wrong))
        .with("changed/changed-00000.jsonl", LINES);
    for (seed, named) in [
        ("none.json", "none.json: No such file"),
        ("typo.json", "tabels: there is no such member"),
        ("entity.json", "tables.orders[0]: RowKey is missing"),
        ("lease.json", "account: the server has no account other; add it with --accounts"),
        ("missing.json", "none.txt: No such file"),
        ("data.csv", "JSON lines named after its table"),
        ("orders.jsonl", "RowKey"),
        ("2026.jsonl", "not the name of a table"),
        ("empty", "it has no seed"),
        ("newer", "version 9"),
        ("lost", "lost-00000.jsonl"),
        ("changed", "SHA-256 differs"),
    ] {
        let Err(log) = work.run(&["--seed", seed, "--location", "data"], &[]) else {
            panic!("{seed}: started")
        };
        assert!(log.contains(named), "{seed}: {log}");
        assert!(!log.contains("sales"), "{log}");
    }
    // The location is as new as before.
    let work = work.with("good.json", r#"{"tables": {"orders": []}}"#);
    let started = work.starts(&["--seed", "good.json", "--location", "data"]);
    assert!(entities(&started, "orders").contains("value"));
}
