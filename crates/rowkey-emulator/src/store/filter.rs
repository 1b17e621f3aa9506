//! A compiled filter.
//!
//! A filter is compiled once per query: names become numbers, constants keep their type, and
//! conditions on the keys become the [`KeyRange`] to scan. The positions of the properties in a row
//! are looked up once for each [`Shape`].
//!
//! A comparison holds only for a property that exists and has the constant's type.

use std::cmp::Ordering;
use std::hint;
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
    ahead: Ahead,
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

/// What is read of many rows at once, before they are looked at one by one.
#[derive(Clone, Copy, Debug, Default)]
enum Ahead {
    /// The filter looks at no property.
    #[default]
    Nothing,
    /// A comparison that must hold, of a property that rows contain in binary.
    Number(Number),
    /// The memory of the first property of the filter.
    Touch,
}

impl Ahead {
    fn of(condition: Option<&Node>) -> Self {
        let Some(condition) = condition else { return Self::Nothing };
        let parts = match condition {
            Node::And(all) => all.as_slice(),
            single => std::slice::from_ref(single),
        };
        match parts.iter().find_map(Number::of) {
            Some(number) => Self::Number(number),
            None if condition.has_property() => Self::Touch,
            None => Self::Nothing,
        }
    }
}

/// The comparison of a property with a number or an instant.
#[derive(Clone, Copy, Debug)]
struct Number {
    /// The property, by its index in `names`.
    name: usize,
    edm_type: Type,
    operator: Operator,
    constant: Constant,
}

#[derive(Clone, Copy, Debug)]
enum Constant {
    Double(f64),
    Int32(i32),
    Int64(i64),
}

impl Number {
    fn of(node: &Node) -> Option<Self> {
        let Node::Compare { operand: Operand::Named(name), operator, constant } = node else {
            return None;
        };
        let edm_type = constant.edm_type();
        let constant = match constant {
            ValueRef::DateTime(instant) => Constant::Int64(instant.ticks()),
            ValueRef::Double(number) => Constant::Double(*number),
            ValueRef::Int32(number) => Constant::Int32(*number),
            ValueRef::Int64(number) => Constant::Int64(*number),
            _ => return None,
        };
        Some(Self { name: *name, edm_type, operator: *operator, constant })
    }

    /// Whether the comparison holds for a row with the property in this slot.
    #[inline]
    fn holds(&self, row: &Row, slot: Option<&Slot>) -> bool {
        let Some(slot) = slot.filter(|slot| slot.edm_type == self.edm_type) else { return false };
        let order = match self.constant {
            Constant::Double(b) => f64::from_le_bytes(row.fixed(slot)).partial_cmp(&b),
            Constant::Int32(b) => Some(i32::from_le_bytes(row.fixed(slot)).cmp(&b)),
            Constant::Int64(b) => Some(i64::from_le_bytes(row.fixed(slot)).cmp(&b)),
        };
        order.map_or(Found::Unordered, Found::Ordered).is(self.operator)
    }
}

impl Node {
    fn has_property(&self) -> bool {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::has_property),
            Self::Not(inner) => inner.has_property(),
            Self::Property(_) | Self::Compare { operand: Operand::Named(_), .. } => true,
            Self::Compare { .. } | Self::Constant(_) => false,
        }
    }
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
        compiled.ahead = Ahead::of(compiled.condition.as_ref());
        compiled
    }

    /// Which of these rows may match, one bit each from the lowest on. The others do not match.
    ///
    /// Memory is what a filter waits for: each row is in its own cache line. Here the reads of all
    /// rows depend on nothing but their addresses, so the processor makes many at once. The tests in
    /// `filter_tests` compare scans with the definition of filters.
    pub(crate) fn candidates(&mut self, rows: &[(&Key, &Row)]) -> u32 {
        let Self { ahead, shapes, names, .. } = self;
        let mut all = 0;
        match ahead {
            Ahead::Nothing => all = u32::MAX,
            Ahead::Number(number) => {
                for (at, (_, row)) in rows.iter().enumerate() {
                    let slot = &slots(shapes, names, row.shape())[number.name];
                    all |= u32::from(number.holds(row, slot.as_ref())) << at;
                }
            }
            Ahead::Touch => {
                // Where a value ends is read first, then the value itself.
                for touch in [Row::end_touched, Row::text_touched] {
                    for (_, row) in rows {
                        let slot = &slots(shapes, names, row.shape())[0];
                        hint::black_box(slot.as_ref().map(|slot| touch(row, slot)));
                    }
                }
                all = u32::MAX;
            }
        }
        all
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
    // Most rows of a table have the shape of the row before.
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
