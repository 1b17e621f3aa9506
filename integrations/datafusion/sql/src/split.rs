//! A script's statements: texts that end with `;` outside quotes and comments.

/// The statements that end, and what is left.
pub(crate) fn complete(text: &str) -> (Vec<&str>, &str) {
    let (mut statements, mut start) = (Vec::new(), 0);
    let mut place = Place::Code;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        place = match (place, c) {
            (Place::Code, ';') => {
                statements.push(text[start..at].trim());
                start = at + 1;
                Place::Code
            }
            (Place::Code, '\'' | '"' | '`') => Place::Quoted(c),
            // A doubled quote ends one text and begins the next.
            (Place::Quoted(quote), c) if c == quote => Place::Code,
            (Place::Code, '-') if next == Some('-') => Place::Line,
            (Place::Line, '\n') => Place::Code,
            (Place::Code, '/') if next == Some('*') => {
                chars.next();
                Place::Block(1)
            }
            (Place::Block(depth), '/') if next == Some('*') => {
                chars.next();
                Place::Block(depth + 1)
            }
            (Place::Block(depth), '*') if next == Some('/') => {
                chars.next();
                if depth == 1 { Place::Code } else { Place::Block(depth - 1) }
            }
            (place, _) => place,
        };
    }
    statements.retain(|statement| !is_empty(statement));
    (statements, &text[start..])
}

/// All statements; the last one need not end.
pub(crate) fn all(text: &str) -> Vec<String> {
    let (mut statements, rest) = complete(text);
    let rest = rest.trim();
    if !is_empty(rest) {
        statements.push(rest);
    }
    statements.into_iter().map(str::to_owned).collect()
}

/// Whether a text has nothing but comments.
pub(crate) fn is_empty(text: &str) -> bool {
    let mut rest = text.trim();
    loop {
        if rest.starts_with("--") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
        } else if rest.starts_with("/*") {
            // Nested comments are left to the parser.
            match rest.split_once("*/") {
                Some((_, behind)) => rest = behind.trim_start(),
                None => return false,
            }
        } else {
            return rest.is_empty();
        }
    }
}

#[derive(Clone, Copy)]
enum Place {
    Code,
    Quoted(char),
    /// A comment up to the end of the line.
    Line,
    /// Comments inside each other.
    Block(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_with_a_semicolon_outside_quotes_and_comments() {
        for (text, expected) in [
            ("SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"][..]),
            ("SELECT ';', 'it''s;' ; SELECT \"a;b\";", &["SELECT ';', 'it''s;'", "SELECT \"a;b\""]),
            ("-- one; two\nSELECT 1;", &["-- one; two\nSELECT 1"]),
            ("/* a; /* b; */ ; */ SELECT 1 - 2;", &["/* a; /* b; */ ; */ SELECT 1 - 2"]),
            (";; \n;", &[]),
            ("SELECT 1; -- done", &["SELECT 1"]),
            ("/* nothing */;", &[]),
        ] {
            assert_eq!(all(text), expected, "{text}");
        }
        assert_eq!(complete("SELECT 1; SELECT 'a;"), (vec!["SELECT 1"], " SELECT 'a;"));
    }
}
