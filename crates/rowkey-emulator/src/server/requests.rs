//! [`assert_requests`](crate::assert_requests): how many requests a piece of code sends.
//!
//! The macro only places the `.await` and the caller's line; [`RequestCount`] counts and reports.

use std::fmt::{self, Write as _};
use std::ops::{RangeFrom, RangeInclusive, RangeToInclusive};

use rowkey_wire::auth::Service;

use super::Server;
use crate::control::journal::Record;
use crate::control::{Journal, JournalEntry};
use crate::front::operation::Operation;

/// The most lines that a failed assertion prints.
const LINES: usize = 50;

/// Asserts how many requests a future sends to a [`Server`], and returns the future's output.
///
/// The second argument is a number or a range: `3`, `..=3`, `2..=4`, `1..`. Before it, and `=>`, may stand
/// what to count: an [`Operation`], a [`Service`], or the name of a table, queue or container. Without,
/// all requests count, among them retries and those that failed.
///
/// ```
/// # use std::io::{Read as _, Write as _};
/// # /// Sends a request without a signature, which the server refuses.
/// # async fn tables(server: &rowkey_emulator::Server) -> std::io::Result<String> {
/// #     let endpoint = server.table_endpoint().trim_start_matches("http://");
/// #     let (host, account) = endpoint.split_once('/').unwrap();
/// #     let mut connection = std::net::TcpStream::connect(host)?;
/// #     let head = format!("GET /{account}/Tables HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
/// #     connection.write_all(head.as_bytes())?;
/// #     let mut response = String::new();
/// #     connection.read_to_string(&mut response)?;
/// #     Ok(response)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use rowkey_emulator::{Operation, Server, assert_requests};
///
/// let server = Server::start().await?;
/// let response = assert_requests!(server, 1, async { tables(&server).await })?;
/// assert!(response.starts_with("HTTP/1.1 401"));
/// assert_requests!(server, ..=2, tables(&server))?;
/// assert_requests!(server, Operation::QueryTables => 1, tables(&server))?;
/// assert_requests!(server, "orders" => 0, tables(&server))?;
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// Panics if the number differs, with a list of the requests: operation, table, queue or container, and
/// status. The list has no keys and no values. Also panics if the server has no journal
/// ([`ServerBuilder::journal`](crate::ServerBuilder::journal)), and if a filter is given and more
/// requests arrive than the 10,000 that a journal holds.
///
/// # Other tasks
///
/// The requests of a server are counted by their arrival, from the start of the future to its end. If
/// other tasks or tests use the same server meanwhile, their requests count as well; and those of a task
/// that the future spawned count as far as they arrived. So give each test its own server, and let the
/// future wait for what it spawns. Servers do not affect each other: tests may run in parallel.
#[macro_export]
macro_rules! assert_requests {
    ($server:expr, $filter:expr => $expected:expr, $future:expr $(,)?) => {{
        let count = $server.count_requests($filter);
        let output = $future.await;
        count.check($expected);
        output
    }};
    ($server:expr, $expected:expr, $future:expr $(,)?) => {{
        let count = $server.count_requests(());
        let output = $future.await;
        count.check($expected);
        output
    }};
}

/// The requests that count.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum Counted {
    All,
    Operation(Operation),
    Service(Service),
    Resource(String),
}

/// The number of requests that is expected.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    least: usize,
    most: usize,
}

/// Requests that are being counted.
#[doc(hidden)]
#[derive(Debug)]
pub struct RequestCount<'a> {
    record: &'a Record,
    counted: Counted,
    /// The number of the last request before.
    before: u64,
}

impl Server {
    /// Starts to count requests, for `assert_requests`.
    #[doc(hidden)]
    #[track_caller]
    #[must_use]
    pub fn count_requests(&self, counted: impl Into<Counted>) -> RequestCount<'_> {
        let Some(record) = &self.state.control.record else {
            panic!(
                "the server has no journal, so requests cannot be counted: start it without \
                 `.journal(false)`"
            );
        };
        RequestCount { record, counted: counted.into(), before: record.received() }
    }
}

impl RequestCount<'_> {
    /// Asserts how many requests have arrived since.
    #[track_caller]
    pub fn check(self, expected: impl Into<Expected>) {
        let expected = expected.into();
        let (all, journal) = self.record.after(self.before);
        let is_whole = journal.len() as u64 == all;
        let counted: Vec<_> = journal.iter().filter(|entry| self.counted.has(entry)).collect();
        let count = match self.counted {
            Counted::All => usize::try_from(all).unwrap_or(usize::MAX),
            _ if is_whole => counted.len(),
            _ => panic!(
                "{all} requests arrived and the journal holds only the last {}: count fewer requests \
                 at a time, or all of them",
                journal.len()
            ),
        };
        if (expected.least..=expected.most).contains(&count) {
            return;
        }
        panic!("{}", self.failure(expected, count, &counted, &journal));
    }

    fn failure(
        &self,
        expected: Expected,
        count: usize,
        counted: &[&JournalEntry],
        journal: &Journal,
    ) -> String {
        let mut text = format!("{}: expected {expected}, received {count}", self.counted);
        let others = journal.len() - counted.len();
        if others > 0 {
            let _ = write!(text, ", and {others} of other kinds");
        }
        let forgotten = count - counted.len();
        if forgotten > 0 {
            let _ = write!(text, "\n  the first {forgotten} are no longer in the journal");
        }
        let (mut first, mut lines) = (forgotten, 0);
        // Equal requests in a row share a line: the usual mistake is a request in a loop.
        for run in counted.chunk_by(|one, other| shown(one) == shown(other)) {
            if lines == LINES {
                let _ = write!(text, "\n  and {} more", count - first);
                break;
            }
            let last = first + run.len();
            let _ = match run.len() {
                1 => write!(text, "\n  {last}. {}", shown(run[0])),
                _ => write!(text, "\n  {} to {last}. {}", first + 1, shown(run[0])),
            };
            (first, lines) = (last, lines + 1);
        }
        text
    }
}

/// A request without anything that a program stores: the name of a blob may contain a key.
fn shown(entry: &JournalEntry) -> String {
    let mut text = format!("{:?}", entry.operation());
    let resource = entry.resource().split('/').next().unwrap_or_default();
    if !resource.is_empty() {
        let _ = write!(text, " {resource}");
    }
    match entry.status() {
        Some(status) => {
            let _ = write!(text, ": {status}");
            // The response to a failed transaction is a success.
            if entry.operation().is_write() && status < 300 && !entry.is_committed() {
                text.push_str(", changed nothing");
            }
        }
        None => text.push_str(": no response"),
    }
    text
}

impl Counted {
    fn has(&self, entry: &JournalEntry) -> bool {
        match self {
            Self::All => true,
            Self::Operation(operation) => entry.operation() == *operation,
            Self::Service(service) => entry.service() == *service,
            Self::Resource(name) => entry.is_about(name),
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("requests"),
            Self::Operation(operation) => write!(f, "requests {operation:?}"),
            Self::Service(service) => write!(f, "requests to the {service:?} service"),
            Self::Resource(name) => write!(f, "requests about `{name}`"),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { least, most } if least == most => write!(f, "{least}"),
            Self { least, most: usize::MAX } => write!(f, "at least {least}"),
            Self { least: 0, most } => write!(f, "at most {most}"),
            Self { least, most } => write!(f, "{least} to {most}"),
        }
    }
}

impl From<()> for Counted {
    fn from((): ()) -> Self {
        Self::All
    }
}

impl From<Operation> for Counted {
    fn from(operation: Operation) -> Self {
        Self::Operation(operation)
    }
}

impl From<Service> for Counted {
    fn from(service: Service) -> Self {
        Self::Service(service)
    }
}

impl From<&str> for Counted {
    fn from(resource: &str) -> Self {
        Self::Resource(resource.to_owned())
    }
}

impl From<usize> for Expected {
    fn from(count: usize) -> Self {
        Self { least: count, most: count }
    }
}

impl From<RangeInclusive<usize>> for Expected {
    fn from(range: RangeInclusive<usize>) -> Self {
        Self { least: *range.start(), most: *range.end() }
    }
}

impl From<RangeToInclusive<usize>> for Expected {
    fn from(range: RangeToInclusive<usize>) -> Self {
        Self { least: 0, most: range.end }
    }
}

impl From<RangeFrom<usize>> for Expected {
    fn from(range: RangeFrom<usize>) -> Self {
        Self { least: range.start, most: usize::MAX }
    }
}
