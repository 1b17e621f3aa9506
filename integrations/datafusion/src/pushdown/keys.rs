//! Conditions on PartitionKey and RowKey, as sets of keys.

use std::ops::Bound;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, InListExpr, IsNotNullExpr, IsNullExpr,
};

use super::terms;
use crate::columns::{PARTITION_KEY, ROW_KEY};
use crate::keys::{Interval, KeySet};

/// The keys of exactly those entities for which a condition holds; `None` if it is about more than keys, or has no form as ranges.
pub(crate) fn exactly(condition: &Arc<dyn PhysicalExpr>) -> Option<KeySet> {
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        let both = || Some((exactly(binary.left())?, exactly(binary.right())?));
        return match binary.op() {
            Operator::And => both().and_then(|(left, right)| left.and(&right)),
            Operator::Or => both().and_then(|(left, right)| left.or(right)),
            _ => leaf(condition),
        };
    }
    leaf(condition)
}

/// Keys of all entities for which a condition holds, and maybe of others.
pub(crate) fn at_least(condition: &Arc<dyn PhysicalExpr>) -> KeySet {
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        let (left, right) = (|| at_least(binary.left()), || at_least(binary.right()));
        match binary.op() {
            Operator::And => {
                let (left, right) = (left(), right());
                return left.and(&right).unwrap_or(left);
            }
            Operator::Or => return left().or(right()).unwrap_or_else(KeySet::all),
            _ => {}
        }
    }
    // What a join of several partitions tells: the values of each of them.
    if let Some(case) = condition.downcast_ref::<CaseExpr>() {
        let results = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
        let all = results.map(at_least).try_fold(KeySet::none(), KeySet::or);
        return all.unwrap_or_else(KeySet::all);
    }
    leaf(condition).unwrap_or_else(KeySet::all)
}

fn leaf(condition: &Arc<dyn PhysicalExpr>) -> Option<KeySet> {
    if let Some(value) = terms::literal(condition) {
        return match value {
            ScalarValue::Boolean(Some(true)) => Some(KeySet::all()),
            // A condition that is NULL does not hold.
            ScalarValue::Boolean(_) => Some(KeySet::none()),
            _ => None,
        };
    }
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        let (column, operator, value) = terms::comparison(binary)?;
        if value.is_null() {
            // No key is NULL, and nothing is equal to NULL or greater.
            let is_any = *binary.op() == Operator::IsDistinctFrom;
            return of(column, is_any.then_some(Interval::ALL));
        }
        return of(column, intervals(operator, terms::text(value)?)?);
    }
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        let (column, values) = terms::list(list)?;
        let values = values.into_iter().filter(|value| !value.is_null());
        let values = values.map(|value| Some(Interval::one(terms::text(value)?)));
        return of(column, values.collect::<Option<Vec<_>>>()?);
    }
    if let Some(null) = condition.downcast_ref::<IsNullExpr>() {
        return of(terms::column(null.arg())?, []);
    }
    if let Some(present) = condition.downcast_ref::<IsNotNullExpr>() {
        return of(terms::column(present.arg())?, [Interval::ALL]);
    }
    let (column, prefix) = terms::prefix(condition)?;
    of(column, [Interval::prefix(&prefix)])
}

/// Entities of which this key is in one of the intervals; `None` for a column that is no key.
fn of(column: &str, intervals: impl IntoIterator<Item = Interval>) -> Option<KeySet> {
    match column {
        PARTITION_KEY => Some(KeySet::of_partitions(intervals)),
        ROW_KEY => Some(KeySet::of_rows(intervals)),
        _ => None,
    }
}

fn intervals(operator: Operator, key: &str) -> Option<Vec<Interval>> {
    let (included, excluded) = (Bound::Included(key.to_owned()), Bound::Excluded(key.to_owned()));
    let before = |to| Interval { from: Bound::Unbounded, to };
    let behind = |from| Interval { from, to: Bound::Unbounded };
    Some(match operator {
        Operator::Eq | Operator::IsNotDistinctFrom => vec![Interval::one(key)],
        Operator::NotEq | Operator::IsDistinctFrom => {
            vec![before(excluded.clone()), behind(excluded)]
        }
        Operator::Lt => vec![before(excluded)],
        Operator::LtEq => vec![before(included)],
        Operator::Gt => vec![behind(excluded)],
        Operator::GtEq => vec![behind(included)],
        _ => return None,
    })
}
