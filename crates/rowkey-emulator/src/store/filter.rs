//! A compiled filter.
//!
//! A filter is compiled once per query: names become numbers, constants keep their type, and
//! conditions on the keys become the [`KeyRange`] to scan. The positions of the properties in a row
//! are looked up once for each [`Shape`].
//!
//! A comparison holds only for a property that exists and has the constant's type.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use rowkey_wire::edm::{Type, Value, ValueRef};
use rowkey_wire::filter::{Comparison, Filter, Operator};
use rowkey_wire::key;

use super::partition::Key;
use super::row::Row;
use super::shape::{Shape, Slot};

/// The number of shapes that are cached during a query.
const REMEMBERED: usize = 16;

/// A compiled filter and the range of keys to scan.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    condition: Option<Node>,
    names: Vec<String>,
    /// For the shapes met so far: the positions of the named properties.
    shapes: Vec<(Arc<Shape>, Vec<Option<Slot>>)>,
    /// The partition keys that can match.
    pub(crate) partition_keys: KeyRange,
    /// The row keys that can match in every partition.
    pub(crate) row_keys: KeyRange,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The start of the range.
    pub(crate) from: Bound<Key>,
    /// The end of the range.
    pub(crate) to: Bound<Key>,
}

impl Default for KeyRange {
    fn default() -> Self {
        Self { from: Bound::Unbounded, to: Bound::Unbounded }
    }
}

impl KeyRange {
    /// Whether `key` is beyond the end.
    pub(crate) fn ends_before(&self, key: &Key) -> bool {
        match &self.to {
            Bound::Excluded(to) => key >= to,
            Bound::Included(to) => key > to,
            Bound::Unbounded => false,
        }
    }

    /// Whether the range contains no key.
    pub(crate) fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
            | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
            _ => false,
        }
    }

    /// Moves the start to `from` if that is later.
    pub(crate) fn begin_at(&mut self, from: Bound<Key>) {
        let later = match (&self.from, &from) {
            (_, Bound::Unbounded) => false,
            (Bound::Unbounded, _) => true,
            (Bound::Included(old) | Bound::Excluded(old), Bound::Excluded(new)) => new >= old,
            (Bound::Included(old) | Bound::Excluded(old), Bound::Included(new)) => new > old,
        };
        if later {
            self.from = from;
        }
    }

    /// Moves the end to `to` if that is earlier.
    pub(crate) fn end_at(&mut self, to: Bound<Key>) {
        let earlier = match (&self.to, &to) {
            (_, Bound::Unbounded) => false,
            (Bound::Unbounded, _) => true,
            (Bound::Included(old) | Bound::Excluded(old), Bound::Excluded(new)) => new <= old,
            (Bound::Included(old) | Bound::Excluded(old), Bound::Included(new)) => new < old,
        };
        if earlier {
            self.to = to;
        }
    }
}

#[derive(Debug)]
enum Node {
    And(Vec<Node>),
    Compare { operand: Operand, operator: Operator, constant: ValueRef<'static> },
    Constant(bool),
    Not(Box<Node>),
    Or(Vec<Node>),
    Property(usize),
}

#[derive(Clone, Copy, Debug)]
enum Operand {
    /// A property, by its index in `names`.
    Named(usize),
    PartitionKey,
    RowKey,
    Timestamp,
}

impl Compiled {
    /// Compiles a filter.
    pub(crate) fn new(filter: Option<&Filter>) -> Self {
        let mut compiled = Self::default();
        let parts = match filter {
            None => &[],
            Some(Filter::And(all)) => all.as_slice(),
            Some(single) => std::slice::from_ref(single),
        };
        let rest: Vec<&Filter> = parts.iter().filter(|part| !compiled.narrow(part)).collect();
        let mut rest: Vec<Node> = rest.into_iter().map(|part| compiled.node(part)).collect();
        compiled.condition = match rest.len() {
            0 | 1 => rest.pop(),
            _ => Some(Node::And(rest)),
        };
        compiled
    }

    /// Whether a row matches the filter.
    pub(crate) fn matches(&mut self, partition_key: &Key, row_key: &Key, row: &Row) -> bool {
        let Some(condition) = &self.condition else { return true };
        let slots = slots(&mut self.shapes, &self.names, row.shape());
        Candidate { partition_key, row_key, row, slots }.satisfies(condition)
    }

    /// Narrows the ranges by a condition on a key. Returns whether they now express the whole
    /// condition.
    fn narrow(&mut self, part: &Filter) -> bool {
        let Filter::Compare(Comparison { property, operator, value: Value::String(text) }) = part
        else {
            return false;
        };
        let range = match property.as_str() {
            "PartitionKey" => &mut self.partition_keys,
            "RowKey" => &mut self.row_keys,
            _ => return false,
        };
        let key = Key::from(text.as_str());
        match operator {
            Operator::Equal => {
                range.begin_at(Bound::Included(key.clone()));
                range.end_at(Bound::Included(key));
            }
            Operator::Greater => range.begin_at(Bound::Excluded(key)),
            Operator::GreaterOrEqual => range.begin_at(Bound::Included(key)),
            Operator::Less => range.end_at(Bound::Excluded(key)),
            Operator::LessOrEqual => range.end_at(Bound::Included(key)),
            Operator::NotEqual => return false,
        }
        true
    }

    fn node(&mut self, filter: &Filter) -> Node {
        match filter {
            Filter::And(all) => Node::And(all.iter().map(|part| self.node(part)).collect()),
            Filter::Or(any) => Node::Or(any.iter().map(|part| self.node(part)).collect()),
            Filter::Not(inner) => Node::Not(Box::new(self.node(inner))),
            Filter::Constant(value) => Node::Constant(*value),
            Filter::Property(name) => Node::Property(self.named(name)),
            Filter::Compare(Comparison { property, operator, value }) => Node::Compare {
                operand: match property.as_str() {
                    "PartitionKey" => Operand::PartitionKey,
                    "RowKey" => Operand::RowKey,
                    "Timestamp" => Operand::Timestamp,
                    name => Operand::Named(self.named(name)),
                },
                operator: *operator,
                constant: value.clone().into(),
            },
        }
    }

    fn named(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

/// The positions of the properties with these names in rows of `shape`.
fn slots<'a>(
    shapes: &'a mut Vec<(Arc<Shape>, Vec<Option<Slot>>)>,
    names: &[String],
    shape: &Arc<Shape>,
) -> &'a [Option<Slot>] {
    let at = shapes.iter().position(|(known, _)| Arc::ptr_eq(known, shape)).unwrap_or_else(|| {
        if shapes.len() == REMEMBERED {
            shapes.remove(0);
        }
        let found = names.iter().map(|name| shape.find(name).copied()).collect();
        shapes.push((Arc::clone(shape), found));
        shapes.len() - 1
    });
    &shapes[at].1
}

struct Candidate<'a> {
    partition_key: &'a Key,
    row_key: &'a Key,
    row: &'a Row,
    slots: &'a [Option<Slot>],
}

impl Candidate<'_> {
    fn satisfies(&self, node: &Node) -> bool {
        match node {
            Node::And(all) => all.iter().all(|part| self.satisfies(part)),
            Node::Or(any) => any.iter().any(|part| self.satisfies(part)),
            Node::Not(inner) => !self.satisfies(inner),
            Node::Constant(value) => *value,
            Node::Property(name) => self.slots[*name]
                .is_some_and(|slot| slot.edm_type == Type::Boolean && self.row.boolean(&slot)),
            Node::Compare { operand, operator, constant } => {
                let found = match operand {
                    Operand::PartitionKey => compare_key(self.partition_key, constant),
                    Operand::RowKey => compare_key(self.row_key, constant),
                    Operand::Timestamp => {
                        let order = ValueRef::DateTime(self.row.timestamp()).compare(constant);
                        order.map_or(Found::Nothing, Found::Ordered)
                    }
                    Operand::Named(name) => match &self.slots[*name] {
                        Some(slot) if slot.edm_type == constant.edm_type() => {
                            let order = self.row.compare(slot, constant);
                            order.map_or(Found::Unordered, Found::Ordered)
                        }
                        _ => Found::Nothing,
                    },
                };
                found.is(*operator)
            }
        }
    }
}

/// The result of comparing a stored value with a constant.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// The property does not exist or has another type.
    Nothing,
    Ordered(Ordering),
    /// One of them is NaN.
    Unordered,
}

impl Found {
    fn is(self, operator: Operator) -> bool {
        match self {
            Self::Nothing => false,
            Self::Unordered => operator == Operator::NotEqual,
            Self::Ordered(order) => operator.holds(order),
        }
    }
}

fn compare_key(key: &Key, constant: &ValueRef<'_>) -> Found {
    match constant {
        ValueRef::String(text) => Found::Ordered(key::compare(key.as_str(), text)),
        _ => Found::Nothing,
    }
}
