//! Instruments of a meter: one for each metric, with the unit, the description and the buckets of the table of metrics.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use opentelemetry::metrics::{
    Counter, Gauge, Histogram, HistogramBuilder, InstrumentBuilder, Meter, UpDownCounter,
};
use rowkey_client::telemetry::Metric;

/// A histogram of durations, or of numbers without a fraction, which exporters show as such.
#[derive(Clone, Debug)]
pub(crate) enum Amounts {
    Seconds(Histogram<f64>),
    Numbers(Histogram<u64>),
}

/// Instruments by the names of their metrics. The SDK warns if one is created twice.
#[derive(Debug)]
pub(crate) struct Instruments {
    meter: Meter,
    counters: ByName<Counter<u64>>,
    changes: ByName<UpDownCounter<i64>>,
    gauges: ByName<Gauge<f64>>,
    amounts: ByName<Amounts>,
}

type ByName<T> = Mutex<HashMap<&'static str, T>>;

impl Instruments {
    pub(crate) fn new(meter: Meter) -> Self {
        Self {
            meter,
            counters: Mutex::default(),
            changes: Mutex::default(),
            gauges: Mutex::default(),
            amounts: Mutex::default(),
        }
    }

    pub(crate) fn counter(&self, name: &'static str) -> Counter<u64> {
        find(&self.counters, name, |metric| described(self.meter.u64_counter(name), metric).build())
    }

    pub(crate) fn change(&self, name: &'static str) -> UpDownCounter<i64> {
        find(&self.changes, name, |metric| {
            described(self.meter.i64_up_down_counter(name), metric).build()
        })
    }

    pub(crate) fn gauge(&self, name: &'static str) -> Gauge<f64> {
        find(&self.gauges, name, |metric| described(self.meter.f64_gauge(name), metric).build())
    }

    pub(crate) fn amounts(&self, name: &'static str) -> Amounts {
        find(&self.amounts, name, |metric| {
            if metric.is_none_or(|metric| metric.unit == "s") {
                Amounts::Seconds(distributed(self.meter.f64_histogram(name), metric).build())
            } else {
                Amounts::Numbers(distributed(self.meter.u64_histogram(name), metric).build())
            }
        })
    }
}

/// A metric that is not in the table has neither unit nor description.
fn described<'m, I>(
    builder: InstrumentBuilder<'m, I>,
    metric: Option<&Metric>,
) -> InstrumentBuilder<'m, I> {
    let Some(metric) = metric else { return builder };
    builder.with_unit(metric.unit).with_description(metric.description)
}

fn distributed<'m, I>(
    builder: HistogramBuilder<'m, I>,
    metric: Option<&Metric>,
) -> HistogramBuilder<'m, I> {
    let Some(metric) = metric else { return builder };
    builder
        .with_unit(metric.unit)
        .with_description(metric.description)
        .with_boundaries(metric.buckets.to_vec())
}

fn find<T: Clone>(
    known: &ByName<T>,
    name: &'static str,
    build: impl FnOnce(Option<&Metric>) -> T,
) -> T {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(name).or_insert_with(|| build(Metric::named(name))).clone()
}
