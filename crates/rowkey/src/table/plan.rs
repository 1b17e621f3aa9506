//! A query as the filters of the requests it takes.
//!
//! Nearly always there is one. A list of alternatives that makes more comparisons than the service
//! allows is split over several.

use std::ops::Bound;

use rowkey_wire::edm::Value;
use rowkey_wire::filter::{self, Comparison, Filter, Operator};
use rowkey_wire::limits::MAX_COMPARISONS;

use super::cost::Cost;
use crate::error::{Error, Result};
use crate::key::address::Span;
use crate::service::listing::fingerprint;

/// What a query sends, checked and ready.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// The filter of each part, as OData text; `None` for no filter. There are no parts when
    /// nothing can match.
    pub(crate) filters: Vec<Option<String>>,
    /// What the most expensive part makes the service read.
    pub(crate) cost: Cost,
    /// `$select`, keys included.
    pub(crate) select: Option<Vec<String>>,
}

impl Plan {
    /// Plans a query of `span` (or of the whole table within `rows`) for what `filter` lets through.
    pub(crate) fn new(
        span: Option<&Span>,
        rows: (&Bound<String>, &Bound<String>),
        filter: Option<Filter>,
        select: Option<Vec<String>>,
    ) -> Result<Self> {
        let mut keys = Filter::And(Vec::new());
        if let Some(span) = span {
            keys = keys.and(Filter::compare("PartitionKey", Operator::Equal, &*span.partition_key));
        }
        for bound in row_bounds(rows) {
            keys = keys.and(bound);
        }
        let parts = split(filter.unwrap_or(Filter::And(Vec::new())), keys.comparisons())?;
        let mut cost = Cost::PointQuery;
        let mut filters = Vec::with_capacity(parts.len());
        for part in parts {
            let whole = keys.clone().and(part);
            cost = cost.max(Cost::of(&whole));
            if is_never(&whole) {
                continue;
            }
            filters.push(match &whole {
                Filter::And(all) if all.is_empty() => None,
                _ => Some(filter::print(&whole)),
            });
        }
        Ok(Self { filters, cost, select: select.map(with_keys) })
    }

    /// A number that stays the same for the same query on the same table, whichever process asks.
    ///
    /// Which entities there are and in what order depends on the table and the filters alone. The
    /// properties that are selected are left out: a token stays good when a type gets another one.
    pub(crate) fn fingerprint(&self, table: &str) -> u64 {
        let table = table.to_ascii_lowercase();
        let filters = self.filters.iter().map(|filter| filter.as_deref().unwrap_or_default());
        fingerprint([table.as_str()].into_iter().chain(filters))
    }
}

fn row_bounds((from, to): (&Bound<String>, &Bound<String>)) -> Vec<Filter> {
    if let (Bound::Included(from), Bound::Included(to)) = (from, to)
        && from == to
    {
        return vec![Filter::compare("RowKey", Operator::Equal, from.as_str())];
    }
    let bound = |bound: &Bound<String>, included, excluded| match bound {
        Bound::Included(row) => Some(Filter::compare("RowKey", included, row.as_str())),
        Bound::Excluded(row) => Some(Filter::compare("RowKey", excluded, row.as_str())),
        Bound::Unbounded => None,
    };
    [
        bound(from, Operator::GreaterOrEqual, Operator::Greater),
        bound(to, Operator::LessOrEqual, Operator::Less),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Splits a filter so that no part makes more comparisons than the service allows beside the
/// `keys` comparisons on the keys.
///
/// Only alternatives that exclude one another can be split (one property equal to one of several
/// values), for an entity must not come twice.
fn split(filter: Filter, keys: usize) -> Result<Vec<Filter>> {
    let total = keys + filter.comparisons();
    if total <= MAX_COMPARISONS {
        return Ok(vec![filter]);
    }
    let mut conditions = match filter {
        Filter::And(all) => all,
        other => vec![other],
    };
    let longest = conditions
        .iter()
        .enumerate()
        .filter(|(_, condition)| is_list(condition))
        .max_by_key(|(_, condition)| condition.comparisons())
        .map(|(at, condition)| (at, total - condition.comparisons()));
    let Some((at, beside)) = longest.filter(|(_, beside)| *beside < MAX_COMPARISONS) else {
        return Err(Error::invalid(format!(
            "the filter makes {total} comparisons, those on the keys included, and the service \
             allows {MAX_COMPARISONS}; only a list of values of one property can be split"
        )));
    };
    let Filter::Or(values) = conditions.swap_remove(at) else { return Ok(Vec::new()) };
    let mut distinct: Vec<Filter> = Vec::with_capacity(values.len());
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    let rest = Filter::And(conditions);
    Ok(distinct
        .chunks(MAX_COMPARISONS - beside)
        .map(|part| rest.clone().and(Filter::Or(part.to_vec())))
        .collect())
}

/// Whether one of the conditions is an empty list of alternatives.
fn is_never(filter: &Filter) -> bool {
    match filter {
        Filter::And(all) => all.iter().any(is_never),
        Filter::Or(any) => any.is_empty(),
        _ => false,
    }
}

/// Whether this says that one property equals one of several values of one type. (How the service
/// compares values of different types is not known well enough to say that they exclude another.)
fn is_list(filter: &Filter) -> bool {
    let Filter::Or(values) = filter else { return false };
    let mut first = None;
    values.iter().all(|value| match value {
        Filter::Compare(Comparison { property: name, operator: Operator::Equal, value }) => {
            // NaN is not equal to itself, so a list of it cannot be made distinct.
            !matches!(value, Value::Double(number) if number.is_nan())
                && *first.get_or_insert((name, value.edm_type())) == (name, value.edm_type())
        }
        _ => false,
    })
}

/// The names to select, with those that every result needs.
fn with_keys(select: Vec<String>) -> Vec<String> {
    let mut names: Vec<_> = ["PartitionKey", "RowKey", "Timestamp"].map(str::to_owned).into();
    for name in select {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYWHERE: (&Bound<String>, &Bound<String>) = (&Bound::Unbounded, &Bound::Unbounded);

    fn list(values: i32) -> Filter {
        Filter::Or((0..values).map(|n| Filter::compare("N", Operator::Equal, n)).collect())
    }

    fn span() -> Span {
        let (from, to) = (Bound::Included("a".into()), Bound::Excluded("b".into()));
        Span { partition_key: "p".into(), from, to }
    }

    #[test]
    fn a_partition_and_its_rows_come_before_the_filter() {
        let span = span();
        let filter = Filter::compare("N", Operator::Greater, 5);
        let plan = Plan::new(Some(&span), (&span.from, &span.to), Some(filter), None).unwrap();
        let expected = "PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b' and N gt 5";
        assert_eq!(plan.filters, [Some(expected.to_owned())]);
        assert_eq!(plan.cost, Cost::RangeQuery);
    }

    #[test]
    fn a_table_scan_without_a_filter_sends_none() {
        let plan = Plan::new(None, EVERYWHERE, None, None).unwrap();
        assert_eq!(plan.filters, [None]);
        assert_eq!(plan.cost, Cost::TableScan);
    }

    #[test]
    fn long_lists_are_split_so_that_each_part_makes_at_most_15_comparisons() {
        let span = span();
        let filter = list(40).and(Filter::compare("M", Operator::Less, 1));
        let plan = Plan::new(Some(&span), (&span.from, &span.to), Some(filter), None).unwrap();
        // Three comparisons on keys and one on M leave room for eleven values.
        assert_eq!(plan.filters.len(), 4);
        let mut values = 0;
        for text in plan.filters.iter().flatten() {
            let comparisons = filter::parse(text).unwrap().comparisons();
            assert!(comparisons <= MAX_COMPARISONS);
            values += comparisons - 4;
        }
        assert_eq!(values, 40);
    }

    #[test]
    fn a_value_given_twice_is_asked_for_once() {
        let filter = list(16).or(list(16));
        let plan = Plan::new(None, EVERYWHERE, Some(filter), None).unwrap();
        let asked: usize =
            plan.filters.iter().flatten().map(|t| filter::parse(t).unwrap().comparisons()).sum();
        assert_eq!(asked, 16);
    }

    #[test]
    fn alternatives_that_may_overlap_are_not_split() {
        let filter =
            Filter::Or((0..16).map(|n| Filter::compare("N", Operator::Greater, n)).collect());
        let error = Plan::new(None, EVERYWHERE, Some(filter), None).unwrap_err();
        assert!(error.to_string().contains("16 comparisons"), "{error}");
    }

    #[test]
    fn values_of_different_types_are_not_split() {
        let mixed = list(10).or(Filter::Or(
            (0..10).map(|n| Filter::compare("N", Operator::Equal, i64::from(n))).collect(),
        ));
        let error = Plan::new(None, EVERYWHERE, Some(mixed), None).unwrap_err();
        assert!(error.to_string().contains("20 comparisons"), "{error}");
    }

    #[test]
    fn an_empty_list_asks_for_nothing_and_costs_what_a_longer_one_does() {
        let span = span();
        let bounds = (&Bound::Unbounded, &Bound::Unbounded);
        let plan = Plan::new(Some(&span), bounds, Some(list(0)), None).unwrap();
        assert_eq!((plan.filters.len(), plan.cost), (0, Cost::PartitionScan));
        let other = Filter::compare("M", Operator::Less, 1).and(list(0));
        assert_eq!(Plan::new(None, EVERYWHERE, Some(other), None).unwrap().filters.len(), 0);
    }

    #[test]
    fn the_fingerprint_tells_queries_apart() {
        let plan = |n| Plan::new(None, EVERYWHERE, Some(list(n)), None).unwrap();
        assert_eq!(plan(3).fingerprint("Table"), plan(3).fingerprint("table"));
        assert_ne!(plan(3).fingerprint("table"), plan(2).fingerprint("table"));
        assert_ne!(plan(3).fingerprint("table"), plan(3).fingerprint("other"));
        let selected = |names: &[&str]| {
            let select = names.iter().map(|&name| name.to_owned()).collect();
            Plan::new(None, EVERYWHERE, Some(list(3)), Some(select)).unwrap()
        };
        assert_eq!(plan(3).fingerprint("table"), selected(&["A"]).fingerprint("table"));
        assert_eq!(plan(3).fingerprint("table"), selected(&["A", "B"]).fingerprint("table"));
        // Stored tokens depend on this number: it must never change.
        assert_eq!(plan(1).fingerprint("table"), FINGERPRINT_OF_N_EQ_0);
    }

    const FINGERPRINT_OF_N_EQ_0: u64 = 13_488_995_320_671_034_221;
}
