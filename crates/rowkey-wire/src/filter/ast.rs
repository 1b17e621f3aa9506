//! The syntax tree of a filter.

use std::cmp::Ordering;

use crate::edm::Value;

/// A condition on an entity's properties.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// All of these hold. Empty: always true.
    And(Vec<Filter>),
    /// A property compared with a constant.
    Compare(Comparison),
    /// The inner condition does not hold.
    Not(Box<Filter>),
    /// At least one of these holds. Empty: never true.
    Or(Vec<Filter>),
    /// A Boolean property on its own, `active`.
    Property(String),
    /// `true` or `false` on its own.
    Constant(bool),
}

/// `property operator value`. An entity without the property does not match, whatever the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The property's name; `PartitionKey`, `RowKey` and `Timestamp` too.
    pub property: String,
    /// How they are compared.
    pub operator: Operator,
    /// The constant. It must have the type of the stored value.
    pub value: Value,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `eq`.
    Equal,
    /// `ge`.
    GreaterOrEqual,
    /// `gt`.
    Greater,
    /// `le`.
    LessOrEqual,
    /// `lt`.
    Less,
    /// `ne`.
    NotEqual,
}

impl Operator {
    /// The operator's name on the wire, such as `eq`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "eq",
            Self::GreaterOrEqual => "ge",
            Self::Greater => "gt",
            Self::LessOrEqual => "le",
            Self::Less => "lt",
            Self::NotEqual => "ne",
        }
    }

    /// Whether a value that compares so with the constant meets the comparison.
    #[inline]
    pub const fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Greater => order.is_gt(),
            Self::LessOrEqual => order.is_le(),
            Self::Less => order.is_lt(),
            Self::NotEqual => order.is_ne(),
        }
    }

    /// The equivalent operator with exchanged sides: `5 lt x` is `x gt 5`.
    #[must_use]
    pub const fn mirrored(self) -> Self {
        match self {
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::Greater => Self::Less,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Less => Self::Greater,
            same => same,
        }
    }
}

/// A conjunction or disjunction of two conditions, without another of its kind inside.
macro_rules! joined {
    ($kind:ident, $one:expr, $other:expr) => {
        match ($one, $other) {
            (Filter::$kind(mut a), Filter::$kind(b)) => {
                a.extend(b);
                Filter::$kind(a)
            }
            (Filter::$kind(mut a), b) => {
                a.push(b);
                Filter::$kind(a)
            }
            (a, Filter::$kind(mut b)) => {
                b.insert(0, a);
                Filter::$kind(b)
            }
            (a, b) => Filter::$kind(vec![a, b]),
        }
    };
}

impl Filter {
    /// `property operator value`.
    pub fn compare(
        property: impl Into<String>,
        operator: Operator,
        value: impl Into<Value>,
    ) -> Self {
        Self::Compare(Comparison { property: property.into(), operator, value: value.into() })
    }

    /// Both conditions. Nested conjunctions are flattened.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        joined!(And, self, other)
    }

    /// At least one condition. Nested disjunctions are flattened.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        joined!(Or, self, other)
    }

    /// Both conditions, or only the second if there is no first.
    #[must_use]
    pub fn narrowed(before: Option<Self>, by: Self) -> Self {
        match before {
            Some(before) => before.and(by),
            None => by,
        }
    }

    /// The number of comparisons in the filter; the service allows
    /// [`MAX_COMPARISONS`](crate::limits::MAX_COMPARISONS).
    pub fn comparisons(&self) -> usize {
        match self {
            Self::And(all) | Self::Or(all) => all.iter().map(Self::comparisons).sum(),
            Self::Compare(_) | Self::Property(_) => 1,
            Self::Not(inner) => inner.comparisons(),
            Self::Constant(_) => 0,
        }
    }
}
