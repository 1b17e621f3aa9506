//! Options of a client: data with documented defaults.

pub(crate) mod connection;
pub(crate) mod proxy;

use std::time::Duration;

use crate::pace::{Hedge, Pace};

/// Options of a client: deadlines, retries, pace, secondary and hedged reads, table scans, traces and warnings.
///
/// Change what you need and keep the defaults for the rest:
///
/// ```
/// use std::time::Duration;
/// use rowkey::ClientOptions;
///
/// let options = ClientOptions { timeout: Duration::from_secs(10), ..ClientOptions::default() };
/// assert_eq!(options.retry.max_attempts, 4);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClientOptions {
    /// The longest time for one operation, including retries and the waits between them. Default:
    /// 60 seconds.
    pub timeout: Duration,
    /// The longest time for one attempt, from the first byte sent to the last byte read. Default:
    /// 30 seconds, which is also the longest time that the service works on a request.
    pub attempt_timeout: Duration,
    /// Whether and how failed attempts are retried.
    pub retry: RetryOptions,
    /// Whether a read that failed at the primary may be retried at the account's secondary, whose
    /// data may be older. Needs an account with a readable secondary (RA-GRS, RA-GZRS). Default:
    /// `false`.
    pub read_from_secondary: bool,
    /// What happens to a query that reads more than one partition. Default: [`ScanPolicy::Warn`].
    pub scan_policy: ScanPolicy,
    /// The pace at which requests are sent, unless they run in [`Pace::scope`]. Default: `None`: they do not
    /// wait.
    pub pace: Option<Pace>,
    /// Whether slow reads are sent twice, for the first answer. Default: `None`.
    pub hedge: Option<Hedge>,
    /// Whether traces show keys and filter literals, which may be personal data. Credentials are
    /// never shown. Default: `false`.
    pub record_keys: bool,
    /// From this duration on, an operation writes a warning "slow call": all its attempts, and the waits
    /// between them. [`Duration::MAX`] switches that off. Default: 5 seconds, after which the service ends
    /// a page of a query by itself.
    pub slow: Duration,
    /// The number of pages after which a query that reads on writes a warning "query of many pages", once.
    /// [`u64::MAX`] switches that off. Default: 100, which are up to 100,000 entities.
    pub many_pages: u64,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            attempt_timeout: Duration::from_secs(30),
            retry: RetryOptions::default(),
            read_from_secondary: false,
            scan_policy: ScanPolicy::default(),
            pace: None,
            hedge: None,
            record_keys: false,
            slow: Duration::from_secs(5),
            many_pages: 100,
        }
    }
}

/// Whether and how failed attempts are retried.
///
/// The wait before attempt *n* + 1 is about `base_delay` doubled *n* - 1 times, with a random
/// deviation of up to a fifth, and at most `max_delay`. A wait that the service asks for
/// (`Retry-After`) takes precedence.
///
/// All retries of an account and its clones share a budget
/// ([`StorageAccountBuilder::retry_budget`](crate::StorageAccountBuilder::retry_budget)), so that they do not
/// add to an outage.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryOptions {
    /// The maximum number of attempts; 1 means no retry, and 0 counts as 1. Default: 4.
    pub max_attempts: u32,
    /// The wait before the second attempt. Default: 0.8 seconds.
    pub base_delay: Duration,
    /// The longest wait. Default: 60 seconds.
    pub max_delay: Duration,
    /// Whether an insert, or a transaction that contains an insert, is retried when it is unknown
    /// whether the first attempt was applied. If it was applied, the retry fails with
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) and
    /// [`Outcome::Unknown`](crate::Outcome::Unknown). Default: `false`.
    pub repeat_inserts: bool,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            max_attempts: 4,
            base_delay: Duration::from_millis(800),
            max_delay: Duration::from_secs(60),
            repeat_inserts: false,
        }
    }
}

/// What happens to a query that reads more than one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanPolicy {
    /// The query runs.
    Allow,
    /// The query fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) before anything is
    /// sent.
    Deny,
    /// The query runs, and a warning names the operation and the table.
    #[default]
    Warn,
}
