//! The journal: the requests received, in order, for tests to assert on.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use tokio::sync::watch;

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
///
/// As JSON, it is what `GET /v1/journal` of the control plane lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    number: u64,
    at: DateTime,
    service: Service,
    operation: Operation,
    account: SmolStr,
    resource: SmolStr,
    status: Option<u16>,
    committed: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    fault: Option<u64>,
    #[serde(flatten)]
    refusal: Option<Box<Refusal>>,
}

/// Why a request was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    #[serde(skip_serializing_if = "str::is_empty", default)]
    pub(crate) rule: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) string_to_sign: Option<String>,
}

/// How a request ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) status: Option<u16>,
    pub(crate) committed: bool,
    pub(crate) fault: Option<u64>,
    pub(crate) refusal: Option<Box<Refusal>>,
}

/// Requests that [`Server::totals`](crate::Server::totals) counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct RequestKind {
    /// The operation.
    pub operation: Operation,
    /// The status of their responses; `None` if the connection was closed instead.
    pub status: Option<u16>,
    /// Whether they met a fault.
    pub met_fault: bool,
}

/// The requests of a server as they end, from [`Server::follow_journal`](crate::Server::follow_journal).
#[derive(Debug)]
pub struct JournalFollower {
    record: Option<Arc<Record>>,
    ended: u64,
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
        self.service
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
    pub fn is_about(&self, name: &str) -> bool {
        is_about(&self.resource, name)
    }

    /// The status of its response; `None` before the response, and when the connection was closed
    /// instead of sending it.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether it changed something, even if no response reported it.
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    /// The code with which it was rejected, whether or not the response was sent.
    pub fn code(&self) -> Option<&ErrorCode> {
        self.refusal.as_ref().map(|refusal| &refusal.code)
    }

    /// The rule that rejected it, if the code alone does not say why.
    pub fn rule(&self) -> Option<&str> {
        self.refusal.as_ref().map(|refusal| &*refusal.rule).filter(|rule| !rule.is_empty())
    }

    /// The string to sign as the server computed it, if the request was rejected for its signature.
    /// It contains the keys of entities, the names of blobs and the parameters of the request.
    pub fn string_to_sign(&self) -> Option<&str> {
        self.refusal.as_ref()?.string_to_sign.as_deref()
    }

    /// The [id](crate::Injected::id) of the fault that it met.
    pub fn fault(&self) -> Option<u64> {
        self.fault
    }
}

impl JournalFollower {
    /// The number of requests that had ended before the one that [`next`](Self::next) returns next, since the
    /// server was started.
    pub fn position(&self) -> u64 {
        self.ended
    }

    /// Waits until a request ends, and returns it; `None` if the server keeps no journal. Requests that ended
    /// while this was not called follow each other; of more than 10,000 the oldest are left out.
    pub async fn next(&mut self) -> Option<JournalEntry> {
        let record = self.record.as_ref()?;
        let mut changes = record.ended.subscribe();
        loop {
            if let Some((number, entry)) = record.ended_after(self.ended) {
                self.ended = number;
                return Some(entry);
            }
            // The sender lives as long as the record.
            changes.changed().await.ok()?;
        }
    }
}

/// Records requests.
#[derive(Debug, Default)]
pub(crate) struct Record {
    entries: Mutex<Entries>,
    /// Wakes followers when a request has ended.
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Entries {
    /// The number of requests before the first that is kept.
    forgotten: u64,
    kept: VecDeque<JournalEntry>,
    /// The numbers of requests in the order in which they ended, and how many were left out.
    ends: VecDeque<u64>,
    ends_forgotten: u64,
    totals: BTreeMap<RequestKind, u64>,
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
            service: subject.operation.service(),
            operation: subject.operation,
            account: subject.account.into(),
            resource: SmolStr::new(&*subject.resource),
            status: None,
            committed: false,
            fault: None,
            refusal: None,
        });
        number
    }

    /// Records the result of a request that has been executed, and is not answered yet.
    pub(crate) fn note(&self, number: u64, ended: Ended) {
        self.entries().note(number, ended);
    }

    /// Records the end of a request.
    pub(crate) fn end(&self, number: u64, operation: Operation, ended: Ended) {
        let kind =
            RequestKind { operation, status: ended.status, met_fault: ended.fault.is_some() };
        let mut entries = self.entries();
        entries.note(number, ended);
        if entries.ends.len() == CAPACITY {
            entries.ends.pop_front();
            entries.ends_forgotten += 1;
        }
        entries.ends.push_back(number);
        *entries.totals.entry(kind).or_default() += 1;
        drop(entries);
        self.ended.send_replace(());
    }

    /// How many requests of each kind have ended since the server was started.
    pub(crate) fn totals(&self) -> Vec<(RequestKind, u64)> {
        self.entries().totals.iter().map(|(kind, count)| (*kind, *count)).collect()
    }

    /// The requests recorded so far.
    pub(crate) fn journal(&self) -> Journal {
        Journal { entries: self.entries().kept.iter().cloned().collect() }
    }

    /// Follows the requests that end after this number of ended ones; without it, and if fewer have ended, as after a
    /// new start, from now on.
    pub(crate) fn follow(record: Option<&Arc<Self>>, after: Option<u64>) -> JournalFollower {
        let now = record.map_or(0, |record| {
            let entries = record.entries();
            entries.ends_forgotten + entries.ends.len() as u64
        });
        let ended = after.map_or(now, |after| after.min(now));
        JournalFollower { record: record.cloned(), ended }
    }

    /// The first request that ended after this number of ended ones and is kept, and its place among them.
    fn ended_after(&self, ended: u64) -> Option<(u64, JournalEntry)> {
        let entries = self.entries();
        let from = usize::try_from(ended.saturating_sub(entries.ends_forgotten)).ok()?;
        let found = entries.ends.iter().enumerate().skip(from).find_map(|(at, number)| {
            let index = usize::try_from(number.checked_sub(entries.forgotten + 1)?).ok()?;
            Some((at, entries.kept.get(index)?.clone()))
        });
        found.map(|(at, entry)| (entries.ends_forgotten + at as u64 + 1, entry))
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
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn note(&mut self, number: u64, ended: Ended) {
        let index = number.checked_sub(self.forgotten + 1);
        let index = index.and_then(|index| usize::try_from(index).ok());
        if let Some(entry) = index.and_then(|index| self.kept.get_mut(index)) {
            (entry.status, entry.committed) = (ended.status, ended.committed);
            (entry.fault, entry.refusal) = (ended.fault, ended.refusal);
        }
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
        record.end(
            first,
            Operation::CreateTable,
            Ended { status: Some(201), committed: true, ..Ended::default() },
        );
        record.end(last, Operation::GetEntity, Ended { status: Some(200), ..Ended::default() });
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

    #[tokio::test]
    async fn a_follower_sees_requests_in_the_order_of_their_ends() {
        let record = Arc::new(Record::default());
        let subject = |operation| Subject { operation, account: "a", resource: "t".into() };
        let begin = |operation| record.begin(&subject(operation), DateTime::MIN);
        let (slow, fast) = (begin(Operation::QueryEntities), begin(Operation::GetEntity));
        let mut follower = Record::follow(Some(&record), None);
        record.note(slow, Ended { status: Some(200), ..Ended::default() });
        record.end(fast, Operation::GetEntity, Ended::default());
        record.end(slow, Operation::QueryEntities, Ended { status: Some(200), ..Ended::default() });
        assert_eq!(follower.next().await.map(|entry| entry.number()), Some(fast));
        assert_eq!(follower.position(), 1);
        assert_eq!(follower.next().await.map(|entry| entry.number()), Some(slow));
        let mut again = Record::follow(Some(&record), Some(1));
        assert_eq!(again.next().await.map(|entry| entry.number()), Some(slow));
        record.clear();
        let next = begin(Operation::GetTable);
        record.end(next, Operation::GetTable, Ended::default());
        let mut again = Record::follow(Some(&record), Some(0));
        assert_eq!(again.next().await.map(|entry| entry.number()), Some(next));
        let mut beyond = Record::follow(Some(&record), Some(9999));
        let last = begin(Operation::GetTable);
        record.end(last, Operation::GetTable, Ended::default());
        assert_eq!(beyond.next().await.map(|entry| entry.number()), Some(last));
        assert_eq!(
            record.totals().iter().map(|(_, count)| count).sum::<u64>(),
            4,
            "cleared ones count"
        );
        assert!(Record::follow(None, None).next().await.is_none());
    }

    #[test]
    fn an_entry_as_json_comes_back_the_same() {
        let record = Record::default();
        let subject =
            Subject { operation: Operation::InsertEntity, account: "a", resource: "t".into() };
        let number = record.begin(&subject, "2026-01-01T00:00:00Z".parse().unwrap());
        let json = || serde_json::to_value(record.journal().iter().next().unwrap()).unwrap();
        assert_eq!(
            json(),
            serde_json::json!({
                "number": 1, "at": "2026-01-01T00:00:00Z", "service": "table",
                "operation": "InsertEntity", "account": "a", "resource": "t", "status": null,
                "committed": false,
            })
        );
        let refusal = Refusal {
            code: ErrorCode::AUTHENTICATION_FAILED,
            rule: "the signature does not match".into(),
            string_to_sign: Some("GET\n".to_owned()),
        };
        let ended = Ended {
            status: Some(403),
            fault: Some(2),
            refusal: Some(refusal.into()),
            committed: false,
        };
        record.end(number, Operation::InsertEntity, ended);
        let entry = record.journal().iter().next().unwrap().clone();
        assert_eq!(entry.code(), Some(&ErrorCode::AUTHENTICATION_FAILED));
        assert_eq!((entry.string_to_sign(), entry.fault()), (Some("GET\n"), Some(2)));
        let read: JournalEntry = serde_json::from_value(json()).unwrap();
        assert_eq!(read, entry);
    }
}
