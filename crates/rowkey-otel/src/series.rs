//! A metric with its attributes, ready to be recorded.
//!
//! Attributes of OpenTelemetry own their values, so they are made once for each series and passed by reference.

use opentelemetry::metrics::{Counter, Gauge, Histogram, UpDownCounter};
use opentelemetry::{Key, KeyValue, Value};

use crate::instruments::Amounts;

/// Attributes that the conventions want as integers.
const INTEGERS: [&str; 4] =
    ["http.request.resend_count", "http.response.status_code", "network.peer.port", "server.port"];

type Labels<'l> = [(&'static str, &'l str)];

/// The attributes of labels.
fn attributes(labels: &Labels<'_>) -> Box<[KeyValue]> {
    let attribute = |(key, value): &(&'static str, &str)| {
        let number = value.parse::<i64>().ok().filter(|_| INTEGERS.contains(key));
        let value = number.map_or_else(|| Value::from((*value).to_owned()), Value::I64);
        KeyValue::new(Key::from_static_str(key), value)
    };
    labels.iter().map(attribute).collect()
}

/// An instrument with attributes.
macro_rules! series {
    ($name:ident, $instrument:ident, $number:ty, $record:ident) => {
        #[derive(Debug)]
        pub(crate) struct $name {
            instrument: $instrument<$number>,
            attributes: Box<[KeyValue]>,
        }

        impl $name {
            pub(crate) fn new(instrument: $instrument<$number>, labels: &Labels<'_>) -> Self {
                Self { instrument, attributes: attributes(labels) }
            }

            pub(crate) fn $record(&self, number: $number) {
                self.instrument.$record(number, &self.attributes);
            }
        }
    };
}

series!(Count, Counter, u64, add);
series!(Level, Gauge, f64, record);
series!(Change, UpDownCounter, i64, add);
series!(Seconds, Histogram, f64, record);
series!(Numbers, Histogram, u64, record);

/// A histogram.
#[derive(Debug)]
pub(crate) enum Distribution {
    Seconds(Seconds),
    Numbers(Numbers),
}

impl Distribution {
    pub(crate) fn new(instrument: Amounts, labels: &Labels<'_>) -> Self {
        match instrument {
            Amounts::Seconds(histogram) => Self::Seconds(Seconds::new(histogram, labels)),
            Amounts::Numbers(histogram) => Self::Numbers(Numbers::new(histogram, labels)),
        }
    }

    pub(crate) fn record(&self, value: f64) {
        match self {
            Self::Seconds(histogram) => histogram.record(value),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "sizes and counts, which are whole and no less than 0"
            )]
            Self::Numbers(histogram) => histogram.record(value as u64),
        }
    }
}
