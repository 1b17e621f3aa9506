//! Settings of a handle: plain data with documented defaults.

use std::time::Duration;

/// How the client behaves: deadlines, retries, secondary reads, what may be scanned and recorded.
///
/// Plain data. Change what you need and keep the defaults for the rest:
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
    /// How long one operation may take, retries and the waits between them included. Default: 60
    /// seconds.
    pub timeout: Duration,
    /// How long one attempt may take, from the first byte sent to the last byte read. Default: 30
    /// seconds, which is also the longest that the service works on a request.
    pub attempt_timeout: Duration,
    /// Whether and how failed attempts are repeated.
    pub retry: RetryOptions,
    /// Whether reads that failed at the primary may be retried at the account's secondary, whose
    /// data may be older. Needs an account with a readable secondary (RA-GRS, RA-GZRS). Default:
    /// `false`.
    pub read_from_secondary: bool,
    /// What happens to a query that has to read more than one partition. Default:
    /// [`ScanPolicy::Warn`].
    pub scan_policy: ScanPolicy,
    /// Whether traces show keys and filter literals, which may be personal data. Credentials are
    /// never shown. Default: `false`.
    pub record_keys: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            attempt_timeout: Duration::from_secs(30),
            retry: RetryOptions::default(),
            read_from_secondary: false,
            scan_policy: ScanPolicy::default(),
            record_keys: false,
        }
    }
}

/// Whether and how failed attempts are repeated.
///
/// The wait before attempt *n* + 1 is about `base_delay` doubled *n* - 1 times, spread at random
/// by a fifth, at most `max_delay`. When the service names a wait (`Retry-After`), that one counts.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryOptions {
    /// How many times an operation is sent at most; 1 means no retry, and 0 counts as 1. Default:
    /// 4.
    pub max_attempts: u32,
    /// The wait before the second attempt. Default: 0.8 seconds.
    pub base_delay: Duration,
    /// The longest wait. Default: 60 seconds.
    pub max_delay: Duration,
    /// Whether an insert, or a transaction with an insert in it, is repeated when it is unknown
    /// whether the first attempt was applied. If it was, the repetition fails with
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

/// What happens to a query that has to read more than one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanPolicy {
    /// It runs.
    Allow,
    /// It fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) before anything is sent.
    Deny,
    /// It runs, and a warning names the operation and the table.
    #[default]
    Warn,
}
