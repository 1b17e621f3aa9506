//! Renders entities as response bodies, at each metadata level.
//!
//! The functions here append to one buffer; the caller combines them. The output has the form of
//! recorded responses: annotations come before their property, and non-ASCII characters are written
//! as `\uXXXX` in lower case.

#![expect(clippy::arithmetic_side_effects, reason = "lengths of what is in memory")]

use std::fmt::Write as _;

use super::Metadata;
use crate::edm::json::{Text, string_body};
pub use crate::edm::json::{datetime, string};
use crate::edm::{Iso, Type, ValueRef};
use crate::etag::write_etag;
use crate::key;

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
    begin(out, level, origin, (table, "/@Element"), select);
}

/// Appends `{"odata.metadata":"…/$metadata#table","value":[`, or `{"value":[` without metadata.
pub fn begin_list(
    out: &mut Vec<u8>,
    level: Metadata,
    origin: Origin<'_>,
    table: &str,
    select: Option<&str>,
) {
    begin(out, level, origin, (table, ""), select);
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

/// Appends a property with a leading comma, with its type if JSON does not imply it.
pub fn property(out: &mut Vec<u8>, name: &str, property: &ValueRef<'_>) {
    let mut text = String::new();
    let plain = Prefix::write(&mut text, name, property.edm_type());
    let prefix = Prefix { annotated: &text, plain: &text[plain..] };
    let prefix = prefix.at(Metadata::Minimal, property.is_annotated());
    out.extend_from_slice(prefix.as_bytes());
    property.write_json(out);
}

fn etag(out: &mut Vec<u8>, timestamp: &Iso) {
    out.extend_from_slice(b"\"odata.etag\":\"");
    write_etag(out, b"\\\"", timestamp);
    out.extend_from_slice(b"\",");
}

fn begin(
    out: &mut Vec<u8>,
    level: Metadata,
    origin: Origin<'_>,
    (table, suffix): (&str, &str),
    select: Option<&str>,
) {
    out.push(b'{');
    if level == Metadata::None {
        return;
    }
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
    out.extend_from_slice(b"\",");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edm::DateTime;
    use crate::edm::json::tests::text;

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
    fn the_plain_prefix_is_the_end_of_the_annotated_one() {
        let mut all = String::new();
        let plain = Prefix::write(&mut all, "größe", Type::Int64);
        assert_eq!(all, r#","gr\u00f6\u00dfe@odata.type":"Edm.Int64","gr\u00f6\u00dfe":"#);
        assert_eq!(&all[plain..], r#","gr\u00f6\u00dfe":"#);
    }
}
