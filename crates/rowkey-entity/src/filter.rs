//! Filters: conditions on properties, made of typed columns.
//!
//! - `typed`: a comparison for each type that values may be stored as · `numbers`: comparisons of
//!   numbers

use std::fmt;
use std::marker::PhantomData;

use rowkey_wire::edm::{DateTime, Type, Value, ValueRef};
use rowkey_wire::filter as wire;
use rowkey_wire::filter::Operator;

use self::typed::Stored;
use crate::FilterError;
use crate::arg::Arg;
use crate::entity::{Property, PropertyError, convert};
use crate::key::successor::text_successor;
use crate::odata::encode::is_valid_name;

mod numbers;
mod typed;

/// The Timestamp, the time of the last write: a column of every entity.
pub const TIMESTAMP: Column<DateTime> = Column::named("Timestamp");

/// A typed property, from which filters are made: `Employee::SALARY.ge(100_000.0)`.
///
/// The derive generates one for each property. An entity that lacks the property matches no
/// comparison, not even `ne`.
///
/// The service compares only values of the same type, and other programs may store a number as
/// another type than the field's. So a number is compared as each number type, which takes up to
/// three of the 15 comparisons that a query may have. If every row has the type of the field,
/// [`exact`](Self::exact) reduces them to one.
///
/// ```
/// use rowkey::{Column, Filter};
///
/// const SIZE: Column<i64> = Column::named("Size");
/// assert_eq!(SIZE.ge(5), Filter::raw("Size ge 5L or Size ge 5 or Size ge 5.0")?);
/// assert_eq!(SIZE.exact().ge(5), Filter::raw("Size ge 5L")?);
/// // Between two integers, the one before says the same.
/// const WEIGHT: Column<f64> = Column::named("Weight");
/// assert_eq!(WEIGHT.gt(2.5), Filter::raw("Weight gt 2.5 or Weight gt 2L or Weight gt 2")?);
/// # Ok::<(), rowkey::Error>(())
/// ```
pub struct Column<P> {
    name: &'static str,
    stored: Stored,
    property: PhantomData<fn() -> P>,
}

impl<P> Column<P> {
    /// The column with this name.
    pub const fn named(name: &'static str) -> Self {
        Self { name, stored: Stored { as_type: None, exact: false }, property: PhantomData }
    }

    /// The same column, for rows that all have the type that this program stores:
    /// `#[entity(exact)]`. Rows with another type then match no comparison.
    #[must_use]
    pub const fn exact(mut self) -> Self {
        self.stored.exact = true;
        self
    }

    /// The same column, for values that are stored as this type: `#[entity(as = "Int32")]`; `None`
    /// for their own type.
    ///
    /// Numbers, dates and GUIDs that are stored as text match [`is`](Self::is), [`ne`](Self::ne)
    /// and [`one_of`](Self::one_of), whether stored as this program writes them or as their own
    /// type; dates can also be compared with whole seconds by [`ge`](Self::ge) and
    /// [`lt`](Self::lt). A query refuses all other comparisons of them.
    #[must_use]
    pub const fn stored_as(mut self, stored: Option<Type>) -> Self {
        self.stored.as_type = stored;
        self
    }

    /// The property's name.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

macro_rules! comparisons {
    ($($name:ident $operator:ident $symbol:literal),*) => {$(
        #[doc = concat!("The property ", $symbol, " `value`.")]
        pub fn $name(self, value: impl Arg<P>) -> Filter {
            self.compare(Operator::$operator, value)
        }
    )*};
}

impl<P: Property> Column<P> {
    comparisons!(is Equal "=", ne NotEqual "≠", ge GreaterOrEqual "≥", gt Greater ">",
                 le LessOrEqual "≤", lt Less "<");

    /// The property is one of `values`. If there are none, nothing matches and nothing is sent.
    ///
    /// A filter that exceeds 15 comparisons, the service's limit, because of this list is split
    /// into several queries that run one after the other: one for each four or five numbers, unless
    /// the column is [`exact`](Self::exact). Results then come one part at a time, and not in key
    /// order over all parts.
    ///
    /// ```
    /// use rowkey::{Column, Filter};
    ///
    /// const CITY: Column<String> = Column::named("City");
    /// assert_eq!(CITY.one_of(["Leeds", "York"]), Filter::raw("City eq 'Leeds' or City eq 'York'")?);
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn one_of<T: Arg<P>>(self, values: impl IntoIterator<Item = T>) -> Filter {
        let filter = values
            .into_iter()
            .map(|value| self.compare(Operator::Equal, value))
            .try_fold(wire::Filter::Or(Vec::new()), |all, one| Ok(all.or(one.0?)));
        Filter(filter)
    }

    /// Converts a value to the form in which this property is stored; `None` leaves the property
    /// out.
    ///
    /// Fails if the stored type cannot represent the value.
    pub fn to_value(self, value: &P) -> Result<Option<Value>, PropertyError> {
        let Some(value) = value.to_value()? else { return Ok(None) };
        let stored = match self.stored.as_type {
            Some(stored) => convert::store(value, stored)?,
            None => value,
        };
        Ok(Some(ValueRef::into_owned(stored)))
    }

    /// Converts a stored value to the type of a field of this column.
    ///
    /// Fails if the type cannot be read from the value.
    pub fn from_value(self, value: ValueRef<'_>) -> Result<P, PropertyError> {
        match self.stored.as_type {
            Some(stored) => convert::load(value, stored),
            None => P::from_value(value),
        }
    }

    fn compare(self, operator: Operator, value: impl Arg<P>) -> Filter {
        let value = value.into_arg();
        Filter(match value.to_value() {
            Ok(Some(value)) => typed::compare(self.name, operator, &value, self.stored),
            Ok(None) => Err(PropertyError::new(
                "the service stores no nulls, so nothing can be compared with an absent value",
            )),
            Err(error) => Err(error),
        })
    }
}

impl<P: Property> Column<P>
where
    P: AsRef<str>,
{
    /// The text begins with `prefix`: a range over the property, ordinal and case-sensitive.
    ///
    /// ```
    /// use rowkey::{Column, Filter};
    ///
    /// const CITY: Column<String> = Column::named("City");
    /// assert_eq!(CITY.starts_with("Le"), Filter::raw("City ge 'Le' and City lt 'Lf'")?);
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn starts_with(self, prefix: &str) -> Filter {
        let from = wire::Filter::compare(self.name, Operator::GreaterOrEqual, prefix);
        Filter(Ok(match text_successor(prefix) {
            Some(end) => from.and(wire::Filter::compare(self.name, Operator::Less, end)),
            None => from,
        }))
    }
}

/// A condition on the properties of an entity.
#[derive(Clone, PartialEq)]
pub struct Filter(Result<wire::Filter, PropertyError>);

impl Filter {
    /// The comparison `name operator value`, for columns that are known only at run time;
    /// `operator` is `eq`, `ne`, `ge`, `gt`, `le` or `lt`.
    ///
    /// A query refuses a filter whose `name` is not a valid property name, so untrusted text cannot
    /// change the meaning of the filter.
    ///
    /// ```
    /// use rowkey::{Filter, Operator};
    ///
    /// let filter = Filter::dynamic("City", Operator::Equal, "O'Fallon");
    /// assert_eq!(filter, Filter::raw("City eq 'O''Fallon'")?);
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn dynamic(name: impl Into<String>, operator: Operator, value: impl Into<Value>) -> Self {
        Self(valid_name(name.into()).map(|name| wire::Filter::compare(name, operator, value)))
    }

    /// The comparison `name operator value` with a number, for columns that are known only at run time, in rows that may store
    /// numbers as any type.
    ///
    /// An Int32, Int64 or Double is compared as each type that stores numbers, as a [`Column`] of numbers does: that takes up to four of
    /// the 15 comparisons of a query. A value of another type is compared as itself. Names are checked as those of
    /// [`dynamic`](Self::dynamic) are.
    ///
    /// ```
    /// use rowkey::{Filter, Operator};
    ///
    /// let filter = Filter::number("Size", Operator::GreaterOrEqual, 5_i64);
    /// assert_eq!(filter, Filter::raw("Size ge 5L or Size ge 5 or Size ge 5.0")?);
    /// // No integer equals this number.
    /// assert_eq!(Filter::number("Size", Operator::Equal, 2.5), Filter::raw("Size eq 2.5")?);
    /// assert_eq!(Filter::number("City", Operator::Equal, "York"), Filter::raw("City eq 'York'")?);
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn number(name: impl Into<String>, operator: Operator, value: impl Into<Value>) -> Self {
        let (any, value) = (Stored { as_type: None, exact: false }, value.into());
        let compare = |name: String| typed::compare(&name, operator, &value.as_ref(), any);
        Self(valid_name(name.into()).and_then(compare))
    }

    /// Parses a filter from OData text, `Age gt 30 and City eq 'Leeds'`.
    ///
    /// Never insert a value into such text by hand: a `'` in it changes the meaning of the filter.
    /// The other constructors quote values for you.
    pub fn raw(odata: &str) -> Result<Self, FilterError> {
        Ok(Self(Ok(wire::parse(odata).map_err(FilterError)?)))
    }

    /// Both filters match.
    ///
    /// ```
    /// use rowkey::{Column, Filter};
    ///
    /// const CITY: Column<String> = Column::named("City");
    /// const OPEN: Column<bool> = Column::named("Open");
    /// let filter = CITY.is("Leeds").or(CITY.is("York")).and(!OPEN.is(false));
    /// assert_eq!(filter, Filter::raw("(City eq 'Leeds' or City eq 'York') and not (Open eq false)")?);
    /// assert_eq!(filter.columns().collect::<Vec<_>>(), ["City", "City", "Open"]);
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0.and_then(|this| Ok(this.and(other.0?))))
    }

    /// At least one of the filters matches.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0.and_then(|this| Ok(this.or(other.0?))))
    }

    /// The properties that the filter compares, each as often as it occurs; empty if the filter
    /// cannot be sent.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let mut names = Vec::new();
        if let Ok(filter) = &self.0 {
            columns(filter, &mut names);
        }
        names.into_iter()
    }

    /// The OData text that a query sends as `$filter`, without the conditions on the keys that the query adds.
    ///
    /// The text contains the values that are compared, so it belongs in no log. [`raw`](Self::raw) reads it. A filter that nothing
    /// can match, such as a list without values, is `false`; a query with it sends nothing. A list that exceeds the limit of
    /// [`comparisons`](Self::comparisons) is one text here, and several in the requests of a query.
    ///
    /// # Errors
    ///
    /// What was wrong with a comparison, for example an invalid name: a query would refuse the filter.
    ///
    /// ```
    /// use rowkey::{Column, Filter};
    ///
    /// const CITY: Column<String> = Column::named("City");
    /// let text = CITY.is("O'Fallon").and(!CITY.starts_with("Le")).to_odata()?;
    /// assert_eq!(text, "City eq 'O''Fallon' and not (City ge 'Le' and City lt 'Lf')");
    /// assert_eq!(Filter::raw(&text)?.to_odata()?, text);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_odata(&self) -> Result<String, PropertyError> {
        self.0.as_ref().map(wire::print).map_err(Clone::clone)
    }

    /// How many comparisons the filter makes; 0 if it cannot be sent. A request may make 15, those on its keys included.
    ///
    /// A query splits a list ([`Column::one_of`]) that makes more into several requests, and refuses other filters that do.
    ///
    /// ```
    /// use rowkey::{Column, Filter, Operator};
    ///
    /// const SIZE: Column<i64> = Column::named("Size");
    /// assert_eq!(SIZE.is(5).comparisons(), 3);
    /// assert_eq!(SIZE.exact().is(5).comparisons(), 1);
    /// assert_eq!(Filter::dynamic("no name", Operator::Equal, 5).comparisons(), 0);
    /// ```
    pub fn comparisons(&self) -> usize {
        self.0.as_ref().map_or(0, wire::Filter::comparisons)
    }

    #[doc(hidden)]
    pub fn into_wire(self) -> Result<wire::Filter, PropertyError> {
        self.0
    }
}

/// Refuses names that a property cannot have, so that text in their place cannot change the meaning of a filter.
fn valid_name(name: String) -> Result<String, PropertyError> {
    if is_valid_name(&name) || matches!(&*name, "PartitionKey" | "RowKey" | "Timestamp") {
        return Ok(name);
    }
    Err(PropertyError::new("the name cannot be that of a property"))
}

/// Adds the properties that occur in `filter`.
pub fn columns<'f>(filter: &'f wire::Filter, names: &mut Vec<&'f str>) {
    match filter {
        wire::Filter::And(all) | wire::Filter::Or(all) => {
            for one in all {
                columns(one, names);
            }
        }
        wire::Filter::Not(one) => columns(one, names),
        wire::Filter::Compare(comparison) => names.push(&comparison.property),
        wire::Filter::Property(name) => names.push(name),
        wire::Filter::Constant(_) => {}
    }
}

/// The filter does not match. True for an entity that lacks the property, unlike `ne`.
impl std::ops::Not for Filter {
    type Output = Self;

    fn not(self) -> Self {
        Self(self.0.map(|filter| wire::Filter::Not(Box::new(filter))))
    }
}

impl<P> Clone for Column<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Column<P> {}

impl<P> fmt::Debug for Column<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Column").field(&self.name).finish()
    }
}

impl fmt::Debug for Filter {
    /// Shows the filter as OData text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(filter) => f.debug_tuple("Filter").field(&wire::print(filter)).finish(),
            Err(error) => f.debug_tuple("Filter").field(error).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPERATORS: [Operator; 6] = [
        Operator::Equal,
        Operator::NotEqual,
        Operator::GreaterOrEqual,
        Operator::Greater,
        Operator::LessOrEqual,
        Operator::Less,
    ];

    #[test]
    fn a_number_of_a_column_known_at_run_time_is_compared_as_a_typed_column_is() {
        const WHOLE: Column<i64> = Column::named("N");
        const SMALL: Column<i32> = Column::named("N");
        const DOUBLE: Column<f64> = Column::named("N");
        for operator in OPERATORS {
            for n in [0, -7, i64::MAX, (1 << 53) + 1] {
                assert_eq!(Filter::number("N", operator, n), WHOLE.compare(operator, n));
            }
            for n in [0, i32::MIN] {
                assert_eq!(Filter::number("N", operator, n), SMALL.compare(operator, n));
            }
            for n in [0.5, -3.0, 1e300] {
                assert_eq!(Filter::number("N", operator, n), DOUBLE.compare(operator, n));
            }
            let text = Filter::number("N", operator, "5");
            assert_eq!(text, Filter::dynamic("N", operator, "5"), "text is no number");
        }
        // Between two doubles, `ne` compares with both.
        assert_eq!(Filter::number("N", Operator::NotEqual, (1_i64 << 53) + 1).comparisons(), 4);
    }

    #[test]
    fn a_filter_that_cannot_be_sent_has_no_text_and_no_comparisons() {
        let wrong = [
            Filter::number("N eq 1 or M", Operator::Equal, 5),
            Filter::dynamic("", Operator::Equal, 5),
            Column::<Option<i64>>::named("N").is(None::<i64>),
            Column::<i64>::named("N").stored_as(Some(Type::String)).gt(5),
        ];
        for wrong in wrong {
            let own = wrong.to_odata().unwrap_err();
            let part = Filter::dynamic("A", Operator::Equal, 1).and(!wrong);
            assert_eq!((part.to_odata(), part.comparisons()), (Err(own), 0), "{part:?}");
        }
    }

    #[test]
    fn the_text_of_a_filter_is_the_filter() {
        const CITY: Column<String> = Column::named("City");
        let size = || Filter::number("Size", Operator::Less, 5);
        let city = || CITY.one_of(["O'Fallon", "York"]);
        for (filter, text, comparisons) in [
            (size(), "Size lt 5 or Size lt 5L or Size lt 5.0", 3),
            (
                size().and(!city()),
                "(Size lt 5 or Size lt 5L or Size lt 5.0) and not (City eq 'O''Fallon' or City eq 'York')",
                5,
            ),
            (CITY.one_of([""; 0]), "false", 0),
            (Filter::raw("Open and Size gt 5").unwrap(), "Open and Size gt 5", 2),
        ] {
            assert_eq!(
                (filter.to_odata().as_deref(), filter.comparisons()),
                (Ok(text), comparisons)
            );
            assert_eq!(Filter::raw(text).unwrap().to_odata().as_deref(), Ok(text));
        }
    }
}
