//! The rows that describe accounts, tables, queues and containers, by account, kind and name.
//!
//! A resource that has its own rows, such as a table, is their *owner*, and has a number that is
//! never reused. So deleting it takes one row, and its rows are removed later; if the process dies
//! before that, they have no owner at the next start.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue, Response};
use rowkey_wire::edm::DateTime;
use rowkey_wire::xml::{
    ServiceProperties, SignedIdentifier, parse_acl, parse_properties, render_acl, render_properties,
};

use super::code::{Decoder, Encoder, counted, invalid};
use super::journal::{Journal, Space, Unit};
use crate::account::Receipt;
use crate::op::metadata::{Metadata, Spelling};

/// The kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The latest Timestamp of deleted entities.
    LastTimestamp = 1,
    /// A table.
    Table = 2,
    /// The time until which the name of a table is blocked.
    TableBlocked = 3,
    /// The properties of the Table service.
    TableProperties = 4,
    /// A queue.
    Queue = 5,
    /// The time until which the name of a queue is blocked.
    QueueBlocked = 6,
    /// The properties of the Queue service.
    QueueProperties = 7,
    /// A container.
    Container = 8,
    /// The time until which the name of a container is blocked.
    ContainerBlocked = 9,
    /// The properties of the Blob service.
    BlobProperties = 10,
    /// The latest ETag of a container or a blob.
    LastTag = 11,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::LastTimestamp,
        Self::Table,
        Self::TableBlocked,
        Self::TableProperties,
        Self::Queue,
        Self::QueueBlocked,
        Self::QueueProperties,
        Self::Container,
        Self::ContainerBlocked,
        Self::BlobProperties,
        Self::LastTag,
    ];

    /// Whether the resource has its own rows, and the value starts with its number.
    pub(super) fn is_owner(self) -> bool {
        matches!(self, Self::Container | Self::Queue | Self::Table)
    }
}

/// A key: the account's name after its length, the kind, the name.
pub(super) fn key(account: &str, kind: Kind, name: &str) -> Vec<u8> {
    let mut out = Encoder::with_capacity(account.len() + name.len() + 2);
    out.text(account).byte(kind as u8);
    let mut key = out.finish();
    key.extend_from_slice(name.as_bytes());
    key
}

/// Splits a key into account, kind and name.
pub(super) fn read_key(key: &[u8]) -> io::Result<(&str, Kind, &str)> {
    let mut key = Decoder(key);
    let account = key.text()?;
    let kind = key.byte()?;
    let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind);
    let kind = kind.ok_or_else(|| invalid("a row is of an unknown kind"))?;
    Ok((account, kind, std::str::from_utf8(key.0).map_err(invalid)?))
}

pub(super) fn policies(out: &mut Encoder, policies: &[SignedIdentifier]) {
    out.text(&if policies.is_empty() { String::new() } else { render_acl(policies) });
}

pub(super) fn read_policies(read: &mut Decoder<'_>) -> io::Result<Vec<SignedIdentifier>> {
    match read.bytes()? {
        [] => Ok(Vec::new()),
        document => parse_acl(document).map_err(invalid),
    }
}

/// Writes metadata in the format of HTTP headers.
pub(super) fn metadata(out: &mut Encoder, metadata: &Metadata) {
    let mut answer = Response::new(());
    metadata.write(&mut answer);
    let mut head = Vec::new();
    for (name, value) in answer.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.push(b':');
        head.extend_from_slice(value.as_bytes());
        head.push(b'\n');
    }
    if let Some(spelling) = answer.extensions().get::<Spelling>() {
        spelling.restore(&mut head);
    }
    out.bytes(&head);
}

pub(super) fn read_metadata(read: &mut Decoder<'_>) -> io::Result<Metadata> {
    let head = read.bytes()?;
    let mut headers = HeaderMap::new();
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let end = line.iter().position(|byte| *byte == b':');
        let end = end.ok_or_else(|| invalid("metadata has no value"))?;
        let name = HeaderName::from_bytes(&line[..end]).map_err(invalid)?;
        headers.insert(name, HeaderValue::from_bytes(&line[end + 1..]).map_err(invalid)?);
    }
    let mut metadata =
        Metadata::parse(&headers).map_err(|rejection| invalid(rejection.message.into_owned()))?;
    metadata.spell(&Spelling::of_head(head));
    Ok(metadata)
}

pub(super) fn properties(properties: &ServiceProperties) -> Vec<u8> {
    render_properties(properties).into_bytes()
}

pub(super) fn read_properties(document: &[u8]) -> io::Result<ServiceProperties> {
    parse_properties(document).map_err(invalid)
}

pub(super) fn read_instant(value: &[u8]) -> io::Result<DateTime> {
    Decoder(value).instant()
}

/// Reads the number at the start of an owner's row.
pub(super) fn read_owner(value: &[u8]) -> io::Result<u64> {
    Decoder(value).count()
}

/// Splits the key of an owner's row into the number and the rest.
pub(super) fn split_owner(key: &[u8]) -> io::Result<(u64, &[u8])> {
    let mut key = Decoder(key);
    let owner = counted(u64::from_be_bytes(key.fixed()?))?;
    Ok((owner, key.0))
}

/// The tables, queues or containers that have rows.
#[derive(Debug, Default)]
pub(super) struct Registry {
    owners: BTreeMap<String, u64>,
    /// The blocked names.
    blocked: BTreeSet<String>,
}

impl Registry {
    /// The number of the resource with this name.
    pub(super) fn owner(&self, name: &str) -> Option<u64> {
        self.owners.get(name).copied()
    }

    pub(super) fn set_owner(&mut self, name: &str, owner: u64) {
        self.owners.insert(name.to_owned(), owner);
    }

    pub(super) fn read_blocked(&mut self, name: &str) {
        self.blocked.insert(name.to_owned());
    }

    /// Records the deletion of the resource with this name; returns its number, if it had rows.
    pub(super) fn remove(
        &mut self,
        account_journal: &AccountJournal,
        kind: Kind,
        name: &str,
        unit: &mut Unit,
    ) -> Option<u64> {
        let owner = self.owners.remove(name)?;
        unit.remove(Space::Names, account_journal.key(kind, name));
        unit.swept.push((Space::Rows, owner));
        Some(owner)
    }

    /// Records until when a name is blocked, if it is or was.
    pub(super) fn note_blocked(
        &mut self,
        account_journal: &AccountJournal,
        kind: Kind,
        (name, until): (&str, Option<DateTime>),
        unit: &mut Unit,
    ) {
        let key = || account_journal.key(kind, name);
        if let Some(until) = until {
            self.blocked.insert(name.to_owned());
            unit.put(Space::Names, key(), Encoder::default().instant(until).finish());
        } else if self.blocked.remove(name) {
            unit.remove(Space::Names, key());
        }
    }

    /// Records the deletion of everything; returns the numbers of the deleted resources.
    pub(super) fn clear(
        &mut self,
        account_journal: &AccountJournal,
        kinds: [Kind; 2],
        unit: &mut Unit,
    ) -> Vec<u64> {
        let Self { owners, blocked } = std::mem::take(self);
        for name in blocked {
            unit.remove(Space::Names, account_journal.key(kinds[1], &name));
        }
        let removed = owners.into_iter().map(|(name, owner)| {
            unit.remove(Space::Names, account_journal.key(kinds[0], &name));
            unit.swept.push((Space::Rows, owner));
            owner
        });
        removed.collect()
    }
}

/// The journal of one account.
#[derive(Clone, Debug)]
pub(super) struct AccountJournal {
    pub(super) account: Arc<str>,
    journal: Arc<Journal>,
    next_owner: Arc<AtomicU64>,
}

impl AccountJournal {
    pub(super) fn new(account: &str, journal: &Arc<Journal>, next_owner: &Arc<AtomicU64>) -> Self {
        let (journal, next_owner) = (Arc::clone(journal), Arc::clone(next_owner));
        Self { account: account.into(), journal, next_owner }
    }

    /// A number that was never used for an owner.
    pub(super) fn new_owner(&self) -> u64 {
        self.next_owner.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn key(&self, kind: Kind, name: &str) -> Vec<u8> {
        key(&self.account, kind, name)
    }

    pub(super) fn hand_over(&self, unit: Unit) -> Receipt {
        Receipt(self.journal.append(unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::properties::initial;

    #[test]
    fn keys_and_documents_round_trip() {
        for kind in Kind::ALL {
            let key = key("account", kind, "näme");
            assert_eq!(read_key(&key).unwrap(), ("account", kind, "näme"));
        }
        assert!(read_key(&[1, b'a', 200]).is_err());
        assert_eq!(read_properties(&properties(&initial())).unwrap(), initial());
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-meta-one", HeaderValue::from_static("a: b"));
        headers.insert("x-ms-meta-two", HeaderValue::from_bytes(b"gr\xF6\xDFe").unwrap());
        let mut written = Metadata::parse(&headers).unwrap();
        written.spell(&Spelling::of_head(b"X-MS-Meta-One: a"));
        for written in [written, Metadata::default()] {
            let mut out = Encoder::default();
            metadata(&mut out, &written);
            let read = read_metadata(&mut Decoder(&out.finish())).unwrap();
            assert_eq!(read, written);
            assert_eq!(read.iter().collect::<Vec<_>>(), written.iter().collect::<Vec<_>>());
        }
        let policy = SignedIdentifier {
            id: "id".to_owned(),
            start: Some("2026-01-01T00:00:00.1234567Z".parse().unwrap()),
            expiry: None,
            permission: Some("raud".to_owned()),
        };
        for written in [vec![], vec![policy]] {
            let mut out = Encoder::default();
            policies(&mut out, &written);
            assert_eq!(read_policies(&mut Decoder(&out.finish())).unwrap(), written);
        }
    }
}
