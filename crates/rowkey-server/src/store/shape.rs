//! The names and types of an entity's properties, kept once for all rows that have the same ones.
//!
//! A [`Shape`] knows where each value lies in a row's bytes, and holds the text that stands before
//! it in an answer. So names cost a row nothing, and rendering one is mostly copying.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

use rowkey_wire::edm::{Type, ValueRef};
use rowkey_wire::odata::render::Prefix;

/// A property of a [`Shape`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The type of the value.
    pub(crate) edm_type: Type,
    /// Where the value, or the end of its text or bytes, lies in the row's fixed part.
    pub(crate) at: u32,
    /// For text and bytes: where the end of the ones before lies. `None` for the first.
    pub(crate) before: Option<u32>,
    name: (u32, u32),
    prefix: (u32, u32, u32),
}

/// The properties of a row in stored order.
#[derive(Debug)]
pub(crate) struct Shape {
    slots: Box<[Slot]>,
    /// Names and prefixes, one after the other.
    text: Box<str>,
    /// Bytes that the fixed parts take together.
    fixed: u32,
    hash: u64,
}

impl Shape {
    fn new(properties: &[(&str, ValueRef<'_>)], hash: u64) -> Self {
        let mut text = String::new();
        let mut slots = Vec::with_capacity(properties.len());
        let (mut fixed, mut before) = (0, None);
        for (name, value) in properties {
            let edm_type = value.edm_type();
            let name_start = offset(text.len());
            text.push_str(name);
            let start = offset(text.len());
            let plain = offset(Prefix::write(&mut text, name, edm_type));
            let prefix = (start, plain, offset(text.len()));
            let variable = matches!(edm_type, Type::Binary | Type::String);
            let name_range = (name_start, start);
            slots.push(Slot {
                edm_type,
                at: fixed,
                before: if variable { before } else { None },
                name: name_range,
                prefix,
            });
            if variable {
                before = Some(fixed);
            }
            fixed += width(edm_type);
        }
        Self { slots: slots.into(), text: text.into(), fixed, hash }
    }

    /// The properties in order.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Bytes of a row before its text and bytes begin.
    pub(crate) fn fixed(&self) -> usize {
        self.fixed as usize
    }

    /// The name of a property.
    pub(crate) fn name(&self, slot: &Slot) -> &str {
        &self.text[slot.name.0 as usize..slot.name.1 as usize]
    }

    /// What stands before the property's value in an answer.
    pub(crate) fn prefix(&self, slot: &Slot) -> Prefix<'_> {
        let (start, plain, end) = slot.prefix;
        Prefix {
            annotated: &self.text[start as usize..end as usize],
            plain: &self.text[plain as usize..end as usize],
        }
    }

    /// The property with this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Slot> {
        self.slots.iter().find(|slot| self.name(slot) == name)
    }

    fn is_of(&self, properties: &[(&str, ValueRef<'_>)]) -> bool {
        self.slots.len() == properties.len()
            && self.slots.iter().zip(properties).all(|(slot, (name, value))| {
                slot.edm_type == value.edm_type() && self.name(slot) == *name
            })
    }
}

/// The shapes of a table. Those that no row has any more are forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    known: HashMap<u64, Vec<Weak<Shape>>>,
    /// The one asked for last: nearly always the one asked for next.
    last: Option<Arc<Shape>>,
    /// How many may be known before those without rows are looked for.
    sweep_at: usize,
}

impl Shapes {
    /// The shape of these properties, shared with the rows that have it already.
    pub(crate) fn intern(&mut self, properties: &[(&str, ValueRef<'_>)]) -> Arc<Shape> {
        if let Some(last) = &self.last
            && last.is_of(properties)
        {
            return Arc::clone(last);
        }
        let mut hasher = DefaultHasher::new();
        for (name, value) in properties {
            name.hash(&mut hasher);
            value.edm_type().hash(&mut hasher);
        }
        let hash = hasher.finish();
        let same = self.known.get(&hash).and_then(|shapes| {
            shapes.iter().filter_map(Weak::upgrade).find(|shape| shape.is_of(properties))
        });
        let shape = same.unwrap_or_else(|| {
            let shape = Arc::new(Shape::new(properties, hash));
            self.remember(&shape);
            shape
        });
        self.last = Some(Arc::clone(&shape));
        shape
    }

    fn remember(&mut self, shape: &Arc<Shape>) {
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, shapes| {
                shapes.retain(|shape| shape.strong_count() > 0);
                !shapes.is_empty()
            });
            self.sweep_at = (self.known.len() * 2).max(64);
        }
        self.known.entry(shape.hash).or_default().push(Arc::downgrade(shape));
    }

    /// How many shapes are known, those without rows included that were not looked for yet.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

/// Bytes that a value takes in the fixed part of a row. Of text and bytes it is the end.
const fn width(edm_type: Type) -> u32 {
    match edm_type {
        Type::Boolean => 1,
        Type::Binary | Type::Int32 | Type::String => 4,
        Type::DateTime | Type::Double | Type::Int64 => 8,
        Type::Guid => 16,
    }
}

/// Entities are limited to a few MiB by the size of a request, so offsets fit.
fn offset(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_the_same_properties_share_a_shape_and_unused_ones_are_forgotten() {
        let mut shapes = Shapes::default();
        let one = shapes.intern(&[("a", ValueRef::Int32(1)), ("b", ValueRef::Boolean(true))]);
        let two = shapes.intern(&[("a", ValueRef::Int32(2)), ("b", ValueRef::Boolean(false))]);
        assert!(Arc::ptr_eq(&one, &two));
        let other = shapes.intern(&[("a", ValueRef::Int64(1)), ("b", ValueRef::Boolean(true))]);
        assert!(!Arc::ptr_eq(&one, &other), "types count");
        let again = shapes.intern(&[("a", ValueRef::Int32(3)), ("b", ValueRef::Boolean(true))]);
        assert!(Arc::ptr_eq(&one, &again), "also when it is not the last one");
        for i in 0..10_000 {
            shapes.intern(&[(format!("p{i}").as_str(), ValueRef::Int32(1))]);
        }
        assert!(shapes.len() < 200, "{} shapes without rows are kept", shapes.len());
    }

    #[test]
    fn values_lie_one_after_the_other() {
        let properties = [
            ("s", ValueRef::String("x".into())),
            ("b", ValueRef::Boolean(true)),
            ("t", ValueRef::Binary(b"y".as_slice().into())),
            ("g", ValueRef::Guid(rowkey_wire::edm::Guid::nil())),
        ];
        let shape = Shapes::default().intern(&properties);
        let places: Vec<_> = shape.slots().iter().map(|slot| (slot.at, slot.before)).collect();
        assert_eq!(places, [(0, None), (4, None), (5, Some(0)), (9, None)]);
        assert_eq!(shape.fixed(), 25);
        assert_eq!(shape.prefix(&shape.slots()[3]).annotated, r#","g@odata.type":"Edm.Guid","g":"#);
    }
}
