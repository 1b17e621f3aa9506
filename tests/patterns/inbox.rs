//! The inbox: an effect happens once, however often its task is delivered and if any request fails.

use std::time::Duration;

use rowkey::store::Deciding;
use rowkey::worker::inbox::Inbox;
use rowkey::worker::steps::{self, Steps};
use rowkey::worker::{Attempt, Handler, Step, Task, Tasks, Worker};
use rowkey::{DynamicEntity, Entity, Error, ErrorKind, ManualClock, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{self, once, stopped_at_every_request, sweep};
use serde::{Deserialize, Serialize};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{owner}", row = "balance")]
struct Balance {
    owner: String,
    cents: i64,
}

#[derive(Serialize, Deserialize)]
struct Deposit {
    cents: i64,
}

impl Task for Deposit {
    const KIND: &'static str = "deposit";
}

fn deposits(account: &StorageAccount) -> Tasks<Deposit> {
    Tasks::new(account.queue("deposits"))
}

fn inbox(account: &StorageAccount) -> Inbox {
    Inbox::new(&Deciding::new(&account.table("balances")))
}

/// A worker that adds to a balance, which must happen once.
fn worker(account: &StorageAccount) -> Worker<Deposit, impl Handler<Deposit> + use<>> {
    let (balances, inbox) = (Deciding::new(&account.table("balances")), inbox(account));
    let handler = move |task: Deposit, attempt: Attempt| {
        let (balances, inbox) = (balances.clone(), inbox.clone());
        async move {
            let key = Balance::key("ada/bo");
            let effect = async |row: &DynamicEntity| {
                let mut balance = balances.get(key.clone()).await?.expect("it is there");
                balance.entity.cents += task.cents;
                let transaction = balances.table().transaction().replace(&balance).insert(row);
                transaction.submit().await.map(drop)
            };
            inbox.once(&key, &attempt, effect).await
        }
    };
    Worker::new(deposits(account), handler).retry_backoff(Duration::ZERO, Duration::ZERO)
}

async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    account.table("balances").create().await?;
    account.table("balances").insert(&Balance { owner: "ada/bo".into(), cents: 0 }).await?;
    deposits(&account).create_if_missing().await?;
    Ok((server, account))
}

fn cents(snapshot: &Snapshot) -> i64 {
    let table = snapshot.table("balances").unwrap();
    let mut rows = table.entities().filter(|row| row.row_key() == "balance");
    let value = rows.next().and_then(|row| row.get("cents"));
    (0..1000_i64).find(|cents| value == Some((*cents).into())).expect("a balance")
}

async fn work(account: &StorageAccount) -> TestResult {
    for _ in 0..20 {
        if worker(account).step().await? == Step::Idle {
            return Ok(());
        }
    }
    Err("there is always something to do".into())
}

#[tokio::test]
async fn a_task_put_twice_with_one_key_has_one_effect() -> TestResult {
    let (server, account) = start().await?;
    let lost = server.inject(Fault::on(Operation::PutMessage).times(1).close_after_commit());
    let tasks = deposits(&once(&account));
    assert!(tasks.put_with_key("order-7", &Deposit { cents: 100 }).await.is_err());
    assert_eq!(lost.hits(), 1);
    let id = tasks.put_with_key("order-7", &Deposit { cents: 100 }).await?;
    assert_eq!(tasks.put_with_key("order-7", &Deposit { cents: 100 }).await?, id);
    assert_ne!(tasks.put_with_key("order-8", &Deposit { cents: 5 }).await?, id);
    let worker = worker(&account);
    let mut steps = Vec::new();
    for _ in 0..5 {
        steps.push(worker.step().await?);
    }
    assert_eq!(
        steps,
        [Step::Handled, Step::Suppressed, Step::Suppressed, Step::Handled, Step::Idle]
    );
    assert_eq!(cents(&server.snapshot()), 105);
    Ok(())
}

#[tokio::test]
async fn the_effect_happens_once_if_any_request_fails() -> TestResult {
    let (server, account) = start().await?;
    deposits(&account).put(&Deposit { cents: 100 }).await?;
    let invariants = |snapshot: &Snapshot| {
        assert_eq!(cents(snapshot), 100);
        assert_eq!(snapshot.queue("deposits").unwrap().messages().count(), 0);
        assert_eq!(snapshot.table("deadletters").unwrap().entities().count(), 0);
    };
    for repeats in [true, false] {
        sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                worker(&account).step().await.is_ok()
            },
            async |account, _| work(account).await,
            |snapshot, _| invariants(snapshot),
        )
        .await?;
    }
    stopped_at_every_request(
        &server,
        async |account| worker(account).step().await.is_ok(),
        async |account| work(account).await,
        invariants,
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_failed_effect_returns_its_own_error() -> TestResult {
    let (_server, account) = start().await?;
    let inbox = inbox(&account);
    deposits(&account).put(&Deposit { cents: 1 }).await?;
    let handler = move |_: Deposit, attempt: Attempt| {
        let inbox = inbox.clone();
        async move {
            let conflict = Error::refused(ErrorKind::Conflict, "another writer was faster");
            inbox.once(&Balance::key("ada/bo"), &attempt, async |_| Err(conflict)).await
        }
    };
    let worker = Worker::new(deposits(&account), handler);
    assert_eq!(worker.step().await?, Step::Retried);
    Ok(())
}

#[tokio::test]
async fn rows_expire_and_tasks_older_than_them_are_rejected() -> TestResult {
    let (server, _) = start().await?;
    let clock = ManualClock::new(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    deposits(&account).put(&Deposit { cents: 100 }).await?;
    assert_eq!(worker(&account).step().await?, Step::Handled);
    assert_eq!(inbox(&account).expire().await?.total.right, 0);
    deposits(&account).put(&Deposit { cents: 7 }).await?;
    clock.advance(DAY * 31);
    server.clock().advance(DAY * 31);
    assert_eq!(inbox(&account).expire().await?.total.right, 1);
    assert_eq!(worker(&account).step().await?, Step::Poisoned);
    assert_eq!(cents(&server.snapshot()), 100);
    Ok(())
}

/// A second delivery begins just before the rows expire, takes a while, and the rows are deleted meanwhile, by a
/// program whose clock is a quarter of an hour ahead. The first one was behind by as much.
#[tokio::test]
async fn a_delivery_that_begins_before_the_rows_expire_has_no_second_effect() -> TestResult {
    const SKEW: Duration = Duration::from_secs(14 * 60);
    // The longest handler of the default worker, and of one whose limit is longer than rows are kept in addition.
    for (limit, keep) in [(3600, DAY * 30), (3600, DAY / 24), (86_400 * 2, DAY * 30)] {
        let (limit, seconds) = (Duration::from_secs(limit), Duration::from_secs(1));
        let (server, _) = start().await?;
        let now = server.clock().now().to_chrono();
        let on = |clock: &ManualClock| -> rowkey::Result<StorageAccount> {
            let account =
                StorageAccount::builder().connection_string(server.connection_string())?;
            account.clock(clock.clone()).build()
        };
        let (behind, right, ahead) =
            (ManualClock::new(now - SKEW), ManualClock::new(now), ManualClock::new(now + SKEW));
        let advance = |by: Duration| {
            server.clock().advance(by);
            for clock in [&behind, &right, &ahead] {
                clock.advance(by);
            }
        };
        let tasks = deposits(&on(&right)?);
        for _ in 0..2 {
            tasks.put_with_key("order-7", &Deposit { cents: 100 }).await?;
        }
        let inbox = |account: &StorageAccount| inbox(account).keep(keep);
        // The first delivery, with the row of a clock that is behind.
        let row = inbox(&on(&behind)?);
        let message = tasks.queue().receive(1, DAY * 6).await?.remove(0);
        let id = message.text().split('"').nth(7).ok_or("no id")?.to_owned();
        let balances = on(&right)?.table("balances");
        let paid = Balance { owner: "ada/bo".into(), cents: 100 };
        let row = row.row(&Balance::key("ada/bo"), &id)?;
        balances.transaction().upsert(&paid).insert(&row).submit().await?;
        tasks.queue().delete(&message).await?;

        // The second one, on a clock that is behind: the task is as old as it may be.
        advance(keep + SKEW.saturating_sub(seconds * 5));
        let slow = on(&behind)?;
        let (of_effect, expiring) = (Deciding::new(&slow.table("balances")), inbox(&on(&ahead)?));
        let of_handler = inbox(&slow);
        let clocks = (server.clock().clone(), [behind.clone(), right.clone(), ahead.clone()]);
        let handler = move |task: Deposit, attempt: Attempt| {
            let (balances, inbox, expiring) =
                (of_effect.clone(), of_handler.clone(), expiring.clone());
            let (server, clocks) = clocks.clone();
            async move {
                let key = Balance::key("ada/bo");
                let effect = async |row: &DynamicEntity| {
                    let took = limit.saturating_sub(seconds);
                    server.advance(took);
                    for clock in &clocks {
                        clock.advance(took);
                    }
                    expiring.expire().await.expect("the rows can be read");
                    let mut balance = balances.get(key.clone()).await?.expect("it is there");
                    balance.entity.cents += task.cents;
                    let transaction = balances.table().transaction().replace(&balance).insert(row);
                    transaction.submit().await.map(drop)
                };
                inbox.once(&key, &attempt, effect).await
            }
        };
        let worker = Worker::new(deposits(&slow), handler).visibility(DAY * 6).time_limit(limit);
        assert!(matches!(worker.step().await?, Step::Suppressed | Step::Poisoned));
        assert_eq!(cents(&server.snapshot()), 100, "{limit:?} {keep:?}");
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
struct Employee {
    department: String,
    id: u32,
    since: i32,
}

#[derive(Serialize, Deserialize)]
struct Archive {
    id: u32,
}

impl Task for Archive {
    const KIND: &'static str = "archive";
}

/// Archives an employee, by steps that leave a row in the inbox.
fn archiver(account: &StorageAccount) -> Worker<Archive, impl Handler<Archive> + use<>> {
    let (current, archive) =
        (Deciding::new(&account.table("current")), Deciding::new(&account.table("archive")));
    let inbox = Inbox::new(&current);
    let handler = move |task: Archive, attempt: Attempt| {
        let (current, archive, inbox) = (current.clone(), archive.clone(), inbox.clone());
        async move {
            let key = Employee::key("sales", task.id);
            let read = async |row| {
                let there = archive.get(key.clone()).await?;
                let Some(employee) = current.get(key.clone()).await? else { return Ok(None) };
                let steps = Steps::new()
                    .write(&archive, there.as_ref(), employee.entity.clone())
                    .delete_once(&current, &employee, row);
                Ok(Some(steps))
            };
            Box::pin(steps::run_once(&inbox, &key, &attempt, read)).await
        }
    };
    Worker::new(Tasks::new(account.queue("leavers")), handler)
        .retry_backoff(Duration::ZERO, Duration::ZERO)
}

/// The program of the book: archived, hired again, and the task is delivered once more, however it ended.
#[tokio::test]
async fn a_redelivered_task_does_not_repeat_its_effect_on_a_new_entity() -> TestResult {
    for hired in [true, false] {
        let (server, account) = start().await?;
        for table in ["current", "archive"] {
            account.table(table).create().await?;
        }
        let tasks = Tasks::<Archive>::new(account.queue("leavers"));
        tasks.create_if_missing().await?;
        let employee = |since| Employee { department: "sales".into(), id: 7, since };
        if hired {
            account.table("current").insert(&employee(2020)).await?;
        }
        tasks.put(&Archive { id: 7 }).await?;
        let work = async |account: &StorageAccount| -> TestResult {
            while archiver(account).step().await? != Step::Idle {}
            Ok(())
        };
        let runs = stopped_at_every_request(
            &server,
            async |account| archiver(account).step().await.is_ok(),
            async |account| {
                // Hired again before the message comes again, if the worker had come so far.
                let current = account.table("current");
                let key = Employee::key("sales", 7);
                let is_archived = hired && current.get(key.clone()).await?.is_none();
                if is_archived {
                    current.insert(&employee(2026)).await?;
                }
                work(account).await?;
                if !is_archived {
                    current.insert(&employee(2026)).await?;
                }
                work(account).await
            },
            |snapshot| {
                let current = snapshot.table("current").unwrap();
                let row = current.entity("sales", "id_000007");
                assert_eq!(row.and_then(|row| row.get("since")), Some(2026.into()));
            },
        )
        .await?;
        assert!(runs.requests >= 5);
    }
    Ok(())
}
