//! The columns of a summary: their contents, and their update when one entity changes.

use rowkey_client::edm::{Value, ValueRef};
use rowkey_client::{Column, DynamicEntity, Error, ErrorKind, Property, Result};

/// The columns of a summary.
///
/// The summary stores values with the types of its columns; contributions store them with the types of the
/// entity's values.
pub(super) struct Columns<E>(pub(super) Vec<(&'static str, Kind<E>)>);

pub(super) enum Kind<E> {
    /// The number of entities.
    Count(Column<i64>),
    /// The sum of a number of each entity.
    Sum(Column<i64>, Box<dyn Fn(&E) -> i64 + Send + Sync>),
    /// The first value in an order.
    First { of: ValueOf<E>, order: Order },
}

type ValueOf<E> = Box<dyn Fn(&E) -> Result<Option<Value>> + Send + Sync>;

/// The order of the values of a column, and how a summary stores them.
pub(super) struct Order {
    precedes: Precedes,
    /// Whether a value has the type of the entity's values. Another program may have stored others.
    is_own: fn(&Value) -> bool,
    read: Conversion,
    write: Conversion,
}

/// Whether one value comes before another.
type Precedes = fn(&Value, &Value) -> Result<bool>;

type Conversion = Box<dyn Fn(&Value) -> Result<Option<Value>> + Send + Sync>;

impl Order {
    /// Smallest value first.
    pub(super) fn ascending<P: Property + Ord + 'static>(column: Column<P>) -> Self {
        Self::of(column, |a, b| Ok(own::<P>(a)? < own(b)?))
    }

    /// Greatest value first.
    pub(super) fn descending<P: Property + Ord + 'static>(column: Column<P>) -> Self {
        Self::of(column, |a, b| Ok(own::<P>(a)? > own(b)?))
    }

    fn of<P: Property + 'static>(column: Column<P>, precedes: Precedes) -> Self {
        Self {
            precedes,
            is_own: |value| P::from_value(value.as_ref()).is_ok(),
            read: Box::new(move |value| {
                let value = column.from_value(value.as_ref()).map_err(foreign)?;
                stored(column.name(), Some(&value))
            }),
            write: Box::new(move |value| {
                let value = column.to_value(&own(value)?);
                value.map_err(|error| untaken(column.name()).with_source(error))
            }),
        }
    }
}

fn own<P: Property>(value: &Value) -> Result<P> {
    P::from_value(value.as_ref()).map_err(foreign)
}

fn foreign(error: rowkey_client::entity::PropertyError) -> Error {
    let what = "a value in the view does not have the column's type";
    Error::refused(ErrorKind::Decode, what).with_source(error)
}

fn untaken(name: &str) -> Error {
    let what = format!("the entity has a value that the column `{name}` cannot store");
    Error::refused(ErrorKind::Invalid, what)
}

/// Converts a value of an entity to the form that a contribution stores.
pub(super) fn stored<P: Property>(name: &'static str, value: Option<&P>) -> Result<Option<Value>> {
    let Some(value) = value else { return Ok(None) };
    let value = value.to_value().map_err(|error| untaken(name).with_source(error));
    Ok(value?.map(ValueRef::into_owned))
}

impl<E> Columns<E> {
    /// Adds the values of `entity` to a contribution.
    pub(super) fn contribute(&self, entity: &E, contribution: &mut DynamicEntity) -> Result<()> {
        for (name, kind) in &self.0 {
            let value = match kind {
                Kind::Count(_) => None,
                Kind::Sum(_, of) => Some(of(entity).into()),
                Kind::First { of, .. } => of(entity)?,
            };
            if let Some(value) = value {
                contribution.set(*name, value);
            }
        }
        Ok(())
    }

    /// Sets the columns of a group without entities.
    pub(super) fn clear(&self, summary: &mut DynamicEntity) -> Result<()> {
        for (name, kind) in &self.0 {
            match kind {
                Kind::Count(column) | Kind::Sum(column, _) => set_sum(summary, *column, 0)?,
                Kind::First { .. } => drop(summary.remove(name)),
            }
        }
        Ok(())
    }

    /// Replaces `old` by `new` in `summary`. Returns whether that was possible: when the first
    /// value leaves, the new first value can only be found among the other contributions; and a summary that
    /// another program damaged cannot be adjusted. A value of a wrong type in a contribution counts as none.
    pub(super) fn replace(
        &self,
        summary: &mut DynamicEntity,
        old: Option<&DynamicEntity>,
        new: Option<&DynamicEntity>,
    ) -> Result<bool> {
        for (name, kind) in &self.0 {
            let (old_value, new_value) =
                (old.and_then(|row| row.get(name)), new.and_then(|row| row.get(name)));
            let is_known = match kind {
                Kind::Count(column) => {
                    step(summary, *column, i64::from(old.is_some()), i64::from(new.is_some()))?
                }
                Kind::Sum(column, _) => {
                    step(summary, *column, number(old_value), number(new_value))?
                }
                Kind::First { order, .. } => {
                    let Ok(first) = summary.get(name).map(&order.read).transpose() else {
                        return Ok(false);
                    };
                    let first = first.flatten();
                    let is_own = |value: &&Value| (order.is_own)(value);
                    let (old_value, new_value) =
                        (old_value.filter(is_own), new_value.filter(is_own));
                    let first =
                        match first_of(first.as_ref(), old_value, new_value, order.precedes)? {
                            First::New(first) => Some(first),
                            // Written again, because another program may have stored another type.
                            First::Same => first,
                            First::Unknown => return Ok(false),
                        };
                    let stored = first.as_ref().map(&order.write).transpose()?.flatten();
                    if let Some(stored) = stored {
                        summary.set(*name, stored);
                    }
                    true
                }
            };
            if !is_known {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Adjusts a number of the summary; returns `false` if the summary has none.
fn step(summary: &mut DynamicEntity, column: Column<i64>, old: i64, new: i64) -> Result<bool> {
    let sum = summary.get(column.name()).map(|sum| column.from_value(sum.as_ref()));
    let Some(Ok(sum)) = sum else { return Ok(false) };
    // In 128 bits, because subtracting a negative number may exceed 64.
    let sum = i64::try_from(i128::from(sum) - i128::from(old) + i128::from(new));
    set_sum(summary, column, sum.map_err(|_| too_large(column))?)?;
    Ok(true)
}

fn set_sum(summary: &mut DynamicEntity, column: Column<i64>, sum: i64) -> Result<()> {
    let value = column.to_value(&sum).map_err(|error| too_large(column).with_source(error))?;
    if let Some(value) = value {
        summary.set(column.name(), value);
    }
    Ok(())
}

fn too_large(column: Column<i64>) -> Error {
    let what = format!(
        "the sum `{}` of a group does not fit the type that it is stored as",
        column.name()
    );
    Error::refused(ErrorKind::TooLarge, what)
        .advise("sum up a coarser unit, make the groups smaller, or store it as an Int64")
}

fn number(value: Option<&Value>) -> i64 {
    if let Some(Value::Int64(number)) = value { *number } else { 0 }
}

/// The effect of a change of one value on the first value.
enum First {
    New(Value),
    Same,
    /// Only the other values can decide.
    Unknown,
}

fn first_of(
    first: Option<&Value>,
    old: Option<&Value>,
    new: Option<&Value>,
    precedes: Precedes,
) -> Result<First> {
    Ok(match (first, old, new) {
        (None, None, Some(new)) => First::New(new.clone()),
        // The new value comes first, whether or not the old value did.
        (Some(first), _, Some(new)) if !precedes(first, new)? => First::New(new.clone()),
        (Some(first), Some(old), _) if precedes(first, old)? => First::Same,
        (_, None, None) | (Some(_), None, Some(_)) => First::Same,
        (_, Some(_), _) => First::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns<i64> {
        let first = |name, order| {
            let of = Box::new(move |number: &i64| stored(name, Some(number)));
            (name, Kind::First { of, order })
        };
        Columns(vec![
            ("Count", Kind::Count(Column::named("Count"))),
            ("Sum", Kind::Sum(Column::named("Sum"), Box::new(|number| *number))),
            first("Min", Order::ascending::<i64>(Column::named("Min"))),
            first("Max", Order::descending::<i64>(Column::named("Max"))),
        ])
    }

    fn contribution(number: i64) -> DynamicEntity {
        let mut row = DynamicEntity::new("group", format!("from_{number}"));
        columns().contribute(&number, &mut row).unwrap();
        row
    }

    fn summary(numbers: &[i64]) -> DynamicEntity {
        let mut summary = DynamicEntity::new("group", "summary");
        columns().clear(&mut summary).unwrap();
        for number in numbers {
            let new = contribution(*number);
            assert!(columns().replace(&mut summary, None, Some(&new)).unwrap());
        }
        summary
    }

    #[test]
    fn replacing_a_contribution_equals_recomputing_or_is_unknown() {
        let numbers = [-2, 0, 3];
        for old in numbers.map(Some).into_iter().chain([None]) {
            for new in (-4..6).map(Some).chain([None]) {
                let mut replaced = summary(&numbers);
                let (before, after) = (old.map(contribution), new.map(contribution));
                let known = columns().replace(&mut replaced, before.as_ref(), after.as_ref());
                let mut left: Vec<_> = numbers.into_iter().filter(|n| Some(*n) != old).collect();
                left.extend(new);
                let is_first = old == Some(-2) && new.is_none_or(|new| new > -2);
                let is_last = old == Some(3) && new.is_none_or(|new| new < 3);
                assert_eq!(known.unwrap(), !is_first && !is_last, "{old:?} {new:?}");
                if !is_first && !is_last {
                    assert_eq!(replaced, summary(&left), "{old:?} {new:?}");
                }
            }
        }
    }

    #[test]
    fn a_missing_column_is_unknown() {
        let mut bare = DynamicEntity::new("group", "summary");
        assert!(!columns().replace(&mut bare, None, Some(&contribution(1))).unwrap());
    }

    #[test]
    fn a_sum_that_overflows_is_an_error() {
        let mut full = summary(&[i64::MAX]);
        let error = columns().replace(&mut full, None, Some(&contribution(1))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let (old, new) = (contribution(i64::MAX), contribution(i64::MIN));
        assert!(columns().replace(&mut full, Some(&old), Some(&contribution(-1))).is_ok());
        assert!(columns().replace(&mut full, None, Some(&new)).is_err(), "-1 and the least");
    }
}
