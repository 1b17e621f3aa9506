//! Dead letters: which there are, what they say, how they are put back, deleted, exported and collected, and
//! that a task has one letter at most.

mod finality;
mod redrives;
mod sweeps;
mod untyped;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey::queue::Body;
use rowkey::worker::dead_letters::{Cause, DeadLetter, DeadLetters, Inspected, Selection};
use rowkey::worker::{Attempt, Done, Handler, Step, Task, Tasks, Worker};
use rowkey::{Entity, Error, ErrorKind, ManualClock, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server, Snapshot, StoredQueue};
use rowkey_tests::{TestResult, sweep};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A task that says how it fails as long as the program is not mended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Job {
    number: u64,
    fails: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pixels: String,
}

impl Task for Job {
    const KIND: &'static str = "job";
}

/// The result of a job.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "effects", row = "{number}")]
struct Effect {
    number: u64,
}

/// Does jobs, if it was mended.
struct Program {
    account: StorageAccount,
    is_mended: bool,
}

impl Handler<Job> for Program {
    async fn handle(&self, job: Job, _: Attempt) -> rowkey::Result<Done> {
        if self.is_mended {
            self.account.table("effects").upsert(&Effect { number: job.number }).await?;
            return Ok(Done::Applied);
        }
        match &*job.fails {
            "error" => Err(Error::refused(ErrorKind::NotFound, "there is no such album")),
            "panic" => panic!("the album has no cover"),
            "old" => Ok(Done::TooOld("it is from last year".to_owned())),
            _ => Ok(Done::Poison("heic is no format".to_owned())),
        }
    }
}

fn job(number: u64, fails: &str) -> Job {
    Job { number, fails: fails.to_owned(), pixels: String::new() }
}

/// A job that no message can hold.
fn large(number: u64) -> Job {
    Job { pixels: "#".repeat(70_000), ..job(number, "reject") }
}

fn tasks(account: &StorageAccount) -> Tasks<Job> {
    Tasks::new(account.queue("jobs")).claims(account.container("claims"))
}

fn dead(account: &StorageAccount) -> DeadLetters<Job> {
    tasks(account).dead_letters()
}

/// A worker that tries once, of a program that was mended or not.
fn worker(account: &StorageAccount, is_mended: bool) -> Worker<Job, Program> {
    let program = Program { account: account.clone(), is_mended };
    let worker = Worker::new(tasks(account), program).max_attempts(1);
    worker.visibility(Duration::from_secs(30)).retry_backoff(Duration::ZERO, Duration::ZERO)
}

async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    account.table("effects").create().await?;
    tasks(&account).create_if_missing().await?;
    Ok((server, account))
}

/// Puts a job that becomes a dead letter, and returns its id.
async fn put_aside(account: &StorageAccount, job: &Job) -> Result<String, Error> {
    let id = tasks(account).put(job).await?;
    assert_eq!(worker(account, false).step().await?, Step::Poisoned);
    Ok(id.to_string())
}

fn texts(snapshot: &Snapshot, queue: &str) -> Vec<String> {
    let messages = snapshot.queue(queue).into_iter().flat_map(StoredQueue::messages);
    messages.map(|message| message.text().to_owned()).collect()
}

/// The RowKeys of letters.
fn letters(snapshot: &Snapshot) -> Vec<String> {
    let table = snapshot.table("deadletters");
    let rows = table.iter().flat_map(|table| table.entities());
    let keys = rows.map(|row| row.row_key().to_owned());
    keys.filter(|key| key.starts_with("letter_")).collect()
}

/// The jobs that were done.
fn done(snapshot: &Snapshot) -> Vec<u64> {
    let table = snapshot.table("effects").unwrap();
    let mut done: Vec<_> = table.entities().map(|row| row.row_key().parse().unwrap()).collect();
    done.sort_unstable();
    done
}

async fn numbers(dead: &DeadLetters<Job>, which: &Selection) -> rowkey::Result<Vec<u64>> {
    let letters: Vec<DeadLetter<Job>> = dead.list(which).try_collect().await?;
    let number = |letter: DeadLetter<Job>| match letter.task {
        Inspected::Task(job) => job.number,
        other => panic!("{other:?}"),
    };
    Ok(letters.into_iter().map(number).collect())
}

#[tokio::test]
async fn dead_letters_are_listed_newest_first_and_filtered() -> TestResult {
    let (server, _) = start().await?;
    let clock = ManualClock::new(server.clock().now().to_chrono());
    let account = StorageAccount::builder().connection_string(server.connection_string())?;
    let account = account.clock(clock.clone()).build()?;
    for (number, fails) in [(1, "error"), (2, "panic"), (3, "reject"), (4, "old")] {
        put_aside(&account, &job(number, fails)).await?;
        clock.advance(Duration::from_secs(10));
    }
    let dead = dead(&account);
    let secs = Duration::from_secs;
    let all = Selection::all;
    for (which, expected) in [
        (all(), &[4, 3, 2, 1][..]),
        (all().cause(Cause::Panic), &[2]),
        (all().cause(Cause::Panic).cause(Cause::Error(ErrorKind::NotFound)), &[2, 1]),
        (all().cause(Cause::TooOld), &[4]),
        (all().cause(Cause::TimeLimit), &[]),
        (all().reason_contains("album"), &[2, 1]),
        (all().reason_contains("album").cause(Cause::Panic), &[2]),
        (all().kind("job"), &[4, 3, 2, 1]),
        (all().kind("other"), &[]),
        (all().older_than(secs(25)), &[2, 1]),
        (all().newer_than(secs(25)), &[4, 3]),
        (all().older_than(secs(15)).newer_than(secs(35)), &[3, 2]),
        (all().older_than(secs(35)).newer_than(secs(15)), &[]),
        (all().redriven_less_than(1), &[4, 3, 2, 1]),
        (all().redriven_less_than(0), &[]),
    ] {
        assert_eq!(numbers(&dead, &which).await?, expected, "{which:?}");
        assert_eq!(dead.count(&which).await?, expected.len() as u64, "{which:?}");
    }
    let (first, rest) = dead.page(&all(), 3, None).await?;
    let (second, end) = dead.page(&all(), 3, rest).await?;
    assert_eq!((first.len(), second.len(), end), (3, 1, None));
    Ok(())
}

#[tokio::test]
async fn a_dead_letter_is_found_by_task_id_with_the_task_from_its_blob() -> TestResult {
    let (server, account) = start().await?;
    let small = put_aside(&account, &job(1, "panic")).await?;
    let id = put_aside(&account, &large(2)).await?;
    let dead = dead(&account);
    let before = server.journal();
    let letter = dead.get(&small).await?.unwrap();
    assert_eq!(server.journal().since(&before).len(), 2);
    assert_eq!(letter.reason, "the handler panicked: the album has no cover");
    assert_eq!(letter.task, Inspected::Task(job(1, "panic")));
    assert_eq!(dead.get(&id).await?.unwrap().task, Inspected::Task(large(2)));
    let listed: Vec<_> = dead.list(&Selection::of(&*id)).try_collect().await?;
    let Inspected::Claim(blob) = &listed[0].task else { panic!("its task is in a blob") };
    assert_eq!(dead.get("another").await?, None);
    account.container("claims").blob(blob).delete().await?;
    let Inspected::Unreadable { reason, .. } = dead.get(&id).await?.unwrap().task else {
        panic!("its blob is gone")
    };
    assert_eq!(reason, "the blob with its task is gone");
    let summary = dead.redrive(&Selection::of(&*id)).await?;
    assert_eq!((summary.done, summary.failed), (0, 1), "the letter stays");
    assert_eq!(letters(&server.snapshot()).len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_redrive_ends_even_if_its_tasks_fail_again() -> TestResult {
    let (server, account) = start().await?;
    for number in 0..20 {
        put_aside(&account, &job(number, "reject")).await?;
    }
    let dead = dead(&account);
    let worker = worker(&account, false);
    let which = Selection::all();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let redrive = async {
        let summary = dead.redrive(&which).await;
        drop(stop);
        summary
    };
    let until = async { drop(stopped.await) };
    let (summary, counts) = futures_util::future::join(redrive, worker.run_until(until)).await;
    let (summary, _) = (summary?, counts?);
    assert_eq!((summary.matched, summary.done, summary.failed), (20, 20, 0));
    while worker.step().await? != Step::Idle {}
    assert_eq!(letters(&server.snapshot()).len(), 20, "each failed again, and has one letter");
    let bounded = Selection::all().redriven_less_than(1);
    assert_eq!(dead.redrive(&bounded).await?.matched, 0);
    Ok(())
}

#[tokio::test]
async fn a_redriven_task_has_new_attempts_and_keeps_foreign_properties() -> TestResult {
    let (server, account) = start().await?;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let text = format!(
        r#"{{"kind":"job","id":"a/1","task":{{"number":1,"fails":"reject"}},"traceparent":"{trace}","made":1e400}}"#
    );
    tasks(&account).queue().put(Body::text(&text)).send().await?;
    assert_eq!(worker(&account, false).step().await?, Step::Poisoned);
    let dead = dead(&account);
    let letter = dead.get("a/1").await?.unwrap();
    assert_eq!(letter.traceparent.as_deref(), Some(trace));
    assert_eq!(dead.redrive(&Selection::of("a/1")).await?.done, 1);
    let put = texts(&server.snapshot(), "jobs").remove(0);
    assert!(put.contains(&format!(r#""traceparent":"{trace}""#)), "{put}");
    assert!(put.contains(r#""made":1e400"#), "{put}");
    assert!(put.contains(r#""redriven":1"#) && !put.contains("givenUp"), "{put}");
    assert_eq!(worker(&account, true).step().await?, Step::Handled);
    assert_eq!(done(&server.snapshot()), [1]);
    assert_eq!(dead.get("a/1").await?, None);
    Ok(())
}

#[tokio::test]
async fn concurrent_redrives_lose_no_task_and_clean_up() -> TestResult {
    let (server, account) = start().await?;
    for number in 0..10 {
        put_aside(&account, &job(number, "error")).await?;
    }
    put_aside(&account, &large(10)).await?;
    let (dead, which) = (dead(&account), Selection::all());
    let both = futures_util::future::try_join(dead.redrive(&which), dead.redrive(&which));
    let (one, other) = both.await?;
    assert_eq!(one.done + other.done, 11, "each letter is deleted once");
    assert_eq!((one.failed, other.failed), (0, 0));
    assert_eq!(texts(&server.snapshot(), "jobs").len(), 11, "each task is put once");
    let mended = worker(&account, true);
    while mended.step().await? != Step::Idle {}
    assert_eq!(done(&server.snapshot()), (0..=10).collect::<Vec<_>>());
    assert_eq!(letters(&server.snapshot()), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn purging_deletes_dead_letters_and_their_blobs() -> TestResult {
    let (server, account) = start().await?;
    put_aside(&account, &job(1, "panic")).await?;
    put_aside(&account, &large(2)).await?;
    let dead = dead(&account);
    let summary = dead.purge(&Selection::all().cause(Cause::Rejected)).await?;
    assert_eq!((summary.matched, summary.done), (1, 1));
    assert!(account.container("claims").blobs().all().await?.is_empty());
    assert_eq!(numbers(&dead, &Selection::all()).await?, [1]);
    assert_eq!(dead.expire(Duration::from_secs(3600)).await?.matched, 0, "it is young");
    let clock = ManualClock::new(server.clock().now().to_chrono() + chrono::TimeDelta::hours(2));
    server.clock().advance(Duration::from_secs(7200));
    let later = StorageAccount::builder().connection_string(server.connection_string())?;
    let later = later.clock(clock).build()?;
    let dead = self::dead(&later);
    assert_eq!(dead.expire(Duration::from_secs(3600)).await?.done, 1);
    assert_eq!(letters(&server.snapshot()), [""; 0]);
    let tasks_left = || server.snapshot().table("deadletters").unwrap().entities().count();
    assert_eq!(tasks_left(), 2);
    assert_eq!(dead.forget(Duration::from_secs(3600)).await?, 1, "one was purged just now");
    assert_eq!(tasks_left(), 1);
    Ok(())
}

#[tokio::test]
async fn an_export_has_one_line_per_dead_letter() -> TestResult {
    let (_server, account) = start().await?;
    let one = put_aside(&account, &job(1, "panic")).await?;
    let two = put_aside(&account, &large(2)).await?;
    tasks(&account).queue().put(Body::text("no json")).send().await?;
    assert_eq!(worker(&account, false).step().await?, Step::Poisoned);
    let mut out = Vec::new();
    assert_eq!(dead(&account).export(&Selection::all(), &mut out).await?, 3);
    let lines = String::from_utf8(out)?;
    let mut found = BTreeMap::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line)?;
        found.insert(line["id"].as_str().unwrap().to_owned(), line);
    }
    let (one, two) = (found.remove(&one).unwrap(), found.remove(&two).unwrap());
    assert_eq!((&one["task"]["number"], &one["cause"]), (&1.into(), &"Panic".into()));
    assert_eq!(one["history"][0]["error"], one["reason"]);
    assert_eq!(two["task"]["pixels"].as_str().map(str::len), Some(70_000));
    assert!(two["claim"].is_string());
    let (_, unreadable) = found.pop_first().unwrap();
    assert_eq!(unreadable["text"], "no json");
    Ok(())
}

#[tokio::test]
async fn messages_of_other_programs_in_the_poison_queue_are_collected_once() -> TestResult {
    let (server, account) = start().await?;
    let dead = dead(&account);
    assert_eq!(dead.collect().await?.matched, 0, "there is no such queue");
    let poison = account.queue("jobs-poison");
    poison.create().await?;
    poison.put(Body::text(r#"{"number":7,"fails":"reject"}"#)).send().await?;
    poison
        .put(Body::base64(r#"{"kind":"job","id":"x","task":{"number":8,"fails":""}}"#))
        .send()
        .await?;
    poison.put(Body::text("no json")).send().await?;
    // Functions would delete them after five attempts; here the deletions are lost.
    let lost = server.inject(Fault::on(Operation::DeleteMessage).close_before_commit());
    let summary = dead.collect().await?;
    assert_eq!((summary.matched, summary.failed), (3, 3));
    drop(lost);
    assert_eq!(letters(&server.snapshot()).len(), 3);
    server.clock().advance(Duration::from_secs(61));
    let summary = dead.collect().await?;
    assert_eq!((summary.matched, summary.done), (3, 3));
    assert_eq!(letters(&server.snapshot()).len(), 3, "each has one letter");
    assert_eq!(texts(&server.snapshot(), "jobs-poison"), [""; 0]);
    let foreign = Selection::all().cause(Cause::Foreign);
    assert_eq!(dead.redrive(&foreign).await?.done, 3);
    let mended = worker(&account, true);
    let mut steps = [mended.step().await?, mended.step().await?, mended.step().await?];
    steps.sort_by_key(|step| format!("{step:?}"));
    assert_eq!(steps, [Step::Handled, Step::Handled, Step::Poisoned]);
    assert_eq!(done(&server.snapshot()), [7, 8]);
    Ok(())
}

#[tokio::test]
async fn rows_of_other_programs_are_listed_without_harm() -> TestResult {
    let (_server, account) = start().await?;
    put_aside(&account, &job(1, "panic")).await?;
    let dead = dead(&account);
    let mut foreign = rowkey::DynamicEntity::new("jobs", "letter_foreign");
    foreign.set("Reason", 7);
    dead.table().insert(&foreign).await?;
    dead.table().insert(&rowkey::DynamicEntity::new("jobs", "notes")).await?;
    dead.table().insert(&rowkey::DynamicEntity::new("others", "letter_x")).await?;
    let all: Vec<_> = dead.list(&Selection::all()).try_collect().await?;
    assert_eq!(all.len(), 2);
    assert!(matches!(&all[1].task, Inspected::Unreadable { text, .. } if text.is_empty()));
    let summary = dead.redrive(&Selection::all()).await?;
    assert_eq!((summary.done, summary.failed), (1, 1), "a row without a message stays");
    Ok(())
}

#[tokio::test]
async fn a_missing_table_has_no_dead_letters() -> TestResult {
    let (server, account) = start().await?;
    let elsewhere = tasks(&account).dead_letters_in(account.table("failures"));
    let dead = elsewhere.dead_letters();
    let all = Selection::all();
    assert_eq!(dead.count(&all).await?, 0);
    assert_eq!(dead.get("x").await?, None);
    assert!(dead.page(&all, 10, None).await?.0.is_empty());
    assert_eq!(dead.redrive(&all).await?.matched, 0);
    assert_eq!(dead.purge(&Selection::of("x")).await?.matched, 0);
    assert_eq!(dead.export(&all, &mut Vec::new()).await?, 0);
    assert_eq!(dead.forget(Duration::ZERO).await?, 0);
    elsewhere.put(&job(1, "reject")).await?;
    let program = Program { account: account.clone(), is_mended: false };
    assert_eq!(Worker::new(elsewhere, program).step().await?, Step::Poisoned);
    assert_eq!(dead.count(&all).await?, 1);
    assert_eq!(letters(&server.snapshot()), [""; 0], "they are in the other table");
    Ok(())
}
