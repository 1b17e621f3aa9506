//! Any text from outside: prefixes of a deletion, and `If-Match` headers.

use std::collections::BTreeSet;

use rowkey::store::{IfMatch, IfMatchError, Store, Version};
use rowkey::{Entity, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{place}", row = "visit_{id:4}")]
#[entity(index(name = by_guest, row = "guest_{guest}", many))]
struct Visit {
    place: String,
    id: u32,
    guest: String,
}

/// A deletion under a prefix deletes all places whose names begin with it, and no others, for any prefix.
#[tokio::test]
async fn a_deletion_under_a_prefix_takes_the_partitions_that_begin_with_it() -> TestResult {
    let places = [
        "a",
        "a.",
        "a.b",
        "a!",
        "a%",
        "a%25",
        "a%b",
        "a'b",
        "a''",
        "ab",
        "a\u{D7FF}",
        "a\u{E000}",
        "a\u{FFFF}",
        "a\u{FFFF}x",
        "a😀",
        "a\u{10FFFF}",
        "a\u{10FFFF}x",
        "a_",
        "a_b",
        "b",
        "\u{FFFF}",
        "\u{FFFF}\u{FFFF}",
        "\u{10FFFF}",
        "é",
        "e\u{301}",
    ];
    let prefixes = places.iter().copied().chain(["a%2", "x", "\u{FFFF}x", "a\u{10FFFF}xyz", "a/"]);
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    for (number, prefix) in prefixes.enumerate() {
        let table = account.table(&format!("visits{number}"));
        let visits = Store::<Visit>::builder(table).build()?;
        visits.create_if_missing().await?;
        let mut stored = BTreeSet::new();
        for place in places {
            let visit = Visit { place: place.into(), id: 1, guest: "ada".into() };
            // Some are no keys.
            if visits.insert(&visit).await.is_ok() {
                stored.insert(place);
            }
        }
        assert!(stored.len() > 20, "{stored:?}");
        let report = visits.delete_under(prefix)?.run().await?;
        let kept: BTreeSet<_> = stored.iter().copied().filter(|p| !p.starts_with(prefix)).collect();
        assert_eq!(report.total.right, (stored.len() - kept.len()) as u64, "{prefix:?}");
        let left = visits.table().scan::<Visit>().all().await?;
        let left: BTreeSet<_> = left.iter().map(|visit| &*visit.entity.place).collect();
        assert_eq!(left, kept, "{prefix:?}");
        let rows = server.snapshot().table(&format!("visits{number}")).unwrap().entities().count();
        assert_eq!(rows, 2 * kept.len(), "each with its copy");
    }
    Ok(())
}

/// A header that is put together of valid parts is read as these parts, however they are separated and
/// distributed over lines; one of other parts is malformed or names the same versions.
#[test]
fn if_match_headers_are_read_by_their_grammar() {
    const TAGS: [&str; 9] = [
        "\"op-00000000000000ff\"",
        "\"op-00000000000000ff-0000000000000001\"",
        "\"datetime'2026-11-22T10%3A00%3A00.0000000Z'\"",
        "\"a,b\"",
        "\"W/\"",
        "\"*\"",
        "\"\"",
        "\"\\\"",
        "\"é\"",
    ];
    const WEAK: [&str; 3] = ["W/\"a\"", "W/\"\"", "W/\"a,*\""];
    const BETWEEN: [&str; 6] = [",", ", ", " ,", ",,", "\t,\t", " , ,\t,"];
    const BROKEN: [&str; 12] = [
        "*",
        "a",
        "\"",
        "W/",
        "w/\"a\"",
        "W /\"a\"",
        "\"a b\"",
        "'a'",
        "\"a\u{7}\"",
        "\"a\"\"b\"",
        ";",
        "\u{a0}",
    ];
    for seed in seeds(2000) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let mut lines = vec![String::new()];
        let mut expected: Vec<Version> = Vec::new();
        let (mut members, mut broken) = (0, false);
        for _ in 0..=random.below(5) {
            if members > 0 && random.one_in(3) {
                lines.push(String::new());
            }
            let line = lines.last_mut().unwrap();
            if !line.is_empty() {
                line.push_str(random.pick(&BETWEEN));
            } else if random.one_in(4) {
                line.push_str(random.pick(&["", " ", "\t", ",", " ,, "]));
            }
            members += 1;
            match random.below(12) {
                0 => {
                    line.push_str(random.pick(&BROKEN));
                    broken = true;
                }
                1 | 2 => line.push_str(random.pick(&WEAK)),
                _ => {
                    let tag = random.pick(&TAGS);
                    line.push_str(tag);
                    let version: Version = tag.parse().unwrap();
                    assert_eq!(version.to_string(), tag);
                    if !expected.contains(&version) {
                        expected.push(version);
                    }
                }
            }
            if random.one_in(5) {
                lines.last_mut().unwrap().push_str(random.pick(&[" ", ",", "\t ,"]));
            }
        }
        let read = IfMatch::of(&lines);
        let joined = IfMatch::of([lines.join(",")]);
        assert_eq!(read, joined, "{lines:?}");
        if !broken {
            assert_eq!(read, Ok(IfMatch::OneOf(expected)), "{lines:?}");
        } else if members == 1 && lines[0].trim_matches([' ', '\t', ',']) == "*" {
            assert_eq!(read, Ok(IfMatch::Any));
        } else {
            assert_eq!(read, Err(IfMatchError::Malformed), "{lines:?}");
        }
        // Any bytes are read without a panic.
        let mut bytes: Vec<u8> = lines.concat().into_bytes();
        for _ in 0..3 {
            let at = random.below(u32::try_from(bytes.len()).unwrap()) as usize;
            bytes[at] = random.next().to_le_bytes()[0];
        }
        drop(IfMatch::of([bytes]));
    }
}
