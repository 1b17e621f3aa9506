//! Reads an entity from a request body, with the checks that the service makes before it looks at
//! stored data.
//!
//! Reading takes two steps so that nothing is copied: [`fields`] splits the body into borrowed
//! fields, and [`entity`] types and checks them.

use std::borrow::Cow;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::{ValueRef, size};
use rowkey_wire::error::Rejection;
use rowkey_wire::key::{self, KeyError};
use rowkey_wire::limits::{
    MAX_BINARY, MAX_ENTITY, MAX_PROPERTIES, MAX_PROPERTY_NAME, MAX_STRING_UNITS,
};
use rowkey_wire::odata::{Field, FieldError, Fields, Malformed, Scalar, Scanner};

/// Whether the service's limits on entities are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// No limit on the number of properties or on sizes.
    Loose,
    /// The service's limits.
    #[default]
    Strict,
}

/// An entity as a client sent it: typed and checked, without nulls and Timestamp.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entity<'a> {
    /// The PartitionKey, if the body has one.
    pub(crate) partition_key: Option<&'a str>,
    /// The RowKey, if the body has one.
    pub(crate) row_key: Option<&'a str>,
    /// The other properties, in the order of the body.
    pub(crate) properties: Vec<(&'a str, ValueRef<'a>)>,
}

/// Splits a JSON body into fields. Anything except one JSON object is rejected.
pub(crate) fn fields(body: &[u8]) -> Result<Fields<'_>, Rejection> {
    let mut fields = Fields::default();
    // Checking the whole body for UTF-8 once is faster than checking each name.
    let body = std::str::from_utf8(body).map_err(|_| malformed_body())?;
    let mut scanner = Scanner::new(body);
    fields.read(&mut scanner).map_err(|Malformed| malformed_body())?;
    if scanner.is_at_end() { Ok(fields) } else { Err(malformed_body()) }
}

/// Where the keys of an entity are specified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// In the address. The body may annotate its keys with a type other than `Edm.String`; the
    /// service ignores that, and they are still strings.
    Address,
    /// In the body, where they must be strings.
    Body,
}

/// Types and checks the fields of an entity.
pub(crate) fn entity<'a>(
    fields: &'a Fields<'_>,
    keys: Keys,
    strict: Strictness,
) -> Result<Entity<'a>, Rejection> {
    let mut entity =
        Entity { partition_key: None, row_key: None, properties: Vec::with_capacity(16) };
    for field in fields {
        match field.name.as_ref() {
            // The service sets Timestamp itself and ignores the body's.
            "Timestamp" => {}
            "PartitionKey" => set_key(&mut entity.partition_key, field, keys)?,
            "RowKey" => set_key(&mut entity.row_key, field, keys)?,
            name => {
                check_name(name)?;
                if let Some(value) = field.value().map_err(invalid_value)? {
                    entity.properties.push((name, value));
                }
            }
        }
    }
    check_duplicates(&entity.properties)?;
    check_limits(&entity, strict)?;
    Ok(entity)
}

/// Checks an entity that came from elsewhere than a request: its keys, the names of its properties and the limits.
pub(crate) fn check(entity: &Entity<'_>, strict: Strictness) -> Result<(), Rejection> {
    for key in [entity.partition_key, entity.row_key] {
        check_key(key.ok_or_else(|| Rejection::new(ErrorCode::PROPERTIES_NEED_VALUE))?)?;
    }
    for (name, _) in &entity.properties {
        check_name(name)?;
    }
    check_duplicates(&entity.properties)?;
    check_limits(entity, strict)
}

fn check_limits(entity: &Entity<'_>, strict: Strictness) -> Result<(), Rejection> {
    if strict == Strictness::Strict {
        check_count(entity.properties.len())?;
        let keys = (entity.partition_key.unwrap_or_default(), entity.row_key.unwrap_or_default());
        check_size(keys, &entity.properties)?;
        for (_, value) in &entity.properties {
            check_value(value)?;
        }
    }
    Ok(())
}

/// Rejects an entity with too many properties.
pub(crate) fn check_count(properties: usize) -> Result<(), Rejection> {
    if properties > MAX_PROPERTIES {
        return Err(Rejection::new(ErrorCode::TOO_MANY_PROPERTIES));
    }
    Ok(())
}

/// Rejects an entity that is too large, as the service counts bytes.
#[expect(clippy::arithmetic_side_effects, reason = "lengths of what is in memory")]
pub(crate) fn check_size(
    (partition_key, row_key): (&str, &str),
    properties: &[(&str, ValueRef<'_>)],
) -> Result<(), Rejection> {
    let sum = |of: fn(&str, &ValueRef<'_>) -> usize| -> usize {
        properties.iter().map(|(name, value)| of(name, value)).sum()
    };
    // Counting the UTF-16 units of all texts takes longer than this upper bound.
    let at_most = 4 + 2 * (partition_key.len() + row_key.len()) + sum(size::of_property_at_most);
    if at_most <= MAX_ENTITY {
        return Ok(());
    }
    if size::of_keys(partition_key, row_key) + sum(size::of_property) > MAX_ENTITY {
        return Err(Rejection::new(ErrorCode::ENTITY_TOO_LARGE));
    }
    Ok(())
}

/// Rejects a string that is not a valid PartitionKey or RowKey.
pub(crate) fn check_key(key: &str) -> Result<(), Rejection> {
    key::check(key).map_err(|error| match error {
        KeyError::TooLong { .. } => Rejection::new(ErrorCode::KEY_VALUE_TOO_LARGE),
        _ => Rejection::with_message(
            ErrorCode::OUT_OF_RANGE_INPUT,
            "One of the request inputs is out of range: a PartitionKey or RowKey holds a \
             character that keys must not contain.",
        ),
    })
}

/// The error for a body that is not one JSON object.
pub(crate) fn malformed_body() -> Rejection {
    Rejection::with_message(
        ErrorCode::INVALID_INPUT,
        "An error occurred while processing this request.",
    )
}

fn set_key<'a>(
    key: &mut Option<&'a str>,
    field: &'a Field<'_>,
    keys: Keys,
) -> Result<(), Rejection> {
    let text = match (field.value().map_err(invalid_value)?, &field.scalar) {
        (None, _) => return Ok(()),
        (Some(ValueRef::String(_)), Scalar::Text(text)) => text,
        (Some(_), Scalar::Text(text)) if keys == Keys::Address => text,
        _ => {
            return Err(Rejection::with_message(
                ErrorCode::INVALID_INPUT,
                "One of the request inputs is not valid: PartitionKey and RowKey are strings.",
            ));
        }
    };
    check_key(text)?;
    if key.replace(text).is_some() {
        return Err(Rejection::new(ErrorCode::DUPLICATE_PROPERTIES_SPECIFIED));
    }
    Ok(())
}

/// Names have at most 255 UTF-16 units, all of them valid in an identifier.
fn check_name(name: &str) -> Result<(), Rejection> {
    if name.len() > MAX_PROPERTY_NAME && size::utf16_len(name) > MAX_PROPERTY_NAME {
        return Err(Rejection::new(ErrorCode::PROPERTY_NAME_TOO_LONG));
    }
    let valid = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| IN_NAMES[usize::from(b)]);
    if valid { Ok(()) } else { Err(Rejection::new(ErrorCode::PROPERTY_NAME_INVALID)) }
}

/// The bytes allowed in names of properties.
const IN_NAMES: [bool; 256] = {
    let mut known = [false; 256];
    let mut byte = 0;
    while byte < known.len() {
        #[expect(clippy::cast_possible_truncation, reason = "the index of 256 is a byte")]
        let b = byte as u8;
        known[byte] = b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80;
        byte += 1;
    }
    known
};

fn check_value(value: &ValueRef<'_>) -> Result<(), Rejection> {
    let too_large = match value {
        ValueRef::String(text) => {
            text.len() > MAX_STRING_UNITS && size::utf16_len(text) > MAX_STRING_UNITS
        }
        ValueRef::Binary(bytes) => bytes.len() > MAX_BINARY,
        _ => false,
    };
    if too_large { Err(Rejection::new(ErrorCode::PROPERTY_VALUE_TOO_LARGE)) } else { Ok(()) }
}

fn check_duplicates(properties: &[(&str, ValueRef<'_>)]) -> Result<(), Rejection> {
    let duplicate = if properties.len() <= 32 {
        // For a handful of names, comparing is faster than hashing. Only names whose lengths and
        // last bytes agree in five bits are compared.
        let mut seen = 0_u32;
        properties.iter().enumerate().any(|(i, (name, _))| {
            let last = usize::from(name.bytes().next_back().unwrap_or_default());
            let bit = 1 << (name.len().wrapping_mul(7).wrapping_add(last) % 32);
            let may_be = seen & bit != 0;
            seen |= bit;
            may_be && properties[..i].iter().any(|(earlier, _)| earlier == name)
        })
    } else {
        let mut seen = std::collections::HashSet::with_capacity(properties.len());
        !properties.iter().all(|(name, _)| seen.insert(*name))
    };
    if duplicate {
        return Err(Rejection::new(ErrorCode::DUPLICATE_PROPERTIES_SPECIFIED));
    }
    Ok(())
}

fn invalid_value(error: FieldError) -> Rejection {
    let message: Cow<'static, str> = match error {
        FieldError::Malformed(edm_type) if edm_type.is_annotated() => {
            "One of the request inputs is not valid: a value is not of its annotated type.".into()
        }
        other => format!("One of the request inputs is not valid: {other}.").into(),
    };
    Rejection::with_message(ErrorCode::INVALID_INPUT, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &str) -> String {
        let fields = match fields(body.as_bytes()) {
            Ok(fields) => fields,
            Err(rejection) => return rejection.code.as_str().to_owned(),
        };
        match entity(&fields, Keys::Body, Strictness::Strict) {
            Ok(_) => "ok".to_owned(),
            Err(rejection) => rejection.code.as_str().to_owned(),
        }
    }

    #[test]
    fn a_recorded_body_gives_typed_properties_in_order() {
        // cosmosdb-python test_table_encryption.test_replace_entity, shortened.
        let body = br#"{"PartitionKey": "pk", "RowKey": "rk", "age": "39", "age@odata.type": "Edm.Int64", "sex": "male", "married": true, "optional": null, "evenratio": 3.0, "other": 20, "Timestamp": "0001-01-01T00:00:00Z"}"#;
        let fields = fields(body).unwrap();
        let entity = entity(&fields, Keys::Body, Strictness::Strict).unwrap();
        assert_eq!((entity.partition_key, entity.row_key), (Some("pk"), Some("rk")));
        let expected = [
            ("age", ValueRef::Int64(39)),
            ("sex", ValueRef::String("male".into())),
            ("married", ValueRef::Boolean(true)),
            ("evenratio", ValueRef::Double(3.0)),
            ("other", ValueRef::Int32(20)),
        ];
        assert_eq!(entity.properties, expected);
    }

    /// azure-data-tables (Python), `test_encoder.test_encoder_*_entity_complex_keys`: the live
    /// service rejects an insert of these, and accepts an upsert.
    #[test]
    fn keys_may_be_annotated_with_another_type_where_the_address_says_them() {
        let guid = "9b8fbe91-a1d8-46bb-99b6-09e1a6afd9cf";
        for (kind, text) in [
            ("Guid", guid),
            ("DateTime", "2022-04-01T09:30:45.000000Z"),
            ("Binary", "YmluYXJ5ZGF0YQ=="),
            ("Int64", "7"),
        ] {
            let body = format!(
                r#"{{"PartitionKey@odata.type":"Edm.{kind}","PartitionKey":"{text}","RowKey":"{guid}","RowKey@odata.type":"Edm.Guid"}}"#
            );
            assert_eq!(code(&body), "InvalidInput", "{kind}");
            let fields = fields(body.as_bytes()).unwrap();
            let entity = entity(&fields, Keys::Address, Strictness::Strict).unwrap();
            assert_eq!((entity.partition_key, entity.row_key), (Some(text), Some(guid)));
        }
        for body in [
            r#"{"PartitionKey@odata.type":"Edm.Guid","PartitionKey":"x"}"#,
            r#"{"PartitionKey@odata.type":"Edm.Nothing","PartitionKey":"x"}"#,
            r#"{"RowKey":7}"#,
        ] {
            let fields = fields(body.as_bytes()).unwrap();
            assert!(entity(&fields, Keys::Address, Strictness::Strict).is_err(), "{body}");
        }
    }

    #[test]
    fn every_violation_has_its_code() {
        let long = "x".repeat(256);
        let many: Vec<String> = (0..253).map(|i| format!("\"p{i}\":1")).collect();
        let wide = "x".repeat(MAX_STRING_UNITS + 1);
        let cases = [
            (String::new(), "InvalidInput"),
            ("[]".to_owned(), "InvalidInput"),
            ("{\"a\":1".to_owned(), "InvalidInput"),
            ("{} {}".to_owned(), "InvalidInput"),
            (r#"{"a":1,"a":2}"#.to_owned(), "DuplicatePropertiesSpecified"),
            (r#"{"a":{}}"#.to_owned(), "InvalidInput"),
            (r#"{"a":2147483648}"#.to_owned(), "ok"),
            (r#"{"a":"x","a@odata.type":"Edm.Guid"}"#.to_owned(), "InvalidInput"),
            (r#"{"a":"x","a@odata.type":"Edm.Decimal"}"#.to_owned(), "InvalidInput"),
            (r#"{"a-b":1}"#.to_owned(), "PropertyNameInvalid"),
            (r#"{"PartitionKey":"a/b"}"#.to_owned(), "OutOfRangeInput"),
            (format!(r#"{{"RowKey":"{}"}}"#, "k".repeat(513)), "KeyValueTooLarge"),
            (r#"{"PartitionKey":1}"#.to_owned(), "InvalidInput"),
            (format!("{{\"{long}\":1}}"), "PropertyNameTooLong"),
            (format!("{{{}}}", many.join(",")), "TooManyProperties"),
            (format!("{{\"a\":\"{wide}\"}}"), "PropertyValueTooLarge"),
            (format!("{{\"a\":\"{}\"}}", wide.repeat(32)), "EntityTooLarge"),
            (r#"{"a":null}"#.to_owned(), "ok"),
            (r#"{"größe":1}"#.to_owned(), "ok"),
        ];
        for (body, expected) in cases {
            assert_eq!(code(&body), expected, "{}", &body[..body.len().min(60)]);
        }
    }
}
