//! A worker that runs: how many tasks at a time, how it waits, and how it stops.

use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join;
use rowkey::ErrorKind;
use rowkey::worker::{Attempt, Done, Handler, Worker};
use rowkey_emulator::{ErrorCode, Fault, Operation};
use rowkey_tests::TestResult;
use rowkey_tests::sweep;

use super::{Deed, Resize, done, resize, standing, start, tasks, worker};

/// Completes when the condition holds, looking each time the worker is polled.
fn when(condition: impl Fn() -> bool + Send) -> impl Future<Output = ()> + Send {
    poll_fn(move |_| if condition() { Poll::Ready(()) } else { Poll::Pending })
}

#[tokio::test]
async fn a_worker_receives_and_processes_up_to_its_concurrency() -> TestResult {
    let (server, account) = start().await?;
    for picture in 0..64 {
        tasks(&account).put(&resize(picture, Deed::Succeed)).await?;
    }
    let (now, most): (&AtomicUsize, &AtomicUsize) =
        (Box::leak(Box::default()), Box::leak(Box::default()));
    let handler = move |_: Resize, _: Attempt| async move {
        most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        while now.load(Ordering::Relaxed) < 32 && most.load(Ordering::Relaxed) < 32 {
            tokio::task::yield_now().await;
        }
        now.fetch_sub(1, Ordering::Relaxed);
        Ok(Done::Applied)
    };
    let many = Worker::new(tasks(&account), handler).concurrency(32);
    let counts = many.run_until(when(|| many.counts().handled == 64)).await?;
    assert_eq!((counts.handled, most.load(Ordering::Relaxed)), (64, 32));
    assert!(server.journal().count(Operation::GetMessages) < 64, "not one request for each");
    Ok(())
}

#[tokio::test]
async fn the_default_concurrency_is_one() -> TestResult {
    let (_server, account) = start().await?;
    for picture in 0..5 {
        tasks(&account).put(&resize(picture, Deed::Succeed)).await?;
    }
    let order: &Mutex<Vec<u64>> = Box::leak(Box::default());
    let handler = move |task: Resize, _: Attempt| async move {
        order.lock().unwrap().push(task.picture);
        tokio::task::yield_now().await;
        order.lock().unwrap().push(task.picture);
        Ok(Done::Applied)
    };
    let one = Worker::new(tasks(&account), handler);
    one.run_until(when(|| one.counts().handled == 5)).await?;
    assert_eq!(*order.lock().unwrap(), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
    Ok(())
}

#[tokio::test]
async fn an_idle_worker_doubles_its_polling_delay() -> TestResult {
    let (server, _) = start().await?;
    let (account, clock) = sweep::waiting(&server)?;
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(16));
    let idle = worker(&account).idle_backoff(least, most);
    idle.run_until(when(|| clock.slept().len() == 8)).await?;
    let longest = [1, 2, 4, 8, 16, 16, 16, 16].map(Duration::from_secs);
    for (slept, longest) in clock.slept().into_iter().zip(longest) {
        assert!(slept >= longest / 2 && slept <= longest, "{slept:?} of {longest:?}");
    }
    assert_eq!(server.journal().count(Operation::GetMessages), 8);
    Ok(())
}

#[tokio::test]
async fn an_idle_worker_receives_tasks_of_its_own_program_at_once() -> TestResult {
    let (server, _) = start().await?;
    // Time stands still: only the put can end the wait.
    let (account, clock) = standing(&server)?;
    let tasks = tasks(&account);
    let worker = Worker::new(tasks.clone(), |_: Resize, _: Attempt| async { Ok(Done::Applied) });
    let (counts, ()) = join(worker.run_until(when(|| worker.counts().handled == 1)), async {
        while clock.slept().is_empty() {
            tokio::task::yield_now().await;
        }
        tasks.put(&resize(7, Deed::Succeed)).await.unwrap();
    })
    .await;
    assert_eq!(counts?.handled, 1);
    Ok(())
}

#[tokio::test]
async fn shutdown_finishes_received_tasks_and_receives_no_more() -> TestResult {
    let (server, account) = start().await?;
    for picture in 0..8 {
        tasks(&account).put(&resize(picture, Deed::Succeed)).await?;
    }
    let (account, _) = standing(&server)?;
    let held = server.inject(Fault::on(Operation::InsertOrReplaceEntity).times(4).hold());
    let worker = worker(&account).concurrency(4);
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let shutdown = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
    let (counts, ()) = join(worker.run_until(shutdown), async {
        held.wait_until_hit(4).await;
        stop.send_replace(true);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        held.release();
    })
    .await;
    assert_eq!(counts?.handled, 4);
    assert_eq!(done(&server.snapshot()), [0, 1, 2, 3]);
    let left = server.snapshot();
    let left: Vec<_> = left.queue("jobs").unwrap().messages().collect();
    assert_eq!(left.len(), 4);
    assert!(left.iter().all(|message| message.dequeue_count() == 0), "no task waits for them");
    Ok(())
}

#[tokio::test]
async fn tasks_being_received_on_shutdown_are_finished() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let (account, _) = standing(&server)?;
    let held = server.inject(Fault::on(Operation::GetMessages).times(1).hold());
    let worker = worker(&account);
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let shutdown = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
    let (counts, ()) = join(worker.run_until(shutdown), async {
        held.wait_until_held().await;
        stop.send_replace(true);
        tokio::task::yield_now().await;
        held.release();
    })
    .await;
    assert_eq!(counts?.handled, 1);
    Ok(())
}

#[tokio::test]
async fn a_worker_survives_transient_errors_and_stops_at_permanent_ones() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(4));
    let down =
        server.inject(Fault::on(Operation::GetMessages).times(12).reject(ErrorCode::SERVER_BUSY));
    let worker = worker(&account).idle_backoff(least, most);
    worker.run_until(when(|| worker.counts().handled == 1)).await?;
    assert_eq!(down.hits(), 12);

    tasks(&account).queue().delete_queue().await?;
    server.clock().advance(Duration::from_secs(60));
    let error = worker.run_until(std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn a_worker_reports_its_lag() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(1, Deed::Succeed)).await?;
    server.clock().advance(Duration::from_secs(90));
    tasks(&account).put(&resize(2, Deed::Succeed)).await?;
    let (account, _) = standing(&server)?;
    let worker = worker(&account);
    for oldest in [90, 0, 0] {
        let _ = worker.step().await?;
        assert_eq!(worker.counts().oldest, Duration::from_secs(oldest));
    }
    Ok(())
}

/// Programs spawn workers, which must be able to move between threads.
#[tokio::test]
async fn running_workers_may_be_spawned() -> TestResult {
    fn spawnable<T: Send>(future: T) -> T {
        future
    }
    let (_server, account) = start().await?;
    let worker = worker(&account);
    spawnable(worker.run_until(std::future::ready(()))).await?;
    let _ = spawnable(worker.step()).await?;
    Ok(())
}

#[test]
fn closures_and_types_implement_handler() {
    fn is_handler<H: Handler<Resize>>(_: &H) {}
    is_handler(&|_: Resize, _: Attempt| async { Ok(Done::Applied) });
}
