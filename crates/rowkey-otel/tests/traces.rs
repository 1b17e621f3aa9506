//! Traces: what one program puts and another one processes is one trace, as an exporter of OpenTelemetry sees it.

use std::error::Error;
use std::sync::{Arc, Mutex};

use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use rowkey::StorageAccount;
use rowkey::telemetry::{Telemetry, TraceParent};
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey_emulator::Server;
use rowkey_otel::Otel;
use serde::{Deserialize, Serialize};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Instrument as _, info_span};
use tracing_subscriber::layer::SubscriberExt as _;

type TestResult = Result<(), Box<dyn Error>>;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pack {
    order: u32,
}

impl Task for Pack {
    const KIND: &'static str = "pack";
}

/// What is traced on this thread goes to the exporter.
fn trace() -> (InMemorySpanExporter, SdkTracerProvider, (DefaultGuard, Dispatch)) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    // A second subscriber: with one, `tracing` caches whether the thread that reaches a span first wants it, and the
    // threads of other tests do not.
    let second = Dispatch::new(NoSubscriber::new());
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    (exporter, provider, (guard, second))
}

/// An account as each program has it, with telemetry of its own.
fn account(server: &Server) -> Result<StorageAccount, rowkey::Error> {
    StorageAccount::builder()
        .connection_string(server.connection_string())?
        .telemetry(Arc::new(Otel::global()))
        .build()
}

fn tasks(account: &StorageAccount) -> Tasks<Pack> {
    Tasks::new(account.queue("packing"))
}

fn named<'s>(spans: &'s [SpanData], name: &str) -> Vec<&'s SpanData> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[tokio::test]
async fn a_task_that_another_program_put_is_processed_in_its_trace() -> TestResult {
    let server = Server::start().await?;
    let (exporter, _provider, _guard) = trace();
    let service = tasks(&account(&server)?);
    service.create_if_missing().await?;
    service.put(&Pack { order: 7 }).instrument(info_span!("request")).await?;

    let elsewhere = tasks(&account(&server)?);
    let handled = elsewhere.clone();
    let worker = Worker::new(elsewhere, move |pack: Pack, _: Attempt| {
        let handled = handled.clone();
        async move {
            if pack.order == 7 {
                handled.put(&Pack { order: 8 }).instrument(info_span!("handler")).await?;
            }
            Ok(Done::Applied)
        }
    });
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(worker.step().await?, Step::Handled);

    let spans = exporter.get_finished_spans()?;
    let [request] = named(&spans, "request")[..] else { panic!("{spans:?}") };
    let [handler] = named(&spans, "handler")[..] else { panic!("{spans:?}") };
    let [first, second] = named(&spans, "task")[..] else { panic!("{spans:?}") };
    // request -> put -> task -> handler -> put -> task
    assert_eq!(first.parent_span_id, request.span_context.span_id());
    assert!(first.parent_span_is_remote);
    assert_eq!(handler.parent_span_id, first.span_context.span_id());
    assert_eq!(second.parent_span_id, handler.span_context.span_id());
    let trace = request.span_context.trace_id();
    for span in [first, second, handler] {
        assert_eq!(span.span_context.trace_id(), trace, "{}", span.name);
    }
    // The requests of both programs that belong to the task.
    let puts = named(&spans, "PutMessage");
    assert_eq!(puts.len(), 2, "{spans:?}");
    assert!(puts.iter().all(|span| span.span_context.trace_id() == trace));
    let deletes = named(&spans, "DeleteMessage");
    assert!(deletes.iter().all(|span| span.span_context.trace_id() == trace));
    Ok(())
}

#[tokio::test]
async fn a_program_without_tracing_passes_the_context_of_opentelemetry() -> TestResult {
    let server = Server::start().await?;
    let service = tasks(&account(&server)?);
    service.create_if_missing().await?;
    let span = SpanContext::new(
        TraceId::from_hex("4bf92f3577b34da6a3ce929d0e0e4736")?,
        SpanId::from_hex("00f067aa0ba902b7")?,
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    );
    {
        use opentelemetry::context::FutureExt as _;
        let context = Context::new().with_remote_span_context(span);
        service.put(&Pack { order: 7 }).with_context(context).await?;
    }
    let seen: Arc<Mutex<Option<TraceParent>>> = Arc::default();
    let kept = Arc::clone(&seen);
    let worker = Worker::new(tasks(&account(&server)?), move |_: Pack, _: Attempt| {
        *kept.lock().unwrap() = TraceParent::current();
        async { Ok(Done::Applied) }
    });
    assert_eq!(worker.step().await?, Step::Handled);
    let expected = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
    assert_eq!(*seen.lock().unwrap(), Some(expected));
    Ok(())
}

#[tokio::test]
async fn the_current_trace_is_that_of_the_span_or_of_a_scope_of_another_trace() -> TestResult {
    let (_exporter, _provider, _guard) = trace();
    let otel = Otel::global();
    assert_eq!(otel.current(), None);
    let other: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
    // The span of something that lives longer than the scope.
    async {
        let outer = otel.current().expect("in a span");
        assert_ne!(outer.trace_id, other.trace_id);
        other.scope(async { assert_eq!(otel.current(), Some(other)) }).await;
        // A span of the trace of the scope: it is the parent of what follows.
        let inner =
            async { assert_ne!(otel.current().map(|it| it.parent_id), Some(outer.parent_id)) };
        outer.scope(inner.instrument(info_span!("inner"))).await;
    }
    .instrument(info_span!("outer"))
    .await;
    Ok(())
}

#[test]
fn without_context_activation_the_span_of_tracing_is_found() {
    let provider = SdkTracerProvider::builder().build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("test"))
        .with_context_activation(false);
    let _second = Dispatch::new(NoSubscriber::new());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let _entered = info_span!("request").entered();
    assert!(Otel::global().current().is_some());
}
