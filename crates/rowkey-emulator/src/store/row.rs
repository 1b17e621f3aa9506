//! One packed entity: its properties as JSON, laid out by its [`Shape`].
//!
//! An entity is written once and read often, so its JSON is rendered when it is written, and
//! building a page is mostly copying. The block of bytes begins with a fixed part: the end of each
//! property's value in the text, and a binary form of numbers and instants, which filters compare.
//! The highest bit of an end tells that the text needs no unescaping.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use rowkey_wire::edm::{DateTime, Type, ValueRef};
use rowkey_wire::key;
use rowkey_wire::odata::Metadata;
use rowkey_wire::odata::render;

use super::shape::{END_WIDTH, Shape, Shapes, Slot};

/// Flag in the end of a text: it is printable ASCII without quotes or backslashes.
const CLEAN: u32 = 1 << 31;

/// The maximum size of the scratch buffer that is kept between rows.
const MAX_SCRATCH: usize = 64 * 1024;

/// The name and the value of a property.
pub(crate) type Property<'a> = (&'a str, ValueRef<'a>);

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
        properties: &[Property<'_>],
        timestamp: DateTime,
    ) -> Self {
        let shape = shapes.intern(properties);
        let fixed = shape.fixed();
        let data = &mut shapes.scratch;
        data.clear();
        data.resize(fixed, 0);
        for (slot, (_, value)) in shape.slots().iter().zip(properties) {
            let prefix = shape.prefix(slot).at(Metadata::Minimal, value.is_annotated());
            data.extend_from_slice(prefix.as_bytes());
            let is_clean = match value {
                ValueRef::String(text) => render::string(data, text),
                value => {
                    value.write_json(data);
                    false
                }
            };
            let mut end = u32::try_from(data.len() - fixed).unwrap_or(u32::MAX) & !CLEAN;
            if is_clean {
                end |= CLEAN;
            } else if slot.width > 0 {
                data[slot.at..slot.at + slot.width].copy_from_slice(&value.bytes());
            }
            put(data, slot.index * END_WIDTH, end.to_le_bytes());
        }
        let row = Self { shape, data: Box::from(data.as_slice()), timestamp };
        if data.capacity() > MAX_SCRATCH {
            *data = Vec::new();
        }
        row
    }

    /// When the entity was last written.
    pub(crate) fn timestamp(&self) -> DateTime {
        self.timestamp
    }

    /// The names and types of its properties.
    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// All properties in stored order.
    pub(crate) fn properties(&self) -> impl ExactSizeIterator<Item = Property<'_>> {
        self.shape.slots().iter().map(|slot| (self.shape.name(slot), self.value(slot)))
    }

    /// The value of one property. The slot must belong to this row's shape.
    pub(crate) fn value(&self, slot: &Slot) -> ValueRef<'_> {
        let value = match slot.edm_type {
            Type::String => return ValueRef::String(self.text(slot)),
            packed if slot.width > 0 => {
                let bytes = self.data.get(slot.at..slot.at + slot.width).unwrap_or_default();
                ValueRef::from_bytes(packed, bytes)
            }
            written => std::str::from_utf8(unquoted(self.written(slot)))
                .ok()
                .and_then(|text| written.parse(text)),
        };
        // What was packed is there.
        value.unwrap_or(ValueRef::Boolean(false))
    }

    /// Compares a property with a constant of the same type.
    pub(crate) fn compare(&self, slot: &Slot, constant: &ValueRef<'_>) -> Option<Ordering> {
        // The usual comparisons build no value.
        match constant {
            ValueRef::Boolean(b) => Some(self.boolean(slot).cmp(b)),
            ValueRef::DateTime(b) => Some(i64::from_le_bytes(self.fixed(slot)).cmp(&b.ticks())),
            ValueRef::Double(b) => f64::from_le_bytes(self.fixed(slot)).partial_cmp(b),
            ValueRef::Int32(b) => Some(i32::from_le_bytes(self.fixed(slot)).cmp(b)),
            ValueRef::Int64(b) => Some(i64::from_le_bytes(self.fixed(slot)).cmp(b)),
            // The order of UTF-16 is that of the bytes, unless both have characters beyond ASCII.
            ValueRef::String(b) if self.end(slot.index) & CLEAN != 0 => {
                Some(unquoted(self.written(slot)).cmp(b.as_bytes()))
            }
            ValueRef::String(b) => Some(key::compare(&self.text(slot), b)),
            other => self.value(slot).compare(other),
        }
    }

    /// The value of a Boolean.
    pub(crate) fn boolean(&self, slot: &Slot) -> bool {
        self.written(slot) == b"true"
    }

    /// The value of a String.
    pub(crate) fn text(&self, slot: &Slot) -> Cow<'_, str> {
        let written = self.written(slot);
        if self.end(slot.index) & CLEAN != 0 {
            Cow::Borrowed(std::str::from_utf8(unquoted(written)).unwrap_or_default())
        } else {
            Cow::Owned(serde_json::from_slice(written).unwrap_or_default())
        }
    }

    /// Appends all properties, each with a comma before it.
    pub(crate) fn render(&self, out: &mut Vec<u8>, level: Metadata) {
        if level == Metadata::None {
            for slot in self.shape.slots() {
                self.render_one(out, level, slot);
            }
        } else {
            out.extend_from_slice(&self.data[self.shape.fixed()..]);
        }
    }

    /// Appends one property, with a comma before it. The slot must belong to this row's shape.
    pub(crate) fn render_one(&self, out: &mut Vec<u8>, level: Metadata, slot: &Slot) {
        let annotate = level != Metadata::None && self.is_annotated(slot);
        out.extend_from_slice(self.shape.prefix(slot).at(level, annotate).as_bytes());
        out.extend_from_slice(self.written(slot));
    }

    /// The approximate size of the row in a response, in bytes.
    pub(crate) fn rendered_len(&self) -> usize {
        self.data.len() + 256
    }

    /// The value as rendered in a response.
    fn written(&self, slot: &Slot) -> &[u8] {
        let prefix = self.shape.prefix(slot).at(Metadata::Minimal, self.is_annotated(slot));
        let before = slot.index.checked_sub(1).map_or(0, |index| self.end(index) & !CLEAN);
        let (start, end) = (before as usize + prefix.len(), self.end(slot.index) & !CLEAN);
        let fixed = self.shape.fixed();
        self.data.get(fixed + start..fixed + end as usize).unwrap_or_default()
    }

    fn is_annotated(&self, slot: &Slot) -> bool {
        match slot.edm_type {
            Type::Double => self.value(slot).is_annotated(),
            other => other.is_annotated(),
        }
    }

    /// The value of a number or an instant.
    #[inline]
    pub(crate) fn fixed<const N: usize>(&self, slot: &Slot) -> [u8; N] {
        self.array(slot.at)
    }

    /// Reads the end of a value, so that it is in the cache.
    pub(crate) fn end_touched(&self, slot: &Slot) -> u8 {
        self.data.get(slot.index * END_WIDTH).copied().unwrap_or_default()
    }

    /// Reads the start of a value, so that it is in the cache.
    pub(crate) fn text_touched(&self, slot: &Slot) -> u8 {
        self.written(slot).first().copied().unwrap_or_default()
    }

    /// The end of a value in the text, with the bit that tells whether it is clean.
    fn end(&self, index: usize) -> u32 {
        u32::from_le_bytes(self.array(index * END_WIDTH))
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.data.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}

fn put<const N: usize>(data: &mut [u8], at: usize, bytes: [u8; N]) {
    data[at..at + N].copy_from_slice(&bytes);
}

fn unquoted(written: &[u8]) -> &[u8] {
    match written {
        [b'"', text @ .., b'"'] => text,
        bare => bare,
    }
}

#[cfg(test)]
mod tests {
    use rowkey_wire::edm::Guid;

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
        row.render(&mut out, Metadata::None);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#","a":"clean","b":"-5","c":"\"gr\u00f6\u00dfe\"","d":"AP8H","e":"Infinity","f":0.5,"g":true,"h":"00000000-0000-0000-0000-00000000002a","i":-1,"j":"9999-12-31T23:59:59.9999999Z","k":"""#
        );
        let mut out = Vec::new();
        row.render(&mut out, Metadata::Minimal);
        let mut one_by_one = Vec::new();
        for slot in row.shape().slots() {
            row.render_one(&mut one_by_one, Metadata::Full, slot);
        }
        assert_eq!(out, one_by_one);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#","a":"clean","b@odata.type":"Edm.Int64","b":"-5","c":"\"gr\u00f6\u00dfe\"","d@odata.type":"Edm.Binary","d":"AP8H","e@odata.type":"Edm.Double","e":"Infinity","f":0.5,"g":true,"h@odata.type":"Edm.Guid","h":"00000000-0000-0000-0000-00000000002a","i":-1,"j@odata.type":"Edm.DateTime","j":"9999-12-31T23:59:59.9999999Z","k":"""#
        );
    }
}
