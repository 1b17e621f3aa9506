//! Paces on a manual clock, of requests that are never sent.

use std::future::{pending, ready};

use futures_util::FutureExt as _;
use rowkey_client::ManualClock;

use super::*;

fn pace() -> (Pace, ManualClock) {
    let clock = ManualClock::auto_advancing(DateTime::from_timestamp(1_700_000_000, 0).unwrap());
    let account = StorageAccount::builder()
        .connection_string("UseDevelopmentStorage=true")
        .and_then(|account| account.clock(clock.clone()).build());
    (Pace::new(&account.unwrap()).seeded(1), clock)
}

fn target(pace: &Pace, partition_key: &str) -> Target {
    Target::partition(&pace.account().table("orders"), partition_key)
}

fn busy() -> Error {
    Error::refused(ErrorKind::Throttled, "busy")
}

#[tokio::test]
async fn maximum_rates_hold_without_bursts() {
    let (pace, clock) = pace();
    let pace = pace.entities_per_second(100);
    let begun = clock.now();
    for entities in [50, 100, 25] {
        pace.run(target(&pace, "p"), entities, |_| ready(Ok(()))).await.unwrap();
    }
    assert_eq!((clock.now() - begun).num_milliseconds(), 1500);
    clock.advance(Duration::from_secs(60));
    let begun = clock.now();
    // The next request pays for rows that become known only afterwards.
    let size = |(): &()| 200;
    pace.run_sized(target(&pace, "p"), 0, |_| ready(Ok(())), size).await.unwrap();
    pace.run(target(&pace, "q"), 1, |_| ready(Ok(()))).await.unwrap();
    assert_eq!((clock.now() - begun).num_milliseconds(), 2000);
    assert_eq!(pace.requests(), Requests { sent: 5, repeated: 0 });
}

#[tokio::test]
async fn a_final_error_keeps_the_unknown_outcome_of_earlier_attempts() {
    let (pace, _) = pace();
    let mut seen = Vec::new();
    let result = pace.run(target(&pace, "p"), 1, |attempt| {
        seen.push((attempt.number, attempt.after_unknown));
        ready(match attempt.number {
            1 => Err::<(), _>(busy()),
            2 => Err(Error::refused(ErrorKind::Unavailable, "lost").with_outcome(Outcome::Unknown)),
            _ => Err(Error::refused(ErrorKind::Conflict, "changed")),
        })
    });
    let error = result.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::Unknown));
    assert_eq!(seen, [(1, false), (2, false), (3, true)]);
    assert_eq!(pace.requests(), Requests { sent: 3, repeated: 2 });
}

#[tokio::test]
async fn a_deadline_ends_retries_of_its_own_handle() {
    let (pace, clock) = pace();
    let until = clock.now() + Duration::from_secs(600);
    let late = pace.clone().until(until);
    let error = late.run(target(&pace, "p"), 1, |_| ready(Err::<(), _>(busy()))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled);
    assert!(error.to_string().contains("the deadline has passed"), "{error}");
    assert!(clock.now() < until && clock.now() > until - Duration::from_secs(60));
    clock.advance(Duration::from_secs(60));
    let error = late.run(target(&pace, "q"), 1, |_| ready(Ok(()))).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotSent));
    pace.run(target(&pace, "q"), 1, |_| ready(Ok(()))).await.unwrap();
}

#[tokio::test]
async fn a_dropped_request_releases_its_permit() {
    let (pace, _) = pace();
    let endless = || pace.run(target(&pace, "p"), 1, |_| pending::<Result<()>>()).boxed_local();
    let mut places: Vec<_> = (0..FIRST_WINDOW).map(|_| endless()).collect();
    assert!(places.iter_mut().all(|request| request.now_or_never().is_none()));
    let next = || pace.run(target(&pace, "p"), 1, |_| ready(Ok(()))).now_or_never();
    assert!(next().is_none(), "the window is full");
    places.pop();
    assert!(next().is_some());
    assert_eq!(pace.requests().sent, u64::from(FIRST_WINDOW) + 1);
}

#[tokio::test]
async fn one_throttled_partition_slows_no_other_and_four_slow_the_account() {
    let (pace, clock) = pace();
    let push_back = async |name: &str| {
        let fail_once =
            |attempt: Attempt| ready(if attempt.number == 1 { Err(busy()) } else { Ok(()) });
        pace.run(target(&pace, name), 1, |_| ready(Ok(()))).await.unwrap();
        pace.run(target(&pace, name), 1, fail_once).await.unwrap();
    };
    push_back("a").await;
    let begun = clock.now();
    for _ in 0..100 {
        pace.run(target(&pace, "other"), 1, |_| ready(Ok(()))).await.unwrap();
    }
    assert_eq!(clock.now(), begun);
    assert!(pace.state().account.rate(begun).is_none());
    // All within a second: each pause is 0.25 to 0.3 seconds.
    for name in ["b", "c", "d"] {
        push_back(name).await;
    }
    assert!(pace.state().account.rate(clock.now()).is_some());
}

#[test]
fn idle_targets_are_removed() {
    let (pace, clock) = pace();
    for number in 0..=SWEEP_AT {
        clock.advance(Duration::from_secs(1));
        let name = number.to_string();
        let run = pace.run(target(&pace, &name), 1, |_| ready(Ok(()))).now_or_never();
        run.unwrap().unwrap();
    }
    assert!(pace.state().targets.len() < 100, "{}", pace.state().targets.len());
}
