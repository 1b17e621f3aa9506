//! Renders a filter as the text of `$filter`.
//!
//! The text is not percent-encoded; the caller encodes it when it puts it into a URL.

use super::{Comparison, Filter};
use crate::edm::ValueRef;

/// The text of `filter`, such as `PartitionKey eq 'o''clock' and Age gt 40`.
///
/// Parentheses are added only where the tree needs them. The operand of `not` always has them,
/// because OData parsers disagree on whether `not` binds tighter than a comparison. An empty
/// [`Filter::And`] is `true`, an empty [`Filter::Or`] is `false`.
///
/// NaN and the infinities are written `NaN`, `INF` and `-INF`, the spelling of OData 3 in URIs. In
/// JSON the infinities are spelled differently.
pub fn print(filter: &Filter) -> String {
    let mut out = String::new();
    write(filter, &mut out);
    out
}

/// Appends the text of `filter` to `out`. See [`print`](fn@print).
fn write(filter: &Filter, out: &mut String) {
    write_in(filter, Binding::Or, out);
}

/// The precedence of the surrounding operator; looser operands need parentheses.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binding {
    Or,
    And,
    Not,
}

fn write_in(filter: &Filter, around: Binding, out: &mut String) {
    match filter {
        Filter::And(all) => write_joined(all, " and ", "true", Binding::And, around, out),
        Filter::Or(any) => write_joined(any, " or ", "false", Binding::Or, around, out),
        Filter::Compare(comparison) if around == Binding::Not => {
            out.push('(');
            write_comparison(comparison, out);
            out.push(')');
        }
        Filter::Compare(comparison) => write_comparison(comparison, out),
        Filter::Not(inner) => {
            out.push_str("not ");
            write_in(inner, Binding::Not, out);
        }
        Filter::Property(name) => out.push_str(name),
        Filter::Constant(value) => ValueRef::Boolean(*value).write_literal(out),
    }
}

fn write_joined(
    parts: &[Filter],
    between: &str,
    empty: &str,
    own: Binding,
    around: Binding,
    out: &mut String,
) {
    match parts {
        [] => out.push_str(empty),
        [single] => write_in(single, around, out),
        [first, rest @ ..] => {
            let parentheses = own < around;
            if parentheses {
                out.push('(');
            }
            write_in(first, own, out);
            for part in rest {
                out.push_str(between);
                write_in(part, own, out);
            }
            if parentheses {
                out.push(')');
            }
        }
    }
}

fn write_comparison(comparison: &Comparison, out: &mut String) {
    out.push_str(&comparison.property);
    out.push(' ');
    out.push_str(comparison.operator.name());
    out.push(' ');
    comparison.value.as_ref().write_literal(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edm::Value;
    use crate::filter::Operator::{Equal, Greater, Less, LessOrEqual, NotEqual};

    fn text(property: &str, value: impl Into<Value>) -> String {
        print(&Filter::compare(property, Equal, value))
    }

    #[test]
    fn constants_are_written_as_the_recorded_sdks_write_them() {
        // azure-data-tables (Python), test_table_entity.test_query_user_filter_*; the live service
        // answered each with the entity.
        assert_eq!(text("binary", &b"binary"[..]), "binary eq X'62696e617279'");
        assert_eq!(text("married", true), "married eq true");
        assert_eq!(text("large_int", 1_099_511_627_776_i64), "large_int eq 1099511627776L");
        assert_eq!(print(&Filter::compare("ratio", Less, 4.1)), "ratio lt 4.1");
        assert_eq!(print(&Filter::compare("age", Less, 40)), "age lt 40");
        assert_eq!(
            text("clsid", "c9da6455-213d-42c9-9a79-3e9149a57833".parse::<uuid::Uuid>().unwrap()),
            "clsid eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'"
        );
        assert_eq!(
            text("Chars", r"?'/!_^#"),
            "Chars eq '?''/!_^#'",
            "test_table_entity.test_query_special_chars"
        );
        assert_eq!(
            text("PartitionKey", "foo' or RowKey eq 'bar2"),
            "PartitionKey eq 'foo'' or RowKey eq ''bar2'",
            "test_table_entity.test_query_injection"
        );
    }

    #[test]
    fn an_instant_is_written_in_utc_with_its_fraction() {
        let instant: crate::edm::DateTime = "2017-11-10T02:44:50.3846037Z".parse().unwrap();
        assert_eq!(
            text("Timestamp", instant),
            "Timestamp eq datetime'2017-11-10T02:44:50.3846037Z'"
        );
    }

    #[test]
    fn a_double_is_never_mistaken_for_an_integer() {
        for (value, expected) in [
            (3.0, "n eq 3.0"),
            (-0.5, "n eq -0.5"),
            (1e24, "n eq 1E+24"),
            (f64::NAN, "n eq NaN"),
            (f64::INFINITY, "n eq INF"),
            (f64::NEG_INFINITY, "n eq -INF"),
        ] {
            assert_eq!(text("n", value), expected);
        }
        assert_eq!(text("n", i32::MIN), "n eq -2147483648");
        assert_eq!(text("n", -5_i64), "n eq -5L");
        assert_eq!(text("n", ""), "n eq ''");
    }

    #[test]
    fn parentheses_appear_where_the_tree_needs_them() {
        let a = || Filter::compare("a", Equal, 1);
        let b = || Filter::compare("b", NotEqual, 2);
        let c = || Filter::compare("c", Greater, 3);
        let d = || Filter::compare("d", LessOrEqual, 4);
        for (filter, expected) in [
            (a().and(b()).or(c()), "a eq 1 and b ne 2 or c gt 3"),
            (a().or(b()).and(c()), "(a eq 1 or b ne 2) and c gt 3"),
            (a().or(b()).and(c().or(d())), "(a eq 1 or b ne 2) and (c gt 3 or d le 4)"),
            (Filter::And(vec![a(), Filter::And(vec![b(), c()])]), "a eq 1 and b ne 2 and c gt 3"),
            (Filter::Not(Box::new(a())), "not (a eq 1)"),
            (Filter::Not(Box::new(a())).and(b()), "not (a eq 1) and b ne 2"),
            (Filter::Not(Box::new(a().and(b()))), "not (a eq 1 and b ne 2)"),
            (Filter::Not(Box::new(Filter::Property("x".into()))), "not x"),
            (Filter::Not(Box::new(Filter::Not(Box::new(a())))), "not not (a eq 1)"),
            (Filter::And(vec![Filter::Or(vec![a()]), b()]), "a eq 1 and b ne 2"),
            (Filter::And(vec![]), "true"),
            (Filter::Or(vec![]), "false"),
            (Filter::Constant(true).and(Filter::Property("x".into())), "true and x"),
        ] {
            assert_eq!(print(&filter), expected);
        }
    }
}
