//! The journal: the requests received, in order, for tests to assert on.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use rowkey_wire::auth::Service;
use rowkey_wire::edm::DateTime;
use smol_str::SmolStr;

use super::fault::is_about;
use crate::front::operation::Operation;
use crate::front::subject::Subject;

/// The number of requests that a server remembers.
const CAPACITY: usize = 10_000;

/// The requests that a server received, oldest first, up to the call of
/// [`Server::journal`](crate::Server::journal).
///
/// A server remembers the last 10,000 requests.
///
/// ```
/// use rowkey_emulator::{Operation, Server};
///
/// # use std::io::{Read as _, Write as _};
/// # /// Lists the tables without a signature.
/// # fn tables(endpoint: &str) -> std::io::Result<String> {
/// #     let (host, account) = endpoint.trim_start_matches("http://").split_once('/').unwrap();
/// #     let mut connection = std::net::TcpStream::connect(host)?;
/// #     let head = format!("GET /{account}/Tables HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
/// #     connection.write_all(head.as_bytes())?;
/// #     let mut response = String::new();
/// #     connection.read_to_string(&mut response)?;
/// #     Ok(response)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = Server::start().await?;
/// tables(server.table_endpoint())?;
/// let before = server.journal();
/// tables(server.table_endpoint())?;
///
/// let later = server.journal().since(&before).of(Operation::QueryTables);
/// assert_eq!((before.len(), later.len()), (1, 1));
/// assert!(later.clone().about("orders").is_empty());
/// assert!(later.committed().is_empty(), "it lacks a signature and changes nothing");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: Vec<JournalEntry>,
}

/// A request in a [`Journal`].
#[derive(Clone, Debug)]
pub struct JournalEntry {
    number: u64,
    at: DateTime,
    operation: Operation,
    account: SmolStr,
    resource: SmolStr,
    status: Option<StatusCode>,
    committed: bool,
}

impl Journal {
    /// The number of requests of this operation, successful or not.
    pub fn count(&self, operation: Operation) -> usize {
        self.iter().filter(|entry| entry.operation == operation).count()
    }

    /// The requests, oldest first.
    pub fn iter(&self) -> std::slice::Iter<'_, JournalEntry> {
        self.entries.iter()
    }

    /// Keeps only requests of this operation.
    #[must_use = "the journal itself does not change"]
    pub fn of(self, operation: Operation) -> Self {
        self.filter(|entry| entry.operation == operation)
    }

    /// Keeps only requests about this table, queue or container (including everything in it), or
    /// about this blob, written `container/name`.
    #[must_use = "the journal itself does not change"]
    pub fn about(self, name: &str) -> Self {
        self.filter(|entry| entry.is_about(name))
    }

    /// Keeps only requests that came after the last request of an earlier journal.
    #[must_use = "the journal itself does not change"]
    pub fn since(self, earlier: &Self) -> Self {
        let last = earlier.entries.last().map_or(0, |entry| entry.number);
        self.filter(|entry| entry.number > last)
    }

    /// Keeps only requests that changed something.
    #[must_use = "the journal itself does not change"]
    pub fn committed(self) -> Self {
        self.filter(JournalEntry::is_committed)
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn filter(mut self, keep: impl FnMut(&JournalEntry) -> bool) -> Self {
        self.entries.retain(keep);
        self
    }
}

impl<'a> IntoIterator for &'a Journal {
    type Item = &'a JournalEntry;
    type IntoIter = std::slice::Iter<'a, JournalEntry>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl JournalEntry {
    /// Its position among all requests that the server received, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When it arrived, by the server's clock.
    pub fn at(&self) -> DateTime {
        self.at
    }

    /// The service it was sent to.
    pub fn service(&self) -> Service {
        self.operation.service()
    }

    /// The operation that it requested.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The account in its address.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The table, the queue, the container, or `container/blob`. Empty for a service, and for an
    /// entity group transaction whose body is invalid.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Whether it is about this table, queue or container, or something in it.
    pub(crate) fn is_about(&self, name: &str) -> bool {
        is_about(&self.resource, name)
    }

    /// The status of its response; `None` before the response, and when the connection was closed
    /// instead of sending it.
    pub fn status(&self) -> Option<u16> {
        self.status.map(|status| status.as_u16())
    }

    /// Whether it changed something, even if no response reported it.
    pub fn is_committed(&self) -> bool {
        self.committed
    }
}

/// Records requests.
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// The number of requests before the first that is kept.
    forgotten: u64,
    kept: VecDeque<JournalEntry>,
}

impl Record {
    /// Records a new request, and returns its number.
    pub(crate) fn begin(&self, subject: &Subject<'_>, at: DateTime) -> u64 {
        let mut entries = self.entries();
        if entries.kept.len() == CAPACITY {
            entries.kept.pop_front();
            entries.forgotten += 1;
        }
        let number = entries.forgotten + entries.kept.len() as u64 + 1;
        entries.kept.push_back(JournalEntry {
            number,
            at,
            operation: subject.operation,
            account: subject.account.into(),
            resource: SmolStr::new(&*subject.resource),
            status: None,
            committed: false,
        });
        number
    }

    /// Records the result of a request.
    pub(crate) fn end(&self, number: u64, status: Option<StatusCode>, committed: bool) {
        let mut entries = self.entries();
        let index = number.checked_sub(entries.forgotten + 1);
        let index = index.and_then(|index| usize::try_from(index).ok());
        if let Some(entry) = index.and_then(|index| entries.kept.get_mut(index)) {
            entry.status = status;
            entry.committed = committed;
        }
    }

    /// The requests recorded so far.
    pub(crate) fn journal(&self) -> Journal {
        Journal { entries: self.entries().kept.iter().cloned().collect() }
    }

    /// The number of requests that arrived since the server was started.
    pub(crate) fn received(&self) -> u64 {
        let entries = self.entries();
        entries.forgotten + entries.kept.len() as u64
    }

    /// How many requests arrived after the one with this number, and those of them that are kept.
    ///
    /// Under one lock: a request that arrives meanwhile is in both or in neither.
    pub(crate) fn after(&self, number: u64) -> (u64, Journal) {
        let entries = self.entries();
        let received = entries.forgotten + entries.kept.len() as u64;
        let later = entries.kept.iter().filter(|entry| entry.number > number);
        (received.saturating_sub(number), Journal { entries: later.cloned().collect() })
    }

    /// Forgets all requests. Numbering continues.
    pub(crate) fn clear(&self) {
        let mut entries = self.entries();
        entries.forgotten += entries.kept.len() as u64;
        entries.kept.clear();
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_journal_drops_the_oldest_entries_and_wait_still_completes() {
        let record = Record::default();
        let subject = |operation| Subject { operation, account: "a", resource: "t".into() };
        let first = record.begin(&subject(Operation::CreateTable), DateTime::MIN);
        let last =
            (0..CAPACITY).map(|_| record.begin(&subject(Operation::GetEntity), DateTime::MIN));
        let last = last.last().unwrap();
        record.end(first, Some(StatusCode::CREATED), true);
        record.end(last, Some(StatusCode::OK), false);
        let journal = record.journal();
        assert_eq!((journal.len(), journal.count(Operation::CreateTable)), (CAPACITY, 0));
        let statuses: Vec<_> = journal.iter().filter_map(JournalEntry::status).collect();
        assert_eq!(statuses, [200]);
        assert_eq!(journal.iter().last().unwrap().number(), CAPACITY as u64 + 1);
        record.clear();
        let next = record.begin(&subject(Operation::GetTable), DateTime::MIN);
        assert_eq!(next, CAPACITY as u64 + 2);
        assert_eq!(record.journal().since(&journal).len(), 1);
        let (count, kept) = record.after(CAPACITY as u64 - 1);
        assert_eq!((count, kept.len()), (3, 1), "what was forgotten counts");
    }
}
