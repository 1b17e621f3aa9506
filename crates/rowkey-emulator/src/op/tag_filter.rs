//! Expressions over blob index tags: `x-ms-if-tags`, and `where` of Find Blobs by Tags.
//!
//! A comparison names a tag and a value in single quotes, `"date created" >= '2026-01'`; values are
//! compared as text. Every comparison with a tag that a blob does not have is false.
//!
//! Reference: [Find Blobs by Tags](https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags).

use super::tags::Tags;

/// The maximum nesting depth of parentheses.
const MAX_DEPTH: usize = 16;
/// The maximum number of comparisons in an expression.
const MAX_COMPARISONS: usize = 64;

/// A compiled expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagFilter(Node);

/// The use of an expression, which determines its syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// In `x-ms-if-tags`: `<>`, `OR` and parentheses are allowed, `@container` is not.
    Condition,
    /// In `where`: `@container` is allowed, `<>`, `OR` and parentheses are not.
    Search,
}

/// The error for an invalid expression, shown as an error's `Reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidTagFilter {
    /// The position in the text, in bytes from its start.
    pub(crate) at: usize,
    /// The expected token at that position.
    pub(crate) expected: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Compare { key: String, operator: Operator, value: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The name of the container in a search.
const CONTAINER: &str = "@container";

impl TagFilter {
    /// Parses an expression.
    pub(crate) fn parse(text: &str, context: Context) -> Result<Self, InvalidTagFilter> {
        let mut parser = Parser { text, at: 0, context, comparisons: 0 };
        let node = parser.any(0)?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.expected("AND, OR or the end"));
        }
        Ok(Self(node))
    }

    /// Whether a blob with these tags, in this container, matches.
    pub(crate) fn matches(&self, tags: &Tags, container: &str) -> bool {
        self.0.matches(tags, container)
    }

    /// Whether the expression contains a comparison with this tag.
    pub(crate) fn names(&self, key: &str) -> bool {
        self.0.names(key)
    }
}

impl std::fmt::Display for InvalidTagFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Error parsing query at or near character position {}: expected {}",
            self.at.saturating_add(1),
            self.expected
        )
    }
}

impl std::error::Error for InvalidTagFilter {}

impl Node {
    fn matches(&self, tags: &Tags, container: &str) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.matches(tags, container)),
            Self::Any(nodes) => nodes.iter().any(|node| node.matches(tags, container)),
            Self::Compare { key, operator, value } => {
                let found = if key == CONTAINER { Some(container) } else { tags.get(key) };
                found.is_some_and(|found| operator.holds(found, value))
            }
        }
    }

    fn names(&self, name: &str) -> bool {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().any(|node| node.names(name)),
            Self::Compare { key, .. } => key == name,
        }
    }
}

impl Operator {
    fn holds(self, found: &str, value: &str) -> bool {
        match self {
            Self::Equal => found == value,
            Self::NotEqual => found != value,
            Self::Less => found < value,
            Self::LessOrEqual => found <= value,
            Self::Greater => found > value,
            Self::GreaterOrEqual => found >= value,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    context: Context,
    comparisons: usize,
}

impl Parser<'_> {
    fn any(&mut self, depth: usize) -> Result<Node, InvalidTagFilter> {
        let mut nodes = vec![self.all(depth)?];
        while self.context == Context::Condition && self.keyword("or") {
            nodes.push(self.all(depth)?);
        }
        Ok(Self::one_or(nodes, Node::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Node, InvalidTagFilter> {
        let mut nodes = vec![self.operand(depth)?];
        while self.keyword("and") {
            nodes.push(self.operand(depth)?);
        }
        Ok(Self::one_or(nodes, Node::All))
    }

    fn one_or(mut nodes: Vec<Node>, many: impl FnOnce(Vec<Node>) -> Node) -> Node {
        match (nodes.pop(), nodes.is_empty()) {
            (Some(node), true) => node,
            (last, _) => {
                nodes.extend(last);
                many(nodes)
            }
        }
    }

    fn operand(&mut self, depth: usize) -> Result<Node, InvalidTagFilter> {
        if self.context == Context::Condition && self.symbol("(") {
            if depth == MAX_DEPTH {
                return Err(self.expected("fewer parentheses"));
            }
            let node = self.any(depth.saturating_add(1))?;
            if !self.symbol(")") {
                return Err(self.expected("')'"));
            }
            return Ok(node);
        }
        self.comparisons = self.comparisons.saturating_add(1);
        if self.comparisons > MAX_COMPARISONS {
            return Err(self.expected("fewer comparisons"));
        }
        let key = self.key()?;
        let operator = self.operator()?;
        let value = self.quoted('\'').ok_or_else(|| self.expected("a value in single quotes"))?;
        Ok(Node::Compare { key, operator, value })
    }

    fn key(&mut self) -> Result<String, InvalidTagFilter> {
        if let Some(key) = self.quoted('"') {
            return Ok(key);
        }
        if self.context == Context::Search && self.symbol(CONTAINER) {
            return Ok(CONTAINER.to_owned());
        }
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let key = &rest[..end.unwrap_or(rest.len())];
        if key.is_empty() {
            return Err(self.expected("the name of a tag"));
        }
        let key = key.to_owned();
        self.advance(key.len());
        Ok(key)
    }

    fn operator(&mut self) -> Result<Operator, InvalidTagFilter> {
        if self.context == Context::Condition && self.symbol("<>") {
            return Ok(Operator::NotEqual);
        }
        let operators = [
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("=", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let found = operators.into_iter().find(|(text, _)| self.symbol(text));
        found.map(|(_, operator)| operator).ok_or_else(|| self.expected("an operator"))
    }

    /// A quoted text, in which a doubled quote is an escaped quote.
    fn quoted(&mut self, quote: char) -> Option<String> {
        self.skip_space();
        let rest = self.text[self.at..].strip_prefix(quote)?;
        let mut text = String::new();
        let mut chars = rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c != quote {
                text.push(c);
            } else if chars.next_if(|(_, next)| *next == quote).is_some() {
                text.push(quote);
            } else {
                // Both quotes are one byte long.
                self.advance(at.saturating_add(2));
                return Some(text);
            }
        }
        None
    }

    /// Consumes this word, in any case, if it is not part of a longer one.
    fn keyword(&mut self, word: &str) -> bool {
        self.skip_space();
        let rest = &self.text.as_bytes()[self.at..];
        let is_word = rest.len() >= word.len()
            && rest[..word.len()].eq_ignore_ascii_case(word.as_bytes())
            && rest
                .get(word.len())
                .is_none_or(|next| !next.is_ascii_alphanumeric() && *next != b'_');
        if is_word {
            self.advance(word.len());
        }
        is_word
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        self.skip_space();
        let is_next = self.text[self.at..].starts_with(symbol);
        if is_next {
            self.advance(symbol.len());
        }
        is_next
    }

    fn skip_space(&mut self) {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len().saturating_sub(rest.len());
    }

    /// Skips bytes that were already inspected.
    #[expect(clippy::arithmetic_side_effects, reason = "a place in the text")]
    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn expected(&self, expected: &'static str) -> InvalidTagFilter {
        InvalidTagFilter { at: self.at, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags() -> Tags {
        Tags::parse_header("a=1&date+created=2026-07&q=it%2Fs&or=x").unwrap()
    }

    fn holds(text: &str) -> bool {
        TagFilter::parse(text, Context::Condition).unwrap().matches(&tags(), "c")
    }

    #[test]
    fn comparisons_are_textual_and_false_for_absent_tags() {
        for text in [
            "a='1'",
            " a = '1' ",
            "\"a\" = '1'",
            "a<>'2'",
            "a >= '1' and a <= '1'",
            "\"date created\" > '2026' AND \"date created\" < '2027'",
            "a='2' or a='1'",
            "a='2' OR (q='it/s' and a='1')",
            "((a='1'))",
            "or='x'",
            "a='1' or nothing='1' and nothing='2'",
        ] {
            assert!(holds(text), "{text}");
        }
        for text in [
            "a='2'",
            "a>'1'",
            "nothing='1'",
            "nothing<>'1'",
            "A='1'",
            "(a='1' or a='2') and q='x'",
            "a='1''s'",
        ] {
            assert!(!holds(text), "{text}");
        }
    }

    #[test]
    fn find_blobs_accepts_a_container_and_only_the_and_operator() {
        let parse = |text| TagFilter::parse(text, Context::Search);
        let filter = parse("@container='c' AND a='1'").unwrap();
        assert!(filter.matches(&tags(), "c"));
        assert!(!filter.matches(&tags(), "d"));
        assert!(filter.names("a") && !filter.names("q"));
        for text in ["a='1' or a='2'", "a<>'1'", "(a='1')"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(TagFilter::parse("@container='c'", Context::Condition).is_err());
    }

    #[test]
    fn a_syntax_error_is_reported_with_its_position() {
        let at = |text: &str| TagFilter::parse(text, Context::Condition).unwrap_err().at;
        assert_eq!(at(""), 0);
        assert_eq!(at("a"), 1);
        assert_eq!(at("a = 1"), 4);
        assert_eq!(at("a = 'x"), 4);
        assert_eq!(at("a='1' b='2'"), 6);
        assert_eq!(at("(a='1'"), 6);
        assert_eq!(at("ä='1'"), 0);
        assert!(TagFilter::parse(&"(".repeat(100_000), Context::Condition).is_err());
        let long = vec!["a='1'"; 65].join(" and ");
        assert!(TagFilter::parse(&long, Context::Condition).is_err());
        assert!(TagFilter::parse(&long[..long.len() - 10], Context::Condition).is_ok());
    }
}
