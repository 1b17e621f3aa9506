//! Paces on a manual clock, of requests that are never sent.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use rowkey_wire::auth::Service;

use super::governor::{Governor, Late};
use super::limiter::Failure;
use super::load::Load;
use super::permit::{Asking, Failed, Permit};
use super::{Pace, Requests, Targets, impatient, patient};
use crate::clock::{Clock as _, ManualClock};
use crate::telemetry::Hook;

pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn start() -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000, 0).unwrap()
}

pub(super) fn governor(clock: &ManualClock, targets: Targets) -> Governor {
    clock.advance(MINUTE);
    Governor::new(Arc::new(clock.clone()), Hook::default(), targets)
}

/// A clock that waits advance.
pub(super) fn quick() -> (Governor, ManualClock) {
    let clock = ManualClock::auto_advancing(start());
    (governor(&clock, Targets::UNLIMITED), clock)
}

fn partition(key: &str, entities: u32) -> Asking<'_> {
    let load = Load::Partition { key, entities, written: None };
    Asking { load, service: Service::Table, resource: "orders" }
}

pub(super) fn busy(asked: Option<u64>) -> Failed {
    Failed {
        failure: Failure::Throttled,
        asked: asked.map(Duration::from_secs),
        names_account: false,
        fraction: 0.0,
    }
}

/// A request that wants to pass.
pub(super) fn enter<'a>(
    governor: &'a Governor,
    pace: &'a Pace,
    key: &'a str,
    entities: u32,
) -> BoxFuture<'a, Result<Permit<'a>, Late>> {
    governor.admit(pace, partition(key, entities), MINUTE).boxed()
}

#[tokio::test]
async fn maximum_rates_of_the_program_hold_without_bursts() {
    let (governor, clock) = quick();
    let pace = Pace::background().entities_per_second(100);
    let begun = clock.elapsed();
    for entities in [50, 100, 25] {
        enter(&governor, &pace, "p", entities).await.unwrap().answered();
    }
    assert_eq!(clock.elapsed().saturating_sub(begun), Duration::from_millis(1500));
    clock.advance(MINUTE);
    let begun = clock.elapsed();
    // The next request pays for rows that become known only afterwards, less the lateness that is made up for.
    enter(&governor, &pace, "p", 0).await.unwrap().answered();
    governor.count(Some(&pace), partition("p", 0), 200);
    enter(&governor, &pace, "q", 1).await.unwrap().answered();
    assert_eq!(clock.elapsed().saturating_sub(begun), Duration::from_millis(1950));
    assert_eq!(pace.requests(), Requests { sent: 5, repeated: 0 });
}

#[tokio::test]
async fn a_deadline_ends_waits_of_its_own_handle() {
    let (governor, clock) = quick();
    let pace = Pace::background();
    let late = pace.clone().until(clock.now() + Duration::from_secs(600));
    for _ in 0..100 {
        let Ok(permit) = enter(&governor, &late, "p", 1).await else { break };
        permit.failed(busy(None));
    }
    let left = start() + MINUTE + Duration::from_secs(600) - clock.now();
    assert!(left > TimeDelta::zero() && left < TimeDelta::minutes(1), "{left}");
    clock.advance(MINUTE);
    assert_eq!(enter(&governor, &late, "q", 1).await.err(), Some(Late::Deadline));
    enter(&governor, &pace, "q", 1).await.unwrap().answered();
}

#[tokio::test]
async fn patience_ends_when_nothing_is_answered_and_an_answer_renews_it() {
    let (governor, clock) = quick();
    let pace = patient(Pace::background(), MINUTE);
    let begun = clock.elapsed();
    for _ in 0..3 {
        enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(Some(40)));
        enter(&governor, &pace, "p", 1).await.unwrap().answered();
    }
    assert!(clock.elapsed().saturating_sub(begun) >= Duration::from_secs(3 * 40));
    let (governor, clock) = quick();
    let begun = clock.elapsed();
    enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(Some(40)));
    enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(Some(40)));
    assert_eq!(enter(&governor, &pace, "p", 1).await.err(), Some(Late::Patience));
    // The second pause would end too late, so it was not begun.
    assert_eq!(clock.elapsed().saturating_sub(begun), Duration::from_secs(40));
}

#[tokio::test]
async fn waits_for_maximum_rates_of_the_program_are_no_reason_to_lose_patience() {
    let (governor, clock) = quick();
    let pace = patient(Pace::background().entities_per_second(1), MINUTE);
    let begun = clock.elapsed();
    for _ in 0..3 {
        enter(&governor, &pace, "p", 600).await.unwrap().answered();
    }
    assert_eq!(clock.elapsed().saturating_sub(begun), Duration::from_secs(1200));
    // Neither is work between requests.
    clock.advance(10 * MINUTE);
    enter(&governor, &pace, "p", 0).await.unwrap().answered();
}

#[tokio::test]
async fn a_foreground_request_does_not_wait_longer_than_it_has_time() {
    let (governor, clock) = quick();
    let (pace, begun) = (Pace::foreground(), clock.elapsed());
    enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(Some(90)));
    assert_eq!(enter(&governor, &pace, "p", 1).await.err(), Some(Late::Timeout));
    assert_eq!(clock.elapsed(), begun, "it fails at once");
    enter(&governor, &Pace::background(), "p", 1).await.unwrap().answered();
    assert_eq!(clock.elapsed().saturating_sub(begun), Duration::from_secs(90));
}

#[tokio::test]
async fn dropped_requests_leave_their_places_and_those_behind_them_go_on() {
    let clock = ManualClock::new(start());
    let governor = governor(&clock, Targets::UNLIMITED);
    let pace = Pace::background();
    let mut sent: Vec<_> = (0..2).map(|_| enter(&governor, &pace, "p", 1).now_or_never()).collect();
    assert!(sent.iter().all(Option::is_some), "the first window");
    let mut waiting: Vec<_> = (0..4).map(|_| enter(&governor, &pace, "p", 1)).collect();
    for request in &mut waiting {
        assert!(request.now_or_never().is_none(), "the window is full");
    }
    // In the line, at its head and in the middle; then one that was sent.
    drop(waiting.remove(1));
    drop(waiting.remove(0));
    drop(sent.remove(0));
    let mut last = waiting.remove(1);
    assert!((&mut last).now_or_never().is_none(), "it is not the first");
    let first = waiting.remove(0).now_or_never();
    assert!(first.is_some_and(|first| first.is_ok()));
    assert!((&mut last).now_or_never().is_some());
}

#[tokio::test]
async fn one_throttled_partition_slows_no_other_and_four_slow_the_account() {
    let (governor, clock) = quick();
    let pace = Pace::background();
    let push_back = async |name: &'static str| {
        enter(&governor, &pace, name, 1).await.unwrap().answered();
        enter(&governor, &pace, name, 1).await.unwrap().failed(busy(None));
    };
    push_back("a").await;
    let begun = clock.elapsed();
    for _ in 0..100 {
        enter(&governor, &pace, "other", 1).await.unwrap().answered();
    }
    assert_eq!(clock.elapsed(), begun);
    for name in ["b", "c", "d"] {
        push_back(name).await;
    }
    enter(&governor, &pace, "other", 1).await.unwrap().answered();
    assert!(clock.elapsed() > begun, "the account waits");
    assert_eq!(pace.requests().repeated, 4);
}

#[tokio::test]
async fn an_outage_of_some_targets_slows_the_account_only_when_it_begins() {
    const DOWN: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (governor, clock) = quick();
    let pace = Pace::foreground();
    let millisecond = Duration::from_millis(1);
    // The number of requests that are answered in these seconds, at most one in a millisecond.
    let answered = async |seconds: u64| {
        let (begun, mut number) = (clock.elapsed(), 0);
        while clock.elapsed().saturating_sub(begun) < Duration::from_secs(seconds) {
            enter(&governor, &pace, "other", 1).await.unwrap().answered();
            clock.advance(millisecond);
            number += 1;
        }
        number
    };
    for key in DOWN {
        enter(&governor, &pace, key, 1).await.unwrap().answered();
    }
    let before = answered(3).await / 3;
    let begun = clock.elapsed();
    while clock.elapsed().saturating_sub(begun) < MINUTE {
        for key in DOWN {
            enter(&governor, &pace, key, 1).await.unwrap().failed(busy(None));
            enter(&governor, &pace, "other", 1).await.unwrap().answered();
        }
        clock.advance(Duration::from_millis(100));
    }
    let after = answered(2).await / 2;
    assert!(after * 2 >= before, "{after} requests a second, {before} before");
}

#[tokio::test]
async fn a_partition_that_is_free_again_reaches_its_ceiling_within_seconds() {
    let clock = ManualClock::auto_advancing(start());
    let governor = governor(&clock, Targets { entities_per_partition: 1000, ..Targets::default() });
    let pace = Pace::background();
    let second = async |begun: Duration| {
        let mut sent = 0;
        while clock.elapsed().saturating_sub(begun) < Duration::from_secs(1) {
            enter(&governor, &pace, "p", 10).await.unwrap().answered();
            sent += 10;
        }
        sent
    };
    assert!(second(clock.elapsed()).await >= 990);
    enter(&governor, &pace, "p", 10).await.unwrap().failed(busy(Some(3)));
    enter(&governor, &pace, "p", 10).await.unwrap().answered();
    let mut seconds = Vec::new();
    for _ in 0..10 {
        seconds.push(second(clock.elapsed()).await);
    }
    assert!(seconds[0] >= 650, "{seconds:?}");
    assert!(seconds[9] >= 950, "{seconds:?}");
    assert!(seconds.iter().all(|sent| *sent <= 1050), "{seconds:?}");
}

#[tokio::test]
async fn a_step_of_the_system_time_changes_nothing() {
    for step in [TimeDelta::days(1), TimeDelta::days(-1)] {
        let (governor, clock) = quick();
        let pace = Pace::background().requests_per_second(10);
        let begun = clock.elapsed();
        enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(Some(2)));
        clock.set_date(clock.now() + step);
        for _ in 0..10 {
            enter(&governor, &pace, "p", 1).await.unwrap().answered();
        }
        let taken = clock.elapsed().saturating_sub(begun).as_millis();
        // Two seconds, and ten requests at ten a second, of which the first makes up for lateness.
        assert!((2700..2900).contains(&taken), "{taken}");
    }
}

#[tokio::test]
async fn a_request_without_a_pace_counts_while_others_have_one() {
    let clock = ManualClock::auto_advancing(start());
    let governor = governor(&clock, Targets { entities_per_partition: 100, ..Targets::default() });
    assert!(!governor.is_active());
    assert!(governor.note(partition("p", 100)).is_none(), "nothing is paced");
    let pace = Pace::background();
    enter(&governor, &pace, "p", 1).await.unwrap().answered();
    assert!(governor.is_active());
    governor.note(partition("p", 100)).unwrap().answered();
    let begun = clock.elapsed();
    enter(&governor, &pace, "p", 1).await.unwrap().answered();
    assert!(clock.elapsed().saturating_sub(begun) >= Duration::from_millis(900));
    clock.advance(2 * MINUTE);
    assert!(governor.note(partition("p", 100)).is_none());
    assert!(!governor.is_active(), "a minute after the last one");
}

#[tokio::test]
async fn idle_targets_are_forgotten() {
    let (governor, clock) = quick();
    let pace = Pace::background();
    for number in 0..5000 {
        clock.advance(Duration::from_secs(1));
        enter(&governor, &pace, &number.to_string(), 1).await.unwrap().answered();
    }
    assert!(governor.remembered() < 1000, "{}", governor.remembered());
}

#[tokio::test]
async fn many_requests_pass_in_the_order_of_their_priority() {
    let clock = ManualClock::new(start());
    let governor = governor(&clock, Targets { requests_per_account: 100, ..Targets::default() });
    let paces = [Pace::foreground(), Pace::background()];
    let ended = std::sync::Mutex::new(Vec::new());
    let requests = (0..400).map(|number| {
        let (governor, paces, ended) = (&governor, &paces, &ended);
        async move {
            let key = (number % 10).to_string();
            enter(governor, &paces[number % 2], &key, 1).await.unwrap().answered();
            ended.lock().unwrap().push(number % 2);
        }
    });
    let mut all = join_all(requests).boxed();
    while (&mut all).now_or_never().is_none() {
        clock.advance(Duration::from_millis(10));
    }
    drop(all);
    let ended = ended.into_inner().unwrap();
    let background = ended.iter().take(200).filter(|priority| **priority == 1).count();
    assert!((10..=40).contains(&background), "a tenth, not more: {background}");
}

#[tokio::test]
async fn a_deadline_ends_waits_of_the_foreground_too() {
    let (governor, clock) = quick();
    let pace = Pace::foreground().until(clock.now() + Duration::from_secs(10));
    enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(Some(20)));
    assert_eq!(enter(&governor, &pace, "p", 1).await.err(), Some(Late::Deadline));
}

#[tokio::test]
async fn a_request_that_is_not_sent_takes_nothing_from_the_maximum_rate() {
    let (governor, clock) = quick();
    let pace = Pace::foreground().requests_per_second(1);
    enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(Some(90)));
    for _ in 0..100 {
        assert!(enter(&governor, &pace, "p", 1).await.is_err(), "it waits at the gate");
    }
    let begun = clock.elapsed();
    enter(&governor, &pace, "q", 1).await.unwrap().answered();
    assert!(clock.elapsed().saturating_sub(begun) <= Duration::from_secs(1));
}

#[tokio::test]
async fn requests_without_a_pace_are_counted_while_paced_ones_wait_for_long() {
    let clock = ManualClock::new(start());
    let governor = governor(&clock, Targets::UNLIMITED);
    let pace = Pace::background();
    enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(Some(600)));
    let mut waiting = enter(&governor, &pace, "p", 1);
    assert!((&mut waiting).now_or_never().is_none());
    clock.advance(5 * MINUTE);
    assert!(governor.note(partition("q", 1)).is_some() && governor.is_active());
    clock.advance(10 * MINUTE);
    waiting.await.unwrap().answered();
    assert!(governor.note(partition("q", 1)).is_some() && governor.is_active());
}

/// One 503 after a few requests says nothing about pages of many entities.
#[tokio::test]
async fn a_push_back_at_the_beginning_does_not_stop_what_reads_many_entities() {
    let (governor, clock) = quick();
    let pace = Pace::background();
    for _ in 0..5 {
        enter(&governor, &pace, "p", 1).await.unwrap().answered();
    }
    enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(None));
    let begun = clock.elapsed();
    for _ in 0..3 {
        enter(&governor, &pace, "p", 0).await.unwrap().answered();
        governor.count(Some(&pace), partition("p", 0), 50);
    }
    let taken = clock.elapsed().saturating_sub(begun);
    assert!(taken < Duration::from_secs(4), "{taken:?}");
}

/// A rate that many push-backs of small requests reduced does not stop a large one for longer than a pause.
#[tokio::test]
async fn a_large_request_waits_no_longer_than_the_longest_pause() {
    let (governor, clock) = quick();
    let pace = Pace::background();
    enter(&governor, &pace, "p", 1).await.unwrap().answered();
    for _ in 0..40 {
        enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(Some(0)));
    }
    enter(&governor, &pace, "p", 1).await.unwrap().answered();
    governor.count(Some(&pace), partition("p", 0), 1000);
    let begun = clock.elapsed();
    enter(&governor, &pace, "p", 1).await.unwrap().answered();
    let taken = clock.elapsed().saturating_sub(begun);
    assert!(taken <= Duration::from_secs(61), "{taken:?}");
}

#[tokio::test]
async fn work_that_may_be_left_undone_waits_for_its_own_rate_and_not_for_a_target() {
    let (governor, clock) = quick();
    let background = Pace::background().requests_per_second(1);
    let pace = impatient(async { Pace::of(Some(&background)) }).await.unwrap();
    let begun = clock.elapsed();
    for _ in 0..10 {
        enter(&governor, &pace, "p", 1).await.unwrap().answered();
    }
    let waited = clock.elapsed().saturating_sub(begun);
    assert!(waited > Duration::from_secs(8), "{waited:?}");
    enter(&governor, &pace, "p", 1).await.unwrap().failed(busy(Some(10)));
    let (begun, late) = (clock.elapsed(), enter(&governor, &pace, "p", 1).await);
    assert_eq!(late.err(), Some(Late::Timeout));
    let waited = clock.elapsed().saturating_sub(begun);
    assert!(waited <= Duration::from_secs(1), "its own rate alone: {waited:?}");
    assert_eq!(background.requests().sent, 11);
}
