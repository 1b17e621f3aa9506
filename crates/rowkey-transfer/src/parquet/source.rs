//! What the columns of a file hold that is read: by our metadata, by their names, or by their types.

use std::collections::HashSet;

use ::parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::schema::types::ColumnDescriptor;
use rowkey_entity::edm::Type;

use super::schema::{KEY, Metadata, Part, TICKS, Target, VERSION};
use crate::error::{Error, ErrorKind, Result};
use crate::row::{PARTITION_KEY, ROW_KEY, TIMESTAMP, check_name};

/// A column that is read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) decode: Decode,
    /// 1 if the column has nulls.
    pub(super) max_level: i16,
    /// The column with the microseconds of these ticks.
    pub(super) ticks_of: Option<usize>,
}

/// How values of a column become values of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decode {
    Boolean,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Int96,
    Float,
    Double,
    Text,
    Bytes,
    Guid,
    Days,
    Millis,
    Micros,
    Nanos,
}

impl Decode {
    /// The type of the property.
    pub(super) const fn edm_type(self) -> Type {
        match self {
            Self::Boolean => Type::Boolean,
            Self::Int32 => Type::Int32,
            Self::UInt32 | Self::Int64 | Self::UInt64 => Type::Int64,
            Self::Float | Self::Double => Type::Double,
            Self::Text => Type::String,
            Self::Bytes => Type::Binary,
            Self::Guid => Type::Guid,
            Self::Int96 | Self::Days | Self::Millis | Self::Micros | Self::Nanos => Type::DateTime,
        }
    }

    /// How the values of a column are read; `None` for a type that no property has.
    fn of(column: &ColumnDescriptor) -> Option<Self> {
        let logical = column.logical_type_ref();
        let converted = column.converted_type();
        let is_number = matches!(
            logical,
            Some(LogicalType::Decimal(_) | LogicalType::Time(_) | LogicalType::Float16)
        ) || matches!(
            converted,
            ConvertedType::DECIMAL
                | ConvertedType::TIME_MILLIS
                | ConvertedType::TIME_MICROS
                | ConvertedType::INTERVAL
        );
        if is_number {
            return None;
        }
        let is_signed = match logical {
            Some(LogicalType::Integer(integer)) => integer.is_signed,
            _ => !matches!(converted, ConvertedType::UINT_32 | ConvertedType::UINT_64),
        };
        Some(match column.physical_type() {
            Physical::BOOLEAN => Self::Boolean,
            Physical::FLOAT => Self::Float,
            Physical::DOUBLE => Self::Double,
            Physical::INT96 => Self::Int96,
            Physical::INT32 => match logical {
                Some(LogicalType::Date) => Self::Days,
                _ if converted == ConvertedType::DATE => Self::Days,
                Some(LogicalType::Integer(integer)) if !is_signed && integer.bit_width < 32 => {
                    Self::Int32
                }
                _ if is_signed => Self::Int32,
                _ => Self::UInt32,
            },
            Physical::INT64 => match logical {
                Some(LogicalType::Timestamp(timestamp)) => match timestamp.unit {
                    TimeUnit::MILLIS => Self::Millis,
                    TimeUnit::MICROS => Self::Micros,
                    TimeUnit::NANOS => Self::Nanos,
                },
                _ if converted == ConvertedType::TIMESTAMP_MILLIS => Self::Millis,
                _ if converted == ConvertedType::TIMESTAMP_MICROS => Self::Micros,
                _ if is_signed => Self::Int64,
                _ => Self::UInt64,
            },
            Physical::BYTE_ARRAY => {
                let is_text = matches!(
                    logical,
                    Some(LogicalType::String | LogicalType::Enum | LogicalType::Json)
                ) || matches!(
                    converted,
                    ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
                );
                if is_text { Self::Text } else { Self::Bytes }
            }
            Physical::FIXED_LEN_BYTE_ARRAY => match logical {
                Some(LogicalType::Uuid) if column.type_length() == 16 => Self::Guid,
                _ => Self::Bytes,
            },
        })
    }
}

/// The columns of a file. Fails for a file whose rows are no entities.
pub(super) fn sources(file: &ParquetMetaData) -> Result<Vec<Source>> {
    let entries = entries(file)?;
    let schema = file.file_metadata().schema_descr();
    let mut sources: Vec<Source> = Vec::new();
    let mut names = HashSet::new();
    for column in schema.columns() {
        let name = column.name();
        if column.path().parts().len() > 1 || column.max_rep_level() > 0 {
            let column = column.path().parts().first().map_or(name, |part| part);
            return Err(unsupported(column, "it is a list, a map or a structure"));
        }
        if !names.insert(name) {
            let what = format!("column `{name}` is there twice; remove or rename one");
            return Err(Error::new(ErrorKind::Duplicate, what));
        }
        let Some(decode) = Decode::of(column) else {
            return Err(unsupported(
                name,
                "it holds decimals, times of day, intervals or half floats",
            ));
        };
        let mut source = Source {
            name: name.to_owned(),
            target: Target::PartitionKey,
            decode,
            max_level: column.max_def_level(),
            ticks_of: None,
        };
        // Other programs may have moved it behind its ticks.
        let base = |base: &str| {
            schema.columns().iter().position(|other| {
                let edm_type = Decode::of(other).map(Decode::edm_type);
                other.name() == base && edm_type == Some(Type::DateTime)
            })
        };
        let entry = entries.iter().find(|entry| entry.column == name);
        source.target = match (name, entry) {
            (PARTITION_KEY, _) => Target::PartitionKey,
            (ROW_KEY, _) => Target::RowKey,
            (TIMESTAMP, _) => Target::Timestamp,
            (name, Some(entry)) => {
                let is_ticks = entry.part == Some(Part::Ticks);
                let held = if is_ticks { Type::Int32 } else { entry.edm_type };
                if decode.edm_type() != held {
                    let what =
                        format!("column `{name}`: its type contradicts the metadata `{KEY}`");
                    return Err(Error::new(ErrorKind::Malformed, what));
                }
                if is_ticks {
                    source.ticks_of = base(name.strip_suffix(TICKS).unwrap_or_default());
                    if source.ticks_of.is_none() {
                        let what = format!(
                            "column `{name}`: the column of its dates is missing or has another type; remove this one, too"
                        );
                        return Err(Error::new(ErrorKind::Malformed, what));
                    }
                }
                Target::Property(entry.property.clone())
            }
            (name, None) => {
                let property = match name.strip_suffix(TICKS) {
                    Some(before) if decode == Decode::Int32 => {
                        source.ticks_of = base(before);
                        source.ticks_of.map_or(name, |_| before)
                    }
                    _ => name,
                };
                Target::Property(
                    property_of(property, decode, source.ticks_of.is_some()).to_owned(),
                )
            }
        };
        let is_key = matches!(source.target, Target::PartitionKey | Target::RowKey);
        let is_timestamp = source.target == Target::Timestamp;
        if is_key && decode != Decode::Text {
            return Err(wrong_type(name, "text"));
        }
        if is_timestamp && decode.edm_type() != Type::DateTime {
            return Err(wrong_type(name, "timestamps"));
        }
        if let Target::Property(property) = &source.target
            && source.ticks_of.is_none()
        {
            check_name(property)?;
        }
        sources.push(source);
    }
    for key in [PARTITION_KEY, ROW_KEY] {
        if !sources.iter().any(|source| source.name == key) {
            let what = format!("the file has no column {key}; add it, each entity has both keys");
            return Err(Error::new(ErrorKind::MissingKey, what));
        }
    }
    Ok(sources)
}

/// The property of a column, without the type that a name such as `Age@Int32` ends with.
fn property_of(name: &str, decode: Decode, is_ticks: bool) -> &str {
    let held = if is_ticks { Type::DateTime } else { decode.edm_type() };
    let short = held.name().strip_prefix("Edm.").unwrap_or_default();
    match name.rsplit_once('@') {
        Some((property, suffix)) if suffix == short => property,
        _ => name,
    }
}

/// What our metadata says; nothing if there is none.
fn entries(file: &ParquetMetaData) -> Result<Vec<super::schema::Entry>> {
    let pairs = file.file_metadata().key_value_metadata();
    let pair = pairs.into_iter().flatten().find(|pair| pair.key == KEY);
    let Some(text) = pair.and_then(|pair| pair.value.as_ref()) else { return Ok(Vec::new()) };
    let metadata: Metadata = serde_json::from_str(text).map_err(|_| {
        let what = format!("the metadata `{KEY}` is damaged; remove it, or write the file again");
        Error::new(ErrorKind::Malformed, what)
    })?;
    if metadata.version != VERSION {
        let what = format!(
            "the metadata `{KEY}` has version {}, and this program reads version {VERSION}; use a newer one",
            metadata.version
        );
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(metadata.columns)
}

fn unsupported(column: &str, what: &str) -> Error {
    let what = format!(
        "column `{column}`: {what}, and no property of a table; remove or convert the column"
    );
    Error::new(ErrorKind::Unsupported, what)
}

fn wrong_type(column: &str, expected: &str) -> Error {
    let what = format!("column `{column}`: expected {expected}; convert the column");
    Error::new(ErrorKind::Unsupported, what)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::parquet::file::metadata::KeyValue;
    use ::parquet::file::properties::WriterProperties;
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::parser::parse_message_type;

    use super::super::Decoder;
    use super::*;

    const KEYS: &str = "required binary PartitionKey (STRING); required binary RowKey (UTF8);";

    /// Opens a file without rows that has these columns and our metadata.
    fn open(columns: &str, metadata: Option<&str>) -> Result<Decoder> {
        let schema = parse_message_type(&format!("message m {{ {columns} }}")).unwrap();
        let pair = metadata.map(|text| vec![KeyValue::new(KEY.to_owned(), text.to_owned())]);
        let properties = WriterProperties::builder().set_key_value_metadata(pair).build();
        let file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties));
        Decoder::from_bytes(file.unwrap().into_inner().unwrap())
    }

    #[test]
    fn columns_that_no_property_can_hold_are_errors_that_name_them() {
        for (columns, kind, text) in [
            (
                "optional int32 A (DECIMAL(5,2));",
                ErrorKind::Unsupported,
                "column `A`: it holds decimals",
            ),
            ("optional int64 A (TIME(MICROS,true));", ErrorKind::Unsupported, "column `A`"),
            (
                "optional group A { optional int32 B; }",
                ErrorKind::Unsupported,
                "column `A`: it is a list",
            ),
            ("repeated int32 A;", ErrorKind::Unsupported, "column `A`: it is a list"),
            ("optional int32 Timestamp;", ErrorKind::Unsupported, "column `Timestamp`: expected"),
            ("optional int32 A@x;", ErrorKind::ReservedName, "property `A@x`"),
        ] {
            let error = open(&format!("{KEYS} {columns}"), None).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().starts_with(text), "{error}");
        }
        let error = open("required binary PartitionKey (STRING);", None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingKey);
        let error = open("required int32 PartitionKey; required int32 RowKey;", None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn properties_are_named_by_the_metadata_or_by_the_columns() {
        let properties = |columns: &str, metadata: Option<&str>| {
            let schema = parse_message_type(&format!("message m {{ {KEYS} {columns} }}")).unwrap();
            let pair = metadata.map(|text| vec![KeyValue::new(KEY.to_owned(), text.to_owned())]);
            let properties = WriterProperties::builder().set_key_value_metadata(pair).build();
            let mut file =
                SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))
                    .unwrap();
            let sources = sources(&file.finish().unwrap()).unwrap();
            let shown = sources[2..].iter().map(|source| {
                let Target::Property(name) = &source.target else { panic!("{source:?}") };
                format!("{name} {} {:?}", source.decode.edm_type(), source.ticks_of)
            });
            shown.collect::<Vec<_>>()
        };
        let columns = "optional int32 Age@Int32; optional binary Age@String (STRING); optional int64 At (TIMESTAMP(MICROS,true)); \
                       optional int32 At@ticks; optional int32 B;";
        let expected = [
            "Age Edm.Int32 None",
            "Age Edm.String None",
            "At Edm.DateTime None",
            "At Edm.Int32 Some(4)",
            "B Edm.Int32 None",
        ];
        assert_eq!(properties(columns, None), expected);
        let metadata =
            r#"{"version":1,"columns":[{"column":"B","property":"C","type":"Edm.Int32"}]}"#;
        assert_eq!(properties(columns, Some(metadata))[4], "C Edm.Int32 None");
    }

    #[test]
    fn metadata_that_contradicts_the_file_is_an_error() {
        for (metadata, kind) in [
            ("secret", ErrorKind::Malformed),
            (r#"{"version":2,"columns":[]}"#, ErrorKind::Unsupported),
            (
                r#"{"version":1,"columns":[{"column":"A","property":"A","type":"Edm.String"}]}"#,
                ErrorKind::Malformed,
            ),
            (
                r#"{"version":1,"columns":[{"column":"A","property":"RowKey","type":"Edm.Int32"}]}"#,
                ErrorKind::ReservedName,
            ),
        ] {
            let error = open(&format!("{KEYS} optional int32 A;"), Some(metadata)).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
