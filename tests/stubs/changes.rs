//! The reader of changes against a service whose servers have different clocks, which also step back: each write is
//! seen, as long as no clock differs by more than the overlap.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use rowkey::Entity;
use rowkey::table::{Changes, Watermark};
use rowkey_tests::random::{Random, Seed, seeds};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers};

use crate::{WHEN, stub};

/// A number with a version, which grows.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{owner}", row = "{number:4}")]
struct Counted {
    owner: String,
    number: u16,
    count: i32,
}

const PAGE: usize = 3;

/// A service with one table, whose Timestamps are by another clock than its `Date`.
struct Service {
    /// The clock of the server that answers.
    now: DateTime<Utc>,
    /// By number: the count, and when it was written by the clock of the entity's server.
    rows: BTreeMap<u16, (i32, DateTime<Utc>)>,
    requests: usize,
}

impl Service {
    fn answer(&mut self, request: &Request) -> ResponseTemplate {
        self.requests += 1;
        let query: BTreeMap<_, _> = request.url.query_pairs().into_owned().collect();
        let from: u16 = query.get("NextRowKey").map_or(0, |from| from.parse().unwrap());
        let filter = query.get("$filter").cloned().unwrap_or_default();
        let since = filter.split_once("Timestamp ge datetime'").map(|(_, rest)| {
            let since = rest.split_once('\'').unwrap().0;
            since.parse::<DateTime<Utc>>().unwrap()
        });
        let rows = self.rows.range(from..);
        let found = rows.filter(|(_, (_, at))| since.is_none_or(|since| *at >= since));
        let found: Vec<_> = found.take(PAGE + 1).collect();
        let bodies = found.iter().take(PAGE).map(|(number, (count, at))| {
            let at = at.to_rfc3339_opts(SecondsFormat::Nanos, true);
            format!(
                "{{\"odata.etag\":\"W/\\\"{at}-{count}\\\"\",\"PartitionKey\":\"p\",\
                 \"RowKey\":\"{number:04}\",\"Timestamp\":\"{}Z\",\"count\":{count}}}",
                &at[..27]
            )
        });
        let body = format!("{{\"value\":[{}]}}", bodies.collect::<Vec<_>>().join(","));
        let date = self.now.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let answer = ResponseTemplate::new(200)
            .set_body_raw(body, "application/json;odata=minimalmetadata")
            .insert_header("date", date);
        match found.get(PAGE) {
            Some((next, _)) => answer
                .insert_header("x-ms-continuation-NextPartitionKey", "p")
                .insert_header("x-ms-continuation-NextRowKey", format!("{next:04}")),
            None => answer,
        }
    }

    fn write(&mut self, random: &mut Random, skew: i64) {
        let number = u16::try_from(random.below(12)).unwrap();
        let by = i64::try_from(random.within(2 * skew.unsigned_abs() + 1)).unwrap() - skew;
        let at = self.now + TimeDelta::seconds(by);
        let count = self.rows.get(&number).map_or(0, |(count, _)| *count) + 1;
        self.rows.insert(number, (count, at));
    }
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Service>>);

impl Respond for Shared {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        self.0.lock().unwrap().answer(request)
    }
}

async fn service() -> (MockServer, rowkey::Table, Shared) {
    let (stub, table) = stub().await;
    let now = WHEN.parse().unwrap();
    let shared = Shared(Arc::new(Mutex::new(Service { now, rows: BTreeMap::new(), requests: 0 })));
    Mock::given(matchers::method("GET")).respond_with(shared.clone()).mount(&stub).await;
    (stub, table, shared)
}

fn changes(table: &rowkey::Table, from: Watermark, overlap: u64) -> Changes<Counted> {
    let query = table.query(Counted::partition("p"));
    query.changes(from).overlap(Duration::from_secs(overlap))
}

/// Notes an entity that was read.
fn note(seen: &mut BTreeMap<u16, i32>, read: &Counted) {
    let newest = seen.entry(read.number).or_default();
    *newest = read.count.max(*newest);
}

/// Reads and writes in random order, with clocks that differ by up to `skew` seconds, then reads twice to the end.
/// Returns the counts that were seen and those that were written, by number.
async fn run(seed: u64, skew: i64, overlap: u64) -> (BTreeMap<u16, i32>, BTreeMap<u16, i32>) {
    let _seed = Seed(seed);
    let mut random = Random(seed);
    let (_stub, table, shared) = service().await;
    let mut reader = changes(&table, Watermark::beginning(), overlap);
    let mut seen = BTreeMap::new();
    for _ in 0..150 {
        match random.below(8) {
            0..=2 => shared.0.lock().unwrap().write(&mut random, skew),
            3 => {
                let by = TimeDelta::seconds(random.below(90).into());
                shared.0.lock().unwrap().now += by;
            }
            4 => {
                // The program stops, and begins again at the stored position.
                let stored = reader.position().to_string();
                reader = changes(&table, stored.parse().unwrap(), overlap);
            }
            _ => {
                if let Some(read) = reader.next().await.unwrap() {
                    note(&mut seen, &read.entity);
                }
            }
        }
    }
    // What is left of this pass, and another one.
    for _ in 0..2 {
        while let Some(read) = reader.next().await.unwrap() {
            note(&mut seen, &read.entity);
        }
    }
    let written = shared
        .0
        .lock()
        .unwrap()
        .rows
        .iter()
        .map(|(number, (count, _))| (*number, *count))
        .collect();
    (seen, written)
}

#[tokio::test]
async fn each_write_is_seen_if_clocks_differ_by_less_than_the_overlap() {
    for seed in seeds(60) {
        for skew in [0, 1, 59] {
            let (seen, written) = run(seed, skew, 61).await;
            assert_eq!(seen, written, "seed {seed}, clocks differ by {skew} s");
        }
    }
}

#[tokio::test]
async fn clocks_that_differ_by_more_than_the_overlap_hide_writes() {
    let (_stub, table, shared) = service().await;
    let mut reader = changes(&table, Watermark::beginning(), 60);
    assert_eq!(reader.next().await.unwrap(), None);
    let write = |number: u16, seconds| {
        let mut service = shared.0.lock().unwrap();
        let at = service.now - TimeDelta::seconds(seconds);
        service.rows.insert(number, (1, at));
    };
    write(1, 60);
    write(2, 61);
    assert_eq!(reader.next().await.unwrap().unwrap().entity.number, 1);
    assert_eq!(reader.next().await.unwrap(), None, "as the documentation says");
    let mut longer = changes(&table, Watermark::since(WHEN.parse().unwrap()).unwrap(), 61);
    assert_eq!(longer.next().await.unwrap(), None);
    assert_eq!(longer.next().await.unwrap().unwrap().entity.number, 1);
    assert_eq!(longer.next().await.unwrap().unwrap().entity.number, 2);
}

#[tokio::test]
async fn an_entity_with_the_same_timestamp_as_the_last_one_is_seen() {
    let (_stub, table, shared) = service().await;
    let mut reader = changes(&table, Watermark::beginning(), 0);
    let write = |number: u16| {
        let mut service = shared.0.lock().unwrap();
        let at = service.now;
        service.rows.insert(number, (1, at));
    };
    for number in 1..=5 {
        write(number);
        assert_eq!(reader.next().await.unwrap().unwrap().entity.number, number, "a tie");
        assert_eq!(reader.next().await.unwrap(), None, "and no version comes twice");
    }
    assert_eq!(shared.0.lock().unwrap().requests, 1 + 1 + 1 + 2 + 2, "a request for each page");
}

#[tokio::test]
async fn without_the_time_of_the_service_there_is_no_watermark() {
    let (stub, table) = stub().await;
    let answer = ResponseTemplate::new(200).set_body_raw("{\"value\":[]}", "application/json");
    Mock::given(matchers::any())
        .respond_with(answer.insert_header("date", "soon"))
        .mount(&stub)
        .await;
    let error = changes(&table, Watermark::beginning(), 1).next().await.unwrap_err();
    assert_eq!(error.kind(), rowkey::ErrorKind::Decode);
}
