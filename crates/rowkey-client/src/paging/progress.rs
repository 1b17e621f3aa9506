//! Limits and cycle detection for reads of many pages: a service that repeats a continuation token
//! or sends endless empty pages must not keep a program busy forever.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, Result};

/// The limits of one read. By default there are none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// The longest time from the first request to the last response.
    pub(crate) deadline: Option<Duration>,
    /// The maximum number of pages.
    pub(crate) max_pages: Option<u64>,
}

/// The progress of a read whose pages begin at tokens of type `T`.
///
/// Brent's algorithm finds cycles: each token is compared with the previous one and with a kept one, which is
/// replaced after 1, 2, 4, .. pages. This keeps one token and costs two comparisons per page, and finds a cycle
/// of any length after at most three times as many pages as were read before the cycle closed.
#[derive(Debug)]
pub(crate) struct Progress<T> {
    limits: Limits,
    /// When the first page was requested. Not from the account's clock: a step of the system time must not
    /// end a read.
    begun: Option<Instant>,
    pages: u64,
    kept: Option<T>,
    /// The number of pages since a token was kept, and the number after which the next one is kept.
    since: u64,
    turn: u64,
    repeats: bool,
}

impl<T: Clone + PartialEq> Progress<T> {
    /// Starts at `begin`, which is a token if the read is resumed.
    pub(crate) fn new(limits: Limits, begin: Option<&T>) -> Self {
        let kept = begin.cloned();
        Self { limits, begun: None, pages: 0, kept, since: 0, turn: 1, repeats: false }
    }

    /// Admits the next page, or fails if a limit is reached or a token repeats.
    pub(crate) fn admit(&mut self) -> Result<PagePermit> {
        let pages = self.pages;
        if self.repeats {
            return Err(Error::decode(format!(
                "the service repeated a continuation token after {pages} pages, so this would never \
                 end"
            ))
            .advise("report it, with the endpoint and the software of the server"));
        }
        if self.limits.max_pages.is_some_and(|most| pages >= most) {
            return Err(Error::too_large(format!("it is not at its end after {pages} pages"))
                .advise(
                    "narrow it, allow more pages, or resume from the last continuation token",
                ));
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let left = self.limits.deadline.map(|deadline| deadline.saturating_sub(begun.elapsed()));
        if left == Some(Duration::ZERO) { Err(late(pages)) } else { Ok(PagePermit { left, pages }) }
    }

    /// Records a page that began at `from`, and the start of the next one.
    pub(crate) fn advance(&mut self, from: Option<&T>, next: Option<&T>) {
        self.pages += 1;
        let Some(next) = next else { return };
        self.repeats = from == Some(next) || self.kept.as_ref() == Some(next);
        self.since += 1;
        if self.since >= self.turn {
            self.kept = Some(next.clone());
            self.turn *= 2;
            self.since = 0;
        }
    }
}

/// The permission to request a page, and the time it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagePermit {
    left: Option<Duration>,
    /// The number of pages before it.
    pages: u64,
}

impl PagePermit {
    /// The number of pages before it.
    pub(crate) fn pages(self) -> u64 {
        self.pages
    }

    /// Waits for the page, up to its time limit.
    pub(crate) async fn wait<T>(self, page: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(left) = self.left else { return page.await };
        tokio::time::timeout(left, page).await.unwrap_or_else(|_| Err(late(self.pages)))
    }
}

/// The error for a page that did not arrive in time.
#[cold]
fn late(pages: u64) -> Error {
    Error::late(format!("the deadline passed after {pages} pages"))
        .advise("allow more time, or resume from the last continuation token")
}

/// The setters of the limits of a read, for a builder whose field `limits` is [`Limits`].
macro_rules! limits {
    () => {
        /// Limits the total time, from the first request to the last response, including the time in which
        /// the caller processes pages. Default: no limit; only each request has a
        /// [timeout](crate::ClientOptions::timeout).
        ///
        /// After that, reading fails with
        /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable).
        pub fn deadline(mut self, deadline: std::time::Duration) -> Self {
            self.limits.deadline = Some(deadline);
            self
        }

        /// Limits the number of pages. Pages can be empty although there are more, so this limits the
        /// requests, not the results. Default: no limit.
        ///
        /// Beyond the limit, reading fails with
        /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
        ///
        /// ```
        /// use std::time::Duration;
        /// use rowkey::ErrorKind;
        ///
        /// # use rowkey::StorageAccount;
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let server = rowkey_emulator::Server::start().await?;
        /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
        /// for name in ["one", "two", "three"] {
        ///     account.queue(name).create().await?;
        /// }
        /// let queues = || account.queues().page_size(1).deadline(Duration::from_secs(30));
        /// assert_eq!(queues().max_pages(3).all().await?.len(), 3);
        /// assert_eq!(queues().max_pages(2).all().await.unwrap_err().kind(), ErrorKind::TooLarge);
        /// # Ok(()) }
        /// ```
        pub fn max_pages(mut self, pages: u64) -> Self {
            self.limits.max_pages = Some(pages);
            self
        }
    };
}

pub(crate) use limits;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// The number of pages after which a read of these tokens ends.
    fn pages(tokens: impl IntoIterator<Item = u32>) -> Option<u64> {
        let mut progress = Progress::new(Limits::default(), None);
        let mut from = None;
        for next in tokens {
            if progress.admit().is_err() {
                return Some(progress.pages);
            }
            progress.advance(from.as_ref(), Some(&next));
            from = Some(next);
        }
        None
    }

    #[test]
    fn only_a_cycle_of_tokens_ends_paging_with_an_error() {
        assert_eq!(pages([7; 100]), Some(2), "a token that repeats at once");
        for tail in [0, 1, 5, 100] {
            for length in 1..70_u32 {
                let tokens = (0..tail).chain((0..).map(|i| 1000 + i % length));
                let most = u64::from(3 * (tail.max(1) + length) + 3);
                let ended = pages(tokens.take(10_000)).unwrap();
                assert!(ended <= most, "{tail} then {length}: {ended} pages");
            }
        }
        assert_eq!(pages(0..100_000), None, "tokens that advance");
    }

    #[test]
    fn a_resumed_query_detects_a_cycle_to_its_start() {
        let mut progress = Progress::new(Limits::default(), Some(&1));
        progress.advance(Some(&1), Some(&1));
        let error = progress.admit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(error.to_string().contains("repeated a continuation token after 1 pages"));
    }

    #[test]
    fn optional_limits_on_pages_and_time_are_enforced() {
        let limits = Limits { max_pages: Some(2), deadline: None };
        let mut progress = Progress::new(limits, None);
        for token in [1, 2] {
            assert!(progress.admit().is_ok());
            progress.advance(None, Some(&token));
        }
        assert_eq!(progress.admit().unwrap_err().kind(), ErrorKind::TooLarge);
        let limits = Limits { deadline: Some(Duration::ZERO), max_pages: None };
        let error = Progress::<u8>::new(limits, None).admit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.is_retryable());
    }
}
