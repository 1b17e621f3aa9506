//! Reads at the secondary: when they go there, and when they return to the primary.

use super::script::{Act, Script, account, answer, builder, get, options, post, refusal};
use crate::account::StorageAccount;
use crate::clock::ManualClock;
use crate::error::{Error, ErrorKind, Outcome};
use crate::options::{ClientOptions, RetryOptions};
use crate::transport::{Call, Host, Reply, Safety};
use rowkey_wire::auth::Service;

/// An account with a scripted primary and secondary.
fn pair(
    primary: impl IntoIterator<Item = Act>,
    secondary: impl IntoIterator<Item = Act>,
    max_attempts: u32,
) -> (StorageAccount, Script, Script) {
    let (primary, secondary) = (Script::start(primary), Script::start(secondary));
    let retry = RetryOptions { max_attempts, ..RetryOptions::default() };
    let account = builder(&primary.url())
        .secondary_endpoint(Service::Table, &secondary.url())
        .unwrap()
        .clock(ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap()))
        .options(ClientOptions { read_from_secondary: true, retry, ..options() })
        .build()
        .unwrap();
    (account, primary, secondary)
}

async fn read(account: &StorageAccount, host: Host) -> Result<Reply, Error> {
    let call = Call::new("GetEntity", "orders", Safety::Read).at(host);
    account.pipeline().send(get(), call).await
}

#[tokio::test]
async fn a_failed_read_is_retried_at_the_secondary() {
    let (account, primary, secondary) =
        pair([answer("500 No", "", "")], [answer("200 OK", "", "{}")], 4);
    let reply = read(&account, Host::Any).await.unwrap();
    assert!(reply.secondary);
    assert_eq!((reply.attempts, reply.host()), (2, Host::Secondary));
    assert_eq!((primary.requests().len(), secondary.requests().len()), (1, 1));
}

#[tokio::test]
async fn attempts_alternate_while_both_fail() {
    let no = || answer("500 No", "", "");
    let (account, primary, secondary) = pair([no(), answer("200 OK", "", "")], [no(), no()], 4);
    let reply = read(&account, Host::Any).await.unwrap();
    assert_eq!((reply.attempts, reply.secondary), (3, false));
    assert_eq!((primary.requests().len(), secondary.requests().len()), (2, 1));
}

#[tokio::test]
async fn a_404_of_the_secondary_is_retried_on_the_primary() {
    for (status, code) in [("404 No", "ResourceNotFound"), ("412 No", "ConditionNotMet")] {
        let no = || answer("500 No", "", "");
        let (account, primary, secondary) =
            pair([no(), no(), answer("200 OK", "", "")], [refusal(status, code)], 4);
        let reply = read(&account, Host::Any).await.unwrap();
        assert_eq!((reply.attempts, reply.secondary), (4, false));
        let asked = (primary.requests().len(), secondary.requests().len());
        assert_eq!(asked, (3, 1), "the secondary is not asked again");
    }
}

#[tokio::test]
async fn a_404_of_the_secondary_is_never_final() {
    let (account, ..) =
        pair([refusal("503 No", "ServerBusy")], [refusal("404 No", "ResourceNotFound")], 2);
    let error = read(&account, Host::Any).await.unwrap_err();
    assert_eq!((error.kind(), error.details().status), (ErrorKind::Throttled, Some(503)));
}

#[tokio::test]
async fn a_404_of_the_primary_is_final() {
    let (account, _primary, secondary) = pair([refusal("404 No", "ResourceNotFound")], [], 4);
    let error = read(&account, Host::Any).await.unwrap_err();
    assert_eq!((error.kind(), error.details().attempts), (ErrorKind::NotFound, 1));
    assert!(secondary.requests().is_empty());
}

#[tokio::test]
async fn writes_are_sent_only_to_the_primary() {
    let busy = || refusal("503 No", "ServerBusy");
    let (account, primary, secondary) = pair([busy(), answer("204 No Content", "", "")], [], 4);
    let call = Call::new("InsertOrReplaceEntity", "orders", Safety::Conditional);
    account.pipeline().send(post(), call).await.unwrap();
    assert_eq!((primary.requests().len(), secondary.requests().len()), (2, 0));
}

#[tokio::test]
async fn a_continuation_stays_on_the_endpoint_of_its_page() {
    let (account, primary, secondary) =
        pair([], [answer("500 No", "", ""), refusal("404 No", "TableNotFound")], 4);
    let error = read(&account, Host::Secondary).await.unwrap_err();
    assert_eq!((error.kind(), error.details().attempts), (ErrorKind::NotFound, 2));
    assert_eq!((primary.requests().len(), secondary.requests().len()), (0, 2));

    let no = || answer("500 No", "", "");
    let (account, primary, secondary) = pair([no(), answer("200 OK", "", "")], [], 4);
    let reply = read(&account, Host::Primary).await.unwrap();
    assert_eq!((reply.attempts, reply.host()), (2, Host::Primary));
    assert_eq!((primary.requests().len(), secondary.requests().len()), (2, 0));
}

#[tokio::test]
async fn reading_an_unknown_secondary_is_an_error() {
    let (account, _) = account("http://127.0.0.1:1/a/b", options());
    let error = read(&account, Host::Secondary).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
}
