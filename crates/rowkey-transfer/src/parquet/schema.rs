//! The columns of a file that is written: their names, types, and what the metadata says about them.

use std::sync::Arc;

use ::parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::errors::Result as ParquetResult;
use ::parquet::schema::types::Type as Schema;
use rowkey_entity::edm::{DateTime, Type};
use serde::{Deserialize, Serialize};

use crate::columns::{Columns, Span};
use crate::row::{PARTITION_KEY, ROW_KEY, TIMESTAMP};

/// The key of our metadata.
pub(super) const KEY: &str = "rowkey";
pub(super) const VERSION: u32 = 1;
/// The end of the names of columns with ticks.
pub(super) const TICKS: &str = "@ticks";
/// Ticks from 0001-01-01 to 1970-01-01.
pub(super) const UNIX_EPOCH: i64 = 621_355_968_000_000_000;

/// One column.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) form: Form,
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    PartitionKey,
    RowKey,
    Timestamp,
    Property(String),
}

/// How a column holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All types but DateTime.
    Plain(Type),
    /// Nanoseconds since 1970.
    Nanos,
    /// Microseconds since 1970; the ticks are in the next column.
    Micros,
    /// The ticks of 100 ns below a microsecond.
    Ticks,
}

/// Our metadata.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Metadata {
    pub(super) version: u32,
    pub(super) columns: Vec<Entry>,
}

/// What one column of a property holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) column: String,
    pub(super) property: String,
    #[serde(rename = "type")]
    pub(super) edm_type: Type,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<Part>,
}

/// What a column has, if not the whole value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part {
    Ticks,
}

/// The columns for the properties of a table.
pub(super) fn leaves(columns: &Columns) -> Vec<Leaf> {
    let key = |name: &str, target| Leaf {
        name: name.to_owned(),
        target,
        form: Form::Plain(Type::String),
    };
    let mut leaves = vec![key(PARTITION_KEY, Target::PartitionKey), key(ROW_KEY, Target::RowKey)];
    if let Some(span) = columns.timestamps() {
        add(&mut leaves, TIMESTAMP, &Target::Timestamp, Type::DateTime, Some(span));
    }
    for column in columns.iter() {
        let types: Vec<_> = column.types().collect();
        for edm_type in &types {
            let short = edm_type.name().strip_prefix("Edm.").unwrap_or_default();
            let name = match types.len() {
                1 => column.name.clone(),
                _ => format!("{}@{short}", column.name),
            };
            let target = Target::Property(column.name.clone());
            add(&mut leaves, &name, &target, *edm_type, column.instants);
        }
    }
    leaves
}

fn add(leaves: &mut Vec<Leaf>, name: &str, target: &Target, edm_type: Type, span: Option<Span>) {
    let mut push = |name: &str, form| {
        leaves.push(Leaf { name: name.to_owned(), target: target.clone(), form });
    };
    match (edm_type, span) {
        (Type::DateTime, Some((earliest, latest)))
            if nanos(earliest).is_none() || nanos(latest).is_none() =>
        {
            push(name, Form::Micros);
            push(&format!("{name}{TICKS}"), Form::Ticks);
        }
        (Type::DateTime, _) => push(name, Form::Nanos),
        (other, _) => push(name, Form::Plain(other)),
    }
}

/// Nanoseconds since 1970, from 1677 to 2262.
pub(super) fn nanos(instant: DateTime) -> Option<i64> {
    (instant.ticks() - UNIX_EPOCH).checked_mul(100)
}

/// Microseconds since 1970, and ticks beyond them.
pub(super) fn micros(instant: DateTime) -> (i64, i32) {
    let ticks = instant.ticks() - UNIX_EPOCH;
    (ticks.div_euclid(10), i32::try_from(ticks.rem_euclid(10)).unwrap_or_default())
}

/// The schema of these columns.
pub(super) fn schema(leaves: &[Leaf]) -> ParquetResult<Arc<Schema>> {
    let fields = leaves.iter().map(|leaf| leaf.schema().map(Arc::new));
    let fields = fields.collect::<ParquetResult<Vec<_>>>()?;
    Schema::group_type_builder("entities").with_fields(fields).build().map(Arc::new)
}

impl Leaf {
    pub(super) const fn is_key(&self) -> bool {
        matches!(self.target, Target::PartitionKey | Target::RowKey)
    }

    fn schema(&self) -> ParquetResult<Schema> {
        let timestamp = |unit| Some(LogicalType::timestamp(true, unit));
        let (physical, logical) = match self.form {
            Form::Nanos => (Physical::INT64, timestamp(TimeUnit::NANOS)),
            Form::Micros => (Physical::INT64, timestamp(TimeUnit::MICROS)),
            Form::Ticks => (Physical::INT32, None),
            Form::Plain(edm_type) => match edm_type {
                Type::Binary => (Physical::BYTE_ARRAY, None),
                Type::Boolean => (Physical::BOOLEAN, None),
                Type::DateTime | Type::Int64 => (Physical::INT64, None),
                Type::Double => (Physical::DOUBLE, None),
                Type::Guid => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid)),
                Type::Int32 => (Physical::INT32, None),
                Type::String => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            },
        };
        let repetition = if self.is_key() { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let builder = Schema::primitive_type_builder(&self.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical);
        if physical == Physical::FIXED_LEN_BYTE_ARRAY {
            return builder.with_length(16).build();
        }
        builder.build()
    }
}

/// The metadata of these columns, as JSON.
pub(super) fn metadata(leaves: &[Leaf]) -> String {
    let entries = leaves.iter().filter_map(|leaf| {
        let Target::Property(property) = &leaf.target else { return None };
        let (edm_type, part) = match leaf.form {
            Form::Plain(edm_type) => (edm_type, None),
            Form::Nanos | Form::Micros => (Type::DateTime, None),
            Form::Ticks => (Type::DateTime, Some(Part::Ticks)),
        };
        let (column, property) = (leaf.name.clone(), property.clone());
        Some(Entry { column, property, edm_type, part })
    });
    let metadata = Metadata { version: VERSION, columns: entries.collect() };
    // All members are text and numbers.
    serde_json::to_string(&metadata).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rowkey_entity::DynamicEntity;
    use rowkey_entity::edm::Value;

    use super::*;
    use crate::row::Row;

    #[test]
    fn a_property_has_a_column_for_each_type_and_far_dates_have_two() {
        let mut columns = Columns::default();
        let rows: [&[(&str, Value)]; 2] = [
            &[
                ("Age", 1.into()),
                ("At", "2026-11-20T12:34:56.7654321Z".parse::<DateTime>().unwrap().into()),
            ],
            &[("Age", "1".into()), ("Until", DateTime::MAX.into())],
        ];
        for properties in rows {
            let mut entity = DynamicEntity::new("p", "r");
            entity.properties.extend(properties.iter().cloned());
            columns.observe(&Row { entity, timestamp: Some(DateTime::MIN) }).unwrap();
        }
        let leaves = leaves(&columns);
        let names: Vec<_> = leaves.iter().map(|leaf| &*leaf.name).collect();
        let expected = [
            "PartitionKey",
            "RowKey",
            "Timestamp",
            "Timestamp@ticks",
            "Age@Int32",
            "Age@String",
            "At",
            "Until",
            "Until@ticks",
        ];
        assert_eq!(names, expected);
        assert_eq!(leaves[6].form, Form::Nanos);
        let text = metadata(&leaves);
        let read: Metadata = serde_json::from_str(&text).unwrap();
        assert_eq!(read.columns.len(), 5, "{text}");
        assert_eq!(schema(&leaves).unwrap().get_fields().len(), 9);
    }

    #[test]
    fn instants_are_split_without_a_remainder() {
        for instant in
            [DateTime::MIN, DateTime::MAX, "1969-12-31T23:59:59.9999999Z".parse().unwrap()]
        {
            let (micros, ticks) = micros(instant);
            assert_eq!(
                DateTime::from_ticks(micros * 10 + i64::from(ticks) + UNIX_EPOCH),
                Ok(instant)
            );
        }
        assert_eq!(nanos("1969-12-31T23:59:59.9999999Z".parse().unwrap()), Some(-100));
        assert!(nanos(DateTime::MIN).is_none() && nanos(DateTime::MAX).is_none());
    }
}
