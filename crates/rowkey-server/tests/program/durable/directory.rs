//! Directories that are refused and left as they are, and journals that are torn.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rowkey_emulator::StoredEntity;

use super::program::{Directory, Program};
use super::tables;
use crate::support::Client;

/// All files below a directory, and their contents.
pub(super) fn content(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Makes a directory one whose server died before it noted what had been synced, such as with a
/// machine that lost its power.
fn forget_what_was_synced(directory: &Directory) {
    fs::remove_file(directory.path().join("synced")).unwrap();
}

/// A directory with a table and two entities, whose server has ended.
async fn used() -> Directory {
    let directory = Directory::new();
    let server = directory.serve().await;
    let mut client = Client::of(&server);
    client.create("things");
    for row in ["1", "2"] {
        client.insert("things", ("p", row), "");
    }
    directory
}

#[tokio::test]
async fn a_foreign_directory_is_rejected_and_left_unchanged() {
    let azurite = ["__azurite_db_table__.json", "__azurite_db_blob__.json", "__blobstorage__/1a2b"];
    let unmarked = ["store/0.jnl", "store/version"];
    for names in [&azurite[..], &unmarked, &["notes.txt"], &[".hidden"], &["empty/"]] {
        let directory = Directory::new();
        for name in names {
            let path = directory.path().join(name);
            if name.ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "{}").unwrap();
            }
        }
        let before = content(directory.path());
        let refusal = directory.refusal().await;
        assert!(refusal.contains("not a directory of rowkey-server"), "{refusal}");
        assert!(refusal.contains(directory.path().to_str().unwrap()), "{refusal}");
        assert!(refusal.contains("name another directory"), "{refusal}");
        let found = names.iter().any(|name| refusal.contains(name.split('/').next().unwrap()));
        assert!(found, "{refusal}");
        let output = Program::fail(directory.path());
        assert!(!output.status.success() && output.stdout.is_empty());
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(log.contains("not a directory of rowkey-server"), "{log}");
        assert_eq!(content(directory.path()), before);
    }
}

#[tokio::test]
async fn a_file_in_place_of_the_directory_is_rejected() {
    let directory = Directory::new();
    fs::write(directory.path(), "x").unwrap();
    let refusal = directory.refusal().await;
    assert!(refusal.contains("it is not a directory"), "{refusal}");
    assert_eq!(fs::read(directory.path()).unwrap(), b"x");
    fs::remove_file(directory.path()).unwrap();
}

#[tokio::test]
async fn an_unknown_format_is_rejected_and_left_unchanged() {
    let directory = used().await;
    let marker = directory.path().join("rowkey-server");
    assert_eq!(fs::read_to_string(&marker).unwrap(), "rowkey-server data, format 2\n");
    for (text, expected) in [
        ("rowkey-server data, format 0\n", "its format is 0, and this version"),
        ("rowkey-server data, format 3\n", "its format is 3, and this version"),
        ("something else", "does not contain a format"),
        ("", "does not contain a format"),
    ] {
        fs::write(&marker, text).unwrap();
        let before = content(directory.path());
        let refusal = directory.refusal().await;
        assert!(refusal.contains(expected), "{refusal}");
        assert!(refusal.contains("nothing was changed"), "{refusal}");
        assert!(content(directory.path()) == before, "{text}: something was changed");
    }
}

#[tokio::test]
async fn two_servers_do_not_share_a_directory() {
    let directory = Directory::new();
    let first = directory.serve().await;
    let refusal = directory.refusal().await;
    assert!(refusal.contains("another server is using it"), "{refusal}");
    Client::of(&first).create("things");
    drop(first);
    assert!(directory.serve().await.snapshot().table("things").is_some());
    let program = Program::start(directory.path(), &[]);
    assert!(directory.refusal().await.contains("another server is using it"));
    drop(program);
}

#[tokio::test]
async fn a_read_only_directory_is_rejected_and_left_unchanged() {
    let directory = used().await;
    let before = content(directory.path());
    let allow = |mode| {
        for path in [directory.path().to_owned(), directory.path().join("rowkey-server")] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    allow(0o555);
    let output = Program::fail_as_nobody_else(directory.path());
    allow(0o755);
    assert!(!output.status.success() && output.stdout.is_empty());
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains(directory.path().to_str().unwrap()), "{log}");
    assert!(log.contains("the directory is not writable"), "{log}");
    assert!(content(directory.path()) == before);
    // One that is not there and cannot be made.
    allow(0o555);
    let output = Program::fail_as_nobody_else(&directory.path().join("new"));
    allow(0o755);
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && log.contains("the directory is not writable"), "{log}");
    assert!(content(directory.path()) == before);
}

#[tokio::test]
async fn a_partly_created_store_is_created_again() {
    let directory = Directory::new();
    drop(directory.serve().await);
    forget_what_was_synced(&directory);
    let [store, unfinished] = ["store", "store.new"].map(|name| directory.path().join(name));
    fs::rename(&store, &unfinished).unwrap();
    fs::write(unfinished.join("version"), "").unwrap();
    Client::of(&directory.serve().await).create("things");
    assert!(directory.serve().await.snapshot().table("things").is_some());
    assert!(!unfinished.exists());
    // One that was used is not taken for such a one.
    fs::remove_file(store.join("version")).unwrap();
    let refusal = directory.refusal().await;
    assert!(refusal.contains("store/version: it is missing"), "{refusal}");
    assert!(store.join("0.jnl").exists());
}

/// The journal that is written now, and how much of it is used.
pub(super) fn journal(directory: &Directory) -> (PathBuf, usize) {
    let files = content(&directory.path().join("store"));
    let journals =
        files.into_iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "jnl"));
    let (path, bytes) = journals.max_by_key(|(path, _)| path.clone()).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    (path, used)
}

#[tokio::test]
async fn a_torn_write_is_dropped_and_reported_and_earlier_data_stays() {
    let tear = |how: &str, bytes: &mut Vec<u8>, used: usize| match how {
        "cut" => bytes.truncate(used - 5),
        "zeros" => bytes[used - 20..].fill(0),
        "garbled" => bytes[used - 30] ^= 1,
        "checksum" => bytes[used - 8] ^= 1,
        "magic" => bytes[used - 1] ^= 1,
        _ => {
            bytes.truncate(used);
            bytes.write_all(b"\x01\xFF\xFF").unwrap();
        }
    };
    for how in ["cut", "zeros", "garbled", "checksum", "magic", "more"] {
        let directory = used().await;
        forget_what_was_synced(&directory);
        let (path, used) = journal(&directory);
        let mut bytes = fs::read(&path).unwrap();
        tear(how, &mut bytes, used);
        fs::write(&path, bytes).unwrap();
        let (ended, log) = Program::start(directory.path(), &[]).terminate();
        assert!(ended, "{how}: {log}");
        assert!(log.contains("the end of the journal was torn"), "{how}: {log}");
        let aside = path.with_extension("jnl.torn-1");
        assert!(fs::read(&aside).is_ok_and(|torn| !torn.is_empty()), "{how}: {log}");
        let server = directory.serve().await;
        let snapshot = server.snapshot();
        let rows: Vec<_> =
            snapshot.table("things").unwrap().entities().map(StoredEntity::row_key).collect();
        assert_eq!(rows, if how == "more" { &["1", "2"][..] } else { &["1"] }, "{how}");
        // Changes after the truncated end are kept like all others.
        Client::of(&server).insert("things", ("p", "3"), "");
        drop(server);
        let (ended, log) = Program::start(directory.path(), &[]).terminate();
        assert!(ended && !log.contains("torn"), "{how}: {log}");
        let server = directory.serve().await;
        assert!(server.snapshot().table("things").unwrap().entity("p", "3").is_some());
    }
}

#[tokio::test]
async fn sigterm_loses_nothing() {
    let directory = Directory::new();
    let hour = ["--sync", "interval:3600000"];
    let program = Program::start(directory.path(), &hour);
    let mut client = program.addresses().connect(rowkey_emulator::Service::Table).unwrap();
    client.create("things");
    client.insert("things", ("p", "1"), "");
    let (ended, log) = program.terminate();
    assert!(ended && !log.contains("torn"), "{log}");
    let (ended, log) = Program::start(directory.path(), &hour).terminate();
    assert!(ended && log.contains("1 entities read"), "{log}");
}

/// The directory of a server that did three things, and where in the journal each ended.
async fn three_steps() -> (Directory, PathBuf, [usize; 4]) {
    let directory = used().await;
    let mut ends = [journal(&directory).1; 4];
    for (step, end) in ends.iter_mut().enumerate().skip(1) {
        let server = directory.serve().await;
        let mut client = Client::of(&server);
        let (row, other) = (format!("a{step}"), format!("b{step}"));
        let body = tables::transaction([row, other].map(|row| {
            let keys = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
            ("POST", "/things".to_owned(), None, keys)
        }));
        let kind = [("content-type", "multipart/mixed; boundary=b")];
        assert_eq!(client.send("POST", "/$batch", &kind, &body).status, 202);
        drop(server);
        *end = journal(&directory).1;
    }
    let (path, _) = journal(&directory);
    (directory, path, ends)
}

/// How many steps a directory still has; none in part, and nothing before them missing.
async fn steps(directory: &Directory) -> usize {
    let server = directory.serve().await;
    let snapshot = server.snapshot();
    let rows: Vec<_> =
        snapshot.table("things").unwrap().entities().map(StoredEntity::row_key).collect();
    let all = ["a1", "a2", "a3", "b1", "b2", "b3"];
    let there = rows.len() / 2 - 1;
    let expected: Vec<_> = ["1", "2"]
        .into_iter()
        .chain(all.into_iter().filter(|row| row[1..].parse::<usize>().unwrap() <= there))
        .collect();
    assert_eq!(rows, expected);
    there
}

#[tokio::test]
async fn a_journal_truncated_anywhere_keeps_all_complete_units() {
    let (directory, path, ends) = three_steps().await;
    let whole = fs::read(&path).unwrap();
    for cut in ends[0]..=ends[3] {
        forget_what_was_synced(&directory);
        fs::write(&path, &whole[..cut]).unwrap();
        let expected = ends[1..].iter().filter(|end| **end <= cut).count();
        assert_eq!(steps(&directory).await, expected, "cut at {cut} of {ends:?}");
    }
}
