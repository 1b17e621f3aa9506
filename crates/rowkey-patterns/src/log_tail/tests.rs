//! Tests of the keys and positions of logs.

use chrono::{DateTime, TimeDelta, Utc};
use rowkey_client::key::{KeyReader, KeyWriter, PartFormat};
use rowkey_client::{ClientOptions, Entity, StorageAccount};

use super::*;

#[derive(Debug, Entity)]
#[entity(crate = "rowkey_client")]
#[entity(partition = "{name}", row = "{id}")]
struct Line {
    name: String,
    id: EntryId,
}

/// A log entry in a table with rows of other types.
#[derive(Debug, Entity)]
#[entity(crate = "rowkey_client")]
#[entity(partition = "{name}", row = "log_{at:desc}_{seq:3}")]
struct Headed {
    name: String,
    at: DateTime<Utc>,
    seq: u32,
}

fn time(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn row_key(id: &EntryId) -> String {
    let mut out = KeyWriter::new();
    out.part(id, PartFormat::default());
    out.finish().unwrap()
}

fn read(text: &str) -> Result<EntryId, rowkey_client::key::KeyReadError> {
    KeyReader::new(text).part(PartFormat::default())
}

#[test]
fn rows_of_dotnet_programs_round_trip() {
    let midnight = time("2017-11-10T00:00:00Z");
    for (rest, tie_breaker) in [
        ("", ""),
        ("-9c5b94b1-35ad-49bb-b118-8e8fc24abf80", "9c5b94b1-35ad-49bb-b118-8e8fc24abf80"),
        ("_9c5b94b135ad49bbb1188e8fc24abf80", "9c5b94b135ad49bbb1188e8fc24abf80"),
        ("9c5b94b1", "9c5b94b1"),
        ("_a_b_", "a_b_"),
    ] {
        let text = format!("2518920287999999999{rest}");
        let id = read(&text).unwrap();
        assert_eq!((id.at(), id.tie_breaker()), (midnight, tie_breaker));
        assert_eq!(row_key(&id), text);
    }
    assert_eq!(row_key(&EntryId::new(midnight, "w")), "2518920287999999999_w");
    assert_eq!(
        read("0000000000000000000").unwrap().at(),
        rowkey_client::edm::DateTime::MAX.to_chrono()
    );
}

#[test]
fn malformed_entry_ids_are_rejected() {
    for text in [
        "",
        "251892028799999999",
        "251892028799999999x",
        "9999999999999999999",
        "é".repeat(10).as_str(),
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn an_id_before_another_part_round_trips() {
    #[derive(Debug, Entity)]
    #[entity(crate = "rowkey_client")]
    #[entity(partition = "{name}", row = "log_{id}_{line}")]
    struct Split {
        name: String,
        id: EntryId,
        line: String,
    }

    let at = time("2017-11-10T00:00:00Z");
    for tie_breaker in ["w", "", "a_b", "_", "~", "^~", "9c5b94b1-35ad", "a}b^"] {
        for line in ["1", "", "_", "a_b"] {
            let key = Split::key("web", EntryId::new(at, tie_breaker), line);
            let (partition_key, row_key) = key.parts().unwrap();
            let (_, id, read) = Split::parse_key(partition_key, row_key).unwrap();
            assert_eq!((id.at(), id.tie_breaker(), &*read), (at, tie_breaker, line), "{row_key}");
            assert!(ticks_in::<Split>(row_key).is_some(), "{row_key} is the row of a log");
        }
    }
    let key = Split::key("web", EntryId::new(at, "w-1"), "7");
    assert_eq!(key.parts(), Ok(("web", "log_2518920287999999999^~w-1_7")));
    // As .NET writes them: ticks, or ticks and a GUID; and with a custom suffix.
    for (id, tie_breaker) in [("2518920287999999999", ""), ("2518920287999999999-9c5b", "9c5b")] {
        let row_key = format!("log_{id}_7");
        let (name, read, line) = Split::parse_key("web", &row_key).unwrap();
        assert_eq!(read.tie_breaker(), tie_breaker);
        assert_eq!(Split::key(name, read, line).parts(), Ok(("web", &*row_key)));
    }
}

#[test]
fn an_id_has_the_resolution_of_its_stored_form() {
    let id = EntryId::new(time("2026-01-01T00:00:00.123456789Z"), "w");
    assert_eq!(id.at(), time("2026-01-01T00:00:00.1234567Z"));
    assert_eq!(read(&row_key(&id)).unwrap(), id);
}

#[test]
fn ids_of_a_writer_are_in_order_if_the_clock_goes_back() {
    #[derive(Debug)]
    struct Backwards(std::sync::Mutex<DateTime<Utc>>);
    impl rowkey_client::Clock for Backwards {
        fn now(&self) -> DateTime<Utc> {
            let mut now = self.0.lock().unwrap();
            *now -= TimeDelta::seconds(1);
            *now
        }
        fn sleep(&self, _: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(std::future::ready(()))
        }
    }
    let account = StorageAccount::builder()
        .connection_string("UseDevelopmentStorage=true")
        .unwrap()
        .clock(Backwards(std::sync::Mutex::new(time("2026-01-01T00:00:00Z"))))
        .options(ClientOptions::default())
        .build()
        .unwrap();
    let log = LogTail::new(account.table("log")).with_writer("w");
    let ids: Vec<_> = (0..4).map(|_| log.clone().next_id()).collect();
    for pair in ids.windows(2) {
        assert_eq!(pair[1].at() - pair[0].at(), TimeDelta::nanoseconds(100));
        assert!(row_key(&pair[1]) < row_key(&pair[0]), "the newer one comes first");
    }
    assert_ne!(log.with_writer("v").next_id(), ids[0]);
    let other = LogTail::new(account.table("log"));
    assert_ne!(
        other.next_id().tie_breaker(),
        LogTail::new(account.table("log")).next_id().tie_breaker()
    );
}

#[test]
fn times_become_ranges_of_rows() {
    let log = LogTail::new(
        StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap().table("log"),
    );
    let filter =
        |query: Query<Headed>| query.explain().unwrap().requests[0].filter.clone().unwrap();
    let (from, to) = (time("2017-11-10T00:00:00Z"), time("2017-11-10T00:00:01Z"));
    assert_eq!(
        filter(log.between(Headed::partition("p"), from..to)),
        "PartitionKey eq 'p' and RowKey ge 'log_2518920287990000000' and RowKey lt 'log_2518920288000000000'"
    );
    assert_eq!(
        filter(log.since(Headed::partition("p"), from)),
        "PartitionKey eq 'p' and RowKey ge 'log_0000000000000000000' and RowKey lt 'log_2518920288000000000'"
    );
    // Times that cannot be stored are before or after all that can.
    assert_eq!(
        filter(log.since(Headed::partition("p"), DateTime::<Utc>::MIN_UTC)),
        "PartitionKey eq 'p' and RowKey ge 'log_0000000000000000000' and RowKey lt 'log_2650467744000000000'"
    );
    let error = log.since(Line::partition("a\tb"), from).explain().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn positions_stored_by_this_version_must_stay_readable() {
    let start = Position { log: 255, ticks: 639_032_544_000_000_000, after: None };
    assert_eq!(start.to_string(), "00000000000000ff.639032544000000000");
    let within = Position { after: Some("2518.a_b".into()), ..start.clone() };
    assert_eq!(within.to_string(), "00000000000000ff.639032544000000000.2518.a_b");
    for position in [start, within] {
        assert_eq!(position.to_string().parse::<Position>().unwrap(), position);
    }
    for text in ["", "ff", "ff.", "ff.7", "x.639032544000000000", "ff.secret"] {
        let error = text.parse::<Position>().unwrap_err();
        assert!(!format!("{error:?} {error}").contains("secret"), "{text}");
    }
}

#[test]
fn a_position_is_bound_to_its_log() {
    let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
    let of = |table: &str, partition: &str| {
        let log = LogTail::new(account.table(table));
        log.tail(Line::partition(partition), Duration::ZERO).position().clone()
    };
    assert_eq!(of("Log", "p"), of("log", "p"));
    assert_ne!(of("log", "p"), of("log", "q"));
    assert_ne!(of("log", "p"), of("blog", "p"));
    // FNV-1a of "log/p/". Stored positions depend on this number: it must never change.
    assert_eq!(of("log", "p").to_string(), "01cbf0c0276145a3.504911232000000000");
}

#[test]
fn an_id_and_a_position_are_their_text_in_json() {
    let midnight = time("2017-11-10T00:00:00Z");
    for id in [
        "2518920287999999999",
        "2518920287999999999_w",
        "2518920287999999999-{guid}",
        "2518920287999999999_",
    ] {
        let json = format!("\"{id}\"");
        let parsed: EntryId = serde_json::from_str(&json).unwrap();
        assert_eq!((parsed.at(), row_key(&parsed).as_str()), (midnight, id));
        assert_eq!(serde_json::to_string(&parsed).unwrap(), json);
    }
    for text in ["\"\"", "\"251892028799999999\"", "\"251892028799999999x_w\"", "7", "null"] {
        assert!(serde_json::from_str::<EntryId>(text).is_err(), "{text}");
    }
    assert!(serde_json::to_string(&EntryId::new(midnight, "a/b")).is_err(), "no key can have it");
    let position = "\"00000000000000ff.636458688000000000.2518920287999999999_w\"";
    let parsed: Position = serde_json::from_str(position).unwrap();
    assert_eq!(serde_json::to_string(&parsed).unwrap(), position);
    assert!(serde_json::from_str::<Position>("\"x\"").is_err());
}
