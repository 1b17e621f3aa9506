//! The cost of a query, derived from its filter alone.

use std::fmt;

use rowkey_wire::edm::Value;
use rowkey_wire::filter::{Comparison, Filter, Operator};

/// How much the service reads to answer a query, cheapest first.
///
/// The pair of PartitionKey and RowKey is the only index, so conditions on other properties make
/// the response smaller, but never the query cheaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cost {
    /// A PartitionKey and a RowKey: one entity.
    PointQuery,
    /// A PartitionKey and a range of the RowKey: the entities in that range.
    RangeQuery,
    /// A PartitionKey: every entity of the partition. An `or` between values of the RowKey is a
    /// partition scan, too.
    PartitionScan,
    /// No single PartitionKey: every entity of the table, or of a range of partitions.
    TableScan,
}

impl Cost {
    /// The cost of a query with this filter.
    pub(crate) fn of(filter: &Filter) -> Self {
        let mut conditions = Vec::new();
        conjunction(filter, &mut conditions);
        let on = |property: &str, operators: &[Operator]| {
            conditions.iter().any(|comparison| {
                comparison.property == property
                    && operators.contains(&comparison.operator)
                    && matches!(comparison.value, Value::String(_))
            })
        };
        let bounds =
            [Operator::Greater, Operator::GreaterOrEqual, Operator::Less, Operator::LessOrEqual];
        if !on("PartitionKey", &[Operator::Equal]) {
            Self::TableScan
        } else if on("RowKey", &[Operator::Equal]) {
            Self::PointQuery
        } else if on("RowKey", &bounds) {
            Self::RangeQuery
        } else {
            Self::PartitionScan
        }
    }
}

/// The comparisons that must all hold. Comparisons inside an `or` or a `not` do not narrow the
/// query.
fn conjunction<'a>(filter: &'a Filter, found: &mut Vec<&'a Comparison>) {
    match filter {
        Filter::And(all) => all.iter().for_each(|one| conjunction(one, found)),
        Filter::Compare(comparison) => found.push(comparison),
        Filter::Or(one) if one.len() == 1 => conjunction(&one[0], found),
        Filter::Constant(_) | Filter::Not(_) | Filter::Or(_) | Filter::Property(_) => {}
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PointQuery => "point query",
            Self::RangeQuery => "range query",
            Self::PartitionScan => "partition scan",
            Self::TableScan => "table scan",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(odata: &str) -> Cost {
        Cost::of(&rowkey_wire::filter::parse(odata).unwrap())
    }

    #[test]
    fn filter_costs_match_the_design_guide() {
        for (odata, expected) in [
            ("PartitionKey eq 'Sales' and RowKey eq '2'", Cost::PointQuery),
            ("RowKey eq '2' and (PartitionKey eq 'Sales' and Age gt 5)", Cost::PointQuery),
            ("PartitionKey eq 'Sales' and RowKey ge 'S' and RowKey lt 'T'", Cost::RangeQuery),
            ("PartitionKey eq 'Sales' and LastName eq 'Smith'", Cost::PartitionScan),
            ("PartitionKey eq 'Sales'", Cost::PartitionScan),
            (
                "PartitionKey eq 'Sales' and (RowKey eq '121' or RowKey eq '322')",
                Cost::PartitionScan,
            ),
            ("PartitionKey eq 'Sales' and not (RowKey lt 'S')", Cost::PartitionScan),
            ("PartitionKey eq 'Sales' and RowKey ne 'S'", Cost::PartitionScan),
            ("LastName eq 'Jones'", Cost::TableScan),
            ("RowKey eq '2'", Cost::TableScan),
            ("PartitionKey ge 'A' and PartitionKey lt 'B'", Cost::TableScan),
            ("PartitionKey eq 'a' or PartitionKey eq 'b'", Cost::TableScan),
        ] {
            assert_eq!(cost(odata), expected, "{odata}");
        }
    }
}
