//! One entity, packed: its values in one block of bytes, laid out by its [`Shape`].
//!
//! Numbers, instants and GUIDs lie in the fixed part; of text and bytes the fixed part holds where
//! they end in the rest. The highest bit of that end says that a text needs no escapes.

use std::borrow::Cow;
use std::sync::Arc;

use rowkey_wire::edm::{DateTime, Guid, Type, ValueRef};
use rowkey_wire::odata::Metadata;
use rowkey_wire::odata::render::{self, is_annotated};

use super::shape::{Shape, Shapes, Slot};

/// In the end of a text: it is printable ASCII without quotes or backslashes.
const CLEAN: u32 = 1 << 31;

/// An entity without its keys.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    shape: Arc<Shape>,
    data: Box<[u8]>,
    timestamp: DateTime,
}

impl Row {
    /// Packs properties.
    pub(crate) fn new(
        shapes: &mut Shapes,
        properties: &[(&str, ValueRef<'_>)],
        timestamp: DateTime,
    ) -> Self {
        let shape = shapes.intern(properties);
        let variable: usize = properties
            .iter()
            .map(|(_, value)| match value {
                ValueRef::Binary(bytes) => bytes.len(),
                ValueRef::String(text) => text.len(),
                _ => 0,
            })
            .sum();
        let fixed = shape.fixed();
        let mut data = Vec::with_capacity(fixed + variable);
        data.resize(fixed, 0);
        for (slot, (_, value)) in shape.slots().iter().zip(properties) {
            let at = slot.at as usize;
            match value {
                ValueRef::Binary(bytes) => {
                    data.extend_from_slice(bytes);
                    let end = end_of(fixed, data.len());
                    put(&mut data, at, &end.to_le_bytes());
                }
                ValueRef::Boolean(value) => data[at] = u8::from(*value),
                ValueRef::DateTime(value) => put(&mut data, at, &value.ticks().to_le_bytes()),
                ValueRef::Double(value) => put(&mut data, at, &value.to_le_bytes()),
                ValueRef::Guid(value) => put(&mut data, at, value.as_bytes()),
                ValueRef::Int32(value) => put(&mut data, at, &value.to_le_bytes()),
                ValueRef::Int64(value) => put(&mut data, at, &value.to_le_bytes()),
                ValueRef::String(text) => {
                    data.extend_from_slice(text.as_bytes());
                    let clean = if render::is_clean(text.as_bytes()) { CLEAN } else { 0 };
                    let end = end_of(fixed, data.len()) | clean;
                    put(&mut data, at, &end.to_le_bytes());
                }
            }
        }
        Self { shape, data: data.into_boxed_slice(), timestamp }
    }

    /// When the entity was written last.
    pub(crate) fn timestamp(&self) -> DateTime {
        self.timestamp
    }

    /// The names and types of its properties.
    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// All properties in stored order.
    pub(crate) fn properties(&self) -> impl ExactSizeIterator<Item = (&str, ValueRef<'_>)> {
        self.shape.slots().iter().map(|slot| (self.shape.name(slot), self.value(slot)))
    }

    /// The value of one property. The slot must be of this row's shape.
    pub(crate) fn value(&self, slot: &Slot) -> ValueRef<'_> {
        match slot.edm_type {
            Type::Binary => ValueRef::Binary(Cow::Borrowed(self.bytes(slot).0)),
            Type::Boolean => ValueRef::Boolean(self.boolean(slot)),
            Type::DateTime => {
                ValueRef::DateTime(DateTime::from_ticks(self.int64(slot)).unwrap_or(DateTime::MIN))
            }
            Type::Double => ValueRef::Double(f64::from_le_bytes(self.fixed(slot))),
            Type::Guid => ValueRef::Guid(Guid::from_bytes(self.fixed(slot))),
            Type::Int32 => ValueRef::Int32(self.int32(slot)),
            Type::Int64 => ValueRef::Int64(self.int64(slot)),
            Type::String => ValueRef::String(String::from_utf8_lossy(self.bytes(slot).0)),
        }
    }

    /// The bytes of a text or of bytes, and whether it needs no escapes.
    pub(crate) fn bytes(&self, slot: &Slot) -> (&[u8], bool) {
        let end = u32::from_le_bytes(self.fixed(slot));
        let start = slot.before.map_or(0, |at| u32::from_le_bytes(self.array(at)) & !CLEAN);
        let fixed = self.shape.fixed();
        let range = fixed + start as usize..fixed + (end & !CLEAN) as usize;
        (self.data.get(range).unwrap_or_default(), end & CLEAN != 0)
    }

    /// The value of a Boolean.
    pub(crate) fn boolean(&self, slot: &Slot) -> bool {
        self.fixed::<1>(slot)[0] != 0
    }

    /// The value of an Int32.
    pub(crate) fn int32(&self, slot: &Slot) -> i32 {
        i32::from_le_bytes(self.fixed(slot))
    }

    /// The value of an Int64, or the ticks of an instant.
    pub(crate) fn int64(&self, slot: &Slot) -> i64 {
        i64::from_le_bytes(self.fixed(slot))
    }

    /// Appends all properties, each with a comma before it.
    pub(crate) fn render(&self, out: &mut Vec<u8>, level: Metadata) {
        for slot in self.shape.slots() {
            self.render_one(out, level, slot);
        }
    }

    /// Appends one property with a comma before it. The slot must be of this row's shape.
    pub(crate) fn render_one(&self, out: &mut Vec<u8>, level: Metadata, slot: &Slot) {
        let prefix = self.shape.prefix(slot);
        // A Double is annotated only when it is text, which its value tells.
        let annotate = is_annotated(slot.edm_type)
            || (slot.edm_type == Type::Double
                && !f64::from_le_bytes(self.fixed::<8>(slot)).is_finite());
        out.extend_from_slice(prefix.at(level, annotate).as_bytes());
        if slot.edm_type == Type::String
            && let (bytes, true) = self.bytes(slot)
        {
            out.push(b'"');
            out.extend_from_slice(bytes);
            out.push(b'"');
        } else {
            render::value(out, &self.value(slot));
        }
    }

    /// About how many bytes the row takes in an answer.
    pub(crate) fn rendered_len(&self) -> usize {
        self.data.len() + self.data.len() / 4 + self.shape.slots().len() * 48 + 160
    }

    fn fixed<const N: usize>(&self, slot: &Slot) -> [u8; N] {
        self.array(slot.at)
    }

    fn array<const N: usize>(&self, at: u32) -> [u8; N] {
        self.data.get(at as usize..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}

fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Where a text or bytes end, counted from the end of the fixed part.
fn end_of(fixed: usize, length: usize) -> u32 {
    u32::try_from(length - fixed).unwrap_or(u32::MAX) & !CLEAN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back_and_renders_as_the_wire_renders_it() {
        let properties = [
            ("a", ValueRef::String("clean".into())),
            ("b", ValueRef::Int64(-5)),
            ("c", ValueRef::String("\"größe\"".into())),
            ("d", ValueRef::Binary(vec![0, 255, 7].into())),
            ("e", ValueRef::Double(f64::INFINITY)),
            ("f", ValueRef::Double(0.5)),
            ("g", ValueRef::Boolean(true)),
            ("h", ValueRef::Guid(Guid::from_u128(42))),
            ("i", ValueRef::Int32(-1)),
            ("j", ValueRef::DateTime(DateTime::MAX)),
            ("k", ValueRef::String("".into())),
        ];
        let row = Row::new(&mut Shapes::default(), &properties, DateTime::MIN);
        assert_eq!(row.properties().collect::<Vec<_>>(), properties);
        let mut out = Vec::new();
        row.render(&mut out, Metadata::Minimal);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#","a":"clean","b@odata.type":"Edm.Int64","b":"-5","c":"\"gr\u00f6\u00dfe\"","d@odata.type":"Edm.Binary","d":"AP8H","e@odata.type":"Edm.Double","e":"Infinity","f":0.5,"g":true,"h@odata.type":"Edm.Guid","h":"00000000-0000-0000-0000-00000000002a","i":-1,"j@odata.type":"Edm.DateTime","j":"9999-12-31T23:59:59.9999999Z","k":"""#
        );
    }
}
