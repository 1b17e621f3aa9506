//! Reads files that Azurite 3.37 wrote, which `tests/interop/from-azurite` made, and the same damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rowkey_wire::edm::DateTime;
use rowkey_wire::xml::SignedIdentifier;

use super::{Imported, read};
use crate::account::Rules;
use crate::op::entity::Strictness;
use crate::op::random::split_mix;
use crate::op::tier::AccessTier;
use crate::store::Names;
use crate::store::blob::lease::State;
use crate::store::blob::{Blob, Container, Content, Kind};

const RULES: Rules = Rules { strict: Strictness::Strict, names: Names::Reused };
const ACCOUNT: &str = "devstoreaccount1";

fn at(text: &str) -> DateTime {
    text.parse().unwrap()
}

fn original() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/azurite")
}

fn import(directory: &Path) -> Result<Imported, String> {
    read(directory, &[ACCOUNT], RULES, at("2026-11-28T02:06:00Z"))
        .map_err(|error| error.to_string())
}

/// A copy of the files, which goes when the test ends.
struct Copied(PathBuf);

impl Copied {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rowkey-azurite-{}-{number}", std::process::id());
        let copy = Self(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&copy.0);
        for folder in ["", "__blobstorage__", "__queuestorage__"] {
            fs::create_dir_all(copy.0.join(folder)).unwrap();
            for entry in fs::read_dir(original().join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    let name = path.file_name().unwrap();
                    fs::copy(&path, copy.0.join(folder).join(name)).unwrap();
                }
            }
        }
        copy
    }

    fn replace(self, file: &str, old: &str, new: &str) -> Self {
        let path = self.0.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{file} has no {old}");
        fs::write(&path, text.replace(old, new)).unwrap();
        self
    }

    /// The error, which names the file.
    fn refused(&self, file: &str) -> String {
        let error = import(&self.0).unwrap_err();
        assert!(error.contains(file) && error.contains("nothing was changed"), "{error}");
        error
    }

    fn only_file_in(&self, folder: &str) -> PathBuf {
        fs::read_dir(self.0.join(folder)).unwrap().next().unwrap().unwrap().path()
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(blob: &Blob) -> String {
    String::from_utf8(blob.content.pieces().flatten().collect()).unwrap()
}

#[test]
fn entities_have_the_values_and_the_types_that_were_written() {
    let imported = import(&original()).unwrap();
    assert_eq!((imported.counts.tables, imported.counts.entities), (1, 2));
    let table = imported.accounts[0].tables.table("types").unwrap();
    assert_eq!(table.name(), "Types");
    let policy = SignedIdentifier {
        id: "readers".to_owned(),
        start: Some(at("2026-01-02T03:04:05Z")),
        expiry: Some(at("2036-01-02T03:04:05Z")),
        permission: Some("raud".to_owned()),
    };
    assert_eq!(table.policies(), [policy]);
    assert!(table.get("", "日本").unwrap().properties().next().is_none());
    let row = table.get("p", "all").unwrap();
    let mut out = Vec::new();
    row.render(&mut out, rowkey_wire::odata::Metadata::Minimal);
    let json = String::from_utf8(out).unwrap();
    for written in [
        r#""NoText":"""#,
        r#""True":true"#,
        r#""Int32Low":-2147483648"#,
        r#""Int64High@odata.type":"Edm.Int64","Int64High":"9223372036854775807""#,
        r#""Double":3.5"#,
        r#""DoubleWhole":4.0"#,
        r#""DoubleMin":5E-324"#,
        r#""MinusInfinite@odata.type":"Edm.Double","MinusInfinite":"-Infinity""#,
        r#""NotANumber@odata.type":"Edm.Double","NotANumber":"NaN""#,
        r#""NoBinary@odata.type":"Edm.Binary","NoBinary":"""#,
        r#""Guid@odata.type":"Edm.Guid","Guid":"c9da6455-213d-42c9-9a79-3e9149a57833""#,
        r#""Instant@odata.type":"Edm.DateTime","Instant":"2026-02-28T23:59:59.123456Z""#,
        r#""InstantLast":"9999-12-31T23:59:59.999999Z""#,
        r#""_underscore":1"#,
    ] {
        assert!(json.contains(written), "{written} in {json}");
    }
    // The next write has a later Timestamp than all of these.
    let timestamp = row.timestamp();
    assert!(timestamp.to_string().starts_with("2026-11-28T02:05:0"), "{timestamp}");
    assert!(imported.accounts[0].tables.last() >= timestamp);
}

#[test]
fn messages_keep_their_texts_their_times_and_their_counts() {
    let imported = import(&original()).unwrap();
    let queue = imported.accounts[0].queues.queue("work").unwrap();
    assert_eq!(queue.metadata().iter().collect::<Vec<_>>(), [("Team", "blue".to_owned())]);
    let messages: Vec<_> = queue.stored().collect();
    let found: Vec<_> = messages
        .iter()
        .map(|message| (&*message.text, message.dequeued, message.expires))
        .collect();
    assert_eq!(found, [("changed", 1, DateTime::MAX), ("later", 0, DateTime::MAX)]);
    let hidden = |at: usize| messages[at].visible.ticks() - messages[at].inserted.ticks();
    assert!((7200..7300).contains(&(hidden(0) / 10_000_000)));
    assert_eq!(hidden(1), 86_400 * 10_000_000);
}

fn container(imported: &Imported) -> &Container {
    imported.accounts[0].blobs.container("blobs").unwrap()
}

#[test]
fn blobs_keep_content_properties_snapshots_blocks_and_tags() {
    let imported = import(&original()).unwrap();
    let container = container(&imported);
    assert!(container.access.is_some() && !container.metadata.is_empty());
    let block = container.blob("block", None).unwrap();
    assert_eq!(text(block), "hello wörld");
    assert_eq!(block.tags.iter().collect::<Vec<_>>(), [("color", "red")]);
    assert_eq!(block.metadata.iter().collect::<Vec<_>>(), [("One", "1".to_owned())]);
    assert_eq!(block.tier.as_deref().unwrap().level, AccessTier::Cool);
    assert_eq!(block.headers.md5.as_ref().unwrap().len(), 16);
    let entry = container.entry("block").unwrap();
    let snapshot = entry.snapshots.values().next().unwrap();
    assert!(text(snapshot) == "hello wörld" && snapshot.tier.is_none());
    let parts = container.entry("parts").unwrap();
    assert_eq!(text(parts.blob.as_ref().unwrap()), "MA==MQ==");
    let Kind::Block(blocks) = &parts.blob.as_ref().unwrap().kind else { panic!("not of blocks") };
    assert_eq!(blocks.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [4, 4]);
    let staged: Vec<_> = parts.staged.values().map(Content::len).collect();
    assert_eq!(staged, [6]);
    let append = container.blob("append", None).unwrap();
    assert_eq!(text(append), "one two");
    assert!(matches!(append.kind, Kind::Append { blocks: 2, sealed: true }));
    let cors = imported.accounts[0].blobs.properties().cors.as_ref().unwrap();
    assert_eq!(cors[0].allowed_origins, ["https://a.test", "https://b.test"]);
}

#[test]
fn leases_end_when_they_would_have_in_azurite() {
    let imported = import(&original()).unwrap();
    let state = |name: &str, after: i64| {
        let blob = container(&imported).blob(name, None).unwrap();
        let now = blob.version.modified.ticks() + after * 10_000_000;
        blob.lease.state(DateTime::from_ticks(now).unwrap())
    };
    assert!(matches!(state("held", 50), State::Leased(_)));
    assert!(matches!(state("held", 62), State::Expired(_)));
    assert!(matches!(state("breaking", 50), State::Breaking(_)));
    assert!(matches!(state("breaking", 62), State::Broken(_)));
}

#[test]
fn what_is_not_taken_over_is_counted() {
    let notes = import(&original()).unwrap().notes;
    let expected = [
        "page blobs and their snapshots, which this server does not have: 2",
        "pop receipts of messages that a receiver holds: they become visible when their time has come: 1",
    ];
    assert_eq!(notes, expected);
    let copied = Copied::new()
        .replace("__azurite_db_table__.json", r#""Instant":"2026"#, r#""Instant":"x2026"#)
        .replace("__azurite_db_queue__.json", r#""queueName":"work""#, r#""queueName":"gone""#)
        .replace(
            "__azurite_db_blob__.json",
            r#""metadata":{"One":"1"}"#,
            r#""metadata":{"O-e":"1"}"#,
        )
        .replace("__azurite_db_blob__.json", r#""etag":"\"0x"#, r#""etag":"\"1x"#);
    let imported = import(&copied.0).unwrap();
    assert_eq!((imported.counts.entities, imported.counts.messages), (1, 0));
    for note in [
        "entities with a key, a name or a value that Azure does not allow: 1",
        "messages of queues that were deleted: 2",
        "metadata of containers and blobs that Azure does not allow: 2",
        "ETags that are not of Azure; new ones were made: 7",
    ] {
        assert!(imported.notes.iter().any(|found| found == note), "{note}: {:?}", imported.notes);
    }
}

#[test]
fn data_of_other_accounts_is_refused_with_what_to_do() {
    let rules = RULES;
    let error = read(&original(), &["other"], rules, DateTime::MIN).unwrap_err().to_string();
    assert!(error.contains(": devstoreaccount1;") && error.contains("--accounts"), "{error}");
    let both = read(&original(), &["other", ACCOUNT], rules, DateTime::MIN).unwrap();
    assert!(both.accounts[0].tables.all_tables().next().is_none());
    assert!(both.accounts[1].tables.table("Types").is_ok());
}

#[test]
fn a_directory_without_data_of_azurite_is_refused() {
    let error = import(&original().join("__blobstorage__")).unwrap_err();
    assert!(error.contains("no data of Azurite: none of __azurite_db_table__.json"), "{error}");
    // One service alone, as by `azurite-table`.
    let copied = Copied::new();
    for name in ["__azurite_db_blob__.json", "__azurite_db_queue__.json"] {
        fs::remove_file(copied.0.join(name)).unwrap();
    }
    let imported = import(&copied.0).unwrap();
    assert_eq!((imported.counts.entities, imported.counts.blobs), (2, 0));
}

#[test]
fn a_file_that_is_damaged_or_of_another_program_is_refused_by_its_name() {
    for name in
        ["__azurite_db_table__.json", "__azurite_db_queue__.json", "__azurite_db_blob__.json"]
    {
        let copied = Copied::new();
        let whole = fs::read(copied.0.join(name)).unwrap();
        // Cut off, as by a full disk.
        fs::write(copied.0.join(name), &whole[..whole.len() / 2]).unwrap();
        assert!(copied.refused(name).contains("not a database of LokiJS"));
        for other in ["", "{}", "[]", r#"{"collections":[]}"#] {
            fs::write(copied.0.join(name), other).unwrap();
            copied.refused(name);
        }
        fs::write(copied.0.join(name), [0xff]).unwrap();
        assert!(copied.refused(name).contains("UTF-8"));
    }
    let file = "__azurite_db_table__.json";
    let newer = Copied::new().replace(file, r#""databaseVersion":1.5"#, r#""databaseVersion":2"#);
    assert!(newer.refused(file).contains("version 2 of the format of LokiJS"));
    let other = Copied::new().replace(file, r#""lastModifiedTime":"2"#, r#""lastModifiedTime":"x"#);
    assert!(other.refused(file).contains("row 0 of devstoreaccount1$Types has another form"));
    let lost = Copied::new().replace(file, "devstoreaccount1$Types", "devstoreaccount1$Other");
    assert!(lost.refused(file).contains("the entities of the table Types are missing"));
}

#[test]
fn missing_and_short_files_of_contents_are_refused() {
    for folder in ["__blobstorage__", "__queuestorage__"] {
        let copied = Copied::new();
        let path = copied.only_file_in(folder);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(copied.refused(folder).contains("shorter than"), "{folder}");
        fs::remove_file(&path).unwrap();
        assert!(copied.refused(folder).contains("which the databases refer to"), "{folder}");
    }
    let copied = Copied::new();
    let id = copied.only_file_in("__blobstorage__");
    let id = id.file_name().unwrap().to_str().unwrap();
    let copied = copied.replace("__azurite_db_blob__.json", id, "../__azurite_db_blob__.json");
    copied.refused("__blobstorage__");
}

/// Digits become other digits, quotes become braces, and so on: wherever the damage is, the files are read or refused.
#[test]
fn damage_at_any_place_is_refused_or_counted_and_never_a_panic() {
    let copied = Copied::new();
    let files =
        ["__azurite_db_table__.json", "__azurite_db_queue__.json", "__azurite_db_blob__.json"];
    let (mut seed, mut read, mut refused) = (7, 0, 0);
    for round in 0..300_usize {
        let path = copied.0.join(files[round % files.len()]);
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        for _ in 0..=round % 3 {
            let random = split_mix(&mut seed).to_le_bytes();
            let at = usize::from(u16::from_le_bytes([random[0], random[1]])) % damaged.len();
            damaged[at] = b"0123456789-.\"{}[],:ntx"[usize::from(random[2]) % 22];
        }
        fs::write(&path, &damaged).unwrap();
        match import(&copied.0) {
            Ok(_) => read += 1,
            Err(error) => {
                assert!(error.contains("nothing was changed"), "{error}");
                refused += 1;
            }
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(read > 25 && refused > 25, "{read} read, {refused} refused");
}

#[test]
fn text_that_no_document_can_have_is_left_out_and_counted() {
    let copy = Copied::new().replace(
        "__azurite_db_blob__.json",
        r#""exposedHeaders":"x-ms-*""#,
        r#""exposedHeaders":"\u0001""#,
    );
    let imported = import(&copy.0).unwrap();
    let note = "properties of services with text that no document can have: 1";
    assert!(imported.notes.iter().any(|found| found.contains(note)), "{:?}", imported.notes);
    let cors = &imported.accounts[0].blobs.properties().cors;
    assert!(cors.iter().flatten().next().is_none(), "{cors:?}");
}
