//! `rowkey dead-letters`, for the dead letters of a worker.

use rowkey::queue::Body;
use rowkey::worker::dead_letters::DeadLetters;
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{Error, ErrorKind, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{Account, member};

/// A job that the worker refuses with this reason, or with an error.
#[derive(Serialize, Deserialize)]
struct Job {
    number: u64,
    fails: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pixels: String,
}

impl Task for Job {
    const KIND: &'static str = "job";
}

fn job(number: u64, fails: &str) -> Job {
    Job { number, fails: fails.to_owned(), pixels: String::new() }
}

fn tasks(account: &Account) -> Tasks<Job> {
    let text = account.server.connection_string();
    let storage = StorageAccount::from_connection_string(text).unwrap();
    Tasks::new(storage.queue("jobs")).claims(storage.container("claims"))
}

fn letters(account: &Account) -> DeadLetters<Job> {
    tasks(account).dead_letters()
}

async fn step(account: &Account) -> Step {
    let worker = Worker::new(tasks(account), async |job: Job, _: Attempt| match &*job.fails {
        "missing" => Err(Error::refused(ErrorKind::NotFound, "there is no such album")),
        reason => Ok(Done::Poison(reason.to_owned())),
    });
    worker.max_attempts(1).step().await.unwrap()
}

/// Puts a job that becomes a dead letter, and returns its id.
async fn put_aside(account: &Account, job: &Job) -> String {
    let id = tasks(account).put(job).await.unwrap();
    assert_eq!(step(account).await, Step::Poisoned);
    id.to_string()
}

async fn with_jobs() -> Account {
    let account = Account::start().await;
    tasks(&account).create_if_missing().await.unwrap();
    account
}

fn objects(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_by_queue_by_task_and_by_reason() {
    let account = Account::start().await;
    // A table that does not exist has none.
    assert_eq!(account.ok(["dead-letters", "list"]), "");
    assert_eq!(account.ok(["dead-letters", "list", "jobs"]), "");
    tasks(&account).create_if_missing().await.unwrap();
    let first = put_aside(&account, &job(1, "no heic")).await;
    let second = put_aside(&account, &job(2, "no heic")).await;
    let third = put_aside(&account, &job(3, "missing")).await;

    assert_eq!(account.ok(["dead-letters", "list"]), "{\"queue\":\"jobs\",\"dead_letters\":3}\n");
    let listed = objects(&account.ok(["dead-letters", "list", "jobs"]));
    let ids: Vec<_> = listed.iter().map(|letter| &letter["id"]).collect();
    for id in [&first, &second, &third] {
        assert!(ids.contains(&&Value::from(&**id)), "{ids:?}");
    }
    let refused = listed.iter().find(|letter| letter["id"] == *first).unwrap();
    let expected =
        json!({ "kind": "job", "cause": "Rejected", "reason": "no heic", "redriven": 0 });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(refused[name], *value, "{name}");
    }
    assert!(refused["put_aside"].as_str().unwrap().ends_with('Z'), "{refused}");

    let groups = objects(&account.ok(["dead-letters", "list", "jobs", "--by-reason"]));
    let groups: Vec<_> = groups.iter().map(|it| (&it["cause"], &it["dead_letters"])).collect();
    assert_eq!(groups, [(&json!("Rejected"), &json!(2)), (&json!("NotFound"), &json!(1))]);

    let list = |flags: &[&str]| {
        let args = ["dead-letters", "list", "jobs"].iter().chain(flags);
        account.ok(args).lines().count()
    };
    for (flags, count) in [
        (&["--limit", "2"][..], 2),
        (&["--cause", "NotFound"], 1),
        (&["--cause", "NotFound", "--cause", "Rejected"], 3),
        (&["--kind", "other"], 0),
        (&["--reason-contains", "heic"], 2),
        (&["--newer-than", "1h"], 3),
        (&["--older-than", "1h"], 0),
        (&["--redriven-less-than", "1"], 3),
        (&["--table", "others"], 0),
    ] {
        assert_eq!(list(flags), count, "{flags:?}");
    }
    let error = account.fails(2, ["dead-letters", "list", "jobs", "--cause", "notfound"]);
    assert!(error.contains("such as NotFound"), "{error}");
    account.fails(2, ["dead-letters", "list", "--cause", "NotFound"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_shown_with_its_task_and_history() {
    let account = with_jobs().await;
    let id = put_aside(&account, &job(7, "missing")).await;
    let line = account.ok(["dead-letters", "show", "jobs", &id]);
    let shown: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(shown["task"], json!({ "number": 7, "fails": "missing" }));
    assert_eq!((&shown["kind"], &shown["cause"]), (&json!("job"), &json!("NotFound")));
    assert!(shown["history"][0]["error"].as_str().unwrap().contains("no such album"), "{shown}");
    let table = account.ok(["dead-letters", "show", "jobs", &id, "--output", "table"]);
    assert!(table.contains("{\"number\":7,\"fails\":\"missing\"}\n"), "{table}");
    let csv = account.ok(["dead-letters", "show", "jobs", &id, "--output", "csv"]);
    assert!(csv.starts_with("queue,id,kind,cause,reason,"), "{csv}");

    let error = account.fails(3, ["dead-letters", "show", "jobs", "other"]);
    assert!(error.contains("`rowkey dead-letters list jobs`"), "{error}");

    // What is no task is shown as it was put.
    let queue = tasks(&account).queue().clone();
    queue.put(Body::text("by \u{7f}hand")).send().await.unwrap();
    assert_eq!(step(&account).await, Step::Poisoned);
    let list = ["dead-letters", "list", "jobs", "--cause", "Unreadable"];
    let id = member(&account.ok(list), "id");
    let shown = account.ok(["dead-letters", "show", "jobs", &id]);
    assert_eq!(member(&shown, "text"), "by \u{7f}hand");
    assert!(member(&shown, "problem").contains("neither JSON"), "{shown}");
    let table = account.ok(["dead-letters", "show", "jobs", &id, "--output", "table"]);
    assert!(table.contains("by \\u{7f}hand\n") && !table.contains('\u{7f}'), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_task_is_the_same_task_for_its_worker() {
    let account = with_jobs().await;
    let id = put_aside(&account, &job(1, "missing")).await;
    let other = put_aside(&account, &job(2, "no heic")).await;
    let redriven = account.ok(["dead-letters", "redrive", "jobs", &id, "--yes"]);
    assert_eq!(
        redriven,
        "{\"queue\":\"jobs\",\"matched\":1,\"redriven\":1,\"changed\":0,\"failed\":0}\n"
    );
    // Visible at once, of its own kind, and the second failure belongs to the same task.
    assert!(account.ok(["queue", "peek", "jobs"]).contains(&format!(
        "{{\\\"kind\\\":\\\"job\\\",\\\"id\\\":\\\"{id}\\\",\\\"task\\\":{{\\\"number\\\":1"
    )));
    assert_eq!(step(&account).await, Step::Poisoned);
    let letter = letters(&account).get(&id).await.unwrap().unwrap();
    assert_eq!((letter.redriven, letter.history.len()), (1, 2));

    let all = account.ok(["dead-letters", "redrive", "jobs", "--redriven-less-than", "1", "--yes"]);
    assert!(all.contains("\"matched\":1,\"redriven\":1"), "{all}");
    assert!(letters(&account).get(&other).await.unwrap().is_none());
    account.fails(3, ["dead-letters", "redrive", "jobs", &other, "--yes"]);

    let base64 = ["dead-letters", "redrive", "jobs", "--all", "--base64", "--yes"];
    account.ok(base64);
    let peeked = account.ok(["queue", "peek", "jobs"]);
    assert!(member(peeked.lines().last().unwrap(), "decoded").contains(&id), "{peeked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn purged_dead_letters_are_gone_and_their_tasks_too() {
    let account = with_jobs().await;
    let id = put_aside(&account, &job(1, "no heic")).await;
    put_aside(&account, &job(2, "missing")).await;
    let purged = account.ok(["dead-letters", "purge", "jobs", "--cause", "Rejected", "--yes"]);
    assert_eq!(
        purged,
        "{\"queue\":\"jobs\",\"matched\":1,\"purged\":1,\"changed\":0,\"failed\":0}\n"
    );
    account.fails(3, ["dead-letters", "purge", "jobs", &id, "--yes"]);
    account.ok(["dead-letters", "purge", "jobs", "--all", "--yes"]);
    assert_eq!(account.ok(["dead-letters", "list"]), "");
    assert_eq!(account.ok(["queue", "peek", "jobs"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_in_a_blob_is_not_changed_before_its_container_is_named() {
    let account = with_jobs().await;
    let large = Job { pixels: "#".repeat(70_000), ..job(1, "no heic") };
    let id = put_aside(&account, &large).await;
    let shown = account.ok(["dead-letters", "show", "jobs", &id]);
    assert!(member(&shown, "claim").starts_with("jobs/"), "{shown}");
    let shown = account.ok(["dead-letters", "show", "jobs", &id, "--claims", "claims"]);
    assert!(shown.contains("######"), "{shown}");

    for verb in ["redrive", "purge"] {
        let done = account.run(["dead-letters", verb, "jobs", &id, "--yes"]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.out.contains("\"failed\":1") && done.err.contains("--claims"), "{done:?}");
        assert!(letters(&account).get(&id).await.unwrap().is_some(), "{verb}");
    }
    account.ok(["dead-letters", "redrive", "jobs", &id, "--claims", "claims", "--yes"]);
    assert_eq!(step(&account).await, Step::Poisoned);
    account.ok(["dead-letters", "purge", "jobs", &id, "--claims", "claims", "--yes"]);
    assert!(letters(&account).get(&id).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_not_changed_without_a_selection_and_a_confirmation() {
    let account = with_jobs().await;
    let id = put_aside(&account, &job(1, "no heic")).await;
    for verb in ["redrive", "purge"] {
        let error = account.fails(2, ["dead-letters", verb, "jobs", "--yes"]);
        assert!(error.contains("or --all"), "{error}");
        let error = account.fails(2, ["dead-letters", verb, "jobs", "--all"]);
        assert!(error.contains(&format!("{verb} 1 dead letters of queue jobs")), "{error}");
        account.fails(2, ["dead-letters", verb, "jobs", &id, "--all", "--yes"]);
    }
    assert!(letters(&account).get(&id).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_that_fails_names_the_reason_and_keeps_the_dead_letter() {
    let account = with_jobs().await;
    let id = put_aside(&account, &job(1, "no heic")).await;
    let full =
        Fault::on(Operation::PutMessage).reject(ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH);
    let fault = account.server.inject(full);
    let done = account.run(["dead-letters", "redrive", "jobs", "--all", "--yes"]);
    assert_eq!(done.code, 5, "{done:?}");
    assert!(done.err.contains("1 of 1 dead letters were not redriven; the first: "), "{done:?}");
    assert!(!done.err.contains(&id), "{done:?}");
    drop(fault);
    assert!(letters(&account).get(&id).await.unwrap().is_some());
}
