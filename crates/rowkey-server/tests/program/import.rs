//! `--import-azurite`, with files that Azurite 3.37 wrote.

use std::fs;
use std::path::{Path, PathBuf};

use rowkey_emulator::Service;

use crate::work::{Started, Work};

fn azurite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../rowkey-emulator/tests/azurite")
}

fn check(started: &Started) {
    let answer = started.connect(Service::Table).send("GET", "/Types()", &[], "");
    assert!(answer.body.contains(r#""Guid":"c9da6455-213d-42c9-9a79-3e9149a57833""#), "{answer:?}");
    let answer = started.connect(Service::Blob).send("GET", "/blobs/block", &[], "");
    assert_eq!((answer.status, &*answer.body), (200, "hello wörld"));
    let answer = started.connect(Service::Queue).send("GET", "/work?comp=metadata", &[], "");
    assert_eq!(answer.header("x-ms-approximate-messages-count"), Some("2"), "{answer:?}");
    assert!(answer.spelled.iter().any(|name| name == "x-ms-meta-Team"), "{answer:?}");
}

#[test]
fn data_of_azurite_is_taken_over_into_memory() {
    let directory = azurite();
    let started = Work::new().starts(&["--import-azurite", directory.to_str().unwrap()]);
    check(&started);
    let log = started.end();
    assert!(
        log.contains("taken over from Azurite: 2 entities in 1 tables, 2 messages in 1 queues"),
        "{log}"
    );
    assert!(log.contains("not taken over from Azurite: page blobs and their snapshots"), "{log}");
}

#[test]
fn data_of_azurite_is_taken_over_into_a_new_location_once() {
    let directory = azurite();
    let directory = directory.to_str().unwrap();
    let work = Work::new();
    let flags = ["--location", "data", "--import-azurite", directory];
    let started = work.starts(&flags);
    check(&started);
    drop(started);
    let Err(log) = work.run(&flags, &[]) else { panic!("imported twice") };
    assert!(log.contains("data has data already") && log.contains("name a new location"), "{log}");
    check(&work.starts(&["--location", "data"]));
}

#[test]
fn an_import_that_fails_leaves_the_location_as_it_was() {
    let directory = azurite();
    let directory = directory.to_str().unwrap();
    let work = Work::new();
    let accounts = [("AZURITE_ACCOUNTS", "one:a2V5")];
    let Err(log) = work.run(&["-l", "data", "--import-azurite", directory], &accounts) else {
        panic!("started")
    };
    assert!(log.contains("accounts that this server does not have: devstoreaccount1"), "{log}");
    let Err(log) = work.run(&["-l", "data", "--import-azurite", "none"], &[]) else {
        panic!("started")
    };
    assert!(log.contains("none has no data of Azurite"), "{log}");
    let work = work.with("broken/__azurite_db_table__.json", "{");
    let Err(log) = work.run(&["-l", "data", "--import-azurite", "broken"], &[]) else {
        panic!("started")
    };
    assert!(
        log.contains("broken/__azurite_db_table__.json") && log.contains("stop Azurite"),
        "{log}"
    );
    assert!(!work.has("data"));
    // The directory of Azurite is only read.
    let before = fs::read(azurite().join("__azurite_db_table__.json")).unwrap();
    check(&work.starts(&["-l", "data", "--import-azurite", directory]));
    assert_eq!(fs::read(azurite().join("__azurite_db_table__.json")).unwrap(), before);
}
