//! The names and types of an entity's properties, stored once for all rows that share them.
//!
//! A [`Shape`] contains the layout of a row, and the text that precedes each value in a
//! response.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

use rowkey_wire::edm::{Type, ValueRef};
use rowkey_wire::odata::render::Prefix;

/// The size of a value's end in bytes. The ends are stored side by side at the start of a row.
pub(crate) const END_WIDTH: usize = size_of::<u32>();

/// A property of a [`Shape`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The type of the value.
    pub(crate) edm_type: Type,
    /// Its index among the properties, and of its end among the ends.
    pub(crate) index: usize,
    /// The offset of a number or an instant in the row's fixed part.
    pub(crate) at: usize,
    /// Its size there; 0 if the value is only in the text.
    pub(crate) width: usize,
    name: (u32, u32),
    prefix: (u32, u32, u32),
}

/// The properties of a row in stored order.
#[derive(Debug)]
pub(crate) struct Shape {
    slots: Box<[Slot]>,
    /// Names and prefixes, concatenated.
    text: Box<str>,
    /// The total size of the fixed parts in bytes.
    fixed: usize,
    hash: u64,
}

impl Shape {
    fn new(properties: &[(&str, ValueRef<'_>)], hash: u64) -> Self {
        let mut text = String::new();
        let mut slots = Vec::with_capacity(properties.len());
        let mut fixed = properties.len() * END_WIDTH;
        for (index, (name, value)) in properties.iter().enumerate() {
            let edm_type = value.edm_type();
            let name_start = offset(text.len());
            text.push_str(name);
            let start = offset(text.len());
            let plain = offset(Prefix::write(&mut text, name, edm_type));
            let prefix = (start, plain, offset(text.len()));
            let (at, width, name) = (fixed, width(edm_type), (name_start, start));
            slots.push(Slot { edm_type, index, at, width, name, prefix });
            fixed += width;
        }
        Self { slots: slots.into(), text: text.into(), fixed, hash }
    }

    /// The properties in order.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The size of the fixed part of a row in bytes.
    pub(crate) fn fixed(&self) -> usize {
        self.fixed
    }

    /// The name of a property.
    pub(crate) fn name(&self, slot: &Slot) -> &str {
        &self.text[slot.name.0 as usize..slot.name.1 as usize]
    }

    /// The text before the property's value in a response.
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

/// The shapes of a table. Shapes without rows are removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    known: HashMap<u64, Vec<Weak<Shape>>>,
    /// The last shape used, which is usually the next one too.
    last: Option<Arc<Shape>>,
    /// The number of shapes at which those without rows are removed.
    sweep_at: usize,
    /// A buffer for building rows, so that each row allocates exactly the memory it needs.
    pub(super) scratch: Vec<u8>,
}

impl Shapes {
    /// The shape of these properties, shared with existing rows.
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

    /// The number of shapes, including unused ones that have not been removed yet.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

/// The size of a value in the fixed part of a row, besides its end. A Boolean or a GUID is read from
/// its text as fast.
const fn width(edm_type: Type) -> usize {
    match (edm_type, edm_type.width()) {
        (Type::Boolean | Type::Guid, _) | (_, None) => 0,
        (_, Some(width)) => width,
    }
}

/// The size of a request limits entities to a few MiB, so offsets fit.
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
    fn numbers_lie_behind_the_ends() {
        let properties = [
            ("s", ValueRef::String("x".into())),
            ("i", ValueRef::Int32(1)),
            ("l", ValueRef::Int64(2)),
            ("g", ValueRef::Guid(rowkey_wire::edm::Guid::nil())),
        ];
        let shape = Shapes::default().intern(&properties);
        let places: Vec<_> = shape.slots().iter().map(|slot| (slot.index, slot.at)).collect();
        assert_eq!(places, [(0, 16), (1, 16), (2, 20), (3, 28)]);
        assert_eq!(shape.fixed(), 28);
        assert_eq!(shape.prefix(&shape.slots()[3]).annotated, r#","g@odata.type":"Edm.Guid","g":"#);
    }
}
