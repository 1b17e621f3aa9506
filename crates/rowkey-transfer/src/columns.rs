//! The properties of a table and their types, for formats whose header comes before the rows.

use std::collections::HashMap;

use rowkey_entity::edm::{DateTime, Type, Value};

use crate::error::Result;
use crate::row::{Row, check_name};

/// The properties of many rows and the types that they have there.
///
/// CSV and Parquet name all columns before the first row. [`Spool`](crate::Spool) collects the columns while it
/// keeps the rows; a program that reads its rows twice calls [`observe`](Self::observe) in the first pass. Memory
/// grows with the number of different names, not with the rows.
///
/// ```
/// use rowkey::DynamicEntity;
/// use rowkey::edm::Value;
/// use rowkey_transfer::{Columns, Row};
///
/// let mut columns = Columns::default();
/// for (key, age) in [("1", Value::Int32(36)), ("2", Value::from("36"))] {
///     let mut entity = DynamicEntity::new("sales", key);
///     entity.set("Age", age);
///     columns.observe(&Row::new(entity))?;
/// }
/// assert_eq!(columns.names().collect::<Vec<_>>(), ["Age"]);
/// assert_eq!(columns.types("Age").len(), 2);
/// # Ok::<(), rowkey_transfer::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Columns {
    list: Vec<Column>,
    by_name: HashMap<String, usize>,
    /// The earliest and the latest Timestamp.
    timestamps: Option<Span>,
    rows: u64,
}

/// One property.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// A bit for each type, by its code.
    types: u8,
    /// The earliest and the latest instant.
    pub(crate) instants: Option<Span>,
}

/// The earliest and the latest of some instants.
pub(crate) type Span = (DateTime, DateTime);

impl Columns {
    /// Adds the properties of a row.
    ///
    /// Fails for a property with a [reserved name](crate::ErrorKind::ReservedName), such as one that contains `@`.
    pub fn observe(&mut self, row: &Row) -> Result<()> {
        for (name, value) in row.entity.iter() {
            let at = match self.by_name.get(name) {
                Some(at) => *at,
                None => self.add(name)?,
            };
            let column = &mut self.list[at];
            column.types |= 1 << value.edm_type().code();
            if let Value::DateTime(instant) = value {
                extend(&mut column.instants, *instant);
            }
        }
        if let Some(timestamp) = row.timestamp {
            extend(&mut self.timestamps, timestamp);
        }
        self.rows += 1;
        Ok(())
    }

    /// The names of all properties, each in the order of its first row.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.list.iter().map(|column| column.name.as_str())
    }

    /// The types that a property has; none if no row has the property.
    pub fn types(&self, name: &str) -> Vec<Type> {
        self.by_name.get(name).map(|at| self.list[*at].types().collect()).unwrap_or_default()
    }

    /// Whether a row has a Timestamp.
    pub const fn has_timestamps(&self) -> bool {
        self.timestamps.is_some()
    }

    /// How many rows were observed.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// The position of a property among the [names](Self::names).
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    fn add(&mut self, name: &str) -> Result<usize> {
        check_name(name)?;
        let at = self.list.len();
        self.list.push(Column { name: name.to_owned(), types: 0, instants: None });
        self.by_name.insert(name.to_owned(), at);
        Ok(at)
    }
}

#[cfg(feature = "parquet")]
impl Columns {
    /// All properties in the order of their first row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Column> {
        self.list.iter()
    }

    pub(crate) const fn timestamps(&self) -> Option<Span> {
        self.timestamps
    }
}

impl Column {
    /// The types in the order of their codes.
    pub(crate) fn types(&self) -> impl Iterator<Item = Type> {
        Type::ALL.into_iter().filter(|known| self.types & 1 << known.code() != 0)
    }
}

fn extend(span: &mut Option<Span>, instant: DateTime) {
    let (earliest, latest) = span.get_or_insert((instant, instant));
    *earliest = instant.min(*earliest);
    *latest = instant.max(*latest);
}

#[cfg(test)]
mod tests {
    use rowkey_entity::DynamicEntity;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn columns_have_all_names_and_types_in_order() {
        let mut columns = Columns::default();
        let mut observe = |properties: &[(&str, Value)], timestamp| {
            let mut entity = DynamicEntity::new("p", "r");
            entity.properties.extend(properties.iter().cloned());
            columns.observe(&Row { entity, timestamp })
        };
        observe(&[("B", 1.into()), ("A", "x".into())], None).unwrap();
        observe(&[("A", 2.5.into())], Some(DateTime::MIN)).unwrap();
        observe(&[("C", DateTime::MAX.into()), ("B", 2.into())], Some(DateTime::MAX)).unwrap();
        let error = observe(&[("A@type", 1.into())], None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReservedName);
        assert_eq!(columns.names().collect::<Vec<_>>(), ["B", "A", "C"]);
        assert_eq!(columns.types("A"), [Type::Double, Type::String]);
        assert_eq!(columns.types("B"), [Type::Int32]);
        assert_eq!(columns.types("D"), []);
        assert!(columns.has_timestamps());
        assert_eq!((columns.rows(), columns.position("C")), (3, Some(2)));
    }
}
