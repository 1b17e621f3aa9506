//! The tables of a storage account: created, deleted and listed, and found by name in any case.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::filter::{Comparison, Filter};
use rowkey_wire::limits::MAX_PAGE;
use rowkey_wire::xml::ServiceProperties;

use crate::op::entity::Strictness;
use crate::op::names::check_table_name;
use crate::op::table::{Change, TableQuery};
#[cfg(feature = "durable")]
use rowkey_wire::xml::SignedIdentifier;

use super::names::{BlockedNames, Names};
use super::partition::Key;
use super::properties;
use super::query::Cut;
use super::row::{Property, Row};
use super::table::{Table, Written};
use super::touched::Touched;
use super::transaction::Failed;

/// How long the name of a deleted table is blocked, in seconds.
const NAME_BLOCKED: i64 = 40;

/// The tables of one account.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// Keyed by name in lower case. Copies of the account share tables until one is changed.
    tables: BTreeMap<Key, Arc<Table>>,
    /// Names of deleted tables, and until when they are blocked.
    blocked: BlockedNames<Key>,
    properties: ServiceProperties,
    strict: Strictness,
    last: DateTime,
    pub(crate) touched: Touched<Touch>,
    encode: Encode,
}

/// Encodes an entity for the durable store.
pub(crate) type Encode = fn(&[Property<'_>], &Row) -> Vec<u8>;

/// A change to an account. Tables are identified by their names in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// An entity, as the durable store encodes it; `None` if it was deleted.
    Entity { table: Key, partition_key: Key, row_key: Key, row: Option<Vec<u8>> },
    /// The service's properties.
    Properties,
    /// A table was created or deleted, its policies changed, or its name was unblocked.
    Table(Key),
}

impl Account {
    /// Creates an account without tables.
    pub(crate) fn new(strict: Strictness, names: Names) -> Self {
        Self {
            tables: BTreeMap::new(),
            blocked: BlockedNames::new(names, NAME_BLOCKED),
            properties: properties::initial(),
            strict,
            last: DateTime::MIN,
            touched: Touched::default(),
            encode: |_, _| Vec::new(),
        }
    }

    /// Creates a table.
    pub(crate) fn create_table(&mut self, name: &str, now: DateTime) -> Result<&Table, Rejection> {
        check_table_name(name)?;
        let folded = fold(name);
        if self.tables.contains_key(&folded) {
            return Err(Rejection::new(ErrorCode::TABLE_ALREADY_EXISTS));
        }
        self.blocked.take(&folded, now, ErrorCode::TABLE_BEING_DELETED)?;
        self.touched.note(|| Touch::Table(folded.clone()));
        Ok(&**self.tables.entry(folded).or_insert_with(|| Arc::new(Table::new(name, now))))
    }

    /// Removes a table. The caller drops it, which can take long for a large one.
    pub(crate) fn delete_table(
        &mut self,
        name: &str,
        now: DateTime,
    ) -> Result<Arc<Table>, Rejection> {
        let folded = fold(name);
        let table = self
            .tables
            .remove(&folded)
            .ok_or_else(|| Rejection::new(ErrorCode::RESOURCE_NOT_FOUND))?;
        self.touched.note(|| Touch::Table(folded.clone()));
        let touched = &mut self.touched;
        self.blocked.block(folded, now, |name| touched.note(|| Touch::Table(name.clone())));
        Ok(table)
    }

    /// The table with this name; 404 `ResourceNotFound` without one.
    pub(crate) fn find_table(&self, name: &str) -> Result<&Table, Rejection> {
        let table = self.tables.get(&fold(name)).map(|table| &**table);
        table.ok_or_else(|| Rejection::new(ErrorCode::RESOURCE_NOT_FOUND))
    }

    /// The table with this name, for operations in it; 404 `TableNotFound` without one.
    pub(crate) fn table(&self, name: &str) -> Result<&Table, Rejection> {
        let table = self.tables.get(&fold(name)).map(|table| &**table);
        table.ok_or_else(|| Rejection::new(ErrorCode::TABLE_NOT_FOUND))
    }

    /// The same, for changing its policies.
    pub(crate) fn table_mut(&mut self, name: &str) -> Result<&mut Table, Rejection> {
        let folded = fold(name);
        self.touched.note(|| Touch::Table(folded.clone()));
        find(&mut self.tables, &folded)
    }

    /// Applies one change and shows it to `see`, or fails without changing anything.
    pub(crate) fn apply(
        &mut self,
        change: &Change<'_>,
        now: DateTime,
        mut see: impl FnMut(&Written<'_>),
    ) -> Result<(), Rejection> {
        let Self { tables, last, strict, touched, encode, .. } = self;
        let (at, folded) = (stamp(last, now), fold(change.address.table));
        let before = find(tables, &folded)?.apply(change, *strict, at, &mut |written| {
            touched.note(|| Touch::of(&folded, written, *encode));
            see(written);
        });
        before.map(drop)
    }

    /// Applies all changes or none. Each is shown to `see` as it is made, even if a later one fails.
    pub(crate) fn transact(
        &mut self,
        changes: &[Change<'_>],
        now: DateTime,
        mut see: impl FnMut(&Written<'_>),
    ) -> Result<(), Failed> {
        let Some(first) = changes.first() else { return Ok(()) };
        let Self { tables, last, strict, touched, encode, .. } = self;
        let (folded, before) = (fold(first.address.table), touched.len());
        let table = find(tables, &folded).map_err(|rejection| Failed { index: 0, rejection })?;
        let made = table.transact(changes, *strict, || stamp(last, now), &mut |written| {
            touched.note(|| Touch::of(&folded, written, *encode));
            see(written);
        });
        if made.is_err() {
            touched.truncate(before);
        }
        made
    }

    /// A page of tables, and the first table on the next page.
    pub(crate) fn tables(
        &self,
        query: &TableQuery,
        cut: Option<Cut>,
    ) -> (Vec<&Table>, Option<&Table>) {
        let from = query.next.as_deref().map(fold);
        let from = from.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let room = match cut {
            Some(Cut::Rows(rows)) => query.top.unwrap_or(MAX_PAGE).min(rows),
            Some(Cut::Partition) | None => query.top.unwrap_or(MAX_PAGE),
        };
        let mut matching = self
            .tables
            .range::<Key, _>((from, Bound::Unbounded))
            .filter(|(folded, _)| {
                query.filter.as_ref().is_none_or(|filter| names_match(filter, folded.as_str()))
            })
            .map(|(_, table)| &**table);
        let page = matching.by_ref().take(room as usize).collect();
        (page, matching.next())
    }

    /// All tables, in the order of their names without case.
    pub(crate) fn all_tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values().map(|table| &**table)
    }

    /// The service's properties.
    pub(crate) fn properties(&self) -> &ServiceProperties {
        &self.properties
    }

    /// The same, for changing them.
    pub(crate) fn properties_mut(&mut self) -> &mut ServiceProperties {
        self.touched.note(|| Touch::Properties);
        &mut self.properties
    }
}

fn find<'a>(
    tables: &'a mut BTreeMap<Key, Arc<Table>>,
    folded: &Key,
) -> Result<&'a mut Table, Rejection> {
    let table = tables.get_mut(folded).map(Arc::make_mut);
    table.ok_or_else(|| Rejection::new(ErrorCode::TABLE_NOT_FOUND))
}

/// For the durable store, which also keeps the account on disk.
#[cfg(feature = "durable")]
impl Account {
    /// The table with this name in lower case.
    pub(crate) fn table_at(&self, folded: &Key) -> Option<&Table> {
        self.tables.get(folded).map(|table| &**table)
    }

    /// Until when the name of a deleted table is blocked.
    pub(crate) fn blocked_until(&self, folded: &Key) -> Option<DateTime> {
        self.blocked.until(folded)
    }

    /// The latest Timestamp issued to an entity.
    pub(crate) fn last(&self) -> DateTime {
        self.last
    }

    /// Restores a table.
    pub(crate) fn restore_table(
        &mut self,
        name: &str,
        created: DateTime,
        policies: Vec<SignedIdentifier>,
    ) {
        let mut table = Table::new(name, created);
        table.set_policies(policies);
        self.tables.insert(fold(name), Arc::new(table));
    }

    /// The table with this name in lower case, for restoring its entities.
    pub(crate) fn restoring(&mut self, folded: &Key) -> Option<&mut Table> {
        find(&mut self.tables, folded).ok()
    }

    /// Restores a blocked name.
    pub(crate) fn restore_blocked(&mut self, folded: &str, until: DateTime) {
        self.blocked.restore(Key::from(folded), until);
    }

    /// Makes all later Timestamps greater than this one.
    pub(crate) fn resume_after(&mut self, last: DateTime) {
        self.last = self.last.max(last);
    }

    /// Starts recording changes, with entities as `encode` returns them.
    pub(crate) fn watch(&mut self, encode: Encode) {
        self.touched.watch();
        self.encode = encode;
    }

    /// Records everything as changed.
    pub(crate) fn touch_all(&mut self) {
        self.touched.note(|| Touch::Properties);
        for name in self.blocked.iter() {
            self.touched.note(|| Touch::Table(name.clone()));
        }
        for (name, table) in &self.tables {
            self.touched.note(|| Touch::Table(name.clone()));
            for (partition_key, row_key, row) in table.entities() {
                self.touched.note(|| Touch::Entity {
                    table: name.clone(),
                    partition_key: partition_key.clone(),
                    row_key: row_key.clone(),
                    row: Some((self.encode)(&row.properties().collect::<Vec<_>>(), row)),
                });
            }
        }
    }
}

impl Touch {
    fn of(table: &Key, written: &Written<'_>, encode: Encode) -> Self {
        let address = &written.change.address;
        Self::Entity {
            table: table.clone(),
            partition_key: Key::from(&*address.partition_key),
            row_key: Key::from(&*address.row_key),
            row: written.entity.map(|(properties, row)| encode(properties, row)),
        }
    }
}

/// The current time, but always later than the last one, so that every write changes the ETag.
fn stamp(last: &mut DateTime, now: DateTime) -> DateTime {
    let next = DateTime::from_ticks(last.ticks() + 1).unwrap_or(DateTime::MAX);
    *last = now.max(next);
    *last
}

fn fold(name: &str) -> Key {
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        Key::from(name.to_ascii_lowercase().as_str())
    } else {
        Key::from(name)
    }
}

/// Whether a table's name, in lower case, satisfies a filter. Tables have no other property.
fn names_match(filter: &Filter, name: &str) -> bool {
    match filter {
        Filter::And(all) => all.iter().all(|part| names_match(part, name)),
        Filter::Or(any) => any.iter().any(|part| names_match(part, name)),
        Filter::Not(inner) => !names_match(inner, name),
        Filter::Constant(value) => *value,
        Filter::Property(_) => false,
        Filter::Compare(Comparison { property, operator, value }) => {
            let rowkey_wire::edm::Value::String(value) = value else { return false };
            if property != "TableName" {
                return false;
            }
            operator.holds(name.cmp(value.to_ascii_lowercase().as_str()))
        }
    }
}
