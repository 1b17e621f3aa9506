//! Encodes an entity as a request body.
//!
//! An entity that the service would refuse for its size or names is refused here, before anything
//! is sent, with an error that has the numbers.

#![expect(clippy::arithmetic_side_effects, reason = "lengths of data in memory")]

use std::io::Write as _;

use rowkey_wire::edm::{ValueRef, size};
use rowkey_wire::limits::{
    MAX_BINARY, MAX_ENTITY, MAX_PROPERTIES, MAX_PROPERTY_NAME, MAX_STRING_UNITS,
};

use crate::EncodeError;

/// Writes one entity as the JSON of a request, property by property.
#[derive(Debug)]
pub(crate) struct EntityWriter {
    body: Vec<u8>,
    properties: usize,
    size: usize,
    error: Option<EncodeError>,
}

impl EntityWriter {
    /// Starts an entity with its keys and a capacity of `capacity` bytes.
    pub(crate) fn with_capacity(capacity: usize, partition_key: &str, row_key: &str) -> Self {
        let mut body = Vec::with_capacity(capacity);
        body.extend_from_slice(b"{\"PartitionKey\":");
        write_string(&mut body, partition_key);
        body.extend_from_slice(b",\"RowKey\":");
        write_string(&mut body, row_key);
        let size = size::of_keys(partition_key, row_key);
        Self { body, properties: 0, size, error: None }
    }

    /// Writes a property, with a type annotation if JSON does not express the type.
    pub(crate) fn property(&mut self, name: &str, value: &ValueRef<'_>) {
        self.properties += 1;
        self.size += size::of_property(name, value);
        self.check(name, value);
        self.body.push(b',');
        if value.is_annotated() {
            self.body.push(b'"');
            self.body.extend_from_slice(name.as_bytes());
            self.body.extend_from_slice(b"@odata.type\":\"");
            self.body.extend_from_slice(value.edm_type().name().as_bytes());
            self.body.extend_from_slice(b"\",");
        }
        // Valid names need no escape.
        self.body.push(b'"');
        self.body.extend_from_slice(name.as_bytes());
        self.body.extend_from_slice(b"\":");
        write_value(&mut self.body, value);
    }

    /// Ends the entity. Returns its JSON and its size as the service counts, or the first reason why it
    /// cannot be stored.
    pub(crate) fn finish(mut self) -> Result<(Vec<u8>, usize), EncodeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.properties > MAX_PROPERTIES {
            return Err(EncodeError::TooManyProperties { count: self.properties });
        }
        if self.size > MAX_ENTITY {
            return Err(EncodeError::TooLarge { size: self.size });
        }
        self.body.push(b'}');
        Ok((self.body, self.size))
    }

    fn check(&mut self, name: &str, value: &ValueRef<'_>) {
        let size = match value {
            // A string has no more UTF-16 units than UTF-8 bytes.
            ValueRef::String(text) if text.len() > MAX_STRING_UNITS => 2 * size::utf16_len(text),
            ValueRef::Binary(bytes) => bytes.len(),
            _ => 0,
        };
        if !is_valid_name(name) {
            self.error.get_or_insert_with(|| EncodeError::InvalidName { name: name.to_owned() });
        } else if size > MAX_BINARY {
            self.error
                .get_or_insert_with(|| EncodeError::ValueTooLarge { name: name.to_owned(), size });
        }
    }
}

/// Whether the service accepts `name` for a property: an identifier of up to 255 UTF-16 units that
/// is not one of the three reserved names.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let head = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_' || b >= 0x80);
    head && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80)
        && (name.len() <= MAX_PROPERTY_NAME || size::utf16_len(name) <= MAX_PROPERTY_NAME)
        && !matches!(name, "PartitionKey" | "RowKey" | "Timestamp")
}

fn write_value(out: &mut Vec<u8>, value: &ValueRef<'_>) {
    match value {
        ValueRef::String(text) => write_string(out, text),
        // Other values are written as the service writes them.
        value => value.write_json(out),
    }
}

/// Writes text as JSON: `"`, `\` and control characters are escaped, other characters are UTF-8.
fn write_string(out: &mut Vec<u8>, text: &str) {
    let escaped = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    out.push(b'"');
    // Nearly all text needs no escape, and a test of every byte without branches is vectorized.
    if !text.bytes().fold(false, |any, byte| any | escaped(byte)) {
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    let mut clean = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !escaped(byte) {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[clean..at]);
        clean = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let _ = write!(out, "\\u{byte:04x}");
            }
        }
    }
    out.extend_from_slice(&text.as_bytes()[clean..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(name: &str, value: &ValueRef<'_>) -> String {
        let mut out = EntityWriter::with_capacity(64, "p", "r");
        out.property(name, value);
        String::from_utf8(out.finish().unwrap().0).unwrap()
    }

    #[test]
    fn entities_match_those_of_official_clients() {
        // Request bodies of sdk-go TestAddAnnotatedEntity and cosmosdb-python test_insert_entity,
        // property by property, without white space.
        for (value, expected) in [
            (ValueRef::String("O'Neil \"x\"\\".into()), r#""X":"O'Neil \"x\"\\""#),
            (ValueRef::Int32(-5), r#""X":-5"#),
            (ValueRef::Int64(i64::MAX), r#""X@odata.type":"Edm.Int64","X":"9223372036854775807""#),
            (ValueRef::Double(3.0), r#""X":3.0"#),
            (ValueRef::Double(f64::NAN), r#""X@odata.type":"Edm.Double","X":"NaN""#),
            (ValueRef::Boolean(true), r#""X":true"#),
            (
                ValueRef::DateTime("1973-10-04T00:00:00Z".parse().unwrap()),
                r#""X@odata.type":"Edm.DateTime","X":"1973-10-04T00:00:00Z""#,
            ),
            (
                ValueRef::Guid("c9da6455-213d-42c9-9a79-3e9149a57833".parse().unwrap()),
                r#""X@odata.type":"Edm.Guid","X":"c9da6455-213d-42c9-9a79-3e9149a57833""#,
            ),
            (
                ValueRef::Binary(b"binary"[..].into()),
                r#""X@odata.type":"Edm.Binary","X":"YmluYXJ5""#,
            ),
        ] {
            let body = format!(r#"{{"PartitionKey":"p","RowKey":"r",{expected}}}"#);
            assert_eq!(json("X", &value), body);
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        let body = json("X", &ValueRef::String("a\nb\u{1}\u{7f}é😀".into()));
        assert!(body.ends_with("\"X\":\"a\\nb\\u0001\u{7f}é😀\"}"), "{body}");
    }

    #[test]
    fn oversized_values_are_rejected_with_size_and_limit() {
        let mut out = EntityWriter::with_capacity(64, "p", "r");
        for i in 0..253 {
            out.property(&format!("P{i}"), &ValueRef::Int32(i));
        }
        assert_eq!(out.finish(), Err(EncodeError::TooManyProperties { count: 253 }));

        let mut out = EntityWriter::with_capacity(64, "p", "r");
        out.property("Text", &ValueRef::String("x".repeat(MAX_STRING_UNITS + 1).into()));
        let error = EncodeError::ValueTooLarge { name: "Text".into(), size: 65_538 };
        assert_eq!(out.finish(), Err(error));

        let mut out = EntityWriter::with_capacity(64, "p", "r");
        for i in 0..17 {
            out.property(&format!("P{i}"), &ValueRef::Binary(vec![0; MAX_BINARY].into()));
        }
        assert!(matches!(out.finish(), Err(EncodeError::TooLarge { size }) if size > MAX_ENTITY));

        for name in ["", "1a", "a-b", "a b", "Timestamp", "a\"", "a@odata.type"] {
            let mut out = EntityWriter::with_capacity(64, "p", "r");
            out.property(name, &ValueRef::Int32(1));
            assert_eq!(out.finish(), Err(EncodeError::InvalidName { name: name.into() }));
        }
        let mut out = EntityWriter::with_capacity(64, "p", "r");
        out.property("größe_日本1", &ValueRef::Int32(1));
        assert!(out.finish().is_ok());
    }
}
