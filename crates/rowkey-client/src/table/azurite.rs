//! Filters for Azurite, which compares numbers as JavaScript does and not by their types.
//!
//! Azurite 3.37 stores an Int64 as text and all other numbers as JavaScript numbers. It responds
//! with 500 when it compares a constant such as `5L` with one of those, and evaluates `5 ne '5'` as
//! true. So the comparisons of a filter that covers several types of numbers are rewritten as
//! follows:
//!
//! | comparison | of an Int32 or a Double | of an Int64 |
//! |---|---|---|
//! | order | the constant that is a Double | the same: the text is converted |
//! | `eq` | the constant that is a Double | its text |
//! | `ne` | the constant that is a Double, and not its text | the same; also of a String that holds a number |
//!
//! Azurite does not accept a Double that is written with an exponent. Next to such a constant the
//! Int64 constant stays, behind a condition that holds for text only: JavaScript reads `' 1E400'`
//! as infinity when it compares it with a number, and sorts it before all digits when it compares
//! it with text.

use rowkey_wire::edm::Value;
use rowkey_wire::filter::{self, Comparison, Filter, Operator};

/// Rewrites a filter for Azurite.
pub(super) fn filter(text: &str) -> String {
    // The text was printed by us, so it parses.
    filter::parse(text).map_or_else(|_| text.to_owned(), |parsed| filter::print(&adapted(parsed)))
}

fn adapted(filter: Filter) -> Filter {
    match filter {
        Filter::And(all) => Filter::And(all.into_iter().map(adapted).collect()),
        Filter::Not(one) => Filter::Not(Box::new(adapted(*one))),
        Filter::Or(any) => alternatives(any),
        Filter::Compare(one) if is_of_number(&one, Operator::Equal) => equal(one),
        other => other,
    }
}

fn alternatives(any: Vec<Filter>) -> Filter {
    let doubles = any.iter().filter_map(|one| match one {
        Filter::Compare(Comparison { property, operator, value: Value::Double(value) })
            if *operator != Operator::Equal =>
        {
            Some((property.clone(), has_exponent(*value)))
        }
        _ => None,
    });
    let doubles: Vec<_> = doubles.collect();
    let of =
        |name: &str| doubles.iter().find(|(property, _)| property == name).map(|found| found.1);
    let adapted = any.into_iter().filter_map(|one| {
        let Filter::Compare(comparison) = one else { return Some(adapted(one)) };
        match (&comparison.value, of(&comparison.property)) {
            _ if comparison.operator == Operator::Equal => Some(equal(comparison)),
            (Value::Double(value), Some(false)) if comparison.operator == Operator::NotEqual => {
                let text =
                    Filter::compare(&*comparison.property, Operator::Equal, value.to_string());
                Some(Filter::Compare(comparison).and(Filter::Not(Box::new(text))))
            }
            (Value::Int32(_) | Value::Int64(_), Some(false)) => None,
            (Value::String(_), Some(false)) if comparison.operator == Operator::NotEqual => None,
            (Value::Int64(_) | Value::String(_), Some(true)) => {
                let number = Filter::compare(&*comparison.property, Operator::Less, " 1E400");
                Some(Filter::Not(Box::new(number)).and(Filter::Compare(comparison)))
            }
            _ => Some(Filter::Compare(comparison)),
        }
    });
    Filter::Or(adapted.collect())
}

fn is_of_number(comparison: &Comparison, operator: Operator) -> bool {
    comparison.operator == operator && matches!(comparison.value, Value::Int64(_))
}

/// Compares an Int64 as text.
fn equal(comparison: Comparison) -> Filter {
    match comparison.value {
        Value::Int64(value) => {
            Filter::compare(comparison.property, Operator::Equal, value.to_string())
        }
        value => Filter::Compare(Comparison { value, ..comparison }),
    }
}

/// Whether the double is written with an exponent.
fn has_exponent(value: f64) -> bool {
    filter::print(&Filter::compare("", Operator::Equal, value)).contains('E')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_literals_have_the_types_that_azurite_stores() {
        for (text, expected) in [
            ("N ge 1L or N ge 1 or N ge 1.0", "N ge 1.0"),
            ("N gt 66L or N gt 66 or N gt 66.5", "N gt 66.5"),
            ("N eq 5L or N eq 5 or N eq 5.0", "N eq '5' or N eq 5 or N eq 5.0"),
            ("N ne 5L or N ne 5 or N ne 5.0", "N ne 5.0 and not (N eq '5')"),
            ("N eq '5' or N eq 5L or N eq 5.0", "N eq '5' or N eq '5' or N eq 5.0"),
            ("N ne '5' or N ne 5L or N ne 5 or N ne 5.0", "N ne 5.0 and not (N eq '5')"),
            (
                "N ne '1000000000000001' or N ne 1.000000000000001E+15",
                "not (N lt ' 1E400') and N ne '1000000000000001' or N ne 1.000000000000001E+15",
            ),
            (
                "P eq 'a' and (N lt 1L or N lt 1 or N lt 1.0 or M eq 2) and not (N eq 7L)",
                "P eq 'a' and (N lt 1.0 or M eq 2) and not (N eq '7')",
            ),
            (
                "N lt 1000000000000001L or N le 2147483647 or N lt 1.000000000000001E+15",
                "not (N lt ' 1E400') and N lt 1000000000000001L or N le 2147483647 or \
                 N lt 1.000000000000001E+15",
            ),
            ("N ge 5L", "N ge 5L"),
            ("N ge 'x' or N ge 5.0", "N ge 'x' or N ge 5.0"),
            (
                "Name ge 'x' or At lt datetime'2026-01-01T00:00:00Z'",
                "Name ge 'x' or At lt datetime'2026-01-01T00:00:00Z'",
            ),
        ] {
            assert_eq!(filter(text), expected);
        }
    }
}
