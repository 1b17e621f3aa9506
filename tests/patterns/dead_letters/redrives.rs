//! Redrives: calls at the same time, in one program and in two, and calls that end between their requests.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join, select};
use rowkey::StorageAccount;
use rowkey::worker::dead_letters::{DeadLetters, Selection};
use rowkey::worker::{Attempt, Done, Step, Worker};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;

use super::{Job, dead, job, large, letters, put_aside, start, tasks, texts};

/// Longer than a redriven message is hidden.
const LATER: Duration = Duration::from_secs(61);

/// Works until no message is left, and returns how often the handler ran.
async fn handled(server: &Server, account: &StorageAccount) -> TestResult<usize> {
    let worker = Worker::new(tasks(account), |_: Job, _: Attempt| async { Ok(Done::Applied) });
    while !texts(&server.snapshot(), "jobs").is_empty() {
        while worker.step().await? != Step::Idle {}
        server.clock().advance(LATER);
    }
    Ok(usize::try_from(worker.counts().handled)?)
}

#[tokio::test]
async fn two_redrives_at_once_put_each_task_once() -> TestResult {
    for is_one_program in [true, false] {
        let (server, account) = start().await?;
        for number in 0..20 {
            put_aside(&account, &job(number, "error")).await?;
        }
        put_aside(&account, &large(20)).await?;
        let one = dead(&account);
        let other = if is_one_program {
            one.clone()
        } else {
            dead(&rowkey_tests::sweep::account(&server)?)
        };
        let all = Selection::all();
        let (a, b) = join(one.redrive(&all), other.redrive(&all)).await;
        let (a, b) = (a?, b?);
        assert_eq!((a.done + b.done, a.failed + b.failed), (21, 0), "{a:?} {b:?}");
        assert_eq!(texts(&server.snapshot(), "jobs").len(), 21);
        assert_eq!(handled(&server, &account).await?, 21);
        assert_eq!(letters(&server.snapshot()), [""; 0]);
    }
    Ok(())
}

/// The call ends after it has put the message, and another call redrives the same letter.
#[tokio::test]
async fn a_task_is_done_once_if_a_redrive_ends_and_is_called_again() -> TestResult {
    let (server, account) = start().await?;
    put_aside(&account, &job(1, "error")).await?;
    let held = server.inject(Fault::on(Operation::Transaction).times(1).hold());
    {
        let (dead, all) = (dead(&account), Selection::all());
        let (redrive, held) = (pin!(dead.redrive(&all)), pin!(held.wait_until_held()));
        assert!(matches!(select(held, redrive).await, Either::Left(_)));
    }
    assert_eq!(dead(&account).redrive(&Selection::all()).await?.done, 1);
    assert_eq!(texts(&server.snapshot(), "jobs").len(), 2);
    // The transaction of the first call comes late.
    held.release();
    assert_eq!(handled(&server, &account).await?, 1, "the message of the first call is dropped");
    assert_eq!(letters(&server.snapshot()), [""; 0]);
    Ok(())
}

/// The call ends after it has put the message: the worker that receives it completes the redrive.
#[tokio::test]
async fn a_redrive_that_ended_is_completed_by_the_worker() -> TestResult {
    let (server, account) = start().await?;
    put_aside(&account, &job(1, "error")).await?;
    let lost = server.inject(Fault::on(Operation::Transaction).close_before_commit());
    assert_eq!(dead(&account).redrive(&Selection::all()).await?.failed, 1);
    drop(lost);
    server.clock().advance(LATER);
    assert_eq!(handled(&server, &account).await?, 1);
    assert_eq!(letters(&server.snapshot()), [""; 0], "its letter is gone");
    assert_eq!(dead(&account).redrive(&Selection::all()).await?.matched, 0);
    assert_eq!(handled(&server, &account).await?, 0);
    Ok(())
}

/// The transaction that deletes the letter takes longer than the message is hidden: a worker receives it first.
#[tokio::test]
async fn a_slow_redrive_of_a_task_that_a_worker_has_begun_counts_as_done() -> TestResult {
    let (server, account) = start().await?;
    put_aside(&account, &job(1, "error")).await?;
    let held = server.inject(Fault::on(Operation::Transaction).times(1).hold());
    let (dead, all) = (dead(&account), Selection::all());
    let (summary, ()) = join(dead.redrive(&all), async {
        held.wait_until_held().await;
        server.clock().advance(LATER);
        assert_eq!(handled(&server, &account).await.unwrap(), 1);
        held.release();
    })
    .await;
    let summary = summary?;
    assert_eq!((summary.done, summary.changed, summary.failed), (1, 0, 0));
    assert_eq!(letters(&server.snapshot()), [""; 0]);
    assert_eq!(handled(&server, &account).await?, 0);
    Ok(())
}

/// Two programs redrive one letter, and the first is slow: a worker has done the task by then.
#[tokio::test]
async fn the_message_of_a_redrive_that_another_one_overtook_is_taken_back() -> TestResult {
    let (server, account) = start().await?;
    put_aside(&account, &job(1, "error")).await?;
    let held = server.inject(Fault::on(Operation::Transaction).times(1).hold());
    let (slow, all) = (dead(&account), Selection::all());
    let (summary, ()) = join(slow.redrive(&all), async {
        held.wait_until_held().await;
        let fast: DeadLetters<Job> = dead(&account);
        assert_eq!(fast.redrive(&all).await.unwrap().done, 1);
        held.release();
    })
    .await;
    let summary = summary?;
    assert_eq!((summary.done, summary.changed, summary.failed), (0, 1, 0));
    assert_eq!(texts(&server.snapshot(), "jobs").len(), 1);
    assert_eq!(handled(&server, &account).await?, 1);
    Ok(())
}

/// A letter of a queue whose tasks share a table with others.
#[tokio::test]
async fn a_redrive_while_a_worker_consumes_puts_and_does_each_task_once() -> TestResult {
    let (server, account) = start().await?;
    for number in 0..20 {
        put_aside(&account, &job(number, "error")).await?;
    }
    let worker = Worker::new(tasks(&account), |_: Job, _: Attempt| async { Ok(Done::Applied) });
    // Waits of five seconds and more never end by the clock of `start`, and the queue can be empty for a while.
    let worker = worker.concurrency(4).idle_backoff(Duration::ZERO, Duration::from_secs(1));
    let (dead, all) = (dead(&account), Selection::all());
    let done = std::future::poll_fn(|_| match worker.counts().handled {
        20.. => std::task::Poll::Ready(()),
        _ => std::task::Poll::Pending,
    });
    let redrive = async {
        // The worker has found the queue empty before.
        while server.journal().count(Operation::GetMessages) < 26 {
            tokio::task::yield_now().await;
        }
        dead.redrive(&all).await
    };
    let (summary, counts) = join(redrive, worker.run_until(done)).await;
    assert_eq!((summary?.done, counts?.handled), (20, 20));
    assert_eq!(letters(&server.snapshot()), [""; 0]);
    assert_eq!(handled(&server, &account).await?, 0);
    Ok(())
}
