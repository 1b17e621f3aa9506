//! A message that is worked on stays hidden; when it is lost, its handler stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{join, pending};
use rowkey::worker::{Attempt, Done, Handler, Step, Worker};
use rowkey::{ManualClock, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::once;

use super::{Deed, Resize, VISIBILITY, done, resize, standing, start, tasks, worker};

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A worker whose handler never ends, and whether it was dropped.
fn endless(account: &StorageAccount) -> (Worker<Resize, impl Handler<Resize>>, Arc<AtomicBool>) {
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    let handler = move |_: Resize, _: Attempt| {
        let dropped = Dropped(Arc::clone(&flag));
        async move {
            let _dropped = dropped;
            pending::<()>().await;
            Ok(Done::Applied)
        }
    };
    (Worker::new(tasks(account), handler).visibility(VISIBILITY), dropped)
}

/// Waits until a task sleeps on the clock for the `n`-th time.
async fn until_slept(clock: &ManualClock, n: usize) {
    while clock.slept().len() < n {
        tokio::task::yield_now().await;
    }
}

fn advance(server: &Server, clock: &ManualClock, by: Duration) {
    clock.advance(by);
    server.clock().advance(by);
}

#[tokio::test]
async fn a_handler_may_run_longer_than_the_visibility_timeout() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let (account, clock) = standing(&server)?;
    let time = (clock.clone(), server.clock().clone());
    let handler = move |_: Resize, attempt: Attempt| {
        let (clock, server) = time.clone();
        async move {
            for turn in 0..9 {
                // Until the renewal thread sleeps.
                until_slept(&clock, 2 * turn + 1).await;
                clock.advance(VISIBILITY / 3);
                server.advance(VISIBILITY / 3);
                while attempt.remaining() < VISIBILITY {
                    tokio::task::yield_now().await;
                }
            }
            Ok(Done::Applied)
        }
    };
    let slow = Worker::new(tasks(&account), handler).visibility(VISIBILITY);
    assert_eq!(slow.step().await?, Step::Handled);
    assert_eq!(server.journal().count(Operation::UpdateMessage), 9);
    assert_eq!(worker(&account).step().await?, Step::Idle, "with the last receipt it was deleted");
    advance(&server, &clock, VISIBILITY * 2);
    assert_eq!(worker(&account).step().await?, Step::Idle);
    Ok(())
}

#[tokio::test]
async fn a_handler_is_dropped_when_another_worker_has_the_message() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let (paused, clock) = standing(&server)?;
    let (endless, dropped) = endless(&paused);
    let (step, ()) = join(endless.step(), async {
        until_slept(&clock, 1).await;
        // This worker's machine was suspended, and its clock with it.
        server.clock().advance(VISIBILITY);
        assert_eq!(worker(&account).step().await.unwrap(), Step::Handled);
        assert!(!dropped.load(Ordering::Relaxed));
        clock.advance(VISIBILITY / 3);
    })
    .await;
    assert_eq!(step?, Step::Lost);
    assert!(dropped.load(Ordering::Relaxed));
    assert_eq!(endless.counts().lost, 1);
    Ok(())
}

#[tokio::test]
async fn a_handler_is_dropped_before_the_message_reappears_if_renewal_fails() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let (account, clock) = standing(&server)?;
    let account = once(&account);
    let (endless, dropped) = endless(&account);
    let down = server.inject(Fault::on(Operation::UpdateMessage).reject(ErrorCode::SERVER_BUSY));
    let mut waited = Duration::ZERO;
    let (step, ()) = join(endless.step(), async {
        while !dropped.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
            if waited < VISIBILITY && (down.hits() > 0 || clock.slept().len() == 1) {
                assert!(!dropped.load(Ordering::Relaxed));
                waited += Duration::from_secs(1);
                clock.advance(Duration::from_secs(1));
            }
            // Due renewals complete before the clock advances, so that the next wait has begun.
            if waited.as_secs() >= 10 && waited.as_secs().is_multiple_of(2) && waited < VISIBILITY {
                let due = (waited.as_secs() - 10) / 2 + 1;
                while down.hits() < due
                    || clock.slept().len() < 1 + 2 * usize::try_from(due).unwrap()
                {
                    tokio::task::yield_now().await;
                }
            }
        }
    })
    .await;
    assert_eq!(step?, Step::Lost);
    assert_eq!(waited, VISIBILITY);
    assert!(down.hits() > 1, "it is tried more than once");
    Ok(())
}

#[tokio::test]
async fn a_pending_renewal_is_awaited_because_it_changes_the_receipt() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let (account, clock) = standing(&server)?;
    let held = server.inject(Fault::on(Operation::UpdateMessage).hold());
    let (go, gone) = tokio::sync::watch::channel(false);
    let handler = move |_: Resize, _: Attempt| {
        let mut gone = gone.clone();
        async move {
            drop(gone.wait_for(|gone| *gone).await);
            Ok(Done::Applied)
        }
    };
    let worker = Worker::new(tasks(&account), handler).visibility(VISIBILITY);
    let (step, ()) = join(worker.step(), async {
        until_slept(&clock, 1).await;
        clock.advance(VISIBILITY / 3);
        held.wait_until_held().await;
        go.send_replace(true);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.journal().count(Operation::DeleteMessage), 0);
        held.release();
    })
    .await;
    assert_eq!(step?, Step::Handled);
    Ok(())
}

#[tokio::test]
async fn work_continues_after_a_lost_response_to_a_renewal() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let (standing, clock) = standing(&server)?;
    let _lost = server.inject(Fault::on(Operation::UpdateMessage).times(1).close_after_commit());
    let small = account.table("small");
    let handler = move |task: Resize, attempt: Attempt| {
        let (small, time) = (small.clone(), clock.clone());
        async move {
            until_slept(&time, 1).await;
            time.advance(VISIBILITY / 3);
            // The renewal, its end, and the wait for the next one, which follows the lost answer.
            until_slept(&time, 3).await;
            assert!(!attempt.remaining().is_zero());
            small.upsert(&super::Small { picture: task.picture, pixels: 0 }).await?;
            Ok(Done::Applied)
        }
    };
    let unlucky = Worker::new(tasks(&once(&standing)), handler).visibility(VISIBILITY);
    // The receipt is lost, so the message cannot be deleted.
    assert_eq!(unlucky.step().await?, Step::Lost);
    assert_eq!(done(&server.snapshot()), [7]);
    assert_eq!(worker(&account).step().await?, Step::Idle, "no other client has it yet");
    server.clock().advance(VISIBILITY);
    assert_eq!(worker(&account).step().await?, Step::Handled, "once more");
    Ok(())
}

#[tokio::test]
async fn the_worker_with_the_latest_receipt_deletes_the_message() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&super::large(7, Deed::Succeed)).await?;
    let held = server.inject(Fault::on(Operation::InsertOrReplaceEntity).times(1).hold());
    let (early, late) = (worker(&account), worker(&account));
    let (step, ()) = join(early.step(), async {
        held.wait_until_held().await;
        server.clock().advance(VISIBILITY);
        let batch = server.inject(Fault::on(Operation::DeleteMessage).times(1).hold());
        let (step, ()) = join(late.step(), async {
            batch.wait_until_held().await;
            held.release();
            // The early one is refused before the late one's deletion is done.
            while server.journal().count(Operation::DeleteMessage) < 2 {
                tokio::task::yield_now().await;
            }
            batch.release();
        })
        .await;
        assert_eq!(step.unwrap(), Step::Handled);
    })
    .await;
    assert_eq!(step?, Step::Lost);
    assert_eq!(super::claims(&account).await?.len(), 0);
    assert_eq!(done(&server.snapshot()), [7]);
    Ok(())
}

#[tokio::test]
async fn a_worker_that_lost_its_message_writes_no_dead_letter() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&super::large(7, Deed::Succeed)).await?;
    // The early one reads its blob after the late one has deleted it.
    let held = server.inject(Fault::on(Operation::GetBlob).times(1).hold());
    let early = worker(&account);
    let (step, ()) = join(early.step(), async {
        held.wait_until_held().await;
        server.clock().advance(VISIBILITY);
        assert_eq!(worker(&account).step().await.unwrap(), Step::Handled);
        held.release();
    })
    .await;
    assert_eq!(step?, Step::Lost);
    assert_eq!(super::letters(&server.snapshot()).len(), 0);
    Ok(())
}
