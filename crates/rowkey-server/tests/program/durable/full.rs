//! Disks that are full: what is there is read, changes are refused and leave nothing, and are taken
//! again when there is room.

use rowkey_emulator::{Server, Service};

use super::directory::journal;
use super::program::{Directory, Program};
use crate::support::Client;
use crate::work::Work;

/// Characters of a row's text.
const LONG: usize = 30_000;

async fn rows(directory: &Directory) -> Vec<String> {
    let server = directory.serve().await;
    stored(&server)
}

fn stored(server: &Server) -> Vec<String> {
    let snapshot = server.snapshot();
    snapshot.table("things").unwrap().entities().map(|thing| thing.row_key().to_owned()).collect()
}

async fn used() -> Directory {
    let directory = Directory::new();
    let server = directory.serve().await;
    Client::of(&server).create("things");
    let mut queue = Client::to(&server, Service::Queue);
    assert_eq!(queue.send("PUT", "/line", &[], "").status, 201);
    drop(server);
    directory
}

/// Inserts rows until the disk refuses one; adds those that it took, and gives the one that it did
/// not.
fn fill(client: &mut Client, granted: &mut Vec<String>) -> String {
    let long = format!(",\"text\":\"{}\"", "x".repeat(LONG));
    for _ in 0..100 {
        let row = format!("{:03}", granted.len());
        let answer = client.insert("things", ("p", &row), &long);
        if answer.status != 201 {
            assert_eq!((answer.status, answer.code()), (507, "InsufficientStorage"), "{answer:?}");
            assert!(answer.body.contains("has changed nothing"), "{answer:?}");
            return row;
        }
        granted.push(row);
    }
    panic!("the disk is never full");
}

/// The rows that a client reads.
fn read(client: &mut Client) -> usize {
    let answer = client.send("GET", "/things()?$select=RowKey", &[], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body.matches("\"RowKey\":").count()
}

async fn fill_and_make_room(flags: &[&str]) {
    let directory = used().await;
    let program = Program::start_with_files_up_to(300_000, directory.path(), flags);
    let mut client = program.addresses().connect(Service::Table).unwrap();
    let mut queue = program.addresses().connect(Service::Queue).unwrap();
    let mut granted = Vec::new();
    for round in 1..=3 {
        let refused = fill(&mut client, &mut granted);
        assert!(granted.len() > round && granted.len() < 90, "{granted:?}");
        // Existing data is readable, and no rejected write is.
        assert_eq!(read(&mut client), granted.len());
        let path = format!("/things(PartitionKey='p',RowKey='{refused}')");
        assert_eq!(client.send("GET", &path, &[], "").status, 404);
        assert_eq!(queue.send("GET", "/line/messages?peekonly=true", &[], "").status, 200);
        // Getting messages is a change, and so is all else.
        for _ in 0..20 {
            assert_eq!(queue.send("GET", "/line/messages", &[], "").status, 507);
            assert_eq!(client.insert("things", ("p", &refused), "").status, 507);
            assert_eq!(client.send("POST", "/Tables", &[], r#"{"TableName":"more"}"#).status, 507);
        }
        assert_eq!(read(&mut client), granted.len());
        // With room for a probe and some more rows, changes are taken at once.
        let (_, used) = journal(&directory);
        let room = used.max(2_000_000) + round * 100_000;
        program.let_files_be(&room.to_string());
        assert_eq!(client.insert("things", ("p", &refused), "").status, 201);
        granted.push(refused);
        assert_eq!(queue.send("GET", "/line/messages", &[], "").status, 200);
        program.let_files_be(&(journal(&directory).1 + 70_000).to_string());
    }
    let (_, log) = program.terminate();
    assert_eq!(log.matches("the disk refuses a change").count(), 3, "{log}");
    assert_eq!(log.matches("the disk takes changes again").count(), 3, "{log}");
    assert_eq!(rows(&directory).await, granted);
}

#[tokio::test]
async fn a_full_disk_rejects_only_writes_and_recovers() {
    fill_and_make_room(&[]).await;
}

#[tokio::test]
async fn a_full_disk_rejects_only_writes_with_sync_always() {
    fill_and_make_room(&["--sync", "always"]).await;
}

#[tokio::test]
async fn a_program_that_is_killed_while_the_disk_is_full_loses_nothing() {
    let directory = used().await;
    let mut granted = Vec::new();
    for limit in [300_000, 500_000, 700_000] {
        let mut program = Program::start_with_files_up_to(limit, directory.path(), &[]);
        let mut client = program.addresses().connect(Service::Table).unwrap();
        fill(&mut client, &mut granted);
        program.kill();
        assert_eq!(rows(&directory).await, granted);
    }
}

/// A seed that the disk does not take ends the start, so that a ready server has all of it.
#[test]
fn a_seed_that_does_not_fit_is_an_error_of_the_start() {
    let text = "x".repeat(400_000);
    let json = format!(r#"{{"containers": {{"invoices": {{"a": {{"text": "{text}"}}}}}}}}"#);
    let work = Work::new().with("seed.json", json);
    let flags = ["--seed", "seed.json", "--location", "data"];
    for sync in ["--sync=interval", "--sync=always"] {
        // Files that are made at the first start are longer. The location stays new.
        drop(work.starts(&flags[2..]));
        let Err(log) = work.run_with_files_up_to(300_000, &[&flags[..], &[sync]].concat()) else {
            panic!("{sync}: started")
        };
        assert!(log.contains("the location does not take the data"), "{log}");
        assert!(!log.contains("seeded: "), "{log}");
        std::fs::remove_dir_all(work.0.join("data")).unwrap();
    }
    drop(work.starts(&flags));
}
