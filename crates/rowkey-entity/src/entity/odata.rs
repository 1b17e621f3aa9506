//! Entities as the JSON of the service, OData with minimal metadata.

use std::collections::HashSet;

use rowkey_wire::edm::ValueRef;
use rowkey_wire::etag::ETag;
use rowkey_wire::odata::{Field, Fields, Scalar, render};

use super::dynamic::DynamicEntity;
use super::properties::Properties;
use super::receipt::Receipt;
use super::row::DecodeError;
use super::stored::Stored;
use crate::EncodeError;
use crate::odata::decode::{self, BodyError};

const PARTITION_KEY: &str = "PartitionKey";
const ROW_KEY: &str = "RowKey";
const TIMESTAMP: &str = "Timestamp";

impl DynamicEntity {
    /// Writes the entity as OData JSON, as the service does with minimal metadata.
    ///
    /// The keys come first, then the properties in their order. A value whose type JSON cannot
    /// express has a type annotation: `"Age@odata.type":"Edm.Int64","Age":"36"`. A [`Stored`]
    /// entity also has its ETag and Timestamp.
    ///
    /// Fails for a property that could not be read back: one with the name of a key or of the
    /// Timestamp, or one whose name contains `@` or begins with `odata.`. Sizes are not checked.
    ///
    /// ```
    /// use rowkey::DynamicEntity;
    ///
    /// let mut ada = DynamicEntity::new("sales", "id_000007");
    /// ada.set("Age", 36_i64);
    /// ada.set("Floor", 3_i32);
    /// let json = ada.to_odata_json()?;
    /// assert_eq!(
    ///     json,
    ///     r#"{"PartitionKey":"sales","RowKey":"id_000007","Age@odata.type":"Edm.Int64","Age":"36","Floor":3}"#
    /// );
    /// assert_eq!(DynamicEntity::from_odata_json(&json)?, ada);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_odata_json(&self) -> Result<String, EncodeError> {
        write(self, None)
    }

    /// Reads an entity from OData JSON: the body of a response, or an element of its `value`.
    ///
    /// Metadata may be minimal, full or absent; members that describe the entity, its Timestamp and
    /// nulls are ignored. A value with a type annotation has that type. A value without one has the
    /// type that the service infers: text is a String; a whole number is an Int32, or a Double if
    /// it is out of range; a number with a point or an exponent is a Double. So an Int64, a date, a
    /// GUID, bytes, a NaN or an infinity in JSON without metadata is read as a String.
    ///
    /// # Errors
    ///
    /// Fails for text that is not one JSON object, a key that is absent or not text, a duplicate
    /// name, a value that does not match its type, and a whole number without an annotation that no
    /// Double represents exactly. The error names the property and shows no value.
    pub fn from_odata_json(json: &(impl AsRef<[u8]> + ?Sized)) -> Result<Self, DecodeError> {
        let mut fields = Fields::default();
        read(json.as_ref(), &mut fields)
    }
}

impl Stored<DynamicEntity> {
    /// Writes the entity as OData JSON with its ETag and Timestamp: an element of a page as the
    /// service writes it with minimal metadata.
    ///
    /// Otherwise the same as [`DynamicEntity::to_odata_json`].
    ///
    /// ```
    /// use rowkey::{DynamicEntity, Stored};
    ///
    /// let json = concat!(
    ///     r#"{"odata.etag":"W/\"datetime'2017-11-10T02%3A46%3A53.636692Z'\"","#,
    ///     r#""PartitionKey":"sales","RowKey":"id_000007","Timestamp":"2017-11-10T02:46:53.636692Z","#,
    ///     r#""Ratio@odata.type":"Edm.Double","Ratio":"NaN"}"#,
    /// );
    /// let stored = Stored::<DynamicEntity>::from_odata_json(json)?;
    /// assert!(stored.entity.get_as::<f64>("Ratio")?.is_nan());
    /// assert_eq!(stored.to_odata_json()?, json);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_odata_json(&self) -> Result<String, EncodeError> {
        write(&self.entity, Some(self))
    }

    /// Reads an entity with its ETag and Timestamp from OData JSON.
    ///
    /// Otherwise the same as [`DynamicEntity::from_odata_json`]. JSON without metadata has no ETag;
    /// it is then derived from the Timestamp, as Azure Storage does. A service that derives it
    /// differently rejects a write with this ETag, and nothing is lost.
    ///
    /// Also fails if the Timestamp is absent or not a date.
    pub fn from_odata_json(json: &(impl AsRef<[u8]> + ?Sized)) -> Result<Self, DecodeError> {
        let mut fields = Fields::default();
        let entity = read(json.as_ref(), &mut fields)?;
        let text = fields.text(TIMESTAMP).ok_or_else(|| absent(TIMESTAMP))?;
        let timestamp =
            text.parse().map_err(|_| DecodeError::property(TIMESTAMP, "it is not a date"))?;
        let etag = match &fields.etag {
            Some(tag) => ETag::new(&**tag),
            None => ETag::from_timestamp(timestamp),
        };
        Ok(Self { entity, etag, timestamp, receipt: Receipt::default() })
    }
}

fn write(
    entity: &DynamicEntity,
    stored: Option<&Stored<DynamicEntity>>,
) -> Result<String, EncodeError> {
    let mut out = Vec::with_capacity(512);
    out.push(b'{');
    if let Some(stored) = stored {
        out.extend_from_slice(b"\"odata.etag\":");
        render::string(&mut out, stored.etag.as_str());
        out.push(b',');
    }
    out.extend_from_slice(b"\"PartitionKey\":");
    render::string(&mut out, &entity.partition_key);
    out.extend_from_slice(b",\"RowKey\":");
    render::string(&mut out, &entity.row_key);
    if let Some(stored) = stored {
        out.extend_from_slice(b",\"Timestamp\":");
        render::datetime(&mut out, stored.timestamp);
    }
    for (name, value) in entity.iter() {
        if matches!(name, PARTITION_KEY | ROW_KEY | TIMESTAMP)
            || name.contains('@')
            || name.starts_with("odata.")
        {
            return Err(EncodeError::ReservedName { name: name.to_owned() });
        }
        render::property(&mut out, name, &value.as_ref());
    }
    out.push(b'}');
    Ok(String::from_utf8(out).expect("names and values are UTF-8"))
}

fn read<'j>(json: &'j [u8], fields: &mut Fields<'j>) -> Result<DynamicEntity, DecodeError> {
    decode::entity(json, fields).map_err(malformed)?;
    let (mut partition_key, mut row_key) = (None, None);
    let mut properties = Vec::new();
    let mut names = HashSet::new();
    for field in &*fields {
        let name = field.name.as_ref();
        if !names.insert(name) {
            return Err(DecodeError::property(name, "it is there twice"));
        }
        match name {
            PARTITION_KEY => partition_key = Some(key(field)?),
            ROW_KEY => row_key = Some(key(field)?),
            TIMESTAMP => {}
            _ => {
                if let Some(value) = value(field)? {
                    properties.push((name.to_owned(), value.into_owned()));
                }
            }
        }
    }
    Ok(DynamicEntity {
        partition_key: partition_key.ok_or_else(|| absent(PARTITION_KEY))?,
        row_key: row_key.ok_or_else(|| absent(ROW_KEY))?,
        properties: Properties::of(properties),
    })
}

fn key(field: &Field<'_>) -> Result<String, DecodeError> {
    match &field.scalar {
        Scalar::Text(text) => Ok(text.to_string()),
        _ => Err(DecodeError::property(&field.name, "a key is text")),
    }
}

fn value<'a>(field: &'a Field<'_>) -> Result<Option<ValueRef<'a>>, DecodeError> {
    let value = field.value().map_err(|error| DecodeError::field(&field.name, &error))?;
    match (&field.scalar, &value) {
        #[expect(clippy::cast_possible_truncation, reason = "it was made of an i64")]
        (Scalar::Integer(whole), Some(ValueRef::Double(double)))
            if i128::from(*whole) != *double as i128 =>
        {
            let what = "it is a whole number that no Edm.Double represents exactly; annotate it with the \
                        type that it has, Edm.Int64";
            Err(DecodeError::property(&field.name, what))
        }
        _ => Ok(value),
    }
}

fn absent(name: &str) -> DecodeError {
    DecodeError::property(name, "it is absent")
}

fn malformed(error: BodyError) -> DecodeError {
    DecodeError::json(match error {
        BodyError { truncated: true, .. } => "it is cut off".to_owned(),
        BodyError { line: 0, .. } => "it is not UTF-8".to_owned(),
        BodyError { line, column, .. } => {
            format!("it is not one object of properties (line {line}, column {column})")
        }
    })
}
