//! Parses the text of `$filter` into a tree.
//!
//! Precedence: comparisons, then `not`, `and`, `or`. Rules that are known only from the service's
//! error messages follow .NET's OData library, which the service uses.

use std::fmt;

use super::lex::{Lexer, Token};
use super::{Comparison, Filter, Operator};
use crate::code::ErrorCode;
use crate::edm::{Type, Value};

/// The maximum nesting of parentheses, `not` and `-`.
pub(super) const MAX_DEPTH: usize = 200;

/// Parses the text of `$filter`, percent-decoded.
///
/// Constants may be on either side: `5 lt Age` is `Age gt 5`. Empty text is an error. The service
/// treats an empty `$filter` as missing; the caller has to do the same.
pub fn parse(text: &str) -> Result<Filter, ParseError> {
    let mut lexer = Lexer::new(text);
    let (token, start) = lexer.next_token()?;
    let mut parser = Parser { lexer, token, start, depth: 0 };
    let operand = parser.disjunction()?;
    if parser.token != Token::End {
        return Err(parser.unexpected());
    }
    operand.into_condition().map_err(|_| ParseError { at: 0, kind: ErrorKind::NotBoolean })
}

/// The error in the text of a filter, and its position.
///
/// Contains none of the text, because filters contain keys. [`ParseError::message`] quotes it, for
/// the response to its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The position that the service would report, in UTF-16 units. A syntax error is reported
    /// after the offending token: 7 in `aaa bbb ccc`.
    pub at: usize,
    /// The kind of error.
    pub kind: ErrorKind,
}

/// The kind of error in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A constant that its type cannot represent, such as `99999999999` without `L`.
    BadLiteral {
        /// The type according to its form.
        edm_type: Type,
        /// The position after it, in UTF-16 units.
        end: usize,
    },
    /// A closing parenthesis is missing here.
    CloseExpected,
    /// A digit is missing in a number.
    DigitExpected,
    /// An expression is missing here.
    ExpressionExpected,
    /// The operand of `not` or `-` has the wrong type.
    IncompatibleOperand {
        /// The type found.
        operand: Type,
        /// .NET's name of the operator, such as `Not`.
        operator: &'static str,
    },
    /// Operands of types that the operator does not accept, such as a bare `PartitionKey` in an
    /// `and`.
    IncompatibleTypes {
        /// The type on the left.
        left: Type,
        /// The type on the right.
        right: Type,
        /// .NET's name of the operator, such as `And` or `GreaterThan`.
        operator: &'static str,
    },
    /// A character that cannot start a token.
    InvalidCharacter(char),
    /// The filter as a whole is not a condition, such as `'text'` or `PartitionKey`.
    NotBoolean,
    /// Valid OData that the Table service does not support.
    NotSupported(Unsupported),
    /// A comparison with `null`; stored properties are never null.
    Null,
    /// A token in place of an operator or the end.
    Syntax,
    /// Nested deeper than 200 levels, `MAX_DEPTH`.
    TooDeep,
    /// A string without a closing quote.
    UnterminatedString,
}

/// OData features that the Table service does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// `add`, `sub`, `mul`, `div`, `mod`, or the negation of a property.
    Arithmetic,
    /// A comparison of two constants.
    Constants,
    /// `startswith(…)`, `substringof(…)` or another function.
    Function,
    /// A path, `a/b`.
    Path,
    /// A comparison of two properties.
    Properties,
    /// A comparison with a condition, `(a eq 1) eq true`.
    Condition,
}

impl ParseError {
    /// The code of the service's response: `NotImplemented` (501) for [`ErrorKind::NotSupported`],
    /// `InvalidInput` (400) for all others.
    ///
    /// The first is the documented response to query functions that the service does not support;
    /// it does not occur in the recordings.
    pub const fn code(&self) -> ErrorCode {
        match self.kind {
            ErrorKind::NotSupported(_) => ErrorCode::NOT_IMPLEMENTED,
            _ => ErrorCode::INVALID_INPUT,
        }
    }

    /// The message of the service's response to `filter`, the text that was parsed. It quotes that
    /// text.
    pub fn message(&self, filter: &str) -> String {
        let at = self.at;
        match self.kind {
            ErrorKind::BadLiteral { edm_type, end } => {
                let literal: Vec<u16> =
                    filter.encode_utf16().skip(at).take(end.saturating_sub(at)).collect();
                let literal = String::from_utf16_lossy(&literal);
                format!("Unrecognized '{edm_type}' literal '{literal}' at '{at}' in '{filter}'.")
            }
            ErrorKind::CloseExpected => {
                format!("')' or operator expected at position {at} in '{filter}'.")
            }
            ErrorKind::DigitExpected => format!("Digit expected at position {at} in '{filter}'."),
            ErrorKind::ExpressionExpected => {
                format!("Expression expected at position {at} in '{filter}'.")
            }
            ErrorKind::IncompatibleOperand { operand, operator } => format!(
                "A unary operator with an incompatible type was detected. \
                 Found operand type '{operand}' for operator kind '{operator}'."
            ),
            ErrorKind::IncompatibleTypes { left, right, operator } => format!(
                "A binary operator with incompatible types was detected. \
                 Found operand types '{left}' and '{right}' for operator kind '{operator}'."
            ),
            ErrorKind::InvalidCharacter(c) => {
                format!(
                    "Syntax error: character '{c}' is not valid at position {at} in '{filter}'."
                )
            }
            ErrorKind::NotBoolean => {
                "The $filter expression must evaluate to a single boolean value.".to_owned()
            }
            ErrorKind::NotSupported(_) => {
                "The requested operation is not implemented on the specified resource.".to_owned()
            }
            ErrorKind::Null => "One of the request inputs is not valid.".to_owned(),
            ErrorKind::Syntax => format!("Syntax error at position {at} in '{filter}'."),
            ErrorKind::TooDeep => "Recursion depth exceeded allowed limit.".to_owned(),
            ErrorKind::UnterminatedString => {
                format!("There is an unterminated string literal at position {at} in '{filter}'.")
            }
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match self.kind {
            ErrorKind::BadLiteral { edm_type, .. } => {
                write!(f, "the constant at position {at} is not a valid {edm_type}")
            }
            ErrorKind::CloseExpected => write!(f, "a ')' is missing at position {at}"),
            ErrorKind::DigitExpected => write!(f, "a digit is missing at position {at}"),
            ErrorKind::ExpressionExpected => {
                write!(f, "a property or constant is missing at position {at}")
            }
            ErrorKind::IncompatibleOperand { operand, operator } => {
                write!(f, "{operator} does not take {operand}, at position {at}")
            }
            ErrorKind::IncompatibleTypes { left, right, operator } => {
                write!(f, "{operator} does not take {left} and {right}, at position {at}")
            }
            ErrorKind::InvalidCharacter(c) => {
                write!(f, "the character {c:?} at position {at} cannot stand outside quotes")
            }
            ErrorKind::NotBoolean => f.write_str("the filter is not a condition"),
            ErrorKind::NotSupported(what) => {
                let what = match what {
                    Unsupported::Arithmetic => "arithmetic",
                    Unsupported::Constants => "comparing two constants",
                    Unsupported::Function => "a function",
                    Unsupported::Path => "a path",
                    Unsupported::Properties => "comparing two properties",
                    Unsupported::Condition => "comparing a condition",
                };
                write!(f, "the Table service does not support {what}, at position {at}")
            }
            ErrorKind::Null => {
                write!(f, "compared with null at position {at}: no property is null")
            }
            ErrorKind::Syntax => write!(f, "syntax error before position {at}"),
            ErrorKind::TooDeep => write!(f, "nested deeper than {MAX_DEPTH} at position {at}"),
            ErrorKind::UnterminatedString => f.write_str("a string has no closing quote"),
        }
    }
}

impl std::error::Error for ParseError {}

/// A parsed expression, before its use is known.
enum Operand<'a> {
    Condition(Filter),
    Literal(Value),
    Null,
    Property(&'a str),
}

impl Operand<'_> {
    /// Converts the expression to a condition, or returns its type if it is not one.
    fn into_condition(self) -> Result<Filter, Type> {
        match self {
            Self::Condition(filter) => Ok(filter),
            Self::Literal(Value::Boolean(value)) => Ok(Filter::Constant(value)),
            Self::Literal(value) => Err(value.edm_type()),
            // A bare null is not a condition, just like text.
            Self::Null => Err(Type::String),
            Self::Property(name) => {
                declared(name).map_or_else(|| Ok(Filter::Property(name.into())), Err)
            }
        }
    }

    /// The type as far as it is known. Properties without a declared type count as Boolean, because
    /// this is called only where a condition is expected.
    fn condition_type(&self) -> Type {
        match self {
            Self::Condition(_) => Type::Boolean,
            Self::Literal(value) => value.edm_type(),
            Self::Null => Type::String,
            Self::Property(name) => declared(name).unwrap_or(Type::Boolean),
        }
    }
}

/// The type of the properties that every entity has.
fn declared(property: &str) -> Option<Type> {
    match property {
        "PartitionKey" | "RowKey" => Some(Type::String),
        "Timestamp" => Some(Type::DateTime),
        _ => None,
    }
}

/// A recursive descent parser. Code that does not recurse is in separate functions: without
/// optimization, every local value takes stack space, and 200 levels needed more than a thread's 2
/// MiB.
struct Parser<'a> {
    /// The lexer after `token`.
    lexer: Lexer<'a>,
    token: Token<'a>,
    /// The start of `token`.
    start: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn disjunction(&mut self) -> Result<Operand<'a>, ParseError> {
        self.joined("or", "Or", Self::conjunction, |parts| {
            Filter::Or(flatten(parts, |part| match part {
                Filter::Or(inner) => Ok(inner),
                other => Err(other),
            }))
        })
    }

    fn conjunction(&mut self) -> Result<Operand<'a>, ParseError> {
        self.joined("and", "And", Self::negation, |parts| {
            Filter::And(flatten(parts, |part| match part {
                Filter::And(inner) => Ok(inner),
                other => Err(other),
            }))
        })
    }

    /// `part keyword part keyword part`, or a single part unchanged.
    fn joined(
        &mut self,
        keyword: &str,
        operator: &'static str,
        part: impl Fn(&mut Self) -> Result<Operand<'a>, ParseError>,
        join: impl Fn(Vec<Filter>) -> Filter,
    ) -> Result<Operand<'a>, ParseError> {
        let first = part(self)?;
        if self.token == Token::Name(keyword) {
            return self.chain(first, keyword, operator, part, join);
        }
        Ok(first)
    }

    /// The rest of `part keyword part keyword part`, after the first part.
    fn chain(
        &mut self,
        first: Operand<'a>,
        keyword: &str,
        operator: &'static str,
        part: impl Fn(&mut Self) -> Result<Operand<'a>, ParseError>,
        join: impl Fn(Vec<Filter>) -> Filter,
    ) -> Result<Operand<'a>, ParseError> {
        let mut left = first;
        let mut parts = Vec::new();
        while self.token == Token::Name(keyword) {
            let at = self.start;
            self.advance()?;
            left = take_left(&mut parts, left, part(self)?, operator, at)?;
        }
        if let Operand::Condition(last) = left {
            parts.push(last);
        }
        Ok(Operand::Condition(join(parts)))
    }

    fn negation(&mut self) -> Result<Operand<'a>, ParseError> {
        if self.token != Token::Name("not") {
            return self.comparison();
        }
        let at = self.start;
        self.enter()?;
        self.advance()?;
        let operand = self.negation()?;
        // The printer adds parentheses around a comparison here, which must not exceed the limit.
        if self.depth >= MAX_DEPTH && matches!(operand, Operand::Condition(Filter::Compare(_))) {
            return Err(ParseError { at, kind: ErrorKind::TooDeep });
        }
        self.leave();
        negated(operand, at)
    }

    fn comparison(&mut self) -> Result<Operand<'a>, ParseError> {
        let left = self.operand()?;
        match self.operator() {
            Some(operator) => self.compared(left, operator),
            None => Ok(left),
        }
    }

    /// The rest of a comparison, after its left side.
    fn compared(
        &mut self,
        left: Operand<'a>,
        operator: Operator,
    ) -> Result<Operand<'a>, ParseError> {
        let at = self.start;
        self.advance()?;
        let right = self.operand()?;
        if self.operator().is_some() {
            return Err(ParseError { at: self.start, kind: not_supported(Unsupported::Condition) });
        }
        compare(left, operator, right).map_err(|kind| match self.token {
            Token::Close | Token::End | Token::Name("and" | "or") => ParseError { at, kind },
            // The service parses the whole text before it checks types.
            _ => self.unexpected(),
        })
    }

    /// An operand of a comparison.
    fn operand(&mut self) -> Result<Operand<'a>, ParseError> {
        let operand = match std::mem::replace(&mut self.token, Token::End) {
            // `not` is not a property name on the right of an operator either.
            Token::Name("not") => self.not_operand(),
            Token::Open => self.group(),
            Token::Minus => self.minus(),
            token => self.leaf(token),
        }?;
        let unsupported = match self.token {
            Token::Slash => Unsupported::Path,
            Token::Name("add" | "sub" | "mul" | "div" | "mod") => Unsupported::Arithmetic,
            _ => return Ok(operand),
        };
        Err(ParseError { at: self.start, kind: not_supported(unsupported) })
    }

    /// A literal or a property.
    fn leaf(&mut self, token: Token<'a>) -> Result<Operand<'a>, ParseError> {
        let operand = match token {
            Token::Literal(value) => Operand::Literal(value),
            Token::Null => Operand::Null,
            Token::Name(name) => {
                let at = self.start;
                self.advance()?;
                if self.token == Token::Open {
                    return Err(ParseError { at, kind: not_supported(Unsupported::Function) });
                }
                return Ok(Operand::Property(name));
            }
            _ => return Err(ParseError { at: self.start, kind: ErrorKind::ExpressionExpected }),
        };
        self.advance()?;
        Ok(operand)
    }

    fn not_operand(&mut self) -> Result<Operand<'a>, ParseError> {
        let at = self.start;
        self.enter()?;
        self.advance()?;
        let operand = self.operand()?;
        self.leave();
        negated(operand, at)
    }

    /// The contents of parentheses.
    fn group(&mut self) -> Result<Operand<'a>, ParseError> {
        self.enter()?;
        self.advance()?;
        let inner = self.disjunction()?;
        if self.token != Token::Close {
            return Err(ParseError { at: self.start, kind: ErrorKind::CloseExpected });
        }
        self.leave();
        self.advance()?;
        Ok(inner)
    }

    /// `- 5`, `-(5)`: a negated constant.
    fn minus(&mut self) -> Result<Operand<'a>, ParseError> {
        let at = self.start;
        self.enter()?;
        self.advance()?;
        let operand = self.operand()?;
        self.leave();
        negative(operand, self.start).map_err(|kind| ParseError { at, kind })
    }

    fn operator(&self) -> Option<Operator> {
        let Token::Name(name) = self.token else { return None };
        Some(match name {
            "eq" => Operator::Equal,
            "ge" => Operator::GreaterOrEqual,
            "gt" => Operator::Greater,
            "le" => Operator::LessOrEqual,
            "lt" => Operator::Less,
            "ne" => Operator::NotEqual,
            _ => return None,
        })
    }

    fn advance(&mut self) -> Result<(), ParseError> {
        (self.token, self.start) = self.lexer.next_token()?;
        Ok(())
    }

    fn enter(&mut self) -> Result<(), ParseError> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > MAX_DEPTH {
            return Err(ParseError { at: self.start, kind: ErrorKind::TooDeep });
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// The error for a token that cannot occur here.
    fn unexpected(&self) -> ParseError {
        ParseError { at: self.lexer.position(), kind: ErrorKind::Syntax }
    }
}

/// `-operand`, where the text of the number ends at `end`.
fn negative(operand: Operand<'_>, end: usize) -> Result<Operand<'_>, ErrorKind> {
    let incompatible = |operand| ErrorKind::IncompatibleOperand { operand, operator: "Negate" };
    let too_large = |edm_type| ErrorKind::BadLiteral { edm_type, end };
    match operand {
        Operand::Literal(Value::Double(value)) => Ok(Operand::Literal(Value::Double(-value))),
        Operand::Literal(Value::Int32(value)) => {
            let negative = value.checked_neg().ok_or_else(|| too_large(Type::Int32))?;
            Ok(Operand::Literal(Value::Int32(negative)))
        }
        Operand::Literal(Value::Int64(value)) => {
            let negative = value.checked_neg().ok_or_else(|| too_large(Type::Int64))?;
            Ok(Operand::Literal(Value::Int64(negative)))
        }
        Operand::Literal(value) => Err(incompatible(value.edm_type())),
        Operand::Condition(_) => Err(incompatible(Type::Boolean)),
        Operand::Null => Err(ErrorKind::Null),
        Operand::Property(_) => Err(not_supported(Unsupported::Arithmetic)),
    }
}

/// Moves the left side of `and` or `or` to the parts, and makes the right side the next left side.
fn take_left<'a>(
    parts: &mut Vec<Filter>,
    left: Operand<'a>,
    right: Operand<'a>,
    operator: &'static str,
    at: usize,
) -> Result<Operand<'a>, ParseError> {
    let types = (left.condition_type(), right.condition_type());
    let incompatible = |_| ParseError {
        at,
        kind: ErrorKind::IncompatibleTypes { left: types.0, right: types.1, operator },
    };
    parts.push(left.into_condition().map_err(incompatible)?);
    // The last part of the chain is checked here, the others as the left side of the next one.
    Ok(Operand::Condition(right.into_condition().map_err(incompatible)?))
}

/// `not operand`, where `at` is the position of `not`.
fn negated(operand: Operand<'_>, at: usize) -> Result<Operand<'_>, ParseError> {
    let inner = operand.into_condition().map_err(|operand| ParseError {
        at,
        kind: ErrorKind::IncompatibleOperand { operand, operator: "Not" },
    })?;
    Ok(Operand::Condition(Filter::Not(Box::new(inner))))
}

/// `left operator right` as a condition between a property and a constant.
fn compare<'a>(
    left: Operand<'a>,
    operator: Operator,
    right: Operand<'a>,
) -> Result<Operand<'a>, ErrorKind> {
    let (property, operator, value, mirrored) = match (left, right) {
        (Operand::Null, _) | (_, Operand::Null) => return Err(ErrorKind::Null),
        (Operand::Property(name), Operand::Literal(value)) => (name, operator, value, false),
        (Operand::Literal(value), Operand::Property(name)) => {
            (name, operator.mirrored(), value, true)
        }
        (Operand::Property(_), Operand::Property(_)) => {
            return Err(not_supported(Unsupported::Properties));
        }
        (Operand::Literal(_), Operand::Literal(_)) => {
            return Err(not_supported(Unsupported::Constants));
        }
        (Operand::Condition(_), _) | (_, Operand::Condition(_)) => {
            return Err(not_supported(Unsupported::Condition));
        }
    };
    if let Some(declared) = declared(property).filter(|declared| *declared != value.edm_type()) {
        let (left, right) =
            if mirrored { (value.edm_type(), declared) } else { (declared, value.edm_type()) };
        // The operator as written, before the sides were exchanged.
        let written = if mirrored { operator.mirrored() } else { operator };
        return Err(ErrorKind::IncompatibleTypes { left, right, operator: kind_name(written) });
    }
    Ok(Operand::Condition(Filter::Compare(Comparison {
        property: property.into(),
        operator,
        value,
    })))
}

/// The name of an operator in the messages of .NET's OData library.
const fn kind_name(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => "Equal",
        Operator::GreaterOrEqual => "GreaterThanOrEqual",
        Operator::Greater => "GreaterThan",
        Operator::LessOrEqual => "LessThanOrEqual",
        Operator::Less => "LessThan",
        Operator::NotEqual => "NotEqual",
    }
}

const fn not_supported(what: Unsupported) -> ErrorKind {
    ErrorKind::NotSupported(what)
}

/// Flattens nested chains of the same operator, `(a and b) and c`.
fn flatten(
    parts: Vec<Filter>,
    inner: impl Fn(Filter) -> Result<Vec<Filter>, Filter>,
) -> Vec<Filter> {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match inner(part) {
            Ok(nested) => flat.extend(nested),
            Err(part) => flat.push(part),
        }
    }
    flat
}
