//! JSON in the form of the CSV: a list of objects of text, with types beside it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{BufRead, Write};

use rowkey_entity::edm::{Type, Value};
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde::{Deserialize, de};

use super::types::{SUFFIX, Untyped, named, short_name};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::Objects;
use crate::row::{
    PARTITION_KEY, Parts, ROW_KEY, Row, TIMESTAMP, check_name, encode, parse, serialize_head,
};

/// The annotation of OData.
const ODATA_SUFFIX: &str = "@odata.type";

/// Writes a list of objects of text.
///
/// ```
/// use rowkey::DynamicEntity;
/// use rowkey_transfer::{Row, storage_explorer::JsonEncoder};
///
/// let mut ada = DynamicEntity::new("sales", "7");
/// ada.set("Age", 36);
/// let mut encoder = JsonEncoder::new(Vec::new());
/// encoder.write(&Row::new(ada))?;
/// let line = r#"{"PartitionKey":"sales","RowKey":"7","Age":"36","Age@type":"Int32"}"#;
/// assert_eq!(encoder.finish()?, format!("[\n{line}\n]\n").as_bytes());
/// # Ok::<(), rowkey_transfer::Error>(())
/// ```
#[derive(Debug)]
pub struct JsonEncoder<W> {
    out: W,
    text: Vec<u8>,
    rows: u64,
}

impl<W: Write> JsonEncoder<W> {
    /// An encoder that writes each row to `out` at once: wrap a file in a `BufWriter`.
    pub const fn new(out: W) -> Self {
        Self { out, text: Vec::new(), rows: 0 }
    }

    /// Writes a row.
    ///
    /// Fails for a property with a [reserved name](ErrorKind::ReservedName) and for a row of more than 16 MiB, which no
    /// reader accepts, and then has written nothing.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        encode(row, self.rows + 1, &mut self.text, |text| {
            // All names are text, and writing to memory does not fail.
            Ok(serde_json::to_writer(text, &Object(row)).map_err(std::io::Error::from)?)
        })?;
        self.out.write_all(if self.rows == 0 { b"[\n" } else { b",\n" })?;
        self.out.write_all(&self.text)?;
        self.rows += 1;
        Ok(())
    }

    /// How many rows were written.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the list, flushes, and returns what was written to.
    pub fn finish(mut self) -> Result<W> {
        self.out.write_all(if self.rows == 0 { b"[]\n" } else { b"\n]\n" })?;
        self.out.flush()?;
        Ok(self.out)
    }
}

struct Object<'a>(&'a Row);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        serialize_head(&mut object, self.0)?;
        for (name, value) in self.0.entity.iter() {
            object.serialize_entry(name, &value.as_ref().text())?;
            object.serialize_entry(&format!("{name}{SUFFIX}"), short_name(value.edm_type()))?;
        }
        object.end()
    }
}

/// Reads a list of objects. The [module](super) describes the form.
///
/// A text without a type is a String, unless [`untyped`](Self::untyped) says otherwise; a whole number without one is an
/// Int32, or an Int64 if it is out of range, another number a Double. A type without a value is an error, and so is a number
/// with a point as a String, whose digits are not known. An error names the row or the place; after it the
/// iterator ends.
///
/// ```
/// use rowkey_transfer::storage_explorer::JsonDecoder;
///
/// let file = br#"[{"PartitionKey":"sales","RowKey":"7","Age":"36","Age@type":"Int32"}]"#;
/// let mut rows = JsonDecoder::new(&file[..]);
/// assert_eq!(rows.next().ok_or("no row")??.entity.get_as::<i32>("Age")?, 36);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonDecoder<R> {
    objects: Objects<R>,
    untyped: Untyped,
    is_done: bool,
}

impl<R: BufRead> JsonDecoder<R> {
    /// A decoder of the entities from here to the end of `input`.
    pub const fn new(input: R) -> Self {
        Self { objects: Objects::new(input), untyped: Untyped::AsString, is_done: false }
    }

    /// Sets what text without a type is read as. [`Untyped::AsColumn`] is the same as
    /// [`Untyped::Refuse`] here.
    ///
    /// ```
    /// use rowkey_transfer::storage_explorer::{JsonDecoder, Untyped};
    ///
    /// let file = br#"[{"PartitionKey":"sales","RowKey":"7","Age":"36"}]"#;
    /// let mut rows = JsonDecoder::new(&file[..]).untyped(Untyped::Infer);
    /// assert_eq!(rows.next().ok_or("no row")??.entity.get_as::<i32>("Age")?, 36);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn untyped(mut self, untyped: Untyped) -> Self {
        self.untyped = untyped;
        self
    }
}

impl<R: BufRead> Iterator for JsonDecoder<R> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if self.is_done {
            return None;
        }
        let untyped = self.untyped;
        let row = self.objects.next().map(|object| read(object?, untyped));
        self.is_done = !matches!(row, Some(Ok(_)));
        let found = self.objects.found();
        row.map(|row| row.map_err(|error| error.at_row(found)))
    }
}

/// A member's value.
enum Scalar {
    Boolean(bool),
    Number(f64),
    Integer(i64),
    /// A whole number beyond all Int64.
    Large(u64),
    Null,
    Text(String),
    Structure,
}

impl Scalar {
    /// The text that a type reads.
    fn into_text(self) -> Option<String> {
        match self {
            Self::Boolean(value) => Some(value.to_string()),
            Self::Number(value) => Some(Value::Double(value).as_ref().text().into_owned()),
            Self::Integer(value) => Some(value.to_string()),
            Self::Large(value) => Some(value.to_string()),
            Self::Text(text) => Some(text),
            Self::Null | Self::Structure => None,
        }
    }
}

fn read(object: &[u8], untyped: Untyped) -> Result<Row> {
    let Members(members) = serde_json::from_slice(object).map_err(|_| {
        Error::new(
            ErrorKind::Malformed,
            "it is not an object in JSON; fetch or write the file again",
        )
    })?;
    let (mut names, mut types, mut values) = (HashSet::new(), HashMap::new(), Vec::new());
    for (name, scalar) in members {
        if !names.insert(name.clone()) {
            let what = format!("property `{name}`: it is there twice; remove one");
            return Err(Error::new(ErrorKind::Duplicate, what));
        }
        let property = name.strip_suffix(ODATA_SUFFIX).or_else(|| name.strip_suffix(SUFFIX));
        match property {
            Some(property) => {
                if types.insert(property.to_owned(), scalar).is_some() {
                    let what =
                        format!("property `{property}`: its type is there twice; remove one");
                    return Err(Error::new(ErrorKind::Duplicate, what));
                }
            }
            // Metadata, such as the ETag.
            None if name.starts_with("odata.") => {}
            None => values.push((name, scalar)),
        }
    }
    let mut parts = Parts::default();
    for (name, scalar) in values {
        let key = match &*name {
            PARTITION_KEY => &mut parts.partition_key,
            ROW_KEY => &mut parts.row_key,
            TIMESTAMP => {
                match scalar {
                    Scalar::Null => {}
                    Scalar::Text(text) => parts.set_timestamp(&text)?,
                    _ => parts.set_timestamp("")?,
                }
                continue;
            }
            _ => {
                let found = types.remove(&name);
                if let Some(value) = value(&name, scalar, found, untyped)? {
                    check_name(&name)?;
                    parts.properties.push((name, value));
                }
                continue;
            }
        };
        let Scalar::Text(text) = scalar else {
            let what = format!("{name}: a key is text; correct the entity");
            return Err(Error::new(ErrorKind::InvalidValue, what));
        };
        *key = Some(text);
    }
    // The name of one of both may be damaged.
    for (name, _) in types {
        if !matches!(&*name, PARTITION_KEY | ROW_KEY | TIMESTAMP) {
            let what = format!("property `{name}`: it has a type and no value; correct the entity");
            return Err(Error::new(ErrorKind::Malformed, what));
        }
    }
    parts.into_row()
}

/// The value of a property; `None` for null.
fn value(
    name: &str,
    scalar: Scalar,
    found: Option<Scalar>,
    untyped: Untyped,
) -> Result<Option<Value>> {
    let structure = || {
        let what = format!("property `{name}`: expected text or a number; correct the entity");
        Error::new(ErrorKind::InvalidValue, what)
    };
    match (scalar, found) {
        (Scalar::Null, _) => Ok(None),
        (Scalar::Structure, _) => Err(structure()),
        (scalar, Some(Scalar::Text(found))) => {
            let edm_type = named(name, &found)?;
            if edm_type == Type::String && matches!(scalar, Scalar::Number(_)) {
                // Of `1.10` only the number is known, not the text.
                let what = format!(
                    "property `{name}`: the value is not a valid {edm_type}; write it as text"
                );
                return Err(Error::new(ErrorKind::InvalidValue, what));
            }
            parse(name, edm_type, &scalar.into_text().unwrap_or_default()).map(Some)
        }
        (_, Some(_)) => named(name, "").map(|_| None),
        (Scalar::Boolean(value), None) => Ok(Some(value.into())),
        (Scalar::Number(value), None) => Ok(Some(value.into())),
        (Scalar::Integer(value), None) => {
            let small = i32::try_from(value).map(Value::Int32);
            Ok(Some(small.unwrap_or(Value::Int64(value))))
        }
        (Scalar::Large(value), None) => {
            exact(value).map(|value| Some(value.into())).ok_or_else(|| {
                let what =
                    format!("property `{name}`: the number fits no type exactly; add its type");
                Error::new(ErrorKind::InvalidValue, what)
            })
        }
        (Scalar::Text(text), None) => untyped.read(name, None, &text).map(Some),
    }
}

/// The Double with this value, if there is one.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the result is compared"
)]
fn exact(value: u64) -> Option<f64> {
    let double = value as f64;
    (double as u128 == u128::from(value)).then_some(double)
}

/// The members of an object in their order, duplicates included.
struct Members(Vec<(String, Scalar)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> std::result::Result<Scalar, E> {
                Ok(Scalar::Boolean(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<Scalar, E> {
                Ok(Scalar::Integer(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<Scalar, E> {
                Ok(i64::try_from(value).map_or(Scalar::Large(value), Scalar::Integer))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<Scalar, E> {
                Ok(Scalar::Number(value))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }

            fn visit_unit<E: de::Error>(self) -> std::result::Result<Scalar, E> {
                Ok(Scalar::Null)
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Scalar, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::Structure)
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Scalar, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Structure)
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{MAX_ENTITY, Position};

    fn read_all(file: &str, untyped: Untyped) -> Vec<Result<Row>> {
        JsonDecoder::new(file.as_bytes()).untyped(untyped).collect()
    }

    #[test]
    fn annotations_of_both_forms_and_natural_values_are_read() {
        let file = r#"[{"odata.etag":"x","PartitionKey":"p","RowKey":"r","Timestamp":"2020-06-22T15:16:05.333Z",
            "A@odata.type":"Edm.Int64","A":"5","B":5,"B@type":"Double","C":5,"D":5000000000,"E":0.5,"F":true,
            "G":null,"H":"","H@type":"String","I":"text","J":null,"J@type":"Int32"}]"#;
        let row = read_all(file, Untyped::AsString).remove(0).unwrap();
        let expected: [(&str, Value); 8] = [
            ("A", 5_i64.into()),
            ("B", 5.0.into()),
            ("C", 5.into()),
            ("D", 5_000_000_000_i64.into()),
            ("E", 0.5.into()),
            ("F", true.into()),
            ("H", "".into()),
            ("I", "text".into()),
        ];
        let found: Vec<_> = row.entity.iter().map(|(name, value)| (name, value.clone())).collect();
        assert_eq!(found, expected);
        assert!(row.timestamp.is_some());
    }

    #[test]
    fn a_row_longer_than_any_entity_that_is_read_is_not_written() {
        let mut row = Row::new(rowkey_entity::DynamicEntity::new("p", "r"));
        row.entity.set("A", "x".repeat(MAX_ENTITY));
        let mut encoder = JsonEncoder::new(Vec::new());
        assert_eq!(encoder.write(&row).unwrap_err().kind(), ErrorKind::TooLong);
        assert_eq!(encoder.finish().unwrap(), b"[]\n");
    }

    #[test]
    fn types_of_keys_and_of_nulls_are_ignored() {
        let file = r#"[{"PartitionKey":"p","PartitionKey@type":"String","RowKey":"r","Timestamp@odata.type":"Edm.DateTime",
            "Timestamp":"2020-06-22T15:16:05.333Z","A":null,"A@type":"Int32","B":9223372036854775808,"C":5,"C@type":"String"}]"#;
        let row = read_all(file, Untyped::Refuse).remove(0).unwrap();
        assert_eq!(row.entity.len(), 2);
        assert_eq!(row.entity.get("B"), Some(&9_223_372_036_854_775_808.0.into()));
        assert_eq!(row.entity.get("C"), Some(&"5".into()));
    }

    #[test]
    fn an_object_with_more_members_than_any_entity_is_refused_at_once() {
        let members: Vec<_> = (0..100_000)
            .map(|number| format!(r#","A{number}":"1","A{number}@type":"Int32""#))
            .collect();
        let file = format!(r#"[{{"PartitionKey":"p","RowKey":"r"{}}}]"#, members.concat());
        let error = read_all(&file, Untyped::Refuse).remove(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLong);
    }

    #[test]
    fn what_is_no_entity_is_an_error_without_its_values() {
        for (object, kind, text) in [
            (r#"{"RowKey":"secret"}"#, ErrorKind::MissingKey, "PartitionKey"),
            (r#"{"PartitionKey":5,"RowKey":"r"}"#, ErrorKind::InvalidValue, "a key is text"),
            (r#"{"PartitionKey":"p","RowKey":"r","A":"1","A":"2"}"#, ErrorKind::Duplicate, "`A`"),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A":"secret","A@type":"Int32"}"#,
                ErrorKind::InvalidValue,
                "`A`: the value is not a valid Edm.Int32",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A":"1","A@type":5}"#,
                ErrorKind::InvalidValue,
                "`A`: its type is unknown",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A":["secret"]}"#,
                ErrorKind::InvalidValue,
                "`A`: expected text",
            ),
            (r#"{"PartitionKey":"p","RowKey":"r","A":"secret"}"#, ErrorKind::Untyped, "`A`"),
            (
                r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"secret"}"#,
                ErrorKind::InvalidValue,
                "Timestamp",
            ),
            (r#"{"secret"}"#, ErrorKind::Malformed, "not an object"),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A":"1","A@type":"Int32","A@odata.type":"Edm.Int64"}"#,
                ErrorKind::Duplicate,
                "`A`: its type is there twice",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","B":1,"A@type":"Int32"}"#,
                ErrorKind::Malformed,
                "`A`: it has a type and no value",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A":1.10,"A@type":"String"}"#,
                ErrorKind::InvalidValue,
                "`A`: the value is not a valid Edm.String",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A":9223372036854775809}"#,
                ErrorKind::InvalidValue,
                "`A`: the number",
            ),
        ] {
            let rows = read_all(&format!("[{object}]"), Untyped::Refuse);
            assert_eq!(rows.len(), 1);
            let error = rows[0].as_ref().unwrap_err();
            assert_eq!((error.kind(), error.position()), (kind, Some(Position::Row(1))), "{error}");
            assert!(error.to_string().contains(text), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(read_all("[]", Untyped::Refuse).is_empty());
        assert_eq!(JsonEncoder::new(Vec::new()).finish().unwrap(), b"[]\n");
    }
}
