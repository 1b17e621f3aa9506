//! Finds the entities in a JSON document of any size, one at a time.
//!
//! A document is a sequence of entities, of lists of entities, and of pages: objects whose member `value` is such a list,
//! as the service returns them. Only one entity is in memory.

use std::io::BufRead;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, MAX_ENTITY, Result, TOO_LONG};

/// The objects of entities in a document.
#[derive(Debug)]
pub(crate) struct Objects<R> {
    input: R,
    state: State,
    line: u64,
    column: u64,
    /// The text of the current entity.
    buffer: Vec<u8>,
    /// The text of the current page up to its list.
    head: Vec<u8>,
    /// How many entities were found.
    found: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The document, perhaps after a byte order mark.
    Start,
    /// An entity, a list or a page.
    Between,
    /// An element of a list, or its end.
    Element(Place, Separator),
    /// The rest of a page, after its list.
    Tail,
    /// Nothing is read after an error or the end.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    List,
    Page,
}

/// Whether a comma comes before the next element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    None,
    Comma,
}

/// What an object turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Entity,
    Page,
}

impl<R: BufRead> Objects<R> {
    pub(crate) const fn new(input: R) -> Self {
        Self {
            input,
            state: State::Start,
            line: 1,
            column: 1,
            buffer: Vec::new(),
            head: Vec::new(),
            found: 0,
        }
    }

    /// The text of the next entity. After an error there is none.
    pub(crate) fn next(&mut self) -> Option<Result<&[u8]>> {
        match self.find() {
            Ok(true) => Some(Ok(&self.buffer)),
            Ok(false) => {
                self.state = State::Done;
                None
            }
            Err(error) => {
                self.state = State::Done;
                Some(Err(error.at_line(self.line, self.column)))
            }
        }
    }

    /// How many entities were found.
    pub(crate) const fn found(&self) -> u64 {
        self.found
    }

    /// Reads an entity into the buffer; false at the end.
    fn find(&mut self) -> Result<bool> {
        loop {
            match self.state {
                State::Done => return Ok(false),
                State::Start => {
                    self.skip_mark()?;
                    self.state = State::Between;
                }
                State::Between => match self.peek_text()? {
                    None => return Ok(false),
                    Some(b'[') => {
                        self.take()?;
                        self.state = State::Element(Place::List, Separator::None);
                    }
                    Some(b'{') => match self.capture(true)? {
                        Found::Entity => return Ok(true),
                        Found::Page => {
                            check_page(&self.buffer, b"]}")?;
                            std::mem::swap(&mut self.head, &mut self.buffer);
                            self.state = State::Element(Place::Page, Separator::None);
                        }
                    },
                    Some(_) => return Err(no_entity()),
                },
                State::Element(place, separator) => {
                    if self.element(place, separator)? {
                        return Ok(true);
                    }
                }
                State::Tail => self.tail()?,
            }
        }
    }

    /// Reads the next element of a list into the buffer; false at the end of the list.
    fn element(&mut self, place: Place, separator: Separator) -> Result<bool> {
        let mut next = self.peek_text()?.ok_or_else(truncated)?;
        if next == b']' {
            self.take()?;
            self.state = match place {
                Place::List => State::Between,
                Place::Page => State::Tail,
            };
            return Ok(false);
        }
        if separator == Separator::Comma {
            if next != b',' {
                return Err(Error::new(
                    ErrorKind::Malformed,
                    "expected `,` or `]` after an entity; check whether the file has this format",
                ));
            }
            self.take()?;
            next = self.peek_text()?.ok_or_else(truncated)?;
        }
        if next != b'{' {
            return Err(no_entity());
        }
        self.state = State::Element(place, Separator::Comma);
        self.capture(false).map(|_| true)
    }

    /// Reads an object into the buffer, or the beginning of a page up to its list.
    fn capture(&mut self, may_be_page: bool) -> Result<Found> {
        self.buffer.clear();
        let mut scan = Scan::default();
        loop {
            let chunk = fill(&mut self.input)?;
            if chunk.is_empty() {
                return Err(truncated());
            }
            let end = scan.end(chunk, may_be_page);
            let used = end.as_ref().map_or(chunk.len(), |(end, _)| *end);
            if self.buffer.len() + used > MAX_ENTITY {
                return Err(Error::new(ErrorKind::TooLong, TOO_LONG));
            }
            self.buffer.extend_from_slice(&chunk[..used]);
            match memchr::memrchr(b'\n', &chunk[..used]) {
                Some(last) => {
                    self.line += memchr::memchr_iter(b'\n', &chunk[..used]).count() as u64;
                    self.column = (used - last) as u64;
                }
                None => self.column += used as u64,
            }
            self.input.consume(used);
            if let Some((_, found)) = end {
                self.found += u64::from(found == Found::Entity);
                return Ok(found);
            }
        }
    }

    /// Reads what a page has after its list, and checks the whole page without its entities.
    fn tail(&mut self) -> Result<()> {
        let (mut depth, mut in_string, mut is_escaped) = (1_usize, false, false);
        self.buffer.clear();
        self.buffer.push(b']');
        while depth > 0 {
            let byte = self.next_byte()?.ok_or_else(truncated)?;
            if self.buffer.len() == MAX_ENTITY {
                return Err(Error::new(ErrorKind::TooLong, TOO_LONG));
            }
            self.buffer.push(byte);
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_string => is_escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth -= 1,
                _ => {}
            }
        }
        check_page(&self.head, &self.buffer)?;
        self.state = State::Between;
        Ok(())
    }

    /// The next byte after white space, which is consumed.
    fn peek_text(&mut self) -> Result<Option<u8>> {
        while let Some(byte) = self.peek()? {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(Some(byte));
            }
            self.take()?;
        }
        Ok(None)
    }

    fn skip_mark(&mut self) -> Result<()> {
        if self.peek()? != Some(0xEF) {
            return Ok(());
        }
        for expected in *b"\xEF\xBB\xBF" {
            if self.next_byte()? != Some(expected) {
                return Err(no_entity());
            }
        }
        self.column = 1;
        Ok(())
    }

    fn peek(&mut self) -> Result<Option<u8>> {
        fill(&mut self.input).map(|chunk| chunk.first().copied())
    }

    /// Consumes the byte that was peeked at.
    fn take(&mut self) -> Result<()> {
        self.next_byte().map(|_| ())
    }

    fn next_byte(&mut self) -> Result<Option<u8>> {
        let byte = self.peek()?;
        if let Some(byte) = byte {
            self.input.consume(1);
            if byte == b'\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        Ok(byte)
    }
}

/// The next bytes; none at the end.
fn fill<R: BufRead>(input: &mut R) -> Result<&[u8]> {
    while let Err(error) = input.fill_buf() {
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error.into());
        }
    }
    // Nothing is read again: the bytes are in the buffer.
    Ok(input.fill_buf()?)
}

/// Looks for the end of an object, piece after piece.
#[derive(Debug, Default)]
struct Scan {
    /// How many objects and lists are open.
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// The first bytes of the last text at the top of the object, and whether it is the name of a member.
    text: Vec<u8>,
    is_name: bool,
}

impl Scan {
    /// Where the object ends in a piece, and what it is; or where its list begins, if it is a page.
    fn end(&mut self, piece: &[u8], may_be_page: bool) -> Option<(usize, Found)> {
        let mut at = 0;
        while at < piece.len() {
            if self.in_text {
                at += self.skip_text(&piece[at..]);
                continue;
            }
            match piece[at] {
                b'"' => {
                    self.in_text = true;
                    self.is_name = false;
                    self.text.clear();
                }
                b':' if self.depth == 1 => self.is_name = true,
                b'[' if self.depth == 1 && may_be_page && self.is_name && self.text == b"value" => {
                    return Some((at + 1, Found::Page));
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some((at + 1, Found::Entity));
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// How many bytes belong to the text that a piece is in.
    fn skip_text(&mut self, piece: &[u8]) -> usize {
        let length = if self.is_escaped {
            self.is_escaped = false;
            1
        } else {
            match memchr::memchr2(b'"', b'\\', piece) {
                Some(0) if piece[0] == b'"' => {
                    self.in_text = false;
                    return 1;
                }
                Some(0) => {
                    self.is_escaped = true;
                    1
                }
                Some(length) => length,
                None => piece.len(),
            }
        };
        // One byte more than `value` has, so that longer texts differ.
        if self.depth == 1 && self.text.len() < 6 {
            let room = 6 - self.text.len();
            self.text.extend_from_slice(&piece[..length.min(room)]);
        }
        length
    }
}

/// Checks a page without the elements of its list: it is JSON, has one `value`, and is no entity. Otherwise entities behind
/// a damaged list would be taken for the end of its page.
fn check_page(head: &[u8], tail: &[u8]) -> Result<()> {
    let damaged = || {
        let what = "what surrounds a list of entities is damaged; fetch or write the file again";
        Error::new(ErrorKind::Malformed, what)
    };
    let page = [head, tail].concat();
    let page: Page = serde_json::from_slice(&page).map_err(|_| damaged())?;
    if page.partition_key.is_some() || page.row_key.is_some() {
        return Err(damaged());
    }
    Ok(())
}

/// The members of a page that matter. A name that is there twice is an error.
#[derive(Deserialize)]
struct Page {
    #[serde(rename = "value")]
    _value: [(); 0],
    #[serde(rename = "PartitionKey")]
    partition_key: Option<IgnoredAny>,
    #[serde(rename = "RowKey")]
    row_key: Option<IgnoredAny>,
}

fn truncated() -> Error {
    let what = "the file ends inside an entity or a list; fetch or write the file again";
    Error::new(ErrorKind::Truncated, what)
}

fn no_entity() -> Error {
    let what = "expected an entity, a list of entities, or an object with the list `value`; check whether the \
                file has this format";
    Error::new(ErrorKind::Malformed, what)
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read as _};

    use super::*;
    use crate::error::Position;

    /// The entities of a document, and the error after them, which are the same in pieces of any size.
    fn objects(text: &str) -> (Vec<String>, Option<Error>) {
        let (whole, error) = objects_of(text.as_bytes());
        for size in [1, 2, 3, 7] {
            let (found, other) = objects_of(BufReader::with_capacity(size, text.as_bytes()));
            assert_eq!((&found, format!("{other:?}")), (&whole, format!("{error:?}")), "{text}");
        }
        (whole, error)
    }

    fn objects_of(input: impl BufRead) -> (Vec<String>, Option<Error>) {
        let mut objects = Objects::new(input);
        let mut found = Vec::new();
        loop {
            match objects.next() {
                None => return (found, None),
                Some(Err(error)) => {
                    assert!(objects.next().is_none());
                    return (found, Some(error));
                }
                Some(Ok(object)) => found.push(String::from_utf8(object.to_vec()).unwrap()),
            }
        }
    }

    #[test]
    fn entities_are_found_in_sequences_lists_and_pages() {
        let entities = [r#"{"A":"]}\"[{\\"}"#, r#"{"B":{"C":[1,{}]}}"#, "{}"];
        let [a, b, c] = entities;
        for text in [
            format!("{a}{b}{c}"),
            format!("\u{feff}{a}\r\n{b}\n{c}\n"),
            format!("[{a} , {b},\n{c}]"),
            format!("[{a}][{b}][][{c}]"),
            format!(r#"{{"odata.metadata":"x\"","value":[{a},{b},{c}]}}"#),
            format!(r#"{{"value" : [{a}],"next":{{"x":["}}"]}}}} {{"value":[{b}]}}{c}"#),
        ] {
            let (found, error) = objects(&text);
            assert!(error.is_none(), "{text}: {error:?}");
            assert_eq!(found, entities, "{text}");
        }
        assert!(objects("").0.is_empty());
        assert!(objects(" [] {\"value\":[]} ").0.is_empty());
        // Text with the name is no list.
        assert_eq!(objects(r#"{"value":"["}"#).0.len(), 1);
        assert_eq!(objects(r#"{"A":"value","B":[1]}"#).0.len(), 1);
        assert_eq!(objects(r#"{"values":[1]}"#).0.len(), 1);
        assert_eq!(objects(r#"{"A":{"value":[{}]}}"#).0.len(), 1);
        assert_eq!(objects(r#"{"valu\u0065":[{}]}"#).0.len(), 1);
    }

    #[test]
    fn what_is_no_entity_is_an_error_with_its_position() {
        for (text, kind, count, position) in [
            ("[{}\n, 5]", ErrorKind::Malformed, 1, (2, 3)),
            ("[{} {}]", ErrorKind::Malformed, 1, (1, 5)),
            ("x", ErrorKind::Malformed, 0, (1, 1)),
            ("\u{f000}", ErrorKind::Malformed, 0, (1, 3)),
            ("{\"A\":\n\"x", ErrorKind::Truncated, 0, (2, 3)),
            ("[{},", ErrorKind::Truncated, 1, (1, 5)),
            (r#"{"value":[{}]"#, ErrorKind::Truncated, 1, (1, 14)),
            ("{} , {}", ErrorKind::Malformed, 1, (1, 4)),
        ] {
            let (found, error) = objects(text);
            let error = error.unwrap();
            assert_eq!((found.len(), error.kind()), (count, kind), "{text}: {error}");
            assert_eq!(error.position(), Some(Position::Line(position.0, position.1)), "{text}");
        }
    }

    #[test]
    fn what_surrounds_the_list_of_a_page_is_checked() {
        for (text, count) in [
            (r#"{"value":[{}],{},{}}"#, 1),
            (r#"{"value":[{}],"value":[{}]}"#, 1),
            (r#"{"value":5,"value":[{}]}"#, 0),
            (r#"{"value":[{}]]"#, 1),
            (r#"{"value":[{}],"a":[}}"#, 1),
            (r#"{"PartitionKey":"p","RowKey":"r","value":[]}"#, 0),
            (r#"{"value":[],"PartitionKey":"p","RowKey":"r"}"#, 0),
            (r#"{x,"value":[{}]}"#, 0),
            (r#"{"value":x[{}]}"#, 0),
        ] {
            let (found, error) = objects(text);
            let error = error.unwrap_or_else(|| panic!("{text}"));
            assert_eq!((found.len(), error.kind()), (count, ErrorKind::Malformed), "{text}");
        }
    }

    #[test]
    fn the_end_of_a_page_does_not_fill_the_memory() {
        let text = &br#"{"value":[{}],"next":""#[..];
        let mut objects = Objects::new(BufReader::new(text.chain(std::io::repeat(b'a'))));
        assert!(objects.next().unwrap().is_ok());
        assert_eq!(objects.next().unwrap().unwrap_err().kind(), ErrorKind::TooLong);
    }

    #[test]
    fn an_entity_without_an_end_does_not_fill_the_memory() {
        let input = std::io::Read::chain(&b"{\""[..], std::io::repeat(b'a'));
        let mut objects = Objects::new(BufReader::new(input));
        assert_eq!(objects.next().unwrap().unwrap_err().kind(), ErrorKind::TooLong);
    }
}
