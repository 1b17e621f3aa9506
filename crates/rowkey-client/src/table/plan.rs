//! Plans a query: the filters of the requests it takes.
//!
//! Nearly all queries take one. A list of alternatives with more comparisons than the service
//! allows is split into several, and a range of values may be several ranges of keys.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use rowkey_entity::entity::RowReader;
use rowkey_entity::index::{INDEX_NAME, Index, PRIMARY_ROW_KEY, ROW_FORMAT};
use rowkey_entity::internals::{Between, RowKeys, Stretch};
use rowkey_wire::edm::{Type, Value};
use rowkey_wire::filter::{self, Comparison, Filter, Operator};
use rowkey_wire::limits::MAX_COMPARISONS;
use rowkey_wire::odata::Fields;

use super::cost::Cost;
use crate::error::{Error, Result};
use crate::paging::fingerprint;

/// The requests of a query, checked and ready to send.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// The filter of each part, as OData text; `None` for no filter. There are no parts if nothing
    /// can match.
    pub(crate) filters: Vec<Option<String>>,
    /// The PartitionKey, if the query reads one partition.
    pub(crate) partition: Option<String>,
    /// The cost of the most expensive part.
    pub(crate) cost: Cost,
    /// `$select`, keys included.
    pub(crate) select: Option<Vec<String>>,
    /// Checks that every matching row passes.
    checks: Vec<Arc<Between>>,
    /// The indexes whose copies are skipped.
    copies: &'static [&'static [Index]],
}

impl Plan {
    /// Plans a query of the rows in one or more partitions that match `filter`.
    pub(crate) fn new(
        partitions: &Stretch,
        rows: &RowKeys,
        filter: Option<Filter>,
        select: Option<Vec<String>>,
    ) -> Result<Self> {
        let filter = filter.unwrap_or(Filter::And(Vec::new()));
        let mut cost =
            if rows.stretches().is_empty() { Cost::RangeQuery } else { Cost::PointQuery };
        let mut filters = Vec::new();
        for stretch in rows.stretches() {
            let keys = bounds("PartitionKey", partitions).chain(bounds("RowKey", stretch));
            let keys = keys.fold(Filter::And(Vec::new()), Filter::and);
            for part in split(filter.clone(), keys.comparisons())? {
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
        }
        if filters.len() > MAX_PARTS {
            return Err(Error::too_large(format!(
                "the query is split into {} parts, and {MAX_PARTS} are allowed",
                filters.len()
            )));
        }
        let (checks, select) = (rows.checks().to_vec(), select.map(with_keys));
        let partition = match partitions {
            (Bound::Included(from), Bound::Included(to)) if from == to => Some(from.clone()),
            _ => None,
        };
        Ok(Self { filters, partition, cost, select, checks, copies: &[] })
    }

    /// Skips the copies of these indexes.
    #[must_use]
    pub(crate) fn without_copies(mut self, indexes: &'static [&'static [Index]]) -> Self {
        self.copies = indexes;
        if let Some(select) = self.select.as_mut().filter(|_| !indexes.is_empty()) {
            for name in [PRIMARY_ROW_KEY, INDEX_NAME, ROW_FORMAT] {
                if !select.iter().any(|known| known == name) {
                    select.push(name.to_owned());
                }
            }
        }
        self
    }

    /// Whether to skip a row that was received.
    pub(crate) fn passes_over(&self, row: &Fields<'_>) -> bool {
        if !self.copies.is_empty() && RowReader::new(row).is_beside(self.copies) {
            return true;
        }
        let is_meant = |row: &str| self.checks.iter().all(|check| check.contains(row));
        !self.checks.is_empty() && row.text("RowKey").is_some_and(|row| !is_meant(row))
    }

    /// A number that is the same for the same query on the same table, in every process.
    ///
    /// The set of entities and their order depend only on the table and the filters. The selected
    /// properties are left out: a token stays valid when a type gets another property.
    pub(crate) fn fingerprint(&self, table: &str) -> u64 {
        let table = table.to_ascii_lowercase();
        let filters = self.filters.iter().map(|filter| filter.as_deref().unwrap_or_default());
        let checks: Vec<_> = self.checks.iter().flat_map(|check| check.texts()).collect();
        fingerprint([&*table].into_iter().chain(filters).chain(checks.iter().map(String::as_str)))
    }
}

/// The maximum number of parts: continuation tokens have two bytes for the part.
const MAX_PARTS: usize = 1 << 16;

/// The conditions that a key lies within these bounds.
fn bounds(key: &'static str, (from, to): &Stretch) -> impl Iterator<Item = Filter> {
    let is_one = matches!((from, to), (Bound::Included(from), Bound::Included(to)) if from == to);
    let bound = |bound: &Bound<String>, included, excluded| match bound {
        Bound::Included(value) => Some(Filter::compare(key, included, value.as_str())),
        Bound::Excluded(value) => Some(Filter::compare(key, excluded, value.as_str())),
        Bound::Unbounded => None,
    };
    let both = if is_one {
        [bound(from, Operator::Equal, Operator::Equal), None]
    } else {
        [
            bound(from, Operator::GreaterOrEqual, Operator::Greater),
            bound(to, Operator::LessOrEqual, Operator::Less),
        ]
    };
    both.into_iter().flatten()
}

/// Splits a filter so that no part makes more comparisons than the service allows, including the
/// `keys` comparisons on the keys.
///
/// Only alternatives that exclude each other can be split (one property equal to one of several
/// values), because an entity must not be returned twice. Comparisons with one number as several
/// types stay together: it is not documented whether the service treats `5` and `5L` as equal, so
/// they must not be requested separately.
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
    let too_many = || {
        Error::invalid(format!(
            "the filter makes {total} comparisons, those on the keys included, and the service \
             allows {MAX_COMPARISONS}; only a list of values of one property can be split, and a number is \
             compared as each type that stores numbers unless the column is exact (`#[entity(exact)]`)"
        ))
    };
    let Some((at, beside)) = longest else { return Err(too_many()) };
    let Filter::Or(values) = conditions.swap_remove(at) else { return Ok(Vec::new()) };
    let room = MAX_COMPARISONS.saturating_sub(beside);
    let mut parts: Vec<Vec<Filter>> = Vec::new();
    for group in groups(values) {
        if group.len() > room {
            return Err(too_many());
        }
        match parts.last_mut().filter(|part| part.len() + group.len() <= room) {
            Some(part) => part.extend(group),
            None => parts.push(group),
        }
    }
    let rest = Filter::And(conditions);
    Ok(parts.into_iter().map(|part| rest.clone().and(Filter::Or(part))).collect())
}

/// The distinct comparisons of a list; those with one number form a group.
fn groups(values: Vec<Filter>) -> Vec<Vec<Filter>> {
    let mut groups: Vec<Vec<Filter>> = Vec::with_capacity(values.len());
    let mut places = HashMap::new();
    for value in values {
        let Filter::Compare(comparison) = &value else { continue };
        let Some(number) = number_of(&comparison.value) else {
            if !groups.iter().any(|group| group.contains(&value)) {
                groups.push(vec![value]);
            }
            continue;
        };
        let place = *places.entry(number).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) if group.contains(&value) => {}
            Some(group) => group.push(value),
            None => groups.push(vec![value]),
        }
    }
    groups
}

/// The identity of a number in a group: the integer, or the bits of a double that is not one.
fn number_of(value: &Value) -> Option<std::result::Result<i64, u64>> {
    match value {
        Value::Int32(value) => Some(Ok((*value).into())),
        Value::Int64(value) => Some(Ok(*value)),
        Value::Double(value) => Some(whole(*value).ok_or(value.to_bits())),
        _ => None,
    }
}

/// The double as an integer, if it is whole.
#[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
fn whole(value: f64) -> Option<i64> {
    let range = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    (value.fract() == 0.0 && range.contains(&value)).then_some(value as i64)
}

/// Whether one of the conditions is an empty list of alternatives.
fn is_never(filter: &Filter) -> bool {
    match filter {
        Filter::And(all) => all.iter().any(is_never),
        Filter::Or(any) => any.iter().all(is_never),
        _ => false,
    }
}

/// Whether the filter says that one property equals one of several values of one type, or one of
/// several numbers. (How the service compares values of different types is not documented well
/// enough to assume that they exclude each other.)
fn is_list(filter: &Filter) -> bool {
    let Filter::Or(values) = filter else { return false };
    let mut first = None;
    values.iter().all(|value| match value {
        Filter::Compare(Comparison { property: name, operator: Operator::Equal, value }) => {
            // NaN is not equal to itself, so duplicates of it cannot be removed from a list.
            !matches!(value, Value::Double(number) if number.is_nan())
                && *first.get_or_insert((name, kind(value))) == (name, kind(value))
        }
        _ => false,
    })
}

/// The type of a value, the same for all numbers.
fn kind(value: &Value) -> Type {
    match value.edm_type() {
        Type::Int32 | Type::Double => Type::Int64,
        other => other,
    }
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

    fn one_partition() -> Stretch {
        (Bound::Included("p".into()), Bound::Included("p".into()))
    }

    fn rows() -> RowKeys {
        RowKeys::within(Bound::Included("a".into()), Bound::Excluded("b".into()))
    }

    /// A plan for some rows of a partition.
    fn within(filter: Filter) -> Plan {
        Plan::new(&one_partition(), &rows(), Some(filter), None).unwrap()
    }

    /// A plan for the whole table.
    fn everywhere(filter: Option<Filter>) -> Result<Plan> {
        Plan::new(&(Bound::Unbounded, Bound::Unbounded), &RowKeys::beginning_with(""), filter, None)
    }

    fn list(values: i32) -> Filter {
        Filter::Or((0..values).map(|n| Filter::compare("N", Operator::Equal, n)).collect())
    }

    #[test]
    fn a_partition_and_its_rows_come_before_the_filter() {
        let filter = Filter::compare("N", Operator::Greater, 5);
        let plan = within(filter);
        let expected = "PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b' and N gt 5";
        assert_eq!(plan.filters, [Some(expected.to_owned())]);
        assert_eq!(plan.cost, Cost::RangeQuery);
    }

    #[test]
    fn a_table_scan_without_a_filter_sends_none() {
        let plan = everywhere(None).unwrap();
        assert_eq!(plan.filters, [None]);
        assert_eq!(plan.cost, Cost::TableScan);
    }

    #[test]
    fn long_lists_are_split_into_queries_of_at_most_15_comparisons() {
        let filter = list(40).and(Filter::compare("M", Operator::Less, 1));
        let plan = within(filter);
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
    fn a_duplicate_value_is_queried_once() {
        let filter = list(16).or(list(16));
        let plan = everywhere(Some(filter)).unwrap();
        let asked: usize =
            plan.filters.iter().flatten().map(|t| filter::parse(t).unwrap().comparisons()).sum();
        assert_eq!(asked, 16);
    }

    #[test]
    fn alternatives_that_may_overlap_are_not_split() {
        let filter =
            Filter::Or((0..16).map(|n| Filter::compare("N", Operator::Greater, n)).collect());
        let error = everywhere(Some(filter)).unwrap_err();
        assert!(error.to_string().contains("16 comparisons"), "{error}");
    }

    #[test]
    fn values_of_different_types_are_not_split() {
        let mixed = list(10).or(Filter::Or(
            (0..10).map(|n| Filter::compare("N", Operator::Equal, n.to_string())).collect(),
        ));
        let error = everywhere(Some(mixed)).unwrap_err();
        assert!(error.to_string().contains("20 comparisons"), "{error}");
        assert!(error.to_string().contains("exact"), "{error}");
    }

    #[test]
    fn comparisons_of_one_number_as_several_types_stay_in_one_query() {
        let of = |value: Value| Filter::compare("N", Operator::Equal, value);
        let number = |n: i32| {
            let types = [Value::Int64(n.into()), Value::Int32(n), Value::Double(n.into())];
            types.into_iter().map(of)
        };
        // The order of the alternatives does not matter.
        let mut all: Vec<_> = (0..12).flat_map(number).collect();
        all.sort_by_key(|filter| filter::print(filter).contains('L'));
        all.push(of(Value::Double(0.5)));
        let plan = within(Filter::Or(all));
        // Three comparisons on keys leave room for four numbers.
        assert_eq!(plan.filters.len(), 4);
        let mut parts = Vec::new();
        for (part, text) in plan.filters.iter().flatten().enumerate() {
            assert!(filter::parse(text).unwrap().comparisons() <= MAX_COMPARISONS);
            for n in 0..12 {
                let here = [format!("N eq {n}L"), format!("N eq {n}.0")];
                let found = here.iter().filter(|one| text.contains(one.as_str())).count();
                assert!(found == 0 || found == 2, "{text}");
                parts.extend((found == 2).then_some((n, part)));
            }
        }
        assert_eq!(parts.len(), 12, "{parts:?}");
        let whole = |double| number_of(&Value::Double(double));
        assert_eq!(whole(-0.0), number_of(&Value::Int32(0)));
        assert_eq!(whole(1e15), number_of(&Value::Int64(1_000_000_000_000_000)));
        assert_ne!(whole(f64::INFINITY), whole(f64::NEG_INFINITY));
    }

    #[test]
    fn alternatives_that_cannot_match_send_no_request() {
        let never = || Filter::Or(Vec::new());
        assert_eq!(within(Filter::Or(vec![never(), never()])).filters.len(), 0);
        assert_eq!(within(never().or(list(1))).filters.len(), 1);
    }

    #[test]
    fn disjoint_row_ranges_are_queried_in_sequence() {
        let one = |row: &str| (Bound::Included(row.to_owned()), Bound::Included(row.to_owned()));
        let rows = RowKeys::new(vec![one("a"), one("c")], None);
        let plan = Plan::new(&one_partition(), &rows, Some(list(20)), None).unwrap();
        let rows: Vec<_> =
            plan.filters.iter().flatten().filter_map(|text| text.split(" and ").nth(1)).collect();
        assert_eq!(rows, ["RowKey eq 'a'", "RowKey eq 'a'", "RowKey eq 'c'", "RowKey eq 'c'"]);
        let none = RowKeys::new(vec![], None);
        let plan = Plan::new(&one_partition(), &none, None, None).unwrap();
        assert_eq!((plan.filters.len(), plan.cost), (0, Cost::RangeQuery));
    }

    #[test]
    fn an_empty_list_sends_no_request_and_has_the_cost_of_a_longer_one() {
        let all = RowKeys::beginning_with("");
        let plan = Plan::new(&one_partition(), &all, Some(list(0)), None).unwrap();
        assert_eq!((plan.filters.len(), plan.cost), (0, Cost::PartitionScan));
        let other = Filter::compare("M", Operator::Less, 1).and(list(0));
        assert_eq!(everywhere(Some(other)).unwrap().filters.len(), 0);
    }

    #[test]
    fn different_queries_have_different_fingerprints() {
        let plan = |n| everywhere(Some(list(n))).unwrap();
        assert_eq!(plan(3).fingerprint("Table"), plan(3).fingerprint("table"));
        assert_ne!(plan(3).fingerprint("table"), plan(2).fingerprint("table"));
        assert_ne!(plan(3).fingerprint("table"), plan(3).fingerprint("other"));
        let selected = |names: &[&str]| {
            let select = names.iter().map(|&name| with_keys(vec![name.to_owned()])).next();
            Plan { select, ..plan(3) }.without_copies(&[&[]])
        };
        assert_eq!(plan(3).fingerprint("table"), selected(&["A"]).fingerprint("table"));
        assert_eq!(plan(3).fingerprint("table"), selected(&["A", "B"]).fingerprint("table"));
        // Stored tokens contain this number: it must never change.
        assert_eq!(plan(1).fingerprint("table"), FINGERPRINT_OF_N_EQ_0);
    }

    const FINGERPRINT_OF_N_EQ_0: u64 = 13_488_995_320_671_034_221;
}
