//! Encodes tables and entities as rows, and restores them from rows.

use std::io;

use rowkey_wire::edm::{DateTime, Type, ValueRef};

use super::code::{Decoder, Encoder, invalid};
use super::journal::{Space, Unit};
use super::names::{self, AccountJournal, Kind, Registry};
use super::recording::Rows;
use crate::store::account::Touch;
use crate::store::row::Property;
use crate::store::{Account, Key, Row};

/// The rows of tables.
#[derive(Debug, Default)]
pub(super) struct TableRows(pub(super) Registry);

impl Rows for TableRows {
    type Store = Account;
    type Touch = Touch;

    fn watch(store: &mut Account) {
        store.watch(entity);
    }

    fn take(store: &mut Account) -> Vec<Touch> {
        store.touched.take()
    }

    fn touch_all(store: &mut Account) {
        store.touch_all();
    }

    fn note(
        &mut self,
        journal: &AccountJournal,
        touch: Touch,
        store: &mut Account,
        unit: &mut Unit,
    ) {
        match touch {
            Touch::Entity { table, partition_key, row_key, row } => {
                let Some(owner) = self.0.owner(table.as_str()) else { return };
                let key = entity_key(owner, &partition_key, &row_key);
                if let Some(row) = row {
                    unit.put(Space::Rows, key, row);
                } else {
                    unit.remove(Space::Rows, key);
                    note_last(journal, store, unit);
                }
            }
            Touch::Properties => {
                let key = journal.key(Kind::TableProperties, "");
                unit.put(Space::Names, key, names::properties(store.properties()));
            }
            Touch::Table(key) => {
                let (name, until) = (key.as_str(), store.blocked_until(&key));
                if let Some(table) = store.table_at(&key) {
                    let owner = self.0.owner(name).unwrap_or_else(|| journal.new_owner());
                    self.0.set_owner(name, owner);
                    let mut out = Encoder::default();
                    out.u64(owner).text(table.name()).instant(table.created());
                    names::policies(&mut out, table.policies());
                    unit.put(Space::Names, journal.key(Kind::Table, name), out.finish());
                } else if self.0.remove(journal, Kind::Table, name, unit).is_some() {
                    note_last(journal, store, unit);
                }
                self.0.note_blocked(journal, Kind::TableBlocked, (name, until), unit);
            }
        }
    }

    fn clear(&mut self, journal: &AccountJournal, unit: &mut Unit) {
        self.0.clear(journal, [Kind::Table, Kind::TableBlocked], unit);
    }
}

/// Records the latest Timestamp if its entity no longer exists, so that no ETag is issued twice.
/// Existing entities contain their Timestamp.
fn note_last(journal: &AccountJournal, store: &Account, unit: &mut Unit) {
    let key = journal.key(Kind::LastTimestamp, "");
    unit.put(Space::Names, key, Encoder::default().instant(store.last()).finish());
}

/// Restores a table from its row: number, name, creation time and policies.
pub(super) fn read_table(store: &mut Account, value: &[u8]) -> io::Result<u64> {
    let mut read = Decoder(value);
    let owner = read.count()?;
    let (name, created) = (read.text()?, read.instant()?);
    let policies = names::read_policies(&mut read)?;
    store.restore_table(name, created, policies);
    Ok(owner)
}

fn entity_key(owner: u64, partition_key: &Key, row_key: &Key) -> Vec<u8> {
    let (partition_key, row_key) = (partition_key.as_str(), row_key.as_str());
    let mut out = Encoder::with_capacity(partition_key.len() + row_key.len() + 12);
    out.fixed(owner.to_be_bytes()).text(partition_key);
    let mut key = out.finish();
    key.extend_from_slice(row_key.as_bytes());
    key
}

/// Encodes the properties of an entity, and the Timestamp of its row.
fn entity(properties: &[Property<'_>], row: &Row) -> Vec<u8> {
    let mut out = Encoder::with_capacity(row.rendered_len());
    out.instant(row.timestamp()).length(properties.len());
    for (name, value) in properties {
        let (edm_type, bytes) = (value.edm_type(), value.bytes());
        out.byte(edm_type.code()).text(name);
        match edm_type.width() {
            Some(_) => out.slice(&bytes),
            None => out.bytes(&bytes),
        };
    }
    out.finish()
}

/// Restores an entity. `key` is without the owner. Returns its Timestamp.
pub(super) fn read_entity(
    store: &mut Account,
    table: &Key,
    key: &[u8],
    value: &[u8],
) -> io::Result<DateTime> {
    let mut key = Decoder(key);
    let partition_key = key.text()?;
    let row_key = std::str::from_utf8(key.0).map_err(invalid)?;
    let mut read = Decoder(value);
    let timestamp = read.instant()?;
    let count = read.length()?;
    let mut properties = Vec::with_capacity(count.min(256));
    for _ in 0..count {
        let code = read.byte()?;
        let name = read.text()?;
        let edm_type =
            Type::from_code(code).ok_or_else(|| invalid("a property has no known type"))?;
        let bytes = match edm_type.width() {
            Some(width) => read.take(width)?,
            None => read.bytes()?,
        };
        let value = ValueRef::from_bytes(edm_type, bytes);
        let value = value.ok_or_else(|| invalid("a property is not of its type"))?;
        properties.push((name, value));
    }
    if !read.0.is_empty() {
        return Err(invalid("an entity is too long"));
    }
    if let Some(table) = store.restoring(table) {
        table.restore((partition_key, row_key), &properties, timestamp);
    }
    Ok(timestamp)
}
