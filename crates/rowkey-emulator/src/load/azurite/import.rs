//! The data that has been read so far, account by account, and what cannot be taken over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;

use rowkey_wire::edm::DateTime;
use rowkey_wire::xml::{ServiceProperties, parse_properties, render_properties};

use super::loki::Database;
use super::values::Properties;
use crate::account::{AccountData, Rules};
use crate::store::properties;

/// The data of Azurite.
#[derive(Debug)]
pub(crate) struct Imported {
    /// In the order of the names.
    pub(crate) accounts: Vec<AccountData>,
    pub(crate) counts: Counts,
    /// What was not taken over, with counts.
    pub(crate) notes: Vec<String>,
}

/// How much was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) tables: u64,
    pub(crate) entities: u64,
    pub(crate) queues: u64,
    pub(crate) messages: u64,
    pub(crate) containers: u64,
    /// With snapshots.
    pub(crate) blobs: u64,
}

/// The collection with the properties of a service.
pub(super) const SERVICES: &str = "$SERVICES_COLLECTION$";

/// Data while it is read.
#[derive(Debug)]
pub(super) struct Import<'a> {
    names: &'a [&'a str],
    pub(super) accounts: Vec<AccountData>,
    pub(super) counts: Counts,
    pub(super) now: DateTime,
    notes: BTreeMap<String, u64>,
    unknown: BTreeSet<String>,
}

impl<'a> Import<'a> {
    pub(super) fn new(names: &'a [&'a str], rules: Rules, now: DateTime) -> Self {
        let seed = now.ticks().cast_unsigned();
        Self {
            names,
            accounts: names.iter().map(|_| AccountData::new(rules, seed)).collect(),
            counts: Counts::default(),
            now,
            notes: BTreeMap::new(),
            unknown: BTreeSet::new(),
        }
    }

    /// The data of the account with this name. An account that the server does not have is reported at the end.
    pub(super) fn account(&mut self, name: &str) -> Option<&mut AccountData> {
        let at = self.names.iter().position(|known| *known == name);
        if at.is_none() {
            self.unknown.insert(name.to_owned());
        }
        self.accounts.get_mut(at?)
    }

    /// Counts something that cannot be taken over.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        self.note_several(what, 1);
    }

    pub(super) fn note_several(&mut self, what: impl Into<String>, count: u64) {
        if count > 0 {
            *self.notes.entry(what.into()).or_default() += count;
        }
    }

    /// Reads the properties of a service, which the accounts have in `kept`.
    pub(super) fn services(
        &mut self,
        database: &Database<'_>,
        kept: impl Fn(&mut AccountData) -> &mut ServiceProperties,
    ) -> io::Result<()> {
        for row in database.rows::<Properties>(SERVICES) {
            let row = row?;
            let retention = "retention of deleted blobs, which this server does not have";
            self.note_several(retention, row.keeps_deleted().into());
            let name = row.account_name.clone();
            let found = row.read();
            // What no document of the service can have could not be read from a disk.
            if parse_properties(render_properties(&found).as_bytes()).is_err() {
                self.note("properties of services with text that no document can have");
            } else if let Some(account) = self.account(&name) {
                properties::update(kept(account), found);
            }
        }
        Ok(())
    }

    pub(super) fn finish(self, directory: &Path) -> io::Result<Imported> {
        if !self.unknown.is_empty() {
            let names: Vec<_> = self.unknown.into_iter().collect();
            let message = format!(
                "{} has data of accounts that this server does not have: {}; add them with --accounts or AZURITE_ACCOUNTS \
                 (`name:key1[:key2];name2:..`), or with ServerBuilder::account; nothing was changed",
                directory.display(),
                names.join(", ")
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let notes = self.notes.into_iter().map(|(what, count)| format!("{what}: {count}"));
        Ok(Imported { accounts: self.accounts, counts: self.counts, notes: notes.collect() })
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tables, entities, queues, messages, containers, blobs } = self;
        write!(
            f,
            "{entities} entities in {tables} tables, {messages} messages in {queues} queues, {blobs} blobs and snapshots \
             in {containers} containers"
        )
    }
}
