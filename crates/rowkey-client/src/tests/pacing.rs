//! Paces, the retry budget and second requests of reads, with the requests that they send.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};

use super::script::{Act, Script, answer, builder, get, options, post};
use crate::account::StorageAccount;
use crate::account::builder::StorageAccountBuilder;
use crate::clock::{Clock as _, ManualClock};
use crate::error::{Error, ErrorKind, Outcome};
use crate::options::ClientOptions;
use crate::pace::{Hedge, Pace};
use crate::transport::policy::{Attempt, AttemptResult, Policy};
use crate::transport::{Call, Reply, Safety};
use rowkey_wire::auth::Service;

fn busy(seconds: u32) -> Act {
    let headers = format!("x-ms-error-code: ServerBusy\r\nRetry-After: {seconds}\r\n");
    answer("503 Busy", &headers, "")
}

fn at(pace: &Pace) -> ClientOptions {
    ClientOptions { pace: Some(pace.clone()), ..options() }
}

async fn send(account: &StorageAccount, safety: Safety) -> Result<Reply, Error> {
    let (request, operation) = match safety {
        Safety::Read => (get(), "GetEntity"),
        _ => (post(), "InsertEntity"),
    };
    let call = Call::new(operation, "orders", safety).in_partition("private", 1);
    account.pipeline().send(request, call).await
}

#[tokio::test]
async fn a_background_request_is_repeated_until_it_is_answered() {
    let refused = (0..9).map(|_| busy(7));
    let script = Script::start(refused.chain([answer("201 Created", "", "{}")]));
    let pace = Pace::background();
    let (account, clock) = script.account(at(&pace));
    let begun = clock.elapsed();
    assert_eq!(send(&account, Safety::Insert).await.unwrap().attempts, 10);
    let waited = clock.elapsed().saturating_sub(begun).as_secs();
    assert!((63..=79).contains(&waited), "nine times seven, spread by a quarter: {waited}");
    assert_eq!((pace.requests().sent, pace.requests().repeated), (10, 9));
}

#[tokio::test]
async fn a_pace_in_scope_replaces_that_of_the_options() {
    let script = Script::start([answer("200 OK", "", "{}"), answer("200 OK", "", "{}")]);
    let [usual, other] = [Pace::foreground(), Pace::foreground()];
    let (account, _) = script.account(at(&usual));
    other.scope(send(&account, Safety::Read)).await.unwrap();
    send(&account, Safety::Read).await.unwrap();
    assert_eq!((usual.requests().sent, other.requests().sent), (1, 1));
}

#[tokio::test]
async fn a_foreground_request_is_retried_as_its_options_say() {
    let script = Script::start((0..4).map(|_| busy(1)));
    let (account, _) = script.account(at(&Pace::foreground()));
    let error = send(&account, Safety::Read).await.err().unwrap();
    assert_eq!((error.kind(), error.details().attempts), (ErrorKind::Throttled, 4));
}

#[tokio::test]
async fn a_deadline_before_the_next_attempt_returns_the_last_error() {
    let script = Script::start([busy(1), busy(600)]);
    let pace = Pace::background();
    let (account, clock) = script.account(options());
    let late = pace.until(clock.now() + Duration::from_secs(60));
    let error = late.scope(send(&account, Safety::Insert)).await.err().unwrap();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Throttled, Outcome::Rejected));
    assert!(error.to_string().contains("resume the job from its checkpoint"), "{error}");
    assert_eq!(script.requests().len(), 2);
}

#[tokio::test]
async fn a_background_insert_with_a_lost_answer_is_not_repeated() {
    let script = Script::start([busy(1), Act::Close]);
    let (account, _) = script.account(at(&Pace::background()));
    let error = send(&account, Safety::Insert).await.err().unwrap();
    assert_eq!((error.outcome(), script.requests().len()), (Outcome::Unknown, 2));
}

#[tokio::test]
async fn background_reads_without_answer_are_retried_as_the_options_say() {
    let lost = (0..4).map(|_| Act::Close);
    let script = Script::start([busy(1), busy(1)].into_iter().chain(lost));
    let (account, _) = script.account(at(&Pace::background()));
    let error = send(&account, Safety::Read).await.err().unwrap();
    assert_eq!((error.kind(), script.requests().len()), (ErrorKind::Unavailable, 6));
}

fn with_budget(script: &Script, retries: u32, options: ClientOptions) -> StorageAccount {
    let clock = ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap());
    let builder = builder(&script.url()).clock(clock).retry_budget(retries);
    builder.options(options).build().unwrap()
}

#[tokio::test]
async fn retries_beyond_the_budget_are_not_sent_and_the_error_says_so() {
    let script = Script::start((0..20).map(|_| busy(1)));
    let account = with_budget(&script, 4, options());
    let clone = account.with_options(options());
    let mut texts = Vec::new();
    for account in [&account, &clone, &account] {
        texts.push(send(account, Safety::Read).await.err().unwrap().to_string());
    }
    // Three retries, one, none.
    assert_eq!(script.requests().len(), 4 + 2 + 1);
    assert!(!texts[0].contains("budget"), "{texts:?}");
    assert!(texts[1..].iter().all(|text| text.contains("retry budget is used up")), "{texts:?}");
}

#[tokio::test]
async fn the_background_needs_no_budget_for_what_is_refused() {
    let script = Script::start((0..9).map(|_| busy(1)).chain([answer("200 OK", "", "{}")]));
    let account = with_budget(&script, 0, at(&Pace::background()));
    assert_eq!(send(&account, Safety::Read).await.unwrap().attempts, 10);
}

/// Counts attempts that ended.
#[derive(Default)]
struct Counting(AtomicU32);

impl Policy for Counting {
    fn after(&self, _: &Attempt<'_>, _: AttemptResult) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn hedged(at_secondary: bool) -> ClientOptions {
    let after = Some(Duration::from_millis(50));
    let hedge = Some(Hedge { after, at_secondary, percent: 100 });
    ClientOptions { hedge, read_from_secondary: at_secondary, ..options() }
}

/// Reads, and lets time pass as soon as the first request has arrived.
async fn read_slowly(script: &Script, builder: StorageAccountBuilder) -> Result<Reply, Error> {
    let clock = ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap());
    let account = builder.clock(clock.clone()).build().unwrap();
    let time = async {
        loop {
            tokio::task::yield_now().await;
            if !script.requests().is_empty() {
                clock.advance(Duration::from_millis(50));
            }
        }
    };
    match select(Box::pin(send(&account, Safety::Read)), Box::pin(time)).await {
        Either::Left((result, _)) => result,
        Either::Right(((), _)) => unreachable!("time does not end"),
    }
}

#[tokio::test]
async fn a_slow_read_is_sent_again_and_the_first_answer_is_returned() {
    let script = Script::start([Act::Hang, answer("200 OK", "", "{}")]);
    let counting = Arc::new(Counting::default());
    let builder = builder(&script.url()).policy(Arc::clone(&counting) as _);
    let reply = read_slowly(&script, builder.options(hedged(false))).await.unwrap();
    assert_eq!((reply.attempts, reply.secondary), (2, false));
    assert_eq!((script.requests().len(), counting.0.load(Ordering::Relaxed)), (2, 2));
}

#[tokio::test]
async fn a_failed_second_request_is_no_retry_and_is_counted_as_sent() {
    // The first answer to arrive is the second request's, and is no good.
    let script = Script::start([Act::Hang, busy(1), answer("200 OK", "", "{}")]);
    let hasty = ClientOptions { attempt_timeout: Duration::from_millis(200), ..hedged(false) };
    // The first request is not answered, and the retry is.
    let reply = read_slowly(&script, builder(&script.url()).options(hasty)).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.attempts), (200, 3));
    assert_eq!(script.requests().len(), 3);
}

#[tokio::test]
async fn a_write_is_sent_once_however_slow_it_is() {
    let script = Script::start([Act::Hang, answer("201 Created", "", "{}")]);
    let hasty = ClientOptions { attempt_timeout: Duration::from_millis(200), ..hedged(false) };
    let (account, _) = script.account(hasty);
    let error = send(&account, Safety::Insert).await.err().unwrap();
    assert_eq!((error.outcome(), script.requests().len()), (Outcome::Unknown, 1));
}

#[tokio::test]
async fn a_second_request_may_go_to_the_secondary() {
    let primary = Script::start([Act::Hang]);
    let secondary = Script::start([answer("200 OK", "", "{}")]);
    let account = builder(&primary.url())
        .secondary_endpoint(Service::Table, &secondary.url())
        .unwrap()
        .clock(ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap()))
        .options(hedged(true))
        .build()
        .unwrap();
    let reply = send(&account, Safety::Read).await.unwrap();
    assert_eq!((reply.attempts, reply.secondary), (2, true));
    // The clock does not wait for the first one, so it may not have been connected yet.
    assert_eq!(secondary.requests().len(), 1);
}

/// A receipt has what was sent: neither a second request nor a retry that could not connect.
#[tokio::test]
async fn a_second_request_that_could_not_connect_is_in_no_receipt() {
    let primary = Script::start([Act::Hang, answer("200 OK", "", "{}")]);
    let hasty = ClientOptions { attempt_timeout: Duration::from_millis(200), ..hedged(true) };
    // Nothing listens at the port of the secondary.
    let builder = builder(&primary.url())
        .secondary_endpoint(Service::Table, "http://127.0.0.1:1/acct")
        .unwrap()
        .options(hasty);
    let reply = read_slowly(&primary, builder).await.unwrap();
    assert_eq!((reply.attempts, reply.unsent), (4, 2));
    assert_eq!((reply.receipt().attempts(), primary.requests().len()), (2, 2));
}
