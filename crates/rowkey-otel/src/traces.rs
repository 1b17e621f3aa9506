//! Traces: the context of OpenTelemetry as a `traceparent`, and back.

use std::num::{NonZeroU64, NonZeroU128};

use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use rowkey_client::telemetry::TraceParent;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The trace that the program is in.
///
/// A scope of [`TraceParent`] is the outer one where the current span is part of its trace, as that of a worker is around
/// the span of a task. Where it is not, the program has set it: the span belongs to something that lives longer, such as the
/// span of a whole worker while the spans of tasks are filtered out.
pub(crate) fn current() -> Option<TraceParent> {
    let span = span();
    match TraceParent::current() {
        Some(scope) => Some(span.filter(|span| span.trace_id == scope.trace_id).unwrap_or(scope)),
        None => span,
    }
}

/// The current span of OpenTelemetry.
fn span() -> Option<TraceParent> {
    Context::map_current(|context| parent(context.span().span_context())).or_else(|| {
        // With `context_activation(false)`, entering a span of `tracing` does not change the context.
        parent(tracing::Span::current().context().span().span_context())
    })
}

fn parent(span: &SpanContext) -> Option<TraceParent> {
    Some(TraceParent {
        trace_id: NonZeroU128::new(u128::from_be_bytes(span.trace_id().to_bytes()))?,
        parent_id: NonZeroU64::new(u64::from_be_bytes(span.span_id().to_bytes()))?,
        flags: span.trace_flags().to_u8(),
    })
}

/// Makes `parent` the parent of a span that has not been entered.
pub(crate) fn follow(span: &tracing::Span, parent: TraceParent) {
    let remote = SpanContext::new(
        TraceId::from_bytes(parent.trace_id.get().to_be_bytes()),
        SpanId::from_bytes(parent.parent_id.get().to_be_bytes()),
        TraceFlags::new(parent.flags),
        true,
        TraceState::default(),
    );
    // Fails without the layer of tracing-opentelemetry, and for spans that are filtered out: they have no parent to set.
    let _ = span.set_parent(Context::current().with_remote_span_context(remote));
}
