//! The columns of a table from a sample of its rows.

use std::collections::BTreeMap;

use rowkey::edm::{Type, Value};
use rowkey::patterns::inspect::sample;
use rowkey::{DynamicEntity, Result, Stored, Table};

use super::cells::nanoseconds;
use super::{Kind, Rows};

/// The most rows of a sample.
const ROWS: u64 = 1_000;
/// The most places of a table at which the rows of a sample are.
const PLACES: u64 = 8;

/// The schema of a table is inferred from a sample of its rows, which is spread over the range of its keys.
///
/// A property whose values have several number types has the widest of them, as fields of the client read it: Int64 for Int32 and Int64, Double
/// for both with Double. Of other mixed types it has the most frequent one. A property that no row of the sample has is no column.
/// [`Open::column`](crate::Open::column) names what the sample cannot show.
///
/// A sample of a table with fewer than 1,000 rows takes one request, of a larger one about 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inferred;

/// What a sample shows of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The properties, in the order of their names.
    pub(crate) properties: Vec<(String, Kind)>,
    /// The rows of the sample, and whether they are all.
    pub(crate) rows: u64,
    pub(crate) is_complete: bool,
    /// Their bytes, as the service counts them.
    pub(crate) bytes: u64,
    /// Their PartitionKeys.
    pub(crate) partition_keys: Vec<String>,
}

/// The values of a property.
#[derive(Default)]
struct Values {
    /// The number of each type.
    types: BTreeMap<&'static str, (u64, Option<Type>)>,
    /// Whether there is a time that nanoseconds cannot represent.
    is_wide: bool,
}

impl Found {
    /// Samples a table. Columns are those of the rows of a type alone.
    pub(crate) async fn of(table: &Table, rows: &Rows) -> Result<Self> {
        let mut found = Self::default();
        let mut properties: Vec<(String, Values)> = Vec::new();
        let mut sample = sample(table, ROWS).places(PLACES);
        while let Some(row) = sample.next().await? {
            found.rows += 1;
            found.bytes += row.entity.size() as u64;
            if rows.has(&row.entity) {
                add(&row, &mut properties);
            }
            found.partition_keys.push(row.entity.partition_key);
        }
        found.is_complete = sample.is_complete();
        let kinds =
            properties.into_iter().filter_map(|(name, values)| Some((name, values.kind()?)));
        found.properties = kinds.collect();
        // `INSERT INTO .. SELECT *` is by position, so tables with the same properties have one order.
        found.properties.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }
}

fn add(row: &Stored<DynamicEntity>, properties: &mut Vec<(String, Values)>) {
    for (name, value) in row.entity.iter() {
        let at = properties.iter().position(|(known, _)| known == name);
        let at = at.unwrap_or_else(|| {
            properties.push((name.to_owned(), Values::default()));
            properties.len() - 1
        });
        if let Some((_, values)) = properties.get_mut(at) {
            values.add(value);
        }
    }
}

impl Values {
    fn add(&mut self, value: &Value) {
        let edm = value.edm_type();
        let (count, of) = self.types.entry(edm.name()).or_default();
        (*count, *of) = (*count + 1, Some(edm));
        self.is_wide |=
            matches!(value, Value::DateTime(instant) if nanoseconds(*instant).is_none());
    }

    fn kind(&self) -> Option<Kind> {
        let has = |edm: Type| self.types.contains_key(edm.name());
        let is_number = |edm: &Type| matches!(edm, Type::Int32 | Type::Int64 | Type::Double);
        if self.types.values().filter_map(|(_, edm)| *edm).all(|edm| is_number(&edm)) {
            let widest = [Type::Double, Type::Int64, Type::Int32].into_iter().find(|edm| has(*edm));
            return widest.map(Kind::of);
        }
        let most = self.types.values().max_by_key(|(count, _)| *count);
        let kind = most.and_then(|(_, edm)| *edm).map(Kind::of)?;
        Some(if kind == Kind::Nanoseconds && self.is_wide { Kind::Microseconds } else { kind })
    }
}
