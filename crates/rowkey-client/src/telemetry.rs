//! The interface to a program's telemetry: the current trace, counters, gauges and histograms.
//!
//! Spans and events are written with `tracing`. One hook, [`Telemetry`], adds what `tracing` does
//! not cover: the trace that the program is in, and numbers.
//!
//! - this file: [`Telemetry`], the hook of an account, [`TraceParent`]
//! - `metrics`: [`METRICS`], the names of all numbers
//! - `cache`: what adapters keep of a series
//! - `series`: the limits on the values of attributes
//! - `tally`: [`with_receipt`], what the requests of a call used

use std::fmt;
use std::future::Future;
use std::num::{NonZeroU64, NonZeroU128};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;

use tracing::field::display;

use crate::error::{Error, Result};

mod cache;
#[doc(hidden)]
pub mod metrics;
mod series;
pub(crate) mod tally;

#[doc(hidden)]
pub use cache::SeriesCache;
pub use metrics::{METRICS, Metric, MetricKind};
pub(crate) use series::{Attributes, Series, status_text};
pub use series::{MAX_NAMES, OTHER, error_type};
#[doc(hidden)]
pub use tally::receipt_so_far;
pub use tally::with_receipt;

/// A hook that connects the libraries on an account to a program's telemetry. Every method has a
/// default.
///
/// Pass it to [`StorageAccountBuilder::telemetry`](crate::StorageAccountBuilder::telemetry); it
/// serves the client, stores, workers, jobs and janitors on that account. Its methods are called while
/// requests and tasks are processed, from any thread: they must not block. A panic in a method is
/// logged and has no other effect.
///
/// [`METRICS`] lists everything that [`count`](Self::count), [`gauge`](Self::gauge),
/// [`record`](Self::record) and [`adjust`](Self::adjust) are called with. No attribute has a key or a
/// value of an entity, and each has few values: of the names that a program or a server chooses, the first
/// [`MAX_NAMES`] are passed, and [`OTHER`] for the rest.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
///
/// use rowkey::StorageAccount;
/// use rowkey::telemetry::Telemetry;
///
/// #[derive(Default)]
/// struct Counters(Mutex<BTreeMap<String, u64>>);
///
/// impl Telemetry for Counters {
///     fn count(&self, name: &'static str, labels: &[(&'static str, &str)], add: u64) {
///         let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
///         let series = format!("{name}{{{}}}", labels.join(","));
///         *self.0.lock().unwrap().entry(series).or_default() += add;
///     }
/// }
///
/// let account = StorageAccount::builder()
///     .connection_string("UseDevelopmentStorage=true")?
///     .telemetry(Arc::new(Counters::default()))
///     .build()?;
/// # Ok::<(), rowkey::Error>(())
/// ```
pub trait Telemetry: Send + Sync + 'static {
    /// The trace that the program is in now, which is written into tasks and op rows. The default
    /// is [`TraceParent::current`]; an adapter for OpenTelemetry returns the context of the current
    /// span.
    fn current(&self) -> Option<TraceParent> {
        TraceParent::current()
    }

    /// Makes a trace the parent of a span that has not been entered: the span of a task that
    /// another program enqueued, or of a write that it began. The span always has the fields
    /// `trace_id` and `parent_id`; an adapter for OpenTelemetry sets the span's parent.
    fn follow(&self, span: &tracing::Span, parent: TraceParent) {
        let _ = (span, parent);
    }

    /// Adds to a counter.
    fn count(&self, name: &'static str, labels: &[(&'static str, &str)], add: u64) {
        let _ = (name, labels, add);
    }

    /// Sets a gauge: a duration in seconds, or a count.
    fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        let _ = (name, labels, value);
    }

    /// Adds a value to a histogram: a duration in seconds, a size in bytes, or a count.
    fn record(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        let _ = (name, labels, value);
    }

    /// Adds a positive or negative number to an up-down counter, which is 0 in the beginning.
    fn adjust(&self, name: &'static str, labels: &[(&'static str, &str)], change: i64) {
        let _ = (name, labels, change);
    }
}

/// The hook of an account, if it has one. Catches its panics, and bounds the number of its series.
#[derive(Clone, Default)]
pub(crate) struct Hook(Option<Arc<Installed>>);

struct Installed {
    telemetry: Arc<dyn Telemetry>,
    series: Series,
}

impl Hook {
    pub(crate) fn new(telemetry: Arc<dyn Telemetry>) -> Self {
        Self(Some(Arc::new(Installed { telemetry, series: Series::default() })))
    }

    /// Whether the program has one.
    pub(crate) fn is_attached(&self) -> bool {
        self.0.is_some()
    }

    /// The hook, and what bounds its series, for those who report several values at once.
    pub(crate) fn installed(&self) -> Option<(&Self, &Series)> {
        Some((self, &self.0.as_ref()?.series))
    }

    /// Calls the hook with attributes that are bounded already.
    pub(crate) fn call<R>(&self, call: impl FnOnce(&dyn Telemetry) -> R) -> Option<R> {
        let telemetry = &*self.0.as_deref()?.telemetry;
        let called = catch_unwind(AssertUnwindSafe(|| call(telemetry)));
        if called.is_err() {
            tracing::error!(target: "rowkey", "the telemetry of an account panicked");
        }
        called.ok()
    }
}

impl Telemetry for Hook {
    fn current(&self) -> Option<TraceParent> {
        match self.0 {
            Some(_) => self.call(Telemetry::current)?,
            None => TraceParent::current(),
        }
    }

    fn follow(&self, span: &tracing::Span, parent: TraceParent) {
        span.record("trace_id", display(format_args!("{:032x}", parent.trace_id)));
        span.record("parent_id", display(format_args!("{:016x}", parent.parent_id)));
        self.call(|telemetry| telemetry.follow(span, parent));
    }

    fn count(&self, name: &'static str, labels: &[(&'static str, &str)], add: u64) {
        self.bounded(labels, |telemetry, labels| telemetry.count(name, labels, add));
    }

    fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.bounded(labels, |telemetry, labels| telemetry.gauge(name, labels, value));
    }

    fn record(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.bounded(labels, |telemetry, labels| telemetry.record(name, labels, value));
    }

    fn adjust(&self, name: &'static str, labels: &[(&'static str, &str)], change: i64) {
        self.bounded(labels, |telemetry, labels| telemetry.adjust(name, labels, change));
    }
}

impl Hook {
    /// Calls the hook with bounded attributes.
    fn bounded(
        &self,
        labels: &[(&'static str, &str)],
        call: impl FnOnce(&dyn Telemetry, &[(&'static str, &str)]),
    ) {
        let Some((hook, series)) = self.installed() else { return };
        let mut bounded = Attributes::new();
        // An operation on the account has no resource.
        for (attribute, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            bounded.push(attribute, series.bounded(attribute, value));
        }
        hook.call(|telemetry| call(telemetry, bounded.as_slice()));
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hook").field(&self.0.is_some()).finish()
    }
}

tokio::task_local! {
    static CURRENT: TraceParent;
}

/// A trace, and the span in it that caused the current work: the `traceparent` of
/// [W3C Trace Context](https://www.w3.org/TR/trace-context/).
///
/// ```
/// use rowkey::telemetry::TraceParent;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rowkey::Error> {
/// // The header of a request that the program serves.
/// let parent: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
/// parent
///     .scope(async {
///         // Tasks that are put here carry it, and so do the writes of stores.
///         assert_eq!(TraceParent::current(), Some(parent));
///     })
///     .await;
/// assert_eq!(TraceParent::current(), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// The id of the trace.
    pub trace_id: NonZeroU128,
    /// The id of the parent span.
    pub parent_id: NonZeroU64,
    /// Bit 0: whether the caller recorded the trace.
    pub flags: u8,
}

impl TraceParent {
    /// The trace of the future that is being polled, if it runs in [`scope`](Self::scope).
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| *current).ok()
    }

    /// Runs a future in this trace. Tasks that it spawns do not inherit the trace.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }
}

/// Writes `traceparent` in version `00`.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.parent_id, self.flags)
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceParent({self})")
    }
}

impl FromStr for TraceParent {
    type Err = Error;

    /// Reads version `00`, and the fields of later versions that it shares. Fails with
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            Error::invalid("the text is not a `traceparent` of W3C Trace Context")
                .advise("start without a trace")
        };
        let number = |part: Option<&str>, digits| {
            let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
            let part = part.filter(|part| part.len() == digits && part.bytes().all(is_hex));
            part.and_then(|part| u128::from_str_radix(part, 16).ok()).ok_or_else(refused)
        };
        let mut parts = text.split('-');
        let version = number(parts.next(), 2)?;
        let trace_id = number(parts.next(), 32)?;
        let parent_id = number(parts.next(), 16)?;
        let flags = number(parts.next(), 2)?;
        // Version 255 is invalid, and nothing follows the flags in version 0.
        if version == 0xFF || (version == 0 && parts.next().is_some()) {
            return Err(refused());
        }
        let parent_id = u64::try_from(parent_id).map_err(|_| refused())?;
        let flags = u8::try_from(flags).map_err(|_| refused())?;
        let trace_id = NonZeroU128::new(trace_id).ok_or_else(refused)?;
        let parent_id = NonZeroU64::new(parent_id).ok_or_else(refused)?;
        Ok(Self { trace_id, parent_id, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_round_trips() {
        let parent: TraceParent = TEXT.parse().unwrap();
        assert_eq!(parent.to_string(), TEXT);
        assert_eq!(parent.trace_id.get(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(parent.parent_id.get(), 0x00f0_67aa_0ba9_02b7);
        assert_eq!(parent.flags, 1);
    }

    #[test]
    fn the_known_fields_of_a_later_version_are_read() {
        let later = format!("01{}-what-comes", &TEXT[2..]);
        assert_eq!(later.parse::<TraceParent>().unwrap().to_string(), TEXT);
    }

    #[test]
    fn invalid_traceparents_are_rejected() {
        for text in [
            "",
            "00",
            &TEXT[..54],
            &format!("{TEXT}-more"),
            &format!("ff{}", &TEXT[2..]),
            &TEXT.to_uppercase(),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            let error = text.parse::<TraceParent>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        }
    }

    #[test]
    fn a_panic_of_a_hook_is_ignored() {
        struct Broken;
        impl Telemetry for Broken {
            fn current(&self) -> Option<TraceParent> {
                panic!("broken")
            }
            fn count(&self, _: &'static str, _: &[(&'static str, &str)], _: u64) {
                panic!("broken")
            }
        }
        let hook = Hook::new(Arc::new(Broken));
        assert_eq!(hook.current(), None);
        hook.count("a", &[], 1);
    }
}
