//! Messages that another program wrote, as odd as a queue accepts: each is done or a dead letter after a few
//! deliveries, and its letter can be listed, redriven and purged.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::TryStreamExt as _;
use rowkey::StorageAccount;
use rowkey::queue::Body;
use rowkey::worker::Tasks;
use rowkey::worker::dead_letters::Selection;
use rowkey::worker::{Step, Worker};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};

use super::{Deed, Resizer, VISIBILITY, done, large, letters, start, tasks, texts, worker};

/// How often a message is delivered at most.
const DELIVERIES: u32 = 12;

/// Runs a worker until the queue is empty, with a limit of deliveries per message.
async fn ends(server: &Server, account: &StorageAccount, messages: u32) -> TestResult {
    let worker = worker(account).retry_backoff(Duration::ZERO, Duration::ZERO).max_attempts(3);
    for _ in 0..messages * DELIVERIES {
        match worker.step().await {
            Ok(Step::Idle) if texts(&server.snapshot(), "jobs").is_empty() => return Ok(()),
            Ok(Step::Idle) => server.clock().advance(VISIBILITY * 2),
            Ok(_) => {}
            Err(error) => eprintln!("not settled: {error}"),
        }
    }
    let left = texts(&server.snapshot(), "jobs");
    let left: Vec<_> = left.iter().map(|text| text.get(..300).unwrap_or(text)).collect();
    Err(format!("{} messages stay: {left:?}", left.len()).into())
}

async fn put(account: &StorageAccount, text: &str) -> rowkey::Result<()> {
    account.queue("jobs").put(Body::text(text)).send().await.map(drop)
}

#[tokio::test]
async fn a_message_with_a_long_field_becomes_a_dead_letter_that_can_be_redriven() -> TestResult {
    let long = "x".repeat(40_000);
    let task = r#""task":{"picture":7,"deed":"Fail"}"#;
    for (field, text) in [
        ("id", format!(r#"{{"kind":"resize","id":"{long}",{task}}}"#)),
        ("kind", format!(r#"{{"kind":"{long}",{task}}}"#)),
        ("redrive", format!(r#"{{"kind":"resize","redriven":1,"redrive":"{long}",{task}}}"#)),
        (
            "givenUp",
            format!(r#"{{"kind":"resize","givenUp":{{"cause":"{long}","reason":"r"}},{task}}}"#),
        ),
        (
            "history",
            format!(
                r#"{{"kind":"resize","attempts":9,"history":[{{"at":"","error":"e","cause":"{long}"}}],{task}}}"#
            ),
        ),
        ("traceparent", format!(r#"{{"kind":"resize","traceparent":"{long}",{task}}}"#)),
        ("another", format!(r#"{{"kind":"resize","another":"{long}",{task}}}"#)),
    ] {
        let (server, account) = start().await?;
        put(&account, &text).await?;
        ends(&server, &account, 1).await.map_err(|error| format!("{field}: {error}"))?;
        let dead = tasks(&account).dead_letters();
        let letter = dead.list(&Selection::all()).try_next().await?.ok_or(field)?;
        assert_eq!(field == "id", letter.id == long, "{field}");
        assert_eq!(dead.get(&letter.id).await?.ok_or(field)?.reason, letter.reason);
        let one = Selection::of(&*letter.id);
        assert_eq!(dead.redrive(&one).await?.done, 1, "{field}");
        ends(&server, &account, 1).await.map_err(|error| format!("{field}: {error}"))?;
        assert_eq!(dead.list(&Selection::all()).try_collect::<Vec<_>>().await?.len(), 1);
        assert_eq!(dead.purge(&Selection::all()).await?.done, 1, "{field}");
    }
    Ok(())
}

#[tokio::test]
async fn a_message_with_an_impossible_claim_becomes_a_dead_letter() -> TestResult {
    let sha256 = "0".repeat(64);
    for name in [
        format!("jobs/{}", "x".repeat(2_000)),
        format!("jobs/{}", "a/".repeat(400) + "b"),
        "jobs/\\u0000".to_owned(),
        "jobs/a?b#c%2f".to_owned(),
        "jobs/\\ud83d\\ude00.".to_owned(),
    ] {
        for redriven in ["", r#","redriven":1"#] {
            let (server, account) = start().await?;
            let claim = format!(r#""claim":"{name}","sha256":"{sha256}""#);
            put(&account, &format!(r#"{{"kind":"resize",{claim}{redriven}}}"#)).await?;
            ends(&server, &account, 1).await.map_err(|error| format!("{name}: {error}"))?;
            assert_eq!(letters(&server.snapshot()).len(), 1, "{name}");
        }
    }
    Ok(())
}

/// The worker cannot reach the blob: it has no container, or another program leased the blob.
#[tokio::test]
async fn a_claim_whose_blob_cannot_be_marked_becomes_a_dead_letter() -> TestResult {
    for is_leased in [false, true] {
        let (server, account) = start().await?;
        tasks(&account).put(&large(7, Deed::Poison)).await?;
        let tasks = if is_leased {
            let name = super::claims(&account).await?.remove(0);
            let blob = account.container("claims").blob(&name);
            drop(blob.acquire_lease(None).await?);
            tasks(&account)
        } else {
            Tasks::new(account.queue("jobs"))
        };
        let worker = Worker::new(tasks, Resizer(account.table("small")))
            .visibility(VISIBILITY)
            .max_attempts(1);
        assert_eq!(worker.step().await?, Step::Poisoned, "leased: {is_leased}");
        assert_eq!(letters(&server.snapshot()).len(), 1);
    }
    Ok(())
}

/// The longest bare task leaves no room in a message for what a redrive adds.
#[tokio::test]
async fn a_task_without_room_for_an_envelope_is_redriven_as_it_was() -> TestResult {
    let (server, account) = start().await?;
    let pixels = "#".repeat(64 * 1024 - 50);
    let text = format!(r#"{{"picture":7,"deed":"Poison","pixels":"{pixels}"}}"#);
    assert!(text.len() <= 64 * 1024 && text.len() > 64 * 1024 - 40, "{}", text.len());
    put(&account, &text).await?;
    ends(&server, &account, 1).await?;
    let dead = tasks(&account).dead_letters();
    let summary = dead.redrive(&Selection::all()).await?;
    assert_eq!((summary.done, summary.failed), (1, 0), "{:?}", summary.failures);
    assert_eq!(texts(&server.snapshot(), "jobs"), [text]);
    ends(&server, &account, 1).await
}

/// Counters that no worker writes: they neither hide a crash nor overflow.
#[tokio::test]
async fn impossible_counters_do_not_hide_that_workers_die() -> TestResult {
    let (server, account) = start().await?;
    let task = r#""task":{"picture":7,"deed":"Succeed"}"#;
    put(&account, &format!(r#"{{"kind":"resize","receptions":4294967295,{task}}}"#)).await?;
    for _ in 0..4 {
        super::poisoned::die(&server, &account).await;
    }
    assert_eq!(worker(&account).max_attempts(3).step().await?, Step::Poisoned);
    assert_eq!(letters(&server.snapshot())[0]["cause"], "UnknownEnd");
    Ok(())
}

#[tokio::test]
async fn every_hostile_message_is_done_or_a_dead_letter_after_a_few_deliveries() -> TestResult {
    let (first, _) = start().await?;
    for seed in seeds(20) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let server = first.fork().await?;
        let account = rowkey_tests::sweep::account(&server)?;
        let mut put_in_all = 0;
        for _ in 0..50 {
            let text = hostile(&mut random);
            // What the service refuses is in no queue.
            put_in_all += u32::from(put(&account, &text).await.is_ok());
        }
        ends(&server, &account, put_in_all).await?;
        let aside = letters(&server.snapshot()).len();
        assert!(aside + done(&server.snapshot()).len() > 0 && aside <= 50);
        let dead = tasks(&account).dead_letters();
        let listed: Vec<_> = dead.list(&Selection::all()).try_collect().await?;
        assert_eq!(listed.len(), aside);
        dead.export(&Selection::all(), &mut Vec::new()).await?;
        let purged = dead.purge(&Selection::all()).await?;
        assert_eq!((purged.done, purged.failed), (aside as u64, 0), "{:?}", purged.failures);
    }
    Ok(())
}

/// Fields of messages, and two that are none.
const NAMES: [&str; 17] = [
    "id",
    "kind",
    "task",
    "claim",
    "sha256",
    "traceparent",
    "attempts",
    "receptions",
    "alone",
    "firstSeen",
    "history",
    "redriven",
    "redrive",
    "givenUp",
    "other",
    r"\ud800",
    "",
];

/// A text in which any part may be long, deep, of the wrong type, twice there, or odd.
fn hostile(random: &mut Random) -> String {
    let mut text = match random.below(8) {
        0 => return value(random),
        1 => return "\u{10ffff}\u{7f}\u{85}?".repeat(random.below(5_000) as usize),
        2 => return STANDARD.encode([0xff, 0xfe, 0, 1].repeat(random.below(9_000) as usize)),
        3 => format!(r#"{{"picture":{},"deed":"Succeed""#, random.below(9)),
        4 => {
            format!(r#"{{"kind":"resize","task":{{"picture":{},"deed":"Fail"}}"#, random.below(9))
        }
        5 => format!(r#"{{"kind":"resize","claim":"jobs/{}""#, random.below(9)),
        _ => format!(r#"{{"kind":"resize","task":{}"#, value(random)),
    };
    for _ in 0..random.below(6) {
        let name = random.pick(&NAMES);
        let value = match name {
            "history" if random.one_in(2) => {
                let failure = format!(r#"{{"at":{0},"error":{0},"cause":{0}}}"#, string(random));
                format!("[{}]", vec![failure; random.below(40) as usize].join(","))
            }
            "givenUp" if random.one_in(2) => {
                format!(r#"{{"cause":{},"reason":{}}}"#, string(random), string(random))
            }
            "attempts" | "receptions" | "redriven" if random.one_in(2) => {
                random.pick(&["0", "1", "7", "2147483648", "4294967295"]).to_owned()
            }
            "alone" if random.one_in(2) => "true".to_owned(),
            "firstSeen" if random.one_in(2) => {
                random.pick(&[r#""9999-12-31T23:59:59Z""#, r#""0001-01-01T00:00:00Z""#]).to_owned()
            }
            "id" | "redrive" | "sha256" | "claim" if random.one_in(2) => string(random),
            _ => value(random),
        };
        text = [text, format!(r#","{name}":{value}"#)].concat();
    }
    text.push('}');
    if random.one_in(4) { STANDARD.encode(text) } else { text }
}

/// Any JSON value.
fn value(random: &mut Random) -> String {
    match random.below(8) {
        0 => "null".to_owned(),
        1 => random.pick(&["1e400", "-1", "18446744073709551616", "0.1", "-0"]).to_owned(),
        2 => {
            let deep = random.below(20_000) as usize;
            "[".repeat(deep) + &"]".repeat(deep)
        }
        3 => {
            let deep = random.below(300) as usize;
            r#"{"a":"#.repeat(deep) + "0" + &"}".repeat(deep)
        }
        4 => "{}".to_owned(),
        5 => "true".to_owned(),
        _ => string(random),
    }
}

/// A JSON string.
fn string(random: &mut Random) -> String {
    let part = random.pick(&[
        "x",
        "x",
        "/",
        r"\u0000",
        r"\ud800",
        r"\ud83d\ude00",
        "\u{1F600}",
        r"\uffff",
        "é",
        "jobs/",
        " ",
    ]);
    let times = random.pick(&[0, 1, 300, 1_100, 6_000, 40_000, 40_000, 60_000]);
    format!(r#""{}""#, part.repeat(times))
}
