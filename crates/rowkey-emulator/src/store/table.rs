//! A table: its partitions in order, and the changes to its entities.
//!
//! A change checks everything before it modifies anything, and shows what it writes while it has it
//! at hand, for the response and the durable store. It returns the previous row, so that a
//! transaction that fails later can restore it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::SignedIdentifier;

use super::partition::{Key, Partition};
use super::row::{Property, Row};
use super::shape::Shapes;
use crate::op::entity as parse;
use crate::op::entity::{Entity, Strictness};
use crate::op::table::{Address, Change, ChangeKind, Condition};

/// What a change writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'a> {
    /// The change.
    pub(crate) change: &'a Change<'a>,
    /// The table's name as it was written when the table was created.
    pub(crate) table: &'a str,
    /// The entity's new Timestamp.
    pub(crate) timestamp: DateTime,
    /// The entity's properties, and the row that holds them; `None` if it is deleted.
    pub(crate) entity: Option<(&'a [Property<'a>], &'a Row)>,
}

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
            // Later than any version of an earlier table with this name.
            version: created.ticks().cast_unsigned(),
        }
    }

    /// Applies a change and shows it to `see`, or fails without changing anything. Returns the
    /// previous row.
    pub(crate) fn apply(
        &mut self,
        change: &Change<'_>,
        strict: Strictness,
        timestamp: DateTime,
        see: &mut dyn FnMut(&Written<'_>),
    ) -> Result<Option<Row>, Rejection> {
        self.change(&change.address, |current, shapes, table| {
            let mut properties = match &change.kind {
                ChangeKind::Delete(condition) => {
                    require(current, Some(*condition))?;
                    see(&Written { change, table, timestamp, entity: None });
                    return Ok(None);
                }
                ChangeKind::Insert(..) if current.is_some() => {
                    return Err(Rejection::new(ErrorCode::ENTITY_ALREADY_EXISTS));
                }
                ChangeKind::Insert(entity, _) => Cow::from(&entity.properties),
                ChangeKind::Replace(entity, condition) => {
                    require(current, *condition)?;
                    if strict == Strictness::Strict && entity.partition_key.is_none() {
                        check_size(&change.address, &entity.properties)?;
                    }
                    Cow::from(&entity.properties)
                }
                ChangeKind::Merge(entity, condition) => {
                    require(current, *condition)?;
                    let properties = match current {
                        Some(row) => Cow::from(merge(row, entity)),
                        None => Cow::from(&entity.properties),
                    };
                    if strict == Strictness::Strict {
                        parse::check_count(properties.len())?;
                        check_size(&change.address, &properties)?;
                    }
                    properties
                }
            };
            // Inserted entities keep the order of their properties; every update sorts them by name
            // (recorded: 76 replaced or merged entities, all of them sorted).
            let keeps_order = matches!(change.kind, ChangeKind::Insert(..));
            if !keeps_order && !properties.is_sorted_by_key(|(name, _)| *name) {
                properties.to_mut().sort_unstable_by_key(|(name, _)| *name);
            }
            let row = Row::new(shapes, &properties, timestamp);
            see(&Written { change, table, timestamp, entity: Some((&*properties, &row)) });
            Ok(Some(row))
        })
    }

    /// Calls `decide` with the row at an address, the shapes and the table's name, and stores the
    /// row it returns. Returns the previous row.
    pub(super) fn change<E>(
        &mut self,
        address: &Address<'_>,
        decide: impl FnOnce(Option<&Row>, &mut Shapes, &str) -> Result<Option<Row>, E>,
    ) -> Result<Option<Row>, E> {
        let Self { name, partitions, shapes, version, .. } = self;
        let version = *version + 1;
        let mut is_there = false;
        let decide = |current: Option<&Row>| {
            let row = decide(current, shapes, name)?;
            is_there = row.is_some();
            Ok(row)
        };
        let partition = partitions.entry(Key::from(&*address.partition_key)).or_default();
        let before = partition.change(Key::from(&*address.row_key), version, decide);
        if partition.is_empty() {
            partitions.remove(&Key::from(&*address.partition_key));
        }
        let before = before?;
        self.rows += usize::from(is_there);
        self.rows -= usize::from(before.is_some());
        self.version = version;
        Ok(before)
    }

    /// The entity with these keys.
    pub(crate) fn get(&self, partition_key: &str, row_key: &str) -> Option<&Row> {
        self.partitions.get(&Key::from(partition_key))?.get(&Key::from(row_key))
    }

    /// Restores an entity.
    #[cfg(feature = "durable")]
    pub(crate) fn restore(
        &mut self,
        (partition_key, row_key): (&str, &str),
        properties: &[Property<'_>],
        at: DateTime,
    ) {
        let row = Row::new(&mut self.shapes, properties, at);
        let partition = self.partitions.entry(Key::from(partition_key)).or_default();
        let row_key = Key::from(row_key);
        let Ok(before) =
            partition.change::<std::convert::Infallible>(row_key, self.version, |_| Ok(Some(row)));
        self.rows += usize::from(before.is_none());
    }

    /// Whether a partition may have changed since a reader paused inside it at this version of the
    /// table.
    pub(crate) fn has_changed_since(&self, version: u64, partition_key: &Key) -> bool {
        let partition = self.partitions.get(partition_key);
        partition.is_none_or(|partition| partition.has_changed_since(version))
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

    /// The name as it was written when the table was created.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// When the table was created.
    pub(crate) fn created(&self) -> DateTime {
        self.created
    }

    /// The number of entities.
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

/// Rejects an entity that is too large, including the keys of its address.
fn check_size(address: &Address<'_>, properties: &[Property<'_>]) -> Result<(), Rejection> {
    parse::check_size((&address.partition_key, &address.row_key), properties)
}

/// Checks a change's condition on the stored entity. Without a condition, it may be missing.
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

/// Merges the properties of `entity` into the stored ones. Replaced values are not read.
fn merge<'a>(row: &'a Row, entity: &Entity<'a>) -> Vec<Property<'a>> {
    let sent = &entity.properties;
    let shape = row.shape();
    let mut merged = Vec::with_capacity(shape.slots().len() + sent.len());
    merged.extend(shape.slots().iter().map(|slot| {
        let name = shape.name(slot);
        let replaced = sent.iter().find(|(other, _)| *other == name);
        (name, replaced.map_or_else(|| row.value(slot), |(_, value)| value.clone()))
    }));
    merged.extend(sent.iter().filter(|(name, _)| shape.find(name).is_none()).cloned());
    merged
}
