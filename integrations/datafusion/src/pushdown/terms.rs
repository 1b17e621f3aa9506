//! Columns and literals in conditions.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, LikeExpr, Literal};

/// The column that an expression is.
pub(super) fn column(expression: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    expression.downcast_ref::<Column>().map(Column::name)
}

/// The literal that an expression is.
pub(super) fn literal(expression: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expression.downcast_ref::<Literal>().map(Literal::value)
}

/// `column operator literal`, also if it is written in the other order.
pub(super) fn comparison(expression: &BinaryExpr) -> Option<(&str, Operator, &ScalarValue)> {
    let (left, right) = (expression.left(), expression.right());
    if let (Some(column), Some(value)) = (column(left), literal(right)) {
        return Some((column, *expression.op(), value));
    }
    let operator = expression.op().swap()?;
    Some((column(right)?, operator, literal(left)?))
}

/// `column IN (literals)`.
pub(super) fn list(expression: &InListExpr) -> Option<(&str, Vec<&ScalarValue>)> {
    if expression.negated() {
        return None;
    }
    let values = expression.list().iter().map(literal).collect::<Option<_>>()?;
    Some((column(expression.expr())?, values))
}

/// `column LIKE 'prefix%'`, or `starts_with(column, 'prefix')`.
pub(super) fn prefix(expression: &Arc<dyn PhysicalExpr>) -> Option<(&str, String)> {
    if let Some(like) = expression.downcast_ref::<LikeExpr>() {
        if like.negated() || like.case_insensitive() {
            return None;
        }
        let pattern = text(literal(like.pattern())?)?;
        let prefix = pattern.strip_suffix('%')?;
        // A backslash escapes the next character.
        let is_plain = !prefix.contains(['%', '_', '\\']);
        return is_plain.then(|| Some((column(like.expr())?, prefix.to_owned()))).flatten();
    }
    let function = expression.downcast_ref::<ScalarFunctionExpr>()?;
    let [of, prefix] = function.args() else { return None };
    if function.name() != "starts_with" {
        return None;
    }
    Some((column(of)?, text(literal(prefix)?)?.to_owned()))
}

/// The text of a literal.
pub(super) fn text(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}
