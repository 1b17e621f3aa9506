//! What of a query's conditions the service decides: ranges of keys, and a filter of properties.
//!
//! Conditions on keys become ranges, exactly. Conditions on properties become a filter that makes responses smaller and may let other
//! rows through, so the engine checks them again. A missing property is NULL in SQL, and matches no comparison of the service: the
//! two agree, except for `not`, which is never sent.
//!
//! - `keys`: conditions on PartitionKey and RowKey · `properties`: conditions on the others · `terms`: columns and literals

mod keys;
mod properties;
mod terms;

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use rowkey::Filter;

pub(crate) use keys::{at_least, exactly};

/// The most comparisons that the service takes in a filter.
const COMPARISONS: usize = 15;
/// Those that the bounds of a range of keys take at most, and the discriminator of a type.
const OF_KEYS: usize = 5;
/// The most bytes of a filter: encoded, each may take three of a URL, which has at most 64 KiB.
const BYTES: usize = 12_000;

/// The filter of properties that all of these conditions allow, as far as it fits into a request.
pub(crate) fn filter(conditions: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> Option<Filter> {
    let mut parts = Vec::new();
    for condition in conditions {
        conjuncts(condition, &mut parts);
    }
    let is_bounded =
        |column: &str| parts.iter().any(|part| properties::is_bounded_above(part, column, schema));
    let filters = parts.iter().filter_map(|part| properties::filter(part, schema, &is_bounded));
    let mut filters: Vec<_> = filters.map(|filter| (filter.comparisons(), filter)).collect();
    // Short ones first: equality of text takes one comparison, and of a number three.
    filters.sort_by_key(|(comparisons, _)| *comparisons);
    let (mut left, mut bytes) = (COMPARISONS - OF_KEYS, BYTES);
    let mut all: Option<Filter> = None;
    for (comparisons, filter) in filters {
        // A name that no property can have has no text.
        let text = filter.to_odata().map_or(usize::MAX, |text| text.len());
        if comparisons > 0 && comparisons <= left && text <= bytes {
            (left, bytes) = (left - comparisons, bytes - text);
            all = Some(match all {
                Some(all) => all.and(filter),
                None => filter,
            });
        }
    }
    all
}

/// The conditions that must all hold.
fn conjuncts(condition: &Arc<dyn PhysicalExpr>, all: &mut Vec<Arc<dyn PhysicalExpr>>) {
    match condition.downcast_ref::<BinaryExpr>() {
        Some(both) if *both.op() == Operator::And => {
            conjuncts(both.left(), all);
            conjuncts(both.right(), all);
        }
        _ => all.push(Arc::clone(condition)),
    }
}
