//! What requests use: transactions by billing class, requests and bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

use serde::{Deserialize, Serialize};

use super::class::Class;

/// Transactions by billing class, requests, and the bytes of their bodies: what was used, or what will be.
///
/// A [`Meter`](super::Meter) counts it, explanations predict it, and a [`PriceTable`](super::PriceTable) prices it. Sums and
/// differences stop at the ends of `u64`.
///
/// ```
/// use rowkey::cost::{Class, Usage};
///
/// let order = Usage::of(Class::TableBatchWrite, 1) + Usage::of(Class::QueueClass1, 2);
/// let day = order * 10_000;
/// assert_eq!(day.transactions(Class::QueueClass1), 20_000);
/// assert_eq!(day.all_transactions(), 30_000);
/// assert!((day - day).is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Fields", into = "Fields")]
pub struct Usage {
    transactions: [u64; Class::ALL.len()],
    requests: u64,
    unbilled: u64,
    sent: u64,
    received: u64,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
struct Fields {
    #[serde(default)]
    transactions: BTreeMap<Class, u64>,
    #[serde(default)]
    requests: u64,
    #[serde(default)]
    unbilled: u64,
    #[serde(default)]
    sent: u64,
    #[serde(default)]
    received: u64,
}

impl Usage {
    /// Returns the usage of `count` billed requests of a class, without bodies.
    pub fn of(class: Class, count: u64) -> Self {
        let mut usage = Self { requests: count, ..Self::default() };
        usage.transactions[class.index()] = count;
        usage
    }

    /// Returns the usage of a batch that deletes blobs: one request, with a transaction for each deletion.
    ///
    /// ```
    /// use rowkey::cost::{Class, Usage};
    ///
    /// let batch = Usage::of_blob_batch(200);
    /// assert_eq!((batch.requests(), batch.transactions(Class::BlobDelete)), (1, 200));
    /// ```
    pub fn of_blob_batch(deletions: u64) -> Self {
        Self::of_request(Class::BlobOther, Some((Class::BlobDelete, deletions)), true)
    }

    /// Returns the same usage with more bytes in the bodies of requests and of responses.
    ///
    /// ```
    /// use rowkey::cost::{Class, Usage};
    ///
    /// let put = Usage::of(Class::BlobWrite, 1).with_bytes(4096, 0);
    /// assert_eq!((put.sent(), put.received()), (4096, 0));
    /// ```
    #[must_use = "the usage itself does not change"]
    pub fn with_bytes(mut self, sent: u64, received: u64) -> Self {
        self.sent = self.sent.saturating_add(sent);
        self.received = self.received.saturating_add(received);
        self
    }

    /// Returns the usage of `to` items, if this is that of `from` items; rounded up.
    ///
    /// It extends the usage of a sample, such as a meter's for the first entities of a job, or that of
    /// `explain().load(..)` for some.
    ///
    /// ```
    /// use rowkey::cost::{Class, Usage};
    ///
    /// let of_30 = Usage::of(Class::TableRead, 45);
    /// assert_eq!(of_30.scaled(30, 1_000_000).transactions(Class::TableRead), 1_500_000);
    /// ```
    #[must_use = "the usage itself does not change"]
    pub fn scaled(self, from: u64, to: u64) -> Self {
        let scale = |count: u64| {
            let scaled = u128::from(count) * u128::from(to);
            u64::try_from(scaled.div_ceil(u128::from(from.max(1)))).unwrap_or(u64::MAX)
        };
        Self {
            transactions: self.transactions.map(scale),
            requests: scale(self.requests),
            unbilled: scale(self.unbilled),
            sent: scale(self.sent),
            received: scale(self.received),
        }
    }

    /// The transactions of a class that are billed.
    pub fn transactions(&self, class: Class) -> u64 {
        self.transactions[class.index()]
    }

    /// The transactions of all classes, free deletions of blobs among them.
    ///
    /// A batch of blobs is one request, and a transaction for the batch and for each deletion in it.
    pub fn all_transactions(&self) -> u64 {
        self.transactions.iter().fold(0, |all, one| all.saturating_add(*one))
    }

    /// The classes with a transaction, and their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
        Class::ALL.iter().copied().zip(self.transactions).filter(|(_, count)| *count > 0)
    }

    /// The requests that were sent, billed or not. Each attempt is one.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The requests that were sent and are not billed: throttled, failed by the server, or without a valid signature.
    pub fn unbilled(&self) -> u64 {
        self.unbilled
    }

    /// The bytes in the bodies of requests. Azure does not charge for them.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The bytes in the bodies of responses, which are billed if they leave the region.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether nothing was used.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A request that was sent: of `class`, with `parts` transactions of another class in it.
    pub(super) fn of_request(class: Class, parts: Option<(Class, u64)>, is_billed: bool) -> Self {
        if !is_billed {
            return Self { requests: 1, unbilled: 1, ..Self::default() };
        }
        let mut usage = Self::of(class, 1);
        if let Some((class, count)) = parts {
            usage.transactions[class.index()] = count;
        }
        usage
    }

    fn each(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        let mut transactions = self.transactions;
        for (one, other) in transactions.iter_mut().zip(other.transactions) {
            *one = combine(*one, other);
        }
        Self {
            transactions,
            requests: combine(self.requests, other.requests),
            unbilled: combine(self.unbilled, other.unbilled),
            sent: combine(self.sent, other.sent),
            received: combine(self.received, other.received),
        }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Nothing is less than zero.
impl Sub for Usage {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }
}

impl Mul<u64> for Usage {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        let by = Self {
            transactions: [times; Class::ALL.len()],
            requests: times,
            unbilled: times,
            sent: times,
            received: times,
        };
        self.each(by, u64::saturating_mul)
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

impl From<Fields> for Usage {
    fn from(fields: Fields) -> Self {
        let Fields { transactions: by_class, requests, unbilled, sent, received } = fields;
        let mut transactions = [0; Class::ALL.len()];
        for (class, count) in by_class {
            transactions[class.index()] = count;
        }
        Self { transactions, requests, unbilled, sent, received }
    }
}

impl From<Usage> for Fields {
    fn from(usage: Usage) -> Self {
        let Usage { requests, unbilled, sent, received, .. } = usage;
        Self { transactions: usage.iter().collect(), requests, unbilled, sent, received }
    }
}

impl fmt::Display for Usage {
    /// A line for each class, and one with requests and bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (class, count) in self.iter() {
            writeln!(f, "{class:<30} {count:>12}")?;
        }
        let Self { requests, unbilled, sent, received, .. } = self;
        write!(f, "{requests} requests")?;
        if *unbilled > 0 {
            write!(f, " ({unbilled} not billed)")?;
        }
        write!(f, ", {sent} bytes sent, {received} bytes received")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_class_that_was_used() {
        let used = Usage::of(Class::TableBatchWrite, 2).with_bytes(900, 0)
            + Usage::of(Class::QueueClass1, 12)
            + Usage::of_request(Class::TableRead, None, false);
        assert_eq!(
            used.to_string(),
            "table batch write                         2\n\
             queue class 1                            12\n\
             15 requests (1 not billed), 900 bytes sent, 0 bytes received"
        );
    }

    #[test]
    fn a_batch_of_blobs_is_one_request_and_several_transactions() {
        let batch = Usage::of_request(Class::BlobOther, Some((Class::BlobDelete, 3)), true);
        assert_eq!((batch.requests(), batch.all_transactions()), (1, 4));
    }

    #[test]
    fn usage_round_trips_and_stops_at_the_ends() {
        let used = Usage::of(Class::BlobRead, 3).with_bytes(1, 2);
        let text = serde_json::to_string(&used).unwrap();
        assert_eq!(
            text,
            r#"{"transactions":{"blob_read":3},"requests":3,"unbilled":0,"sent":1,"received":2}"#
        );
        assert_eq!(serde_json::from_str::<Usage>(&text).unwrap(), used);
        assert_eq!(Usage::default() - used, Usage::default());
        assert_eq!(used * u64::MAX + used, used * u64::MAX);
        assert_eq!([used, used].into_iter().sum::<Usage>(), used * 2);
        let other = serde_json::from_str::<Usage>("{}").unwrap();
        assert!(other.is_empty());
    }
}
