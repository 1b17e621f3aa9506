//! Whether one partition limits a pace, on a manual clock.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;

use super::governor::Governor;
use super::tests::{MINUTE, busy, enter, governor, quick, start};
use super::{Lane, Pace, Targets};
use crate::clock::{Clock as _, ManualClock};

/// An account with the documented targets and waits that pass at once.
fn documented() -> (Governor, ManualClock) {
    let clock = ManualClock::auto_advancing(start());
    (governor(&clock, Targets::default()), clock)
}

/// The same with a clock that [`together`] moves, for requests at once.
fn manual() -> (Governor, ManualClock) {
    let clock = ManualClock::new(start());
    (governor(&clock, Targets::default()), clock)
}

/// Sends transactions to several partitions at once.
fn together(account: &(Governor, ManualClock), pace: &Pace, keys: &[&str]) {
    let sends = keys.iter().map(|key| send(account, pace, key, 100, TAKES));
    let mut all = join_all(sends).boxed();
    while (&mut all).now_or_never().is_none() {
        account.1.advance(Duration::from_millis(5));
    }
}

/// Sends transactions of 100 entities to a partition, each of which takes a time.
async fn send(
    (governor, clock): &(Governor, ManualClock),
    pace: &Pace,
    key: &str,
    transactions: usize,
    takes: Duration,
) {
    for _ in 0..transactions {
        let permit = enter(governor, pace, key, 100).await.unwrap();
        clock.sleep(takes).await;
        permit.answered();
    }
}

const LANE: Option<Lane> = Some(Lane { entities_per_second: 2000 });
const TAKES: Duration = Duration::from_millis(5);

#[tokio::test]
async fn one_partition_is_one_lane_however_many_requests_it_gets() {
    let (account, pace) = (documented(), Pace::background());
    assert_eq!(pace.lane(), None, "nothing was sent");
    send(&account, &pace, "p", 10, TAKES).await;
    assert_eq!(pace.lane(), None, "half a second is too short");
    send(&account, &pace, "p", 100, TAKES).await;
    assert_eq!(pace.lane(), LANE);
    assert_eq!(pace.clone().lane(), LANE);
    assert_eq!(Pace::background().lane(), None, "another one");
    let (account, pace) = (manual(), Pace::background());
    together(&account, &pace, &["p"; 4]);
    assert_eq!(pace.lane(), LANE);
}

#[tokio::test]
async fn several_partitions_are_several_lanes_at_once_and_by_turns() {
    let (account, pace) = (manual(), Pace::background());
    together(&account, &pace, &["p", "q"]);
    assert_eq!(pace.lane(), None);
    let (account, pace) = (documented(), Pace::background());
    for _ in 0..100 {
        send(&account, &pace, "p", 1, TAKES).await;
        send(&account, &pace, "q", 1, TAKES).await;
    }
    assert_eq!(pace.lane(), None);
}

#[tokio::test]
async fn a_lane_ends_when_others_are_sent_to_and_begins_again() {
    let (account, pace) = (manual(), Pace::background());
    together(&account, &pace, &["p"]);
    assert_eq!(pace.lane(), LANE);
    together(&account, &pace, &["p", "q", "r"]);
    assert_eq!(pace.lane(), None);
    together(&account, &pace, &["q"]);
    assert_eq!(pace.lane(), LANE);
}

#[tokio::test]
async fn a_service_that_is_slow_and_what_the_program_does_are_no_lane() {
    // 100 entities in a fifth of a second are 500 a second: the time of a response is the limit.
    let (account, pace) = (documented(), Pace::background());
    send(&account, &pace, "p", 100, Duration::from_millis(200)).await;
    assert_eq!(pace.lane(), None);
    // The maximum rate of the program is the limit.
    let pace = Pace::background().entities_per_second(500);
    send(&account, &pace, "p", 100, TAKES).await;
    assert_eq!(pace.lane(), None);
    // The program works most of the time.
    let pace = Pace::background();
    for _ in 0..100 {
        send(&account, &pace, "p", 4, TAKES).await;
        account.1.advance(Duration::from_secs(1));
    }
    assert_eq!(pace.lane(), None);
}

#[tokio::test]
async fn a_partition_that_the_service_pushes_back_on_is_a_lane_with_its_rate() {
    let account = quick();
    let pace = Pace::background();
    send(&account, &pace, "p", 100, Duration::from_millis(100)).await;
    assert_eq!(pace.lane(), None, "there is no ceiling");
    enter(&account.0, &pace, "p", 100).await.unwrap().failed(busy(None));
    send(&account, &pace, "p", 50, TAKES).await;
    let rate = pace.lane().unwrap().entities_per_second;
    assert!((700..1500).contains(&rate), "{rate}");
}

#[tokio::test]
async fn requests_that_are_dropped_leave_the_lane() {
    let (account, pace) = (documented(), Pace::background());
    drop(enter(&account.0, &pace, "q", 100).await.unwrap());
    drop(enter(&account.0, &pace, "q", 100));
    send(&account, &pace, "p", 100, TAKES).await;
    assert_eq!(pace.lane(), LANE, "no request to q is left");
    account.1.advance(MINUTE);
    assert_eq!(pace.lane(), LANE, "nothing was sent since");
    send(&account, &pace, "p", 1, TAKES).await;
    assert_eq!(pace.lane(), None, "nothing was sent for a minute");
}
