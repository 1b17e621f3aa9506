//! Checks whether rows stay unchanged when a type reads them and writes them back.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::TryStreamExt as _;
use rowkey_client::edm::Value;
use rowkey_client::internals::shown;
use rowkey_client::{DynamicEntity, Entity, Error, Result, Table};

/// The maximum number of faulty rows listed in a report; others are only counted.
const KEPT: usize = 100;

/// The result of [`check`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Check {
    /// The rows that were read.
    pub rows: u64,
    /// The rows that the type cannot read, or would write back changed.
    pub faulty: u64,
    /// The first hundred faulty rows.
    pub faults: Vec<RowFault>,
    /// Properties that the type does not have, and the number of rows with them. `update` keeps them,
    /// `replace` deletes them.
    pub unknown: BTreeMap<String, u64>,
}

/// A row that a type cannot read, or would write back changed.
#[derive(Clone)]
pub struct RowFault {
    keys: (String, String),
    /// The fault of the row.
    pub fault: Fault,
}

/// The reason why a row is faulty.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The type cannot read the row; the text gives the reason, without values.
    Unreadable(String),
    /// The type would write the row under another key.
    Key,
    /// The type would change some properties.
    Properties(Vec<Difference>),
}

/// A property that would be written back changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// A different type: the name, the stored type and the written one.
    Type(String, &'static str, &'static str),
    /// A different value of the same type.
    Value(String),
    /// A property that the row does not have.
    Added(String),
}

impl RowFault {
    /// The PartitionKey and the RowKey. No message and no `Debug` output contains them.
    pub fn keys(&self) -> (&str, &str) {
        (&self.keys.0, &self.keys.1)
    }
}

shown!(RowFault: fault);

impl Check {
    /// Returns whether every row can be read and would be written back under the same key with the same types
    /// and values.
    ///
    /// Properties that the type does not have are not a fault, because `update` keeps them.
    pub fn is_exact(&self) -> bool {
        self.faulty == 0
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} of {} rows differ", self.faulty, self.rows)?;
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        for fault in &self.faults {
            let mut count = |kind| *kinds.entry(kind).or_default() += 1;
            match &fault.fault {
                Fault::Unreadable(why) => count(format!("unreadable: {why}")),
                Fault::Key => count("written under another key".to_owned()),
                Fault::Properties(differences) => differences.iter().for_each(|difference| {
                    count(match difference {
                        Difference::Type(name, stored, written) => {
                            format!("{name} is {stored}, would be {written}")
                        }
                        Difference::Value(name) => format!("{name} would have another value"),
                        Difference::Added(name) => format!("{name} would be added"),
                    });
                }),
            }
        }
        for (kind, count) in kinds {
            writeln!(f, "{count} x {kind}")?;
        }
        for (name, count) in &self.unknown {
            writeln!(f, "{count} x {name} is not a property of the type")?;
        }
        Ok(())
    }
}

/// Reads every row of a table as `E`, and compares what `E` would write with the stored row.
///
/// Writes nothing. Costs a request for each 1,000 rows. Rows of other types in the table count as faults.
pub async fn check<E: Entity>(table: &Table) -> Result<Check> {
    let mut report = Check::default();
    let mut rows = table.scan::<DynamicEntity>().stream();
    while let Some(stored) = rows.try_next().await? {
        report.rows += 1;
        let row = stored.entity;
        if let Some(fault) = fault::<E>(&row, &mut report.unknown) {
            report.faulty += 1;
            if report.faults.len() < KEPT {
                report.faults.push(RowFault { keys: (row.partition_key, row.row_key), fault });
            }
        }
    }
    Ok(report)
}

fn fault<E: Entity>(row: &DynamicEntity, unknown: &mut BTreeMap<String, u64>) -> Option<Fault> {
    let rewritten = || Ok::<_, Error>(DynamicEntity::of(&row.read_as::<E>()?)?);
    let written = match rewritten() {
        Ok(written) => written,
        Err(error) => return Some(Fault::Unreadable(error.to_string())),
    };
    if (&written.partition_key, &written.row_key) != (&row.partition_key, &row.row_key) {
        return Some(Fault::Key);
    }
    let mut differences = Vec::new();
    for (name, stored) in row.iter() {
        match written.get(name) {
            None => *unknown.entry(name.to_owned()).or_default() += 1,
            Some(value) => differences.extend(difference(name, stored, value)),
        }
    }
    let added = written.iter().filter(|(name, _)| row.get(name).is_none());
    differences.extend(added.map(|(name, _)| Difference::Added(name.to_owned())));
    (!differences.is_empty()).then_some(Fault::Properties(differences))
}

fn difference(name: &str, stored: &Value, written: &Value) -> Option<Difference> {
    let (was, would_be) = (stored.as_ref().edm_type().name(), written.as_ref().edm_type().name());
    if was != would_be {
        return Some(Difference::Type(name.to_owned(), was, would_be));
    }
    let is_same = match (stored, written) {
        // Compares bits, because NaN does not equal itself, and 0.0 equals -0.0.
        (Value::Double(stored), Value::Double(written)) => stored.to_bits() == written.to_bits(),
        _ => stored == written,
    };
    (!is_same).then(|| Difference::Value(name.to_owned()))
}
