//! Compares numbers that may be stored as any number type.
//!
//! The service compares a constant only with stored values of the constant's own type. So there is
//! a comparison for each type. Its constant is the number in that type; if the type cannot
//! represent the number, it is the nearest constant with which the comparison has the same result.

use rowkey_wire::edm::{Type, Value};
use rowkey_wire::filter::{Filter, Operator};

/// The types that store numbers.
pub(super) const NUMBERS: [Type; 3] = [Type::Int64, Type::Int32, Type::Double];

/// The number that a column is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(i64),
    Double(f64),
}

/// The position of a number among the integers.
enum Position {
    /// It equals this integer.
    At(i128),
    /// It is between this integer and the next.
    After(i128),
    /// It is NaN.
    NotANumber,
}

/// `name operator number` for values that are stored as `stored`; an empty list of alternatives if
/// no value can match.
pub(super) fn compare(name: &str, operator: Operator, number: Number, stored: Type) -> Filter {
    let alternative = match stored {
        Type::Int32 => integers(operator, number, (i32::MIN.into(), i32::MAX.into())),
        Type::Int64 => integers(operator, number, (i64::MIN.into(), i64::MAX.into())),
        _ => return doubles(name, operator, number),
    };
    let Some((operator, value)) = alternative else { return never() };
    let value = match i32::try_from(value) {
        Ok(value) if stored == Type::Int32 => Value::Int32(value),
        // The value is in the range of the type.
        _ => Value::Int64(i64::try_from(value).unwrap_or(i64::MAX)),
    };
    Filter::compare(name, operator, value)
}

/// A filter that matches nothing.
fn never() -> Filter {
    Filter::Or(Vec::new())
}

/// The comparison that is equivalent to `operator number` for integers from `least` to `most`;
/// `None` if it holds for none of them.
fn integers(
    operator: Operator,
    number: Number,
    (least, most): (i128, i128),
) -> Option<(Operator, i128)> {
    use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let all = Some((LessOrEqual, most));
    let (whole, behind) = match position(number) {
        Position::At(whole) => (Some(whole), whole),
        Position::After(before) => (None, before),
        Position::NotANumber => return all.filter(|_| operator == NotEqual),
    };
    let in_range = whole.filter(|whole| (least..=most).contains(whole));
    match (operator, in_range) {
        (_, Some(whole)) => Some((operator, whole)),
        (Equal, None) => None,
        (NotEqual, None) => all,
        // The number is between two integers, or outside the range.
        (GreaterOrEqual | Greater, None) if behind < least => all,
        (GreaterOrEqual | Greater, None) => {
            Some((Greater, behind)).filter(|(_, value)| *value < most)
        }
        (LessOrEqual | Less, None) if behind >= most => all,
        (LessOrEqual | Less, None) => {
            Some((LessOrEqual, behind)).filter(|(_, value)| *value >= least)
        }
    }
}

fn position(number: Number) -> Position {
    match number {
        Number::Whole(whole) => Position::At(whole.into()),
        Number::Double(double) if double.is_nan() => Position::NotANumber,
        Number::Double(double) => {
            let floor = whole_of(double.floor());
            if double.fract() == 0.0 { Position::At(floor) } else { Position::After(floor) }
        }
    }
}

/// A whole double as an integer, saturated to 128 bits.
#[expect(clippy::cast_possible_truncation, reason = "it is whole; beyond 128 bits it saturates")]
fn whole_of(double: f64) -> i128 {
    double as i128
}

fn doubles(name: &str, operator: Operator, number: Number) -> Filter {
    use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let whole = match number {
        Number::Double(double) => return Filter::compare(name, operator, double),
        Number::Whole(whole) => whole,
    };
    #[expect(clippy::cast_precision_loss, reason = "the neighbours are found from the nearest")]
    let nearest = whole as f64;
    let (below, above) = match whole_of(nearest).cmp(&whole.into()) {
        std::cmp::Ordering::Equal => return Filter::compare(name, operator, nearest),
        std::cmp::Ordering::Less => (nearest, nearest.next_up()),
        std::cmp::Ordering::Greater => (nearest.next_down(), nearest),
    };
    match operator {
        Equal => never(),
        // All values, including NaN.
        NotEqual => {
            Filter::compare(name, NotEqual, below).or(Filter::compare(name, NotEqual, above))
        }
        Greater | GreaterOrEqual => Filter::compare(name, GreaterOrEqual, above),
        Less | LessOrEqual => Filter::compare(name, LessOrEqual, below),
    }
}

#[cfg(test)]
mod tests {
    use Number::{Double, Whole};
    use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};

    use super::*;

    fn check(operator: Operator, number: Number, expected: [&str; 3]) {
        let texts = NUMBERS
            .map(|stored| rowkey_wire::filter::print(&compare("N", operator, number, stored)));
        assert_eq!(texts, expected, "{operator:?} {number:?}");
    }

    #[test]
    fn each_type_is_compared_with_the_number_as_it_stores_it() {
        check(GreaterOrEqual, Whole(1), ["N ge 1L", "N ge 1", "N ge 1.0"]);
        check(NotEqual, Whole(-5), ["N ne -5L", "N ne -5", "N ne -5.0"]);
        check(Equal, Double(3.0), ["N eq 3L", "N eq 3", "N eq 3.0"]);
        check(Equal, Double(-0.0), ["N eq 0L", "N eq 0", "N eq -0.0"]);
    }

    #[test]
    fn between_two_integers_it_is_compared_with_the_one_before() {
        check(Less, Double(0.5), ["N le 0L", "N le 0", "N lt 0.5"]);
        check(LessOrEqual, Double(-0.5), ["N le -1L", "N le -1", "N le -0.5"]);
        check(Greater, Double(0.5), ["N gt 0L", "N gt 0", "N gt 0.5"]);
        check(GreaterOrEqual, Double(-0.5), ["N gt -1L", "N gt -1", "N ge -0.5"]);
        check(Equal, Double(0.5), ["false", "false", "N eq 0.5"]);
        let all = ["N le 9223372036854775807L", "N le 2147483647", "N ne 0.5"];
        check(NotEqual, Double(0.5), all);
    }

    #[test]
    fn beyond_the_range_of_a_type_all_of_it_matches_or_none() {
        let far = Whole(1 << 40);
        check(Equal, far, ["N eq 1099511627776L", "false", "N eq 1099511627776.0"]);
        check(NotEqual, far, ["N ne 1099511627776L", "N le 2147483647", "N ne 1099511627776.0"]);
        check(Less, far, ["N lt 1099511627776L", "N le 2147483647", "N lt 1099511627776.0"]);
        check(Greater, far, ["N gt 1099511627776L", "false", "N gt 1099511627776.0"]);
        let low = Whole(-(1 << 40));
        check(LessOrEqual, low, ["N le -1099511627776L", "false", "N le -1099511627776.0"]);
        check(
            GreaterOrEqual,
            low,
            ["N ge -1099511627776L", "N le 2147483647", "N ge -1099511627776.0"],
        );
        let all = ["N le 9223372036854775807L", "N le 2147483647"];
        check(Less, Double(1e300), [all[0], all[1], "N lt 1E+300"]);
        check(Greater, Double(f64::INFINITY), ["false", "false", "N gt INF"]);
        check(NotEqual, Double(f64::NAN), [all[0], all[1], "N ne NaN"]);
        check(GreaterOrEqual, Double(f64::NAN), ["false", "false", "N ge NaN"]);
    }

    #[test]
    fn between_two_doubles_it_is_compared_with_the_next_one() {
        let between = Whole(9_007_199_254_740_993);
        let own = |operator| format!("N {operator} 9007199254740993L");
        let (below, above) = ("9007199254740992.0", "9007199254740994.0");
        let double = |operator| {
            let filter = compare("N", operator, between, Type::Double);
            let text = rowkey_wire::filter::print(&filter);
            text.replace("9.007199254740992E+15", below).replace("9.007199254740994E+15", above)
        };
        assert_eq!(double(Greater), format!("N ge {above}"));
        assert_eq!(double(GreaterOrEqual), format!("N ge {above}"));
        assert_eq!(double(Less), format!("N le {below}"));
        assert_eq!(double(LessOrEqual), format!("N le {below}"));
        assert_eq!(double(NotEqual), format!("N ne {below} or N ne {above}"));
        let list = [&*own("eq"), "false", "false"];
        check(Equal, between, list);
    }
}
