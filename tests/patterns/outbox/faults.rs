//! What becomes of a change and its intent when any request fails, and when anybody stops anywhere.

use rowkey_eventual::worker::Worker;
use rowkey_tests::sweep::{once, stopped_at_every_request, sweep};

use super::*;

/// What a program does that starts anew: works off what there is, and looks for what is old.
pub(super) async fn work_off(account: &StorageAccount) -> TestResult {
    let outbox = outbox(account);
    let worker: Worker<_, _> = outbox.worker(writer(account));
    while worker.step().await? != Step::Idle {}
    outbox.drain(Duration::ZERO, writer(account)).run().await?;
    Ok(())
}

#[tokio::test]
async fn a_change_and_what_it_intends_happen_both_or_not_at_all() -> TestResult {
    for repeats in [true, false] {
        let (server, ..) = start().await?;
        sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let outbox = outbox(&account);
                let hired = hire(&outbox, 7).await;
                // What the worker cannot do now is done later.
                drop(outbox.worker(writer(&account)).step().await);
                hired
            },
            async |account, _| work_off(account).await,
            |snapshot, hired| {
                let done = assert_done(snapshot);
                match hired.as_ref().map_err(Error::outcome) {
                    Ok(()) => assert_eq!(done, [7]),
                    Err(Outcome::NotSent | Outcome::Rejected) => assert_eq!(done, [0; 0]),
                    Err(Outcome::Unknown) => assert!(done == [7] || done.is_empty()),
                }
            },
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_drain_that_fails_is_made_up_for_by_the_next() -> TestResult {
    let (server, _, outbox) = start().await?;
    let lost = server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY));
    for id in 1..=3 {
        hire(&outbox, id).await?;
    }
    drop(lost);
    server.clock().advance(Duration::from_secs(61));
    sweep(
        &server,
        async |account| {
            let outbox = super::outbox(account);
            outbox.drain(Duration::from_secs(30), writer(account)).page_size(2).run().await
        },
        async |account, _| work_off(account).await,
        |snapshot, drained| {
            assert_eq!(assert_done(snapshot), [1, 2, 3]);
            let counted = |it: &Drained| it.delivered + it.gone + it.failed == it.found;
            assert!(drained.as_ref().is_ok_and(|it| it.found == 3 && counted(it)), "{drained:?}");
        },
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_program_that_stops_anywhere_leaves_what_the_next_one_finds() -> TestResult {
    let (server, ..) = start().await?;
    stopped_at_every_request(
        &server,
        async |account| {
            let outbox = outbox(account);
            hire(&outbox, 7).await.unwrap();
            assert_eq!(outbox.worker(writer(account)).step().await.unwrap(), Step::Handled);
        },
        work_off,
        |snapshot| drop(assert_done(snapshot)),
    )
    .await?;

    let (server, _, outbox) = start().await?;
    for id in 1..=3 {
        hire(&outbox, id).await?;
    }
    server.clock().advance(Duration::from_secs(61));
    stopped_at_every_request(
        &server,
        async |account| {
            let outbox = super::outbox(account);
            outbox.drain(Duration::ZERO, writer(account)).run().await.unwrap();
        },
        work_off,
        |snapshot| assert_eq!(assert_done(snapshot), [1, 2, 3]),
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_message_that_was_lost_with_its_transaction_unknown_is_sent() -> TestResult {
    let (server, account, _) = start().await?;
    let impatient = outbox(&once(&account));
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
    let unknown = hire(&impatient, 7).await.unwrap_err();
    assert_eq!((lost.hits(), unknown.outcome()), (1, Outcome::Unknown));
    assert_eq!(impatient.worker(writer(&account)).step().await?, Step::Handled);
    // It may tell of what did not happen, too.
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_before_commit());
    let unknown = hire(&impatient, 8).await.unwrap_err();
    assert_eq!((lost.hits(), unknown.outcome()), (1, Outcome::Unknown));
    assert_eq!(impatient.worker(writer(&account)).step().await?, Step::Suppressed);
    assert_eq!(assert_done(&server.snapshot()), [7]);
    Ok(())
}

#[tokio::test]
async fn a_drain_and_a_worker_at_once_do_it_once_or_twice_and_lose_nothing() -> TestResult {
    // Where the worker is when the drain comes by: at each of its requests but the first.
    for nth in 2..=5 {
        let (server, account, outbox) = start().await?;
        hire(&outbox, 7).await?;
        let held = server.inject(Fault::any().nth(nth).hold());
        let worker = outbox.worker(writer(&account));
        let (step, drained) = tokio::join!(worker.step(), async {
            held.wait_until_held().await;
            let later = rowkey_tests::sweep::account(&server).unwrap();
            server.clock().advance(Duration::from_secs(1));
            let drain = super::outbox(&later).drain(Duration::ZERO, writer(&account));
            let drained = drain.partition("sales").run().await;
            held.release();
            drained
        });
        drained?;
        assert!(matches!(step?, Step::Handled | Step::Suppressed));
        work_off(&account).await?;
        assert_eq!(assert_done(&server.snapshot()), [7]);
    }
    Ok(())
}
