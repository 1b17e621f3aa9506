//! Encodes tables and entities as rows, and restores them from rows.

use std::io;
use std::sync::{Mutex, PoisonError};

use rowkey_wire::edm::{DateTime, Guid, Type, ValueRef};

use super::code::{Decoder, Encoder, invalid};
use super::journal::{Space, Unit};
use super::names::{self, AccountJournal, Kind, Registry};
use crate::account::guard::{Receipt, Recorder};
use crate::store::account::Touch;
use crate::store::row::Property;
use crate::store::{Account, Key, Row};

/// Records the tables of an account.
#[derive(Debug)]
pub(super) struct Tables {
    account_journal: AccountJournal,
    known: Mutex<Registry>,
}

impl Tables {
    pub(super) fn new(account_journal: AccountJournal, known: Registry) -> Self {
        Self { account_journal, known: Mutex::new(known) }
    }

    /// Replaces the known rows after memory was restored from disk.
    pub(super) fn put_back(&self, known: Registry) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    fn note(&self, touch: Touch, store: &Account, known: &mut Registry, unit: &mut Unit) {
        match touch {
            Touch::Entity { table, partition_key, row_key, row } => {
                let Some(owner) = known.owner(table.as_str()) else { return };
                let key = entity_key(owner, &partition_key, &row_key);
                if let Some(row) = row {
                    unit.put(Space::Rows, key, row);
                } else {
                    unit.remove(Space::Rows, key);
                    self.note_last(store, unit);
                }
            }
            Touch::Properties => {
                let key = self.account_journal.key(Kind::TableProperties, "");
                unit.put(Space::Names, key, names::properties(store.properties()));
            }
            Touch::Table(name) => {
                let until = store.blocked_until(&name);
                if let Some(table) = store.table_at(&name) {
                    let name = name.as_str();
                    let owner =
                        known.owner(name).unwrap_or_else(|| self.account_journal.new_owner());
                    known.set_owner(name, owner);
                    let mut out = Encoder::default();
                    out.u64(owner).text(table.name()).instant(table.created());
                    names::policies(&mut out, table.policies());
                    unit.put(
                        Space::Names,
                        self.account_journal.key(Kind::Table, name),
                        out.finish(),
                    );
                } else if known
                    .remove(&self.account_journal, Kind::Table, name.as_str(), unit)
                    .is_some()
                {
                    self.note_last(store, unit);
                }
                let name = (name.as_str(), until);
                known.note_blocked(&self.account_journal, Kind::TableBlocked, name, unit);
            }
        }
    }

    /// Records the latest Timestamp if its entity no longer exists, so that no ETag is issued
    /// twice. Existing entities contain their Timestamp.
    fn note_last(&self, store: &Account, unit: &mut Unit) {
        let key = self.account_journal.key(Kind::LastTimestamp, "");
        unit.put(Space::Names, key, Encoder::default().instant(store.last()).finish());
    }
}

impl Recorder<Account> for Tables {
    fn watch(&self, store: &mut Account) {
        store.watch(entity);
    }

    fn record(&self, store: &mut Account) -> Receipt {
        let touched = store.touched.take();
        if touched.is_empty() {
            return Receipt::default();
        }
        let mut unit = Unit::default();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for touch in touched {
            self.note(touch, store, &mut known, &mut unit);
        }
        self.account_journal.hand_over(unit)
    }

    fn replace(&self, store: &mut Account) {
        self.watch(store);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unit = Unit::default();
        known.clear(&self.account_journal, [Kind::Table, Kind::TableBlocked], &mut unit);
        store.touch_all();
        for touch in store.touched.take() {
            self.note(touch, store, &mut known, &mut unit);
        }
        self.account_journal.hand_over(unit);
    }
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
        out.byte(code_of(value.edm_type())).text(name);
        match value {
            ValueRef::Binary(value) => out.bytes(value),
            ValueRef::Boolean(value) => out.byte(u8::from(*value)),
            ValueRef::DateTime(value) => out.instant(*value),
            ValueRef::Double(value) => out.fixed(value.to_le_bytes()),
            ValueRef::Guid(value) => out.fixed(*value.as_bytes()),
            ValueRef::Int32(value) => out.fixed(value.to_le_bytes()),
            ValueRef::Int64(value) => out.i64(*value),
            ValueRef::String(value) => out.text(value),
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
        let value = match type_of(code)? {
            Type::Binary => ValueRef::Binary(read.bytes()?.into()),
            Type::Boolean => ValueRef::Boolean(read.byte()? != 0),
            Type::DateTime => ValueRef::DateTime(read.instant()?),
            Type::Double => ValueRef::Double(f64::from_le_bytes(read.fixed()?)),
            Type::Guid => ValueRef::Guid(Guid::from_bytes(read.fixed()?)),
            Type::Int32 => ValueRef::Int32(i32::from_le_bytes(read.fixed()?)),
            Type::Int64 => ValueRef::Int64(read.i64()?),
            Type::String => ValueRef::String(read.text()?.into()),
        };
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

const TYPES: [Type; 8] = [
    Type::Binary,
    Type::Boolean,
    Type::DateTime,
    Type::Double,
    Type::Guid,
    Type::Int32,
    Type::Int64,
    Type::String,
];

fn code_of(edm_type: Type) -> u8 {
    match edm_type {
        Type::Binary => 0,
        Type::Boolean => 1,
        Type::DateTime => 2,
        Type::Double => 3,
        Type::Guid => 4,
        Type::Int32 => 5,
        Type::Int64 => 6,
        Type::String => 7,
    }
}

fn type_of(code: u8) -> io::Result<Type> {
    TYPES.get(usize::from(code)).copied().ok_or_else(|| invalid("a property has no known type"))
}
