//! Attempts against misbehaving servers: retries, and errors.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use super::script::{Act, Script, account, answer, builder, get, header, options, post, refusal};
use crate::account::StorageAccount;
use crate::clock::ManualClock;
use crate::credential::Credential;
use crate::error::{Error, ErrorKind, Outcome};
use crate::options::{ClientOptions, RetryOptions};
use crate::transport::{Call, Reply, Safety};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn send(account: &StorageAccount, safety: Safety) -> Result<Reply, Error> {
    let (request, operation) = match safety {
        Safety::Read => (get(), "GetEntity"),
        _ => (post(), "InsertEntity"),
    };
    account.pipeline().send(request, Call::new(operation, "orders", safety)).await
}

fn repeating_inserts() -> ClientOptions {
    let retry = RetryOptions { repeat_inserts: true, ..RetryOptions::default() };
    ClientOptions { retry, ..options() }
}

#[tokio::test]
async fn a_request_has_date_id_and_signature_and_its_response_is_returned() {
    let script = Script::start([answer("201 Created", "ETag: W/\"1\"\r\n", "{}")]);
    let (account, clock) = script.account(options());
    let reply = send(&account, Safety::Insert).await.unwrap();
    assert_eq!((reply.status.as_u16(), &*reply.body), (201, &b"{}"[..]));
    assert_eq!(reply.headers["etag"], "W/\"1\"");
    assert_eq!(reply.request_id(), Some("8a1b6e3f-0002-0011-5f5c-b1d2c3000000"));
    assert_eq!((reply.attempts, reply.ambiguous, reply.secondary), (1, false, false));
    assert!(clock.slept().is_empty());

    let [request] = &script.requests()[..] else { panic!("one request") };
    assert!(request.starts_with("POST /contoso/orders HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"PartitionKey\":\"private\",\"RowKey\":\"1\"}"));
    assert_eq!(header(request, "x-ms-date"), Some("Sun, 01 Mar 2026 12:00:00 GMT"));
    assert_eq!(header(request, "x-ms-version"), Some("2019-02-02"));
    assert_eq!(header(request, "content-type"), Some("application/json"));
    assert_eq!(header(request, "content-length"), Some("39"));
    assert_eq!(header(request, "user-agent"), Some(concat!("rowkey/", env!("CARGO_PKG_VERSION"))));
    let id = header(request, "x-ms-client-request-id").unwrap();
    assert_eq!(uuid::Uuid::parse_str(id).unwrap().get_version_num(), 4);
    assert!(header(request, "authorization").unwrap().starts_with("SharedKey contoso:"));
}

#[tokio::test]
async fn every_attempt_has_its_own_date_id_and_signature() {
    let busy = || answer("503 Busy", "x-ms-error-code: ServerBusy\r\nRetry-After: 2\r\n", "");
    let script = Script::start([busy(), busy(), answer("200 OK", "", "{}")]);
    let (account, clock) = script.account(options());
    let reply = send(&account, Safety::Read).await.unwrap();
    assert_eq!(reply.attempts, 3);
    assert_eq!(clock.slept(), [secs(2), secs(2)]);
    for name in ["x-ms-date", "x-ms-client-request-id", "authorization"] {
        let requests = script.requests();
        let values: BTreeSet<_> = requests.iter().map(|request| header(request, name)).collect();
        assert_eq!(values.len(), 3, "{name}");
    }
}

#[tokio::test]
async fn an_error_carries_the_wait_that_the_service_asked_for() {
    let busy = |headers| answer("503 Busy", headers, "");
    for (act, wait) in [
        (busy("x-ms-error-code: ServerBusy\r\nRetry-After: 2\r\n"), Some(secs(2))),
        (busy("x-ms-error-code: ServerBusy\r\n"), None),
        (Act::Close, None),
    ] {
        let script = Script::start([act]);
        let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
        let (account, _) = script.account(ClientOptions { retry, ..options() });
        let error = send(&account, Safety::Read).await.unwrap_err();
        assert_eq!(error.details().retry_after, wait, "{error}");
    }
}

#[tokio::test]
async fn a_read_is_retried_after_every_transient_failure() {
    for failure in [
        Act::Reset,
        Act::Close,
        answer("500 No", "", ""),
        answer("502 No", "", "<html>bad gateway</html>"),
        answer("503 No", "", "<html>busy</html>"),
        refusal("503 No", "ServerBusy"),
        refusal("429 No", "TooManyRequests"),
        answer("408 No", "", ""),
        Act::Answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_owned()),
        Act::Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n".to_owned()),
        Act::Answer("HTTP/1.1 200 O".to_owned()),
        Act::Answer("SSH-2.0-OpenSSH_9.6\r\n".to_owned()),
    ] {
        let script = Script::start([failure, answer("200 OK", "", "{}")]);
        let (account, _) = script.account(options());
        let reply = send(&account, Safety::Read).await.unwrap();
        assert_eq!((reply.attempts, &*reply.body), (2, &b"{}"[..]));
        assert!(!reply.ambiguous, "a read changes nothing");
    }
}

#[tokio::test]
async fn an_insert_with_an_unknown_outcome_is_not_retried() {
    for failure in [
        Act::Reset,
        Act::Close,
        refusal("500 No", "OperationTimedOut"),
        answer("503 No", "", "<html>busy</html>"),
        answer("504 No", "", ""),
        Act::Answer("HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{".to_owned()),
    ] {
        let script = Script::start([failure, answer("201 Created", "", "")]);
        let (account, clock) = script.account(options());
        let error = send(&account, Safety::Insert).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        assert_eq!(
            (error.kind(), error.details().attempts),
            (ErrorKind::Unavailable, 1),
            "{error}"
        );
        assert!(clock.slept().is_empty());
    }
}

#[tokio::test]
async fn an_insert_is_retried_if_the_service_rejected_it() {
    let script = Script::start([refusal("503 No", "ServerBusy"), answer("201 Created", "", "")]);
    let (account, clock) = script.account(options());
    let reply = send(&account, Safety::Insert).await.unwrap();
    assert_eq!((reply.attempts, reply.ambiguous), (2, false));
    assert_eq!(clock.slept().len(), 1);
}

#[tokio::test]
async fn a_409_after_an_ambiguous_insert_is_reported_as_unknown() {
    let script = Script::start([Act::Close, refusal("409 Conflict", "EntityAlreadyExists")]);
    let (account, _) = script.account(repeating_inserts());
    let error = send(&account, Safety::Insert).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::AlreadyExists, Outcome::Unknown));
    assert_eq!((error.details().attempts, error.details().status), (2, Some(409)));

    let script =
        Script::start([refusal("503 No", "ServerBusy"), refusal("409 No", "EntityAlreadyExists")]);
    let (account, _) = script.account(repeating_inserts());
    let error = send(&account, Safety::Insert).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::AlreadyExists, Outcome::Rejected));
}

#[tokio::test]
async fn a_412_after_an_ambiguous_replace_is_reported_as_unknown() {
    let lost = || [Act::Close, refusal("412 No", "UpdateConditionNotSatisfied")];
    let (account, _) = Script::start(lost()).account(options());
    let error = send(&account, Safety::Conditional).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::Unknown));

    let (account, _) = Script::start([refusal("412 No", "ConditionNotMet")]).account(options());
    let error = send(&account, Safety::Conditional).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::Rejected));
}

#[tokio::test]
async fn an_unknown_outcome_stays_unknown_if_the_retry_is_not_sent() {
    let script = Script::start([Act::Close]);
    let (account, _) = script.account(options());
    let error = send(&account, Safety::Conditional).await.unwrap_err();
    assert_eq!((error.outcome(), error.details().attempts), (Outcome::Unknown, 4), "{error:?}");
}

#[tokio::test]
async fn a_success_after_an_ambiguous_attempt_is_marked() {
    let script = Script::start([Act::Reset, answer("204 No Content", "", "")]);
    let (account, _) = script.account(options());
    let reply = send(&account, Safety::Conditional).await.unwrap();
    assert_eq!((reply.attempts, reply.ambiguous), (2, true));
    assert!(reply.body.is_empty());
}

#[tokio::test]
async fn a_refused_connection_has_the_outcome_not_sent() {
    // Bound but not listening: no other client gets the port, and connections to it are refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/contoso", socket.local_addr().unwrap());
    let (account, clock) = account(&url, options());
    let error = send(&account, Safety::Never).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotSent));
    assert_eq!((error.details().attempts, error.details().status), (4, None));
    let slept = clock.slept();
    let [first, second, third] = slept[..] else { panic!("{slept:?}") };
    for (wait, middle) in [(first, 800), (second, 1600), (third, 3200)] {
        let spread =
            Duration::from_millis(middle * 8 / 10)..Duration::from_millis(middle * 12 / 10);
        assert!(spread.contains(&wait), "{wait:?}");
    }
}

#[tokio::test]
async fn a_response_timeout_leaves_the_outcome_unknown() {
    let quick = ClientOptions { attempt_timeout: Duration::from_millis(50), ..options() };
    // No response, or a response without its complete body.
    let half = || Act::Stall("HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{".to_owned());
    for act in [Act::Hang, half()] {
        let script = Script::start([act]);
        let (account, _) = script.account(quick.clone());
        let error = send(&account, Safety::Insert).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
        assert!(
            error.to_string().contains("timed out before the response was complete"),
            "{error}"
        );
    }
    let script = Script::start([Act::Hang, half(), answer("200 OK", "", "{}")]);
    let (account, _) = script.account(quick);
    assert_eq!(send(&account, Safety::Read).await.unwrap().attempts, 3);
}

#[tokio::test]
async fn the_deadline_covers_all_attempts_and_delays() {
    let busy = || (0..9).map(|_| answer("503 Busy", "Retry-After: 4\r\n", ""));
    let retry = RetryOptions { max_attempts: 9, ..RetryOptions::default() };
    let script = Script::start(busy());
    let (account, clock) = script.account(ClientOptions { timeout: secs(10), retry, ..options() });
    let error = send(&account, Safety::Read).await.unwrap_err();
    assert_eq!(clock.slept(), [secs(4), secs(4)], "a third wait would end after the deadline");
    assert_eq!((error.details().attempts, error.kind()), (3, ErrorKind::Unavailable));
    assert!(error.to_string().contains("allow a longer `timeout`"), "{error}");

    let script =
        Script::start([answer("429 No", "Retry-After: Sun, 01 Mar 2026 13:00:00 GMT\r\n", "")]);
    let (account, clock) = script.account(options());
    let error = send(&account, Safety::Read).await.unwrap_err();
    assert_eq!((error.details().attempts, error.kind()), (1, ErrorKind::Throttled));
    assert!(clock.slept().is_empty(), "an hour is more than the deadline");
}

#[tokio::test]
async fn one_attempt_means_no_retry() {
    for max_attempts in [0, 1] {
        let retry = RetryOptions { max_attempts, ..RetryOptions::default() };
        let script = Script::start([refusal("503 No", "ServerBusy")]);
        let (account, clock) = script.account(ClientOptions { retry, ..options() });
        let error = send(&account, Safety::Read).await.unwrap_err();
        assert_eq!((error.details().attempts, error.kind()), (1, ErrorKind::Throttled));
        assert!(clock.slept().is_empty());
    }
}

#[tokio::test]
async fn a_permanent_rejection_is_not_retried() {
    for (status, code) in [
        ("400 No", "InvalidInput"),
        ("404 No", "ResourceNotFound"),
        ("409 No", "TableBeingDeleted"),
        ("501 No", "NotImplemented"),
    ] {
        let script = Script::start([refusal(status, code)]);
        let (account, _) = script.account(options());
        let error = send(&account, Safety::Read).await.unwrap_err();
        assert_eq!(error.details().attempts, 1);
        assert_eq!(error.code().unwrap().as_str(), code);
        assert_eq!(
            error.details().request_id.as_deref(),
            Some("8a1b6e3f-0002-0011-5f5c-b1d2c3000000")
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let script = Script::start([
        answer("307 Moved", "Location: http://127.0.0.1:1/elsewhere\r\n", ""),
        answer("200 OK", "", "{}"),
    ]);
    let (account, _) = script.account(options());
    let error = send(&account, Safety::Read).await.unwrap_err();
    assert_eq!((error.kind(), error.details().status), (ErrorKind::Unexpected, Some(307)));
    assert!(error.to_string().contains("redirects are not followed"), "{error}");
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn a_chunked_body_is_reassembled() {
    let body = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                1\r\n{\r\n3\r\n\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n";
    let script = Script::start([Act::Answer(body.to_owned())]);
    let (account, _) = script.account(options());
    assert_eq!(&*send(&account, Safety::Read).await.unwrap().body, b"{\"a\":1}");
}

#[tokio::test]
async fn an_authentication_error_mentions_clock_skew() {
    // The account's clock is at noon.
    for (date, hint) in [
        ("Sun, 01 Mar 2026 11:00:00 GMT", Some("60 minutes ahead of the service's")),
        ("Sun, 01 Mar 2026 12:30:00 GMT", Some("30 minutes behind the service's")),
        ("Sun, 01 Mar 2026 12:05:00 GMT", None),
    ] {
        let headers = format!("Date: {date}\r\nx-ms-error-code: AuthenticationFailed\r\n");
        let script = Script::start([answer("403 No", &headers, "")]);
        let (account, _) = script.account(options());
        let error = send(&account, Safety::Read).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth);
        assert_eq!(error.code().unwrap().as_str(), "AuthenticationFailed");
        let message = error.to_string();
        assert_eq!(message.contains("this machine's clock"), hint.is_some(), "{message}");
        assert!(message.contains(hint.unwrap_or_default()), "{message}");
    }
}

#[tokio::test]
async fn a_sas_is_sent_in_the_query_and_never_shown() {
    let sas = Credential::sas("?sv=2019-02-02&sig=se%2Fcret").unwrap();
    let script = Script::start([answer("200 OK", "", ""), answer("200 OK", "", ""), Act::Close]);
    let clock = ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap());
    let builder = builder(&script.url()).credential(sas).clock(clock);
    let account = builder.options(options()).build().unwrap();
    let query = "/orders()?$top=1";
    send(&account, Safety::Read).await.unwrap();
    let request = crate::transport::Request { target: query.to_owned(), ..get() };
    let call = Call::new("QueryEntities", "orders", Safety::Read);
    account.pipeline().send(request, call).await.unwrap();
    let error = send(&account, Safety::Read).await.unwrap_err();

    let requests = script.requests();
    let line = |i: usize| requests[i].lines().next().unwrap();
    assert_eq!(
        line(0),
        "GET /contoso/orders(PartitionKey='private',RowKey='1')?sv=2019-02-02&sig=se%2Fcret HTTP/1.1"
    );
    assert_eq!(line(1), "GET /contoso/orders()?$top=1&sv=2019-02-02&sig=se%2Fcret HTTP/1.1");
    assert_eq!(header(&requests[0], "authorization"), None);

    let mut shown = format!("{error} {error:?} {account:?}");
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        write!(shown, "{error} {error:?}").unwrap();
        source = error.source();
    }
    for secret in ["cret", "sig=", "private", "RowKey"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
