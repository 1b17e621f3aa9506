//! Bits that turn over, files that end too early or are missing: the server starts with everything
//! that was acknowledged, or not at all, and then changes nothing. As its error says, a journal can be
//! cut off before the damage, and the server starts with the changes before.

#![expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use rowkey_emulator::{Server, Service, StoredMessage, StoredTable, SyncPolicy};

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

/// Follows the advice of a refusal for a journal. Returns where it was cut off, after which the
/// server has the rows that are given.
async fn cut_off(directory: &Directory, path: &Path, what: &str) -> (usize, Vec<String>) {
    let refusal = start(directory).await.unwrap_err();
    let (_, advice) = refusal.split_once("`truncate -s ").unwrap_or_else(|| panic!("{refusal}"));
    let (length, advice) = advice.split_once(' ').unwrap();
    assert!(advice.starts_with(&format!("{}`", path.display())), "{what}: {refusal}");
    assert!(advice.contains("and the file `synced`"), "{what}: {refusal}");
    let length = length.parse().unwrap();
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(false).write(true).open(path).unwrap().set_len(length).unwrap();
    fs::remove_file(directory.path().join("synced")).unwrap();
    let server = start(directory).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    (usize::try_from(length).unwrap(), row_keys(&server))
}

/// The rows of a server, if it has the table.
fn row_keys(server: &Server) -> Vec<String> {
    let snapshot = server.snapshot();
    let things = snapshot.table("things").into_iter();
    things.flat_map(StoredTable::entities).map(|thing| thing.row_key().to_owned()).collect()
}

#[tokio::test]
async fn a_damaged_journal_is_refused_and_the_changes_before_the_damage_can_be_had() {
    let (directory, before) = small().await;
    let whole = content(directory.path());
    let (path, used) = journal(&directory);
    let bytes = fs::read(&path).unwrap();
    // Each damaged journal has all rows before the damage, and none after it.
    for part in [0, 1, 20, 50, 99] {
        let at = before + (used - before) * part / 100;
        let what = format!("a bit at {part} %");
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        assert!(damage(&directory, &path, Some(&bytes), &what).await);
        let refusal = start(&directory).await.unwrap_err();
        assert!(refusal.contains("bytes of changes cannot be read"), "{refusal}");
        let (length, kept) = cut_off(&directory, &path, &what).await;
        assert!((before..=at).contains(&length), "{what}");
        assert_eq!(kept, all()[..kept.len()], "{what}");
        assert!(kept.len().abs_diff(ROWS * part / 100) < ROWS / 3, "{what}: {kept:?}");
        // It stays so.
        assert_eq!(row_keys(&directory.serve().await), kept, "{what}");
        put_back(&directory, &whole);
    }
    // What is damaged before the first row has none, and a journal that is missing is empty.
    let mut early = bytes.clone();
    early[before / 20] ^= 4;
    assert!(damage(&directory, &path, Some(&early), "early").await);
    let output = Program::fail(directory.path());
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains(" at byte "));
    assert!(cut_off(&directory, &path, "early").await.1.is_empty());
    put_back(&directory, &whole);
    assert!(damage(&directory, &path, None, "missing").await);
    assert_eq!(cut_off(&directory, &path, "missing").await, (0, Vec::new()));
    put_back(&directory, &whole);
    // Elsewhere a backup is needed.
    let list = directory.path().join("store/keyspaces/1/current");
    assert!(damage(&directory, &list, None, "list").await);
    let refusal = start(&directory).await.unwrap_err();
    assert!(refusal.contains("use a backup; without one all data is lost"), "{refusal}");
}

#[tokio::test]
async fn files_without_data_are_written_again_as_their_errors_say() {
    let (mut directory, _) = small().await;
    directory.rename(", it's two words");
    let whole = content(directory.path());
    let store = directory.path().join("store");
    for (name, bytes) in [
        ("lock", None),
        ("version", None),
        ("version", Some(&b""[..])),
        ("version", Some(b"FJL\x02")),
    ] {
        assert!(damage(&directory, &store.join(name), bytes, name).await);
        let refusal = start(&directory).await.unwrap_err();
        assert!(refusal.contains("no data is lost"), "{refusal}");
        let command = refusal.split('`').nth(1).unwrap_or_else(|| panic!("{refusal}"));
        assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
        assert!(content(directory.path()) == whole, "{command}");
    }
    let (path, used) = journal(&directory);
    let mut bytes = fs::read(&path).unwrap();
    bytes[used - 30] ^= 4;
    assert!(damage(&directory, &path, Some(&bytes), "journal").await);
    let refusal = start(&directory).await.unwrap_err();
    let command = refusal.split('`').nth(1).unwrap_or_else(|| panic!("{refusal}"));
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    let length = fs::metadata(&path).unwrap().len();
    assert!((1..used as u64).contains(&length), "{command}");
    put_back(&directory, &whole);
    let marker = directory.path().join("rowkey-server");
    assert!(damage(&directory, &marker, None, "marker").await);
    let refusal = start(&directory).await.unwrap_err();
    assert!(refusal.contains("`rowkey-server` is missing"), "{refusal}");
    let line = refusal.split('`').nth(3).unwrap_or_else(|| panic!("{refusal}"));
    fs::write(&marker, format!("{line}\n")).unwrap();
    assert!(content(directory.path()) == whole, "{line}");
    assert_eq!(rows(&directory.serve().await), all());
}

#[tokio::test]
async fn any_flipped_bit_is_detected_or_harmless() {
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
        damage(&directory, path, None, &what).await;
        put_back(&directory, &whole);
    }
    let store = directory.path().join("store");
    fs::remove_dir_all(&store).unwrap();
    let refusal = start(&directory).await.unwrap_err();
    assert!(refusal.contains("its data directory `store` is missing"), "{refusal}");
    assert!(!store.exists());
}

#[tokio::test]
async fn sorted_files_are_checked_and_left_unchanged() {
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
        assert!(refusal.contains("use a backup; without one all data is lost"), "{refusal}");
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
