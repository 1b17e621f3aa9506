//! A table: its partitions in order, and what one change does to it.
//!
//! A change is staged, which checks everything and touches nothing, and then committed, which
//! cannot fail. A transaction stages all its changes before it commits the first.

use std::collections::BTreeMap;
use std::ops::Bound;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::{DateTime, ValueRef, size};
use rowkey_wire::error::Rejection;
use rowkey_wire::odata::parse::{self, Entity, Strictness};
use rowkey_wire::table::op::{Change, ChangeKind, Condition};
use rowkey_wire::xml::SignedIdentifier;

use super::partition::{Key, Partition};
use super::row::Row;
use super::shape::Shapes;

/// The entities of a table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    name: Box<str>,
    created: DateTime,
    policies: Vec<SignedIdentifier>,
    partitions: BTreeMap<Key, Partition>,
    shapes: Shapes,
    rows: usize,
    version: u64,
}

/// A change that was found to be possible.
#[derive(Debug)]
pub(crate) struct Staged {
    partition_key: Key,
    row_key: Key,
    /// The new row; `None` removes the old one.
    row: Option<Row>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(name: &str, created: DateTime) -> Self {
        Self {
            name: name.into(),
            created,
            policies: Vec::new(),
            partitions: BTreeMap::new(),
            shapes: Shapes::default(),
            rows: 0,
            version: 0,
        }
    }

    /// Finds out whether a change is possible, and prepares it.
    pub(crate) fn stage(
        &mut self,
        change: &Change<'_>,
        strict: Strictness,
        at: DateTime,
    ) -> Result<Staged, Rejection> {
        let partition_key = Key::from(&change.address.partition_key);
        let row_key = Key::from(&change.address.row_key);
        let current = self.partitions.get(&partition_key).and_then(|rows| rows.get(&row_key));
        let row = match &change.kind {
            ChangeKind::Delete(condition) => {
                require(current, Some(*condition))?;
                None
            }
            ChangeKind::Insert(entity, _) => {
                if current.is_some() {
                    return Err(Rejection::new(ErrorCode::ENTITY_ALREADY_EXISTS));
                }
                Some(Row::new(&mut self.shapes, &entity.properties, at))
            }
            ChangeKind::Replace(entity, condition) => {
                require(current, *condition)?;
                if strict == Strictness::Strict && entity.partition_key.is_none() {
                    let keys = size::of_keys(partition_key.as_str(), row_key.as_str());
                    parse::check_size(keys + parse::properties_size(&entity.properties))?;
                }
                let properties = by_name(entity.properties.clone());
                Some(Row::new(&mut self.shapes, &properties, at))
            }
            ChangeKind::Merge(entity, condition) => {
                require(current, *condition)?;
                let properties = match current {
                    Some(row) => merge(row, entity),
                    None => entity.properties.clone(),
                };
                if strict == Strictness::Strict {
                    parse::check_count(properties.len())?;
                    let keys = size::of_keys(partition_key.as_str(), row_key.as_str());
                    parse::check_size(keys + parse::properties_size(&properties))?;
                }
                Some(Row::new(&mut self.shapes, &by_name(properties), at))
            }
        };
        Ok(Staged { partition_key, row_key, row })
    }

    /// Makes a staged change. Nothing else may have changed since.
    pub(crate) fn commit(&mut self, staged: Staged) {
        self.version += 1;
        let Staged { partition_key, row_key, row } = staged;
        match row {
            Some(row) => {
                let replaced = self.partitions.entry(partition_key).or_default().put(row_key, row);
                self.rows += usize::from(!replaced);
            }
            None => {
                if let Some(partition) = self.partitions.get_mut(&partition_key) {
                    self.rows -= usize::from(partition.remove(&row_key));
                    if partition.is_empty() {
                        self.partitions.remove(&partition_key);
                    }
                }
            }
        }
    }

    /// The entity with these keys.
    pub(crate) fn get(&self, partition_key: &str, row_key: &str) -> Option<&Row> {
        self.partitions.get(&Key::from(partition_key))?.get(&Key::from(row_key))
    }

    /// The partitions from this one on.
    pub(crate) fn partitions(&self, from: Bound<&Key>) -> impl Iterator<Item = (&Key, &Partition)> {
        self.partitions.range::<Key, _>((from, Bound::Unbounded))
    }

    /// All entities in the order of their keys.
    pub(crate) fn entities(&self) -> impl Iterator<Item = (&Key, &Key, &Row)> {
        self.partitions.iter().flat_map(|(partition_key, rows)| {
            let rows = rows.from(Bound::Unbounded);
            rows.map(move |(row_key, row)| (partition_key, row_key, row))
        })
    }

    /// The name, as it was written when the table was created.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// When the table was created.
    pub(crate) fn created(&self) -> DateTime {
        self.created
    }

    /// How many entities there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// A number that changes with every change of an entity.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The stored access policies.
    pub(crate) fn policies(&self) -> &[SignedIdentifier] {
        &self.policies
    }

    /// Replaces the stored access policies.
    pub(crate) fn set_policies(&mut self, policies: Vec<SignedIdentifier>) {
        self.policies = policies;
    }
}

/// Checks what a change requires of the stored entity. Without a condition it may be missing.
fn require(current: Option<&Row>, condition: Option<Condition>) -> Result<(), Rejection> {
    let Some(condition) = condition else { return Ok(()) };
    let Some(row) = current else {
        return Err(Rejection::new(ErrorCode::RESOURCE_NOT_FOUND));
    };
    match condition {
        Condition::Any => Ok(()),
        Condition::Tag(instant) if instant == row.timestamp() => Ok(()),
        Condition::Tag(_) => Err(Rejection::new(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED)),
        Condition::Unknown => Err(Rejection::new(ErrorCode::CONDITION_NOT_MET)),
    }
}

/// Inserted entities keep the order in which their properties came; every update sorts them by
/// name (recorded: 76 replaced or merged entities, none in another order).
fn by_name<'a>(mut properties: Vec<(&'a str, ValueRef<'a>)>) -> Vec<(&'a str, ValueRef<'a>)> {
    properties.sort_unstable_by_key(|(name, _)| *name);
    properties
}

/// The stored properties with those of `entity` over them.
fn merge<'a>(row: &'a Row, entity: &Entity<'a>) -> Vec<(&'a str, ValueRef<'a>)> {
    let mut merged: Vec<_> = row.properties().collect();
    for (name, value) in &entity.properties {
        match merged.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.clone(),
            None => merged.push((name, value.clone())),
        }
    }
    merged
}
