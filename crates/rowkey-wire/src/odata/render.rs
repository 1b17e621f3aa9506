//! Renders entities as response bodies, at each metadata level.
//!
//! The functions here append to one buffer; the caller combines them. The output has the form of
//! recorded responses: annotations come before their property, and non-ASCII characters are written
//! as `\uXXXX` in lower case.

#![expect(clippy::arithmetic_side_effects, reason = "lengths of what is in memory")]

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Metadata;
use crate::edm::{DateTime, Guid, Iso, Type, ValueRef, double};
use crate::etag::write_etag;
use crate::key;

/// Lets text be formatted into a byte buffer.
#[derive(Debug)]
struct Text<'a>(&'a mut Vec<u8>);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// The base of the links and contexts in a response.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The account's name.
    pub account: &'a str,
    /// The account's endpoint as the client addressed it, without a trailing slash.
    pub endpoint: &'a str,
}

/// Appends `{"odata.metadata":"…/$metadata#table/@Element&$select=a,b",`, or `{` without metadata.
pub fn begin_entity(
    out: &mut Vec<u8>,
    level: Metadata,
    origin: Origin<'_>,
    table: &str,
    select: Option<&str>,
) {
    out.push(b'{');
    if level != Metadata::None {
        context(out, origin, table, "/@Element", select);
        out.push(b',');
    }
}

/// Appends `{"odata.metadata":"…/$metadata#table","value":[`, or `{"value":[` without metadata.
pub fn begin_list(
    out: &mut Vec<u8>,
    level: Metadata,
    origin: Origin<'_>,
    table: &str,
    select: Option<&str>,
) {
    out.push(b'{');
    if level != Metadata::None {
        context(out, origin, table, "", select);
        out.push(b',');
    }
    out.extend_from_slice(b"\"value\":[");
}

/// Appends the members before an entity's own properties: type, id, ETag and edit link with full
/// metadata, the ETag with minimal metadata. Ends with a comma unless it is empty.
pub fn entity_head(
    out: &mut Vec<u8>,
    level: Metadata,
    origin: Origin<'_>,
    table: &str,
    (partition_key, row_key): (&str, &str),
    timestamp: &Iso,
) {
    match level {
        Metadata::None => {}
        Metadata::Minimal => etag(out, timestamp),
        Metadata::Full => {
            let mut address = table.to_owned();
            key::write_address(&mut address, partition_key, row_key);
            out.extend_from_slice(b"\"odata.type\":\"");
            for part in [origin.account, ".", table, "\",\"odata.id\":\"", origin.endpoint, "/"] {
                out.extend_from_slice(part.as_bytes());
            }
            out.extend_from_slice(address.as_bytes());
            out.extend_from_slice(b"\",");
            etag(out, timestamp);
            out.extend_from_slice(b"\"odata.editLink\":\"");
            out.extend_from_slice(address.as_bytes());
            out.extend_from_slice(b"\",");
        }
    }
}

/// Appends `"Timestamp":"…Z"`, with an annotation if the level has one.
pub fn timestamp(out: &mut Vec<u8>, level: Metadata, timestamp: &Iso) {
    if level == Metadata::Full {
        out.extend_from_slice(b"\"Timestamp@odata.type\":\"Edm.DateTime\",");
    }
    out.extend_from_slice(b"\"Timestamp\":\"");
    out.extend_from_slice(timestamp.as_bytes());
    out.push(b'"');
}

/// The text before a property's value, for one name and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix<'a> {
    /// `,"age@odata.type":"Edm.Int64","age":`, with the annotation for every type.
    pub annotated: &'a str,
    /// `,"age":`, the end of the annotated form.
    pub plain: &'a str,
}

impl<'a> Prefix<'a> {
    /// Appends the text of a prefix to `out`; returns the start of its plain part.
    pub fn write(out: &mut String, name: &str, edm_type: Type) -> usize {
        let mut quoted = Vec::with_capacity(name.len() + 2);
        string_body(&mut quoted, name);
        let quoted = String::from_utf8(quoted).unwrap_or_default();
        let _ = write!(out, ",\"{quoted}@odata.type\":\"{edm_type}\"");
        let plain = out.len();
        let _ = write!(out, ",\"{quoted}\":");
        plain
    }

    /// The part for a value at `level`. Values whose type JSON does not imply are annotated.
    pub fn at(self, level: Metadata, annotate: bool) -> &'a str {
        if annotate && level != Metadata::None { self.annotated } else { self.plain }
    }
}

/// Whether a value of this type is annotated. A non-finite Double is text and annotated, too.
#[inline]
pub const fn is_annotated(edm_type: Type) -> bool {
    matches!(edm_type, Type::Binary | Type::DateTime | Type::Guid | Type::Int64)
}

/// Whether a value needs a type annotation.
#[inline]
pub const fn is_annotated_value(value: &ValueRef<'_>) -> bool {
    match value {
        ValueRef::Double(number) => !number.is_finite(),
        other => is_annotated(other.edm_type()),
    }
}

/// Appends a property with a leading comma, with its type if JSON does not imply it.
pub fn property(out: &mut Vec<u8>, name: &str, property: &ValueRef<'_>) {
    let mut text = String::new();
    let plain = Prefix::write(&mut text, name, property.edm_type());
    let prefix = Prefix { annotated: &text, plain: &text[plain..] };
    let prefix = prefix.at(Metadata::Minimal, is_annotated_value(property));
    out.extend_from_slice(prefix.as_bytes());
    value(out, property);
}

/// Appends a value.
pub fn value(out: &mut Vec<u8>, value: &ValueRef<'_>) {
    match value {
        ValueRef::Binary(bytes) => binary(out, bytes),
        ValueRef::Boolean(true) => out.extend_from_slice(b"true"),
        ValueRef::Boolean(false) => out.extend_from_slice(b"false"),
        ValueRef::DateTime(instant) => datetime(out, *instant),
        ValueRef::Double(number) => double(out, *number),
        ValueRef::Guid(guid) => self::guid(out, *guid),
        ValueRef::Int32(number) => int32(out, *number),
        ValueRef::Int64(number) => int64(out, *number),
        ValueRef::String(text) => {
            string(out, text);
        }
    }
}

/// Appends bytes as base64 text.
fn binary(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or_default();
    out.truncate(start + written);
    out.push(b'"');
}

/// Appends an instant as text.
pub fn datetime(out: &mut Vec<u8>, instant: DateTime) {
    out.push(b'"');
    out.extend_from_slice(instant.iso().as_bytes());
    out.push(b'"');
}

/// Appends a number, or as text the name of one that JSON cannot represent.
fn double(out: &mut Vec<u8>, number: f64) {
    match double::name(number) {
        Some(name) => {
            let _ = write!(Text(out), "\"{name}\"");
        }
        None => {
            let _ = double::write_finite(number, &mut Text(out));
        }
    }
}

/// Appends a GUID as text.
fn guid(out: &mut Vec<u8>, guid: Guid) {
    out.push(b'"');
    let mut buffer = Guid::encode_buffer();
    out.extend_from_slice(guid.hyphenated().encode_lower(&mut buffer).as_bytes());
    out.push(b'"');
}

/// Appends an Int32 as a number.
fn int32(out: &mut Vec<u8>, number: i32) {
    decimal(out, i64::from(number));
}

/// Appends an Int64 as text, because JSON numbers lose its last digits in some languages.
fn int64(out: &mut Vec<u8>, number: i64) {
    out.push(b'"');
    decimal(out, number);
    out.push(b'"');
}

/// Appends text with the service's escapes. Returns whether nothing was escaped.
pub fn string(out: &mut Vec<u8>, text: &str) -> bool {
    out.push(b'"');
    let is_clean = is_clean(text.as_bytes());
    if is_clean {
        out.extend_from_slice(text.as_bytes());
    } else {
        string_body(out, text);
    }
    out.push(b'"');
    is_clean
}

/// Whether text needs no escapes in JSON: printable ASCII without `"` and `\`.
fn is_clean(text: &[u8]) -> bool {
    // Without an early exit and without branches, the compiler compares many bytes at once.
    let dirty = text.iter().fold(0, |dirty, b| {
        dirty
            | u8::from(*b < 0x20)
            | u8::from(*b > 0x7E)
            | u8::from(*b == b'"')
            | u8::from(*b == b'\\')
    });
    dirty == 0
}

fn string_body(out: &mut Vec<u8>, text: &str) {
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{C}' => out.extend_from_slice(b"\\f"),
            ' '..='~' => out.push(character as u8),
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    let _ = write!(Text(out), "\\u{unit:04x}");
                }
            }
        }
    }
}

fn decimal(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

fn etag(out: &mut Vec<u8>, timestamp: &Iso) {
    out.extend_from_slice(b"\"odata.etag\":\"");
    write_etag(out, b"\\\"", timestamp);
    out.extend_from_slice(b"\",");
}

fn context(out: &mut Vec<u8>, origin: Origin<'_>, table: &str, suffix: &str, select: Option<&str>) {
    for part in ["\"odata.metadata\":\"", origin.endpoint, "/$metadata#", table, suffix] {
        out.extend_from_slice(part.as_bytes());
    }
    if let Some(select) = select {
        out.extend_from_slice(b"&$select=");
        for byte in select.bytes() {
            match byte {
                b' ' => out.extend_from_slice(b"%20"),
                b'"' => out.extend_from_slice(b"%22"),
                b'\\' => out.extend_from_slice(b"%5C"),
                byte if byte.is_ascii_graphic() => out.push(byte),
                byte => {
                    let _ = write!(Text(out), "%{byte:02X}");
                }
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    const ORIGIN: Origin<'static> =
        Origin { account: "storagename", endpoint: "https://storagename.table.core.windows.net" };

    #[test]
    fn heads_are_those_of_recorded_entities() {
        // cosmosdb-python test_table_batch.test_batch_update_if_doesnt_match, and
        // test_get_entity_full_metadata for the order with full metadata.
        let at = "2017-11-10T02:43:55.7662669Z".parse::<DateTime>().unwrap().iso();
        let minimal = text(|out| {
            begin_entity(out, Metadata::Minimal, ORIGIN, "table3741440", None);
            entity_head(out, Metadata::Minimal, ORIGIN, "table3741440", ("pk", "rk"), &at);
        });
        assert_eq!(
            minimal,
            r#"{"odata.metadata":"https://storagename.table.core.windows.net/$metadata#table3741440/@Element","odata.etag":"W/\"datetime'2017-11-10T02%3A43%3A55.7662669Z'\"","#
        );
        let full = text(|out| entity_head(out, Metadata::Full, ORIGIN, "t", ("p'", "r"), &at));
        assert_eq!(
            full,
            r#""odata.type":"storagename.t","odata.id":"https://storagename.table.core.windows.net/t(PartitionKey='p''',RowKey='r')","odata.etag":"W/\"datetime'2017-11-10T02%3A43%3A55.7662669Z'\"","odata.editLink":"t(PartitionKey='p''',RowKey='r')","#
        );
        assert_eq!(
            text(|out| begin_list(out, Metadata::None, ORIGIN, "t", Some("a"))),
            r#"{"value":["#
        );
    }

    #[test]
    fn a_selection_is_repeated_in_the_context() {
        // cosmosdb-python test_get_entity_with_select.
        let context = text(|out| {
            begin_entity(out, Metadata::Minimal, ORIGIN, "t", Some("age, sex,xyz"));
        });
        assert!(context.ends_with("#t/@Element&$select=age,%20sex,xyz\","), "{context}");
    }

    #[test]
    fn values_are_written_as_recorded() {
        let cases = [
            (ValueRef::Int64(-39), "\"-39\""),
            (ValueRef::Int64(i64::MIN), "\"-9223372036854775808\""),
            (ValueRef::Int32(0), "0"),
            (ValueRef::Double(3.0), "3.0"),
            (ValueRef::Double(f64::NEG_INFINITY), "\"-Infinity\""),
            (ValueRef::Boolean(false), "false"),
            (ValueRef::Binary(b"binary".as_slice().into()), "\"YmluYXJ5\""),
            (
                ValueRef::Guid("C9DA6455-213D-42C9-9A79-3E9149A57833".parse().unwrap()),
                "\"c9da6455-213d-42c9-9a79-3e9149a57833\"",
            ),
            (
                ValueRef::DateTime("1973-10-04T00:00:00Z".parse().unwrap()),
                "\"1973-10-04T00:00:00Z\"",
            ),
            // cosmosdb-python test_unicode_property_value; a pair of surrogates; controls.
            (ValueRef::String("\u{554a}\u{9f44}".into()), "\"\\u554a\\u9f44\""),
            (ValueRef::String("😀'\"\\\n\u{1}".into()), "\"\\ud83d\\ude00'\\\"\\\\\\n\\u0001\""),
        ];
        for (input, expected) in cases {
            assert_eq!(text(|out| value(out, &input)), expected);
        }
    }

    #[test]
    fn text_is_clean_when_nothing_in_it_is_escaped() {
        for byte in 0..=0x7F_u8 {
            let character = char::from(byte).to_string();
            let plain = text(|out| string_body(out, &character)) == character;
            assert_eq!(is_clean(character.as_bytes()), plain, "{byte:#x}");
            let inside = format!("{}{character}{}", "a".repeat(40), "b".repeat(40));
            assert_eq!(is_clean(inside.as_bytes()), plain, "{byte:#x}");
        }
        assert!(!is_clean("é".as_bytes()));
    }

    #[test]
    fn the_plain_prefix_is_the_end_of_the_annotated_one() {
        let mut all = String::new();
        let plain = Prefix::write(&mut all, "größe", Type::Int64);
        assert_eq!(all, r#","gr\u00f6\u00dfe@odata.type":"Edm.Int64","gr\u00f6\u00dfe":"#);
        assert_eq!(&all[plain..], r#","gr\u00f6\u00dfe":"#);
    }
}
