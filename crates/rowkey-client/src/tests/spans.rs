//! Spans of operations, and values that they never contain.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey_entity::DynamicEntity;
use rowkey_wire::auth::Service;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::script::{Act, KEY, Script, answer, builder, get, header, options, refusal};
use crate::clock::ManualClock;
use crate::options::ClientOptions;
use crate::pace::Hedge;
use crate::transport::{Call, Safety};

/// Records each traced item as a line.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<String>>);

impl Notes {
    fn note(&self, what: &str, write: impl FnOnce(&mut Line<'_>)) {
        let mut notes = self.0.lock().unwrap();
        notes.push_str(what);
        write(&mut Line(&mut notes));
        notes.push('\n');
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "rowkey"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note("span", |line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.note("record", |line| values.record(line));
    }

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata().level().as_str(), |line| event.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The trace of a read that receives these responses.
async fn traced(script: &Script, options: ClientOptions, call: Call<'_>) -> String {
    let notes = Notes::default();
    // With one live subscriber, `tracing` caches the interest of the thread that first reaches an event, and
    // other tests reach the same events. With two, it asks every time.
    let _second = tracing::Dispatch::new(Notes::default());
    let guard = tracing::subscriber::set_default(notes.clone());
    let (account, _) = script.account(options);
    let result = account.pipeline().send(get(), call).await;
    drop((result, guard));
    notes.text()
}

fn call() -> Call<'static> {
    Call::new("GetEntity", "orders", Safety::Read)
}

#[tokio::test]
async fn span_names_match_the_azure_sdks() {
    let script = Script::start([answer("200 OK", "", "{}")]);
    let notes = traced(&script, options(), call()).await;
    for field in [
        "otel.name=\"GetEntity\"",
        "otel.kind=\"client\"",
        "az.namespace=\"Microsoft.Tables\"",
        "db.collection.name=\"orders\"",
        "http.request.method=\"GET\"",
        "server.address=\"127.0.0.1\"",
        "url.template=\"/orders(..)\"",
        "http.response.status_code=200",
        "az.service_request_id=\"8a1b6e3f-0002-0011-5f5c-b1d2c3000000\"",
    ] {
        assert!(notes.contains(field), "{field} not in {notes}");
    }
    let requests = script.requests();
    let id = header(&requests[0], "x-ms-client-request-id").unwrap();
    assert!(notes.contains(&format!("az.client_request_id=\"{id}\"")), "{notes}");
    assert!(!notes.contains("ERROR") && !notes.contains("resend_count="), "{notes}");
}

#[tokio::test]
async fn keys_are_traced_only_if_enabled_and_secrets_never() {
    for record_keys in [false, true] {
        let script = Script::start([answer("200 OK", "", "{}")]);
        let options = ClientOptions { record_keys, ..options() };
        let notes = traced(&script, options, call()).await;
        assert_eq!(notes.contains("private"), record_keys, "{notes}");
        let requests = script.requests();
        let (_, signature) =
            header(&requests[0], "authorization").unwrap().split_once(':').unwrap();
        assert!(!notes.contains(signature) && !notes.contains(KEY), "{notes}");
    }
}

#[tokio::test]
async fn retries_are_warnings_and_an_unexpected_failure_is_an_error() {
    let script =
        Script::start([refusal("503 No", "ServerBusy"), refusal("400 No", "InvalidInput")]);
    let notes = traced(&script, options(), call()).await;
    let warnings: Vec<&str> = notes.lines().filter(|line| line.starts_with("WARN")).collect();
    let [warning] = warnings[..] else { panic!("{notes}") };
    assert!(warning.contains("reason=ServerBusy") && warning.contains("attempt=1"), "{warning}");
    let errors: Vec<&str> = notes.lines().filter(|line| line.starts_with("ERROR")).collect();
    let [error] = errors[..] else { panic!("{notes}") };
    assert!(error.contains("GetEntity on orders"), "{error}");
    assert!(notes.contains("error.type=InvalidInput"), "{notes}");
    assert!(notes.contains("http.request.resend_count=1"), "{notes}");
}

/// A server can send any code: the same bound holds for spans as for metrics.
#[tokio::test]
async fn the_error_type_of_a_span_is_that_of_metrics() {
    for (code, expected) in [("InvalidInput", "InvalidInput"), ("Code4711", "_OTHER")] {
        let script = Script::start([refusal("400 No", code)]);
        let notes = traced(&script, options(), call()).await;
        assert!(notes.contains(&format!("error.type={expected}")), "{notes}");
    }
}

#[tokio::test]
async fn an_expected_status_is_not_traced_as_an_error() {
    for (call, errors) in [(call(), 1), (call().expecting(&[404]), 0)] {
        let script = Script::start([refusal("404 No", "ResourceNotFound")]);
        let notes = traced(&script, options(), call).await;
        assert_eq!(notes.lines().filter(|line| line.starts_with("ERROR")).count(), errors);
        assert!(notes.contains("http.response.status_code=404"), "{notes}");
    }
}

/// The warnings with this message.
fn warnings<'a>(notes: &'a str, message: &str) -> Vec<&'a str> {
    let of = format!("message={message}");
    notes.lines().filter(|line| line.starts_with("WARN") && line.contains(&of)).collect()
}

#[tokio::test]
async fn a_slow_call_is_one_warning_with_all_its_attempts_and_without_keys() {
    let busy = || refusal("503 No", "ServerBusy");
    // Two waits of 0.8 and 1.6 seconds, give or take a fifth, pass on the account's clock.
    for (slow, events) in [(Duration::from_secs(1), 1), (Duration::from_secs(60), 0)] {
        let script = Script::start([busy(), busy(), answer("200 OK", "", "{}")]);
        let options = ClientOptions { slow, ..options() };
        let notes = traced(&script, options, call()).await;
        let warnings = warnings(&notes, "slow call");
        assert_eq!(warnings.len(), events, "{notes}");
        let Some(warning) = warnings.first() else { continue };
        let requests = script.requests();
        let id = header(&requests[2], "x-ms-client-request-id").unwrap();
        for field in [
            "operation=\"GetEntity\"",
            "resource=\"orders\"",
            "attempts=3",
            "status=200",
            &format!("client_request_id=\"{id}\""),
        ] {
            assert!(warning.contains(field), "{field} not in {warning}");
        }
        let took = warning.split("duration_ms=").nth(1).unwrap().split(' ').next().unwrap();
        assert!((1_900..3_000).contains(&took.parse::<u64>().unwrap()), "{warning}");
        assert!(!warning.contains("private"), "{warning}");
    }
}

#[tokio::test]
async fn a_second_request_that_is_answered_first_names_the_call() {
    let primary = Script::start([Act::Hang]);
    let secondary = Script::start([answer("200 OK", "", "{}")]);
    let after = Some(Duration::from_millis(50));
    let hedge = Some(Hedge { after, at_secondary: true, percent: 100 });
    let account = builder(&primary.url())
        .secondary_endpoint(Service::Table, &secondary.url())
        .unwrap()
        .clock(ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap()))
        .options(ClientOptions {
            hedge,
            read_from_secondary: true,
            slow: Duration::ZERO,
            ..options()
        })
        .build()
        .unwrap();
    let notes = Notes::default();
    let _second = tracing::Dispatch::new(Notes::default());
    let guard = tracing::subscriber::set_default(notes.clone());
    account.pipeline().send(get(), call()).await.unwrap();
    drop(guard);
    let (notes, requests) = (notes.text(), secondary.requests());
    let id = header(&requests[0], "x-ms-client-request-id").unwrap();
    let slow = warnings(&notes, "slow call");
    assert!(slow[0].contains(&format!("client_request_id=\"{id}\"")), "{slow:?}");
    let last = notes.lines().rev().find(|line| line.contains("az.client_request_id")).unwrap();
    assert!(last.contains(id), "{notes}");
}

#[tokio::test]
async fn a_slow_call_that_fails_is_logged_too_and_the_limit_can_be_off() {
    for (slow, events) in [(Duration::ZERO, 1), (Duration::MAX, 0)] {
        let script = Script::start([refusal("400 No", "InvalidInput")]);
        let options = ClientOptions { slow, ..options() };
        let notes = traced(&script, options, call()).await;
        let warnings = warnings(&notes, "slow call");
        assert_eq!(warnings.len(), events, "{notes}");
        assert!(warnings.iter().all(|line| line.contains("status=400 ")), "{notes}");
    }
}

#[tokio::test]
async fn a_query_of_many_pages_is_one_warning_with_its_cost() {
    let page = |number: usize| {
        let token = format!(
            "Content-Type: application/json;odata=minimalmetadata\r\n\
             x-ms-continuation-NextPartitionKey: private{number}\r\n"
        );
        answer("200 OK", if number < 5 { &token } else { "" }, r#"{"value":[]}"#)
    };
    for (many_pages, events) in [(2, 1), (4, 1), (5, 0), (u64::MAX, 0)] {
        for way in 0..4 {
            let script = Script::start((1..=5).map(page));
            let notes = Notes::default();
            let _second = tracing::Dispatch::new(Notes::default());
            let guard = tracing::subscriber::set_default(notes.clone());
            let options = ClientOptions { many_pages, ..options() };
            let (account, _) = script.account(options);
            let query = account.table("orders").scan::<DynamicEntity>();
            let read = match way {
                0 => query.all().await.map(|all| all.len()),
                1 => query.stream().try_collect::<Vec<_>>().await.map(|all| all.len()),
                2 => query.prefetch().pages().try_collect::<Vec<_>>().await.map(|_| 0),
                _ => query.pages().try_collect::<Vec<_>>().await.map(|_| 0),
            };
            drop(guard);
            assert_eq!((read.unwrap(), script.requests().len()), (0, 5));
            let notes = notes.text();
            let warnings = warnings(&notes, "query of many pages");
            assert_eq!(warnings.len(), events, "{many_pages}, {way}: {notes}");
            for warning in warnings {
                assert!(warning.contains("cost=table scan"), "{warning}");
                assert!(warning.contains(&format!("pages={many_pages}")), "{warning}");
                assert!(!warning.contains("private"), "{warning}");
            }
        }
    }
}
