//! Splits the text of a filter into tokens.
//!
//! The lexer follows that of .NET's OData library, which the service uses: it reports positions in
//! UTF-16 units, and a syntax error *after* the token that caused it.

use super::parse::{ErrorKind, ParseError};
use crate::edm::size::utf16_len;
use crate::edm::{Type, Value};

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// `)`.
    Close,
    /// `,`.
    Comma,
    /// The end of the text.
    End,
    /// A constant, `true` and `false` included.
    Literal(Value),
    /// A `-` that is not part of a number.
    Minus,
    /// A property or a keyword.
    Name(&'a str),
    /// `null`.
    Null,
    /// `(`.
    Open,
    /// `/`.
    Slash,
}

/// Splits a filter into tokens.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// The position of the next token, in bytes.
    at: usize,
    /// A position before all remaining tokens, in bytes and in UTF-16 units. Counting every
    /// position from the start of the text would take quadratic time.
    counted: (usize, usize),
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of `text`.
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0, counted: (0, 0) }
    }

    /// The position after the last token, in UTF-16 units.
    pub(super) fn position(&self) -> usize {
        self.units(self.at)
    }

    /// The next token and its start (in UTF-16 units). After [`Token::End`], it returns
    /// [`Token::End`] again.
    pub(super) fn next_token(&mut self) -> Result<(Token<'a>, usize), ParseError> {
        self.skip(char::is_whitespace);
        let start = self.units(self.at);
        self.counted = (self.at, start);
        Ok((self.token()?, start))
    }

    fn token(&mut self) -> Result<Token<'a>, ParseError> {
        let start = self.at;
        let Some(first) = self.peek() else { return Ok(Token::End) };
        match first {
            '(' => Ok(self.single(Token::Open)),
            ')' => Ok(self.single(Token::Close)),
            ',' => Ok(self.single(Token::Comma)),
            '/' => Ok(self.single(Token::Slash)),
            '\'' => Ok(Token::Literal(Value::String(self.quoted()?))),
            '0'..='9' => self.number(start),
            '-' => {
                self.step(1);
                if self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    return self.number(start);
                }
                if self.rest().starts_with("INF") {
                    let mut ahead = self.clone();
                    if ahead.name() == "INF" {
                        *self = ahead;
                        return Ok(Token::Literal(Value::Double(f64::NEG_INFINITY)));
                    }
                }
                Ok(Token::Minus)
            }
            _ if begins_name(first) => self.word(start),
            other => Err(self.error(start, ErrorKind::InvalidCharacter(other))),
        }
    }

    /// A name, a keyword that is a constant, or the prefix of a quoted constant.
    fn word(&mut self, start: usize) -> Result<Token<'a>, ParseError> {
        let name = self.name();
        let edm_type = match name {
            "true" => return Ok(Token::Literal(Value::Boolean(true))),
            "false" => return Ok(Token::Literal(Value::Boolean(false))),
            "null" => return Ok(Token::Null),
            "NaN" => return Ok(Token::Literal(Value::Double(f64::NAN))),
            "INF" => return Ok(Token::Literal(Value::Double(f64::INFINITY))),
            _ if self.peek() != Some('\'') => return Ok(Token::Name(name)),
            prefix => Type::of_literal(prefix),
        };
        let Some(edm_type) = edm_type else { return Ok(Token::Name(name)) };
        let text = self.quoted()?;
        let value = edm_type.parse_literal(&text);
        value.map(Token::Literal).ok_or_else(|| self.bad_literal(start, edm_type))
    }

    /// `12`, `12L`, `1.5`, `1e10`, `2d`. A sign has already been consumed.
    fn number(&mut self, start: usize) -> Result<Token<'a>, ParseError> {
        let mut edm_type = Type::Int32;
        self.skip(|c| c.is_ascii_digit());
        if self.peek() == Some('.') {
            self.step(1);
            edm_type = Type::Double;
            self.digits()?;
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.step(1);
            edm_type = Type::Double;
            if matches!(self.peek(), Some('+' | '-')) {
                self.step(1);
            }
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        match self.peek() {
            Some('L' | 'l') if edm_type == Type::Int32 => {
                self.step(1);
                edm_type = Type::Int64;
            }
            Some('D' | 'd') => {
                self.step(1);
                edm_type = Type::Double;
            }
            _ => {}
        }
        let value = match edm_type {
            Type::Int32 => text.parse().ok().map(Value::Int32),
            Type::Int64 => text.parse().ok().map(Value::Int64),
            // A number that is too large is parsed as infinity, which is not its value.
            _ => text.parse().ok().filter(|v: &f64| v.is_finite()).map(Value::Double),
        };
        value.map(Token::Literal).ok_or_else(|| self.bad_literal(start, edm_type))
    }

    fn digits(&mut self) -> Result<(), ParseError> {
        if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Err(self.error(self.at, ErrorKind::DigitExpected));
        }
        self.skip(|c| c.is_ascii_digit());
        Ok(())
    }

    /// The text between quotes, in which `''` stands for a quote.
    fn quoted(&mut self) -> Result<String, ParseError> {
        let mut value = String::new();
        loop {
            // The opening quote, or the second one of a pair.
            self.step(1);
            let Some(length) = self.rest().find('\'') else {
                self.at = self.text.len();
                return Err(self.error(self.at, ErrorKind::UnterminatedString));
            };
            value.push_str(&self.rest()[..length]);
            self.step(length);
            self.step(1);
            if self.peek() != Some('\'') {
                return Ok(value);
            }
            value.push('\'');
        }
    }

    fn name(&mut self) -> &'a str {
        let start = self.at;
        self.skip(|c| begins_name(c) || c.is_ascii_digit());
        &self.text[start..self.at]
    }

    fn single(&mut self, token: Token<'a>) -> Token<'a> {
        self.step(1);
        token
    }

    fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.step(rest.find(|c| !wanted(c)).unwrap_or(rest.len()));
    }

    /// Skips bytes that were already inspected.
    fn step(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn bad_literal(&self, start: usize, edm_type: Type) -> ParseError {
        self.error(start, ErrorKind::BadLiteral { edm_type, end: self.position() })
    }

    fn error(&self, at: usize, kind: ErrorKind) -> ParseError {
        ParseError { at: self.units(at), kind }
    }

    /// The UTF-16 units before the byte `at`, which is in or after the current token.
    fn units(&self, at: usize) -> usize {
        self.counted.1.saturating_add(utf16_len(&self.text[self.counted.0..at]))
    }
}

/// Property names may contain letters of any script, marks and digits.
fn begins_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !(c.is_ascii() || c.is_whitespace() || c.is_control())
}
