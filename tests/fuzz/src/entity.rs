//! Entities as JSON: the server's decoder, the client's scanner, and `serde_json` as their judge.

use std::borrow::Cow;
use std::fmt;

use rowkey::internals::{self, Body};
use rowkey_emulator::fuzzing as server;
use rowkey_wire::odata::Scalar;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Every decoder of entities.
pub fn all(input: &[u8]) {
    let _ = (of_request(input), page(input), response(input));
    crate::text(input, |text| {
        is_read_as_serde_json_does(text);
    });
}

/// Whether it is an entity in a request.
pub fn of_request(input: &[u8]) -> bool {
    server::entity(input)
}

/// Whether it is a page of a query's result.
pub fn page(input: &[u8]) -> bool {
    let mut count = 0;
    let is_page = internals::read(Body::Page, input, |fields| {
        count += fields.iter().filter(|field| field.value().is_ok()).count();
    });
    let _ = internals::read(Body::Tables, input, |_| ());
    is_page
}

/// Whether it is an entity in a response.
pub fn response(input: &[u8]) -> bool {
    internals::read(Body::Entity, input, |_| ())
}

/// Whether it is an object; asserts that the scanner reads what `serde_json` reads, and takes nothing
/// that it refuses.
pub fn is_read_as_serde_json_does(text: &str) -> bool {
    let mut read = Vec::new();
    let is_read = internals::read(Body::Entity, text.as_bytes(), |fields| {
        read.extend(fields.iter().map(|field| (field.name.to_string(), field.scalar.clone())));
    });
    let reference = serde_json::from_str::<Object>(text.trim_start_matches('\u{feff}'));
    assert_eq!(is_read, reference.is_ok(), "{text}");
    let Ok(Object(reference)) = reference else { return false };
    let is_property = |name: &str| !name.contains('@') && !name.starts_with("odata.");
    let reference = reference.iter().filter(|(name, _)| is_property(name));
    assert!(read.iter().eq(reference), "{text}");
    true
}

/// The members of an object as `serde_json` reads them. A tag that is not text is refused.
struct Object(Vec<(String, Scalar<'static>)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let Value(value) = map.next_value()?;
                    if name == "odata.etag" && !matches!(value, Scalar::Text(_)) {
                        return Err(A::Error::custom("a tag is text"));
                    }
                    members.push((name, value));
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

struct Value(Scalar<'static>);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyScalar).map(Value)
    }
}

struct AnyScalar;

impl<'de> Visitor<'de> for AnyScalar {
    type Value = Scalar<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        #[expect(clippy::cast_precision_loss, reason = "beyond i64 JSON numbers are doubles")]
        Ok(i64::try_from(value).map_or(Scalar::Float(value as f64), Scalar::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<String, Value>()?.is_some() {}
        Ok(Scalar::Structure)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<Value>()?.is_some() {}
        Ok(Scalar::Structure)
    }
}
