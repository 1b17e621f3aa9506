//! Bits that turn over, files that end too early or are missing: the server starts with everything
//! that was acknowledged, or not at all, and then changes nothing; after a repair all is there but
//! what was in the damage.

#![expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rowkey_emulator::{Server, Service, StoredMessage, SyncPolicy, repair};

use super::directory::{content, journal};
use super::program::{Directory, Program};
use super::worker::Random;
use crate::support::Client;

/// Rows of a small directory.
const ROWS: usize = 50;

/// Equal seeds make equal runs: `ROWKEY_SEED` is a number, or `random`, which draws one; otherwise 1.
fn random() -> Random {
    let now = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| u64::from(time.subsec_nanos()));
    let seed = match std::env::var("ROWKEY_SEED").as_deref() {
        Ok("random") => now(),
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => 1,
    };
    println!("ROWKEY_SEED={seed}");
    Random(seed)
}

/// A directory with rows, messages and a blob, and how much of its journal was used before the rows.
async fn small() -> (Directory, usize) {
    let directory = Directory::new();
    let server = directory.serve().await;
    Client::of(&server).create("things");
    let mut queues = Client::to(&server, Service::Queue);
    assert_eq!(queues.send("PUT", "/line", &[], "").status, 201);
    let body = "<QueueMessage><MessageText>text</MessageText></QueueMessage>";
    assert_eq!(queues.send("POST", "/line/messages", &[], body).status, 201);
    let mut blobs = Client::to(&server, Service::Blob);
    assert_eq!(blobs.send("PUT", "/shelf?restype=container", &[], "").status, 201);
    let kind = [("x-ms-blob-type", "BlockBlob")];
    assert_eq!(blobs.send("PUT", "/shelf/blob", &kind, &"b".repeat(700)).status, 201);
    drop(server);
    let (_, before) = journal(&directory);
    let server = directory.serve().await;
    let mut client = Client::of(&server);
    for row in 0..ROWS {
        let text = format!(",\"text\":\"{}\"", "t".repeat(row * 3));
        assert_eq!(client.insert("things", ("p", &format!("{row:02}")), &text).status, 201);
    }
    drop(server);
    (directory, before)
}

/// Which rows a server has. All else must be there.
fn rows(server: &Server) -> Vec<String> {
    let snapshot = server.snapshot();
    let things = snapshot.table("things").expect("the table is there");
    for thing in things.entities() {
        let row: usize = thing.row_key().parse().unwrap();
        assert_eq!(thing.get("text"), Some("t".repeat(row * 3).into()));
    }
    let rows = things.entities().map(|thing| thing.row_key().to_owned()).collect();
    let messages: Vec<_> =
        snapshot.queue("line").unwrap().messages().map(StoredMessage::text).collect();
    assert_eq!(messages, ["text"]);
    assert_eq!(snapshot.blob("shelf", "blob"), Some("b".repeat(700).into_bytes()));
    rows
}

fn all() -> Vec<String> {
    (0..ROWS).map(|row| format!("{row:02}")).collect()
}

async fn start(directory: &Directory) -> Result<Server, String> {
    let started = Server::builder().location(directory.path(), SyncPolicy::default()).start().await;
    started.map_err(|error| error.to_string())
}

/// Puts files back as they were.
fn put_back(directory: &Directory, files: &[(PathBuf, Vec<u8>)]) {
    fs::remove_dir_all(directory.path()).unwrap();
    for (path, bytes) in files {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    // An empty directory is no file.
    for tree in 0..4 {
        let tables = directory.path().join(format!("store/keyspaces/{tree}/tables"));
        fs::create_dir_all(tables).unwrap();
    }
}

/// Damages a file. The server starts with all data, or fails with the position and changes nothing.
/// Gives whether it refuses.
async fn damage(directory: &Directory, path: &Path, bytes: Option<&[u8]>, what: &str) -> bool {
    match bytes {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => fs::remove_file(path).unwrap(),
    }
    let before = content(directory.path());
    match start(directory).await {
        Ok(server) => {
            assert_eq!(rows(&server), all(), "{what}");
            false
        }
        Err(refusal) => {
            assert!(
                content(directory.path()) == before,
                "{what}: something was changed: {refusal}"
            );
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(refusal.contains(name), "{what}: {refusal}");
            assert!(refusal.contains("nothing was changed"), "{what}: {refusal}");
            true
        }
    }
}

/// Repairs a directory, after which all rows are there that are `kept`.
async fn mend(directory: &Directory, what: &str) -> Vec<String> {
    let repaired = repair(directory.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(repaired.copy.is_some(), "{what}: {repaired}");
    let server = start(directory).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let rows = rows(&server);
    drop(server);
    let again = repair(directory.path()).unwrap();
    assert!(again.copy.is_none() && again.findings.is_empty(), "{what}: {again}");
    rows
}

#[tokio::test]
async fn a_flipped_bit_in_the_journal_is_detected_and_repaired() {
    let (directory, _) = small().await;
    let (path, used) = journal(&directory);
    let mut bytes = fs::read(&path).unwrap();
    bytes[used / 20] ^= 4;
    assert!(damage(&directory, &path, Some(&bytes), "a bit at 5 %").await);
    let refusal = start(&directory).await.unwrap_err();
    assert!(refusal.contains(" at byte ") && refusal.contains("--repair"), "{refusal}");
    assert!(refusal.contains("bytes of later ones can"), "{refusal}");
    let output = Program::fail(directory.path());
    assert!(!output.status.success() && output.stdout.is_empty());
    let output = Program::repair(directory.path());
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && log.contains("one bit of the change at byte"), "{log}");
    let copy = directory.path().join("damaged-1/store").join(path.file_name().unwrap());
    assert!(fs::read(copy).unwrap() == bytes, "the damaged file is kept");
    assert_eq!(rows(&directory.serve().await), all());
}

#[tokio::test]
async fn any_flipped_bit_is_detected_and_repaired_or_harmless() {
    let (directory, _) = small().await;
    let mut random = random();
    let whole = content(directory.path());
    let (mut refused, mut tried) = (0, 0);
    for (path, bytes) in &whole {
        let is_journal = path.extension().is_some_and(|extension| extension == "jnl");
        let times = if is_journal { 150 } else { 12 };
        for _ in 0..times {
            let Ok(length) = u32::try_from(bytes.len()) else { continue };
            if length == 0 {
                continue;
            }
            let (at, bit) = (random.below(length) as usize, random.below(8));
            let what = format!("bit {bit} of byte {at} of {}", path.display());
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            tried += 1;
            if damage(&directory, path, Some(&bytes), &what).await {
                refused += 1;
                // Another format is not repaired: it may be right.
                if repair(directory.path()).is_ok() {
                    put_back(&directory, &whole);
                    fs::write(path, &bytes).unwrap();
                    assert_eq!(mend(&directory, &what).await, all(), "{what}");
                } else {
                    assert!(path.ends_with("rowkey-server"), "{what}");
                }
            }
            put_back(&directory, &whole);
        }
    }
    println!("{refused} of {tried} are refused");
    assert!(refused > 150, "{refused} of {tried}");
}

#[tokio::test]
async fn any_truncated_or_missing_file_is_detected_or_harmless() {
    let (directory, _) = small().await;
    let mut random = random();
    let whole = content(directory.path());
    for (path, bytes) in &whole {
        let is_journal = path.extension().is_some_and(|extension| extension == "jnl");
        for _ in 0..if is_journal { 60 } else { 8 } {
            let Ok(length @ 1..) = u32::try_from(bytes.len()) else { continue };
            let length = random.below(length) as usize;
            let what = format!("{} bytes of {} of {}", length, bytes.len(), path.display());
            let is_refused = damage(&directory, path, Some(&bytes[..length]), &what).await;
            assert!(is_refused || !is_journal, "{what}");
            put_back(&directory, &whole);
            let mut zeros = bytes.clone();
            zeros[length..].fill(0);
            damage(&directory, path, Some(&zeros), &format!("zeros after {what}")).await;
            put_back(&directory, &whole);
        }
        let what = format!("{} is missing", path.display());
        // The directory is then none of a server's.
        let is_marker = path.ends_with("rowkey-server");
        if !is_marker {
            damage(&directory, path, None, &what).await;
        }
        put_back(&directory, &whole);
    }
    let store = directory.path().join("store");
    fs::remove_dir_all(&store).unwrap();
    let refusal = start(&directory).await.unwrap_err();
    assert!(refusal.contains("its data directory `store` is missing"), "{refusal}");
    assert!(!store.exists());
}

#[tokio::test]
async fn a_repair_drops_unreadable_rows_and_keeps_the_others() {
    let (directory, before) = small().await;
    let mut random = random();
    let whole = content(directory.path());
    let (path, used) = journal(&directory);
    let bytes = fs::read(&path).unwrap();
    for _ in 0..40 {
        let length = 2 + random.below(30) as usize;
        let at = before + random.below(u32::try_from(used - before - length).unwrap()) as usize;
        let what = format!("{length} bytes at {at}");
        let mut bytes = bytes.clone();
        bytes[at..at + length].iter_mut().for_each(|byte| *byte ^= 0x5A);
        assert!(damage(&directory, &path, Some(&bytes), &what).await, "{what}");
        let kept = mend(&directory, &what).await;
        // So few bytes are of two changes at most, and none is lost if only its number is hit.
        assert!((ROWS - 2..=ROWS).contains(&kept.len()), "{what}: {kept:?}");
        put_back(&directory, &whole);
    }
    // The newest changes are cut off.
    let bytes = &bytes[..used - 200];
    assert!(damage(&directory, &path, Some(bytes), "cut").await);
    let kept = mend(&directory, "cut").await;
    assert_eq!(kept, all()[..kept.len()]);
    assert!((ROWS - 3..ROWS).contains(&kept.len()), "{kept:?}");
}

/// A request: method, path, headers, body.
type Sent<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str);

#[tokio::test]
async fn rows_that_depend_on_lost_changes_are_renamed_or_dropped() {
    let directory = Directory::new();
    let mut ends = vec![0];
    let mut step = async |service, (method, path, headers, body): Sent<'_>| {
        let server = directory.serve().await;
        let mut client = Client::to(&server, service);
        let answer = client.send(method, path, headers, body);
        assert!((200..300).contains(&answer.status), "{answer:?}");
        drop(server);
        ends.push(journal(&directory).1);
    };
    let message = "<QueueMessage><MessageText>text</MessageText></QueueMessage>";
    let entity = r#"{"PartitionKey":"p","RowKey":"1"}"#;
    let appends = [("x-ms-blob-type", "AppendBlob")];
    step(Service::Table, ("POST", "/Tables", &[], r#"{"TableName":"things"}"#)).await;
    step(Service::Table, ("POST", "/things", &[], entity)).await;
    step(Service::Queue, ("PUT", "/line", &[], "")).await;
    step(Service::Queue, ("POST", "/line/messages", &[], message)).await;
    step(Service::Blob, ("PUT", "/shelf?restype=container", &[], "")).await;
    step(Service::Blob, ("PUT", "/shelf/log", &appends, "")).await;
    for text in ["one", "two", "three"] {
        step(Service::Blob, ("PUT", "/shelf/log?comp=appendblock", &[], text)).await;
    }
    let (path, _) = journal(&directory);
    let whole = content(directory.path());
    let bytes = fs::read(&path).unwrap();
    for (lost, end) in ends.iter().enumerate().skip(1) {
        let mut bytes = bytes.clone();
        bytes[ends[lost - 1] + 20..end - 20].fill(0xAA);
        fs::write(&path, bytes).unwrap();
        assert!(start(&directory).await.is_err());
        let repaired = repair(directory.path()).unwrap();
        let server = start(&directory).await.unwrap_or_else(|error| panic!("{lost}: {error}"));
        let snapshot = server.snapshot();
        let tables: Vec<_> = snapshot.tables().collect();
        assert_eq!(tables.len(), 1, "{lost}: {repaired}");
        assert_eq!(tables[0].len(), usize::from(lost != 2), "{lost}: {repaired}");
        assert_eq!(tables[0].name() == "things", lost != 1, "{lost}: {repaired}");
        let mut queues = Client::to(&server, Service::Queue);
        let names = queues.send("GET", "/?comp=list", &[], "").body;
        assert_eq!(names.contains("<Name>line</Name>"), lost != 3, "{lost}: {names}");
        assert_eq!(names.contains("<Name>recovered-"), lost == 3, "{lost}: {names}");
        let mut blobs = Client::to(&server, Service::Blob);
        let names = blobs.send("GET", "/?comp=list", &[], "").body;
        assert_eq!(names.contains("<Name>shelf</Name>"), lost != 5, "{lost}: {names}");
        assert_eq!(names.contains("<Name>recovered-"), lost == 5, "{lost}: {names}");
        let log = snapshot.blob("shelf", "log");
        let expected = match lost {
            5 | 7 | 8 => None,
            // The newest is lost.
            9 => Some("onetwo"),
            _ => Some("onetwothree"),
        };
        assert_eq!(log.as_deref(), expected.map(str::as_bytes), "{lost}: {repaired}");
        assert_eq!(repaired.findings.len() > 1, [1, 3, 5, 7, 8].contains(&lost), "{repaired}");
        drop(server);
        put_back(&directory, &whole);
    }
}

#[tokio::test]
async fn sorted_files_are_checked_and_irreparable_ones_are_left_unchanged() {
    let directory = Directory::new();
    let server = directory.serve().await;
    Client::of(&server).create("things");
    let mut blobs = Client::to(&server, Service::Blob);
    assert_eq!(blobs.send("PUT", "/shelf?restype=container", &[], "").status, 201);
    let kind = [("x-ms-blob-type", "BlockBlob")];
    let long = "b".repeat(3 * 1024 * 1024);
    // Written data eventually moves to sorted files.
    let sorted = |directory: &Directory| {
        let files = content(&directory.path().join("store/keyspaces"));
        files.into_iter().find(|(path, bytes)| {
            path.parent().is_some_and(|path| path.ends_with("tables")) && bytes.len() > 1 << 20
        })
    };
    let mut number = 0;
    while number < 8 || sorted(&directory).is_none() {
        assert_eq!(blobs.send("PUT", &format!("/shelf/{number}"), &kind, &long).status, 201);
        number += 1;
    }
    drop(server);
    drop(directory.serve().await);
    let (path, bytes) = sorted(&directory).unwrap();
    let mut random = random();
    for _ in 0..4 {
        let mut wrong = bytes.clone();
        wrong[random.below(u32::try_from(bytes.len()).unwrap()) as usize] ^= 1;
        fs::write(&path, wrong).unwrap();
        let before = content(directory.path());
        let refusal = start(&directory).await.unwrap_err();
        assert!(refusal.contains("its checksum is wrong"), "{refusal}");
        assert!(refusal.contains(path.to_str().unwrap()), "{refusal}");
        let refusal = repair(directory.path()).unwrap_err().to_string();
        assert!(refusal.contains("use a backup"), "{refusal}");
        assert!(content(directory.path()) == before);
        fs::write(&path, &bytes).unwrap();
    }
    assert!(start(&directory).await.is_ok());
}

#[tokio::test]
async fn data_files_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let directory = Directory::new();
    drop(directory.serve().await);
    assert_eq!(mode(directory.path()), 0o700);
    assert_eq!(mode(&directory.path().join("store")), 0o700);
    for name in ["rowkey-server", "synced"] {
        assert_eq!(mode(&directory.path().join(name)), 0o600, "{name}");
    }
    // A directory created by its owner may be readable; its contents are not.
    let made = Directory::new();
    fs::create_dir(made.path()).unwrap();
    fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755)).unwrap();
    drop(Program::start(made.path(), &[]));
    assert_eq!(mode(&made.path().join("store")), 0o700);
    for (path, _) in content(made.path()) {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}
