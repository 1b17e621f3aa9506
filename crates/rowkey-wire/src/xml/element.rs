//! A small XML tree and a small XML writer, for documents without significant attributes.

use std::fmt;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use quick_xml::events::{BytesRef, Event};
use quick_xml::{Reader, escape};

/// The most elements of a small document: five policies, five CORS rules, a message.
const MAX_ELEMENTS: usize = 1000;

/// The maximum nesting of elements; the deepest document of the services has five levels.
const MAX_DEPTH: usize = 16;

/// An element: its name without a prefix, its text, its child elements. Only one attribute is
/// significant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The name without a namespace prefix.
    pub name: String,
    /// The element's own text, with entities resolved and white space kept.
    pub text: String,
    /// The child elements in document order.
    pub children: Vec<Element>,
    /// Whether the text is percent-encoded because XML could not represent it: `Encoded="true"`.
    pub encoded: bool,
    /// The end of the element: the offset in bytes of its name in the end tag.
    pub end: u64,
}

/// The error for an invalid document. The server answers `InvalidXmlDocument`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum XmlError {
    /// The root has no elements.
    Empty {
        /// The offset of its end, in bytes.
        at: u64,
    },
    /// An element is missing.
    Missing(&'static str),
    /// An element or its value is repeated.
    Repeated(&'static str),
    /// The retention days are missing, not from 1 to 365, or given for a disabled policy.
    RetentionDays {
        /// The offset of the policy's end, in bytes.
        at: u64,
    },
    /// The document is not well-formed XML in UTF-8.
    Syntax {
        /// The approximate offset, in bytes.
        at: u64,
    },
    /// The nesting of elements exceeds that of any document of the services.
    TooDeep,
    /// There are more of an element than the service accepts.
    TooMany {
        /// The element.
        element: &'static str,
        /// The most that it accepts.
        limit: usize,
    },
    /// The element contains one that is not allowed.
    Unexpected(&'static str),
    /// The element's text is not a valid value.
    Value(&'static str),
}

impl fmt::Display for XmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(element) => write!(f, "the document has no <{element}>"),
            Self::Repeated(element) => write!(f, "<{element}> is repeated"),
            Self::Empty { .. } => f.write_str("the document has no elements"),
            Self::RetentionDays { .. } => {
                f.write_str("retention days must be 1 to 365 when enabled")
            }
            Self::Syntax { at } => write!(f, "the document is not well-formed XML near byte {at}"),
            Self::TooDeep => write!(f, "elements are nested deeper than {MAX_DEPTH}"),
            Self::TooMany { element, limit } => write!(f, "more than {limit} <{element}>"),
            Self::Unexpected(element) => write!(f, "<{element}> holds what it must not"),
            Self::Value(element) => write!(f, "the value of <{element}> is not valid"),
        }
    }
}

impl std::error::Error for XmlError {}

impl Element {
    /// Parses a document, with or without a byte order mark, and returns its root.
    pub fn read(body: &[u8]) -> Result<Self, XmlError> {
        Self::read_with(body, |element, parent, _| {
            parent.children.push(element);
            Ok(())
        })
    }

    /// Parses a small document with the root `name`, as in requests. A tree takes many times the
    /// memory of its text, so a longer document is rejected before the tree is built.
    pub fn read_small(body: &[u8], name: &'static str) -> Result<Self, XmlError> {
        let mut elements = 0_usize;
        let root = Self::read_with(body, |element, parent, _| {
            elements = elements.saturating_add(1);
            if elements > MAX_ELEMENTS {
                return Err(XmlError::TooMany { element: name, limit: MAX_ELEMENTS });
            }
            parent.children.push(element);
            Ok(())
        })?;
        root.named_as(name)
    }

    /// Parses a document with the root `name`. Each child of the root is passed to `child` instead
    /// of being kept.
    pub fn read_children(
        body: &[u8],
        name: &'static str,
        mut child: impl FnMut(Self) -> Result<(), XmlError>,
    ) -> Result<Self, XmlError> {
        let mut inside = 0_usize;
        let root = Self::read_with(body, |element, parent, is_root| {
            inside = inside.saturating_add(1);
            if inside > MAX_ELEMENTS {
                return Err(XmlError::TooMany { element: name, limit: MAX_ELEMENTS });
            }
            if is_root {
                inside = 0;
                return child(element);
            }
            parent.children.push(element);
            Ok(())
        })?;
        root.named_as(name)
    }

    /// Parses a document. At the end of each element, `add` receives the element, its parent, and
    /// whether the parent is the root.
    fn read_with(
        body: &[u8],
        mut add: impl FnMut(Self, &mut Self, bool) -> Result<(), XmlError>,
    ) -> Result<Self, XmlError> {
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
        let text = std::str::from_utf8(body)
            .map_err(|error| XmlError::Syntax { at: error.valid_up_to() as u64 })?;
        let mut reader = Reader::from_str(text);
        let mut open: Vec<Self> = Vec::new();
        let mut root = None;
        loop {
            let begin = reader.buffer_position();
            let syntax = XmlError::Syntax { at: begin };
            let event = reader
                .read_event()
                .map_err(|_| XmlError::Syntax { at: reader.error_position() })?;
            let closed = match event {
                Event::Start(start) => {
                    if open.len() == MAX_DEPTH {
                        return Err(XmlError::TooDeep);
                    }
                    let mut element = Self::named(start.local_name().into_inner());
                    let encoded = start.try_get_attribute("Encoded").ok().flatten();
                    element.encoded = encoded.is_some_and(|encoded| &*encoded.value == "true");
                    open.push(element);
                    continue;
                }
                Event::Empty(start) => {
                    let element = Self::named(start.local_name().into_inner());
                    Self { end: reader.buffer_position(), ..element }
                }
                Event::End(_) => {
                    // After the `</`.
                    Self { end: begin.saturating_add(2), ..open.pop().ok_or(syntax.clone())? }
                }
                Event::Text(text) => {
                    add_text(&mut open, &text.xml10_content()).ok_or(syntax)?;
                    continue;
                }
                Event::CData(text) => {
                    add_text(&mut open, &text.xml10_content()).ok_or(syntax)?;
                    continue;
                }
                Event::GeneralRef(reference) => {
                    let resolved = resolve(&reference).ok_or(syntax.clone())?;
                    add_text(&mut open, resolved.encode_utf8(&mut [0; 4])).ok_or(syntax)?;
                    continue;
                }
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
                // A document type may define entities, and the service rejects it.
                Event::DocType(_) => return Err(syntax),
                Event::Eof => break,
            };
            let in_root = open.len() == 1;
            match open.last_mut() {
                Some(parent) => add(closed, parent, in_root)?,
                None if root.is_some() => return Err(syntax),
                None => root = Some(closed),
            }
        }
        root.filter(|_| open.is_empty()).ok_or(XmlError::Syntax { at: body.len() as u64 })
    }

    /// Parses a document with the root `name`.
    pub fn read_root(body: &[u8], name: &'static str) -> Result<Self, XmlError> {
        Self::read(body)?.named_as(name)
    }

    fn named_as(self, name: &'static str) -> Result<Self, XmlError> {
        if self.name == name { Ok(self) } else { Err(XmlError::Missing(name)) }
    }

    /// The first child with this name.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The first child with this name, or [`XmlError::Missing`].
    pub fn require(&self, name: &'static str) -> Result<&Self, XmlError> {
        self.child(name).ok_or(XmlError::Missing(name))
    }

    /// The text of the first child with this name; `None` if it is missing or empty.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str()).filter(|text| !text.is_empty())
    }

    /// The text, decoded if it is encoded.
    pub fn decoded_text(&self) -> String {
        if self.encoded {
            percent_decode_str(&self.text).decode_utf8_lossy().into_owned()
        } else {
            self.text.clone()
        }
    }

    /// Rejects children that are not in `allowed` or that are repeated, and text between them.
    /// `own` is the element's name, for the error.
    pub fn holds_only(
        &self,
        own: &'static str,
        allowed: &'static [&'static str],
    ) -> Result<(), XmlError> {
        if !self.text.trim_ascii().is_empty() {
            return Err(XmlError::Unexpected(own));
        }
        for (index, child) in self.children.iter().enumerate() {
            let name = allowed.iter().find(|name| **name == child.name);
            let name = name.ok_or(XmlError::Unexpected(own))?;
            if self.children[..index].iter().any(|earlier| earlier.name == child.name) {
                return Err(XmlError::Repeated(name));
            }
        }
        Ok(())
    }

    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// Whether a document can contain this text: XML does not allow most control characters.
pub fn can_hold(text: &str) -> bool {
    text.chars().all(|c| match c {
        '\t' | '\n' | '\r' => true,
        '\u{FFFE}' | '\u{FFFF}' => false,
        other => other >= ' ',
    })
}

/// Adds to the text of the innermost open element. Only white space is allowed outside the root,
/// and characters that XML does not allow are rejected everywhere.
fn add_text(open: &mut [Element], text: &str) -> Option<()> {
    if !can_hold(text) {
        return None;
    }
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if !text.trim_ascii().is_empty() => return None,
        None => {}
    }
    Some(())
}

/// The character for `&name;` or `&#number;`. No other entities are supported.
fn resolve(reference: &BytesRef<'_>) -> Option<char> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Some(character);
    }
    match &*reference.xml10_content() {
        "amp" => Some('&'),
        "apos" => Some('\''),
        "gt" => Some('>'),
        "lt" => Some('<'),
        "quot" => Some('"'),
        _ => None,
    }
}

/// Writes a document element by element.
///
/// The caller must pass valid names; text is escaped. Characters that XML does not allow, such as
/// U+0000, are written unchanged, and the reader rejects them.
#[derive(Clone, Debug)]
pub struct Writer {
    out: String,
}

impl Writer {
    /// A document as clients write it, without a byte order mark.
    pub fn request() -> Self {
        Self { out: "<?xml version='1.0' encoding='utf-8'?>\n".to_owned() }
    }

    /// A document as the service writes it, with a byte order mark.
    pub fn response() -> Self {
        Self { out: "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>".to_owned() }
    }

    /// `<name>text</name>`, or `<name />` if there is no text.
    pub fn leaf(&mut self, name: &str, text: &str) {
        if text.is_empty() {
            self.empty(name);
        } else {
            self.start(name);
            push_escaped(text, &mut self.out);
            self.end(name);
        }
    }

    /// `<name />`.
    pub fn empty(&mut self, name: &str) {
        self.tag("<", name, " />");
    }

    /// `<name>`.
    pub fn start(&mut self, name: &str) {
        self.tag("<", name, ">");
    }

    /// A leaf whose text XML may not allow. It is then percent-encoded and marked with the
    /// attribute.
    pub fn name_leaf(&mut self, name: &str, text: &str) {
        if can_hold(text) {
            return self.leaf(name, text);
        }
        self.start_with(name, "Encoded", "true");
        self.out.extend(utf8_percent_encode(text, NON_ALPHANUMERIC));
        self.end(name);
    }

    /// `<name attribute="value">`.
    pub fn start_with(&mut self, name: &str, attribute: &str, value: &str) {
        self.tag("<", name, " ");
        self.out.push_str(attribute);
        self.out.push_str("=\"");
        self.out.push_str(&escape::escape(value));
        self.out.push_str("\">");
    }

    /// Reserves memory for `bytes` more bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// `</name>`.
    pub fn end(&mut self, name: &str) {
        self.tag("</", name, ">");
    }

    /// The finished document.
    pub fn finish(self) -> String {
        self.out
    }

    fn tag(&mut self, before: &str, name: &str, after: &str) {
        for part in [before, name, after] {
            self.out.push_str(part);
        }
    }
}

/// Appends `text` with `<`, `>` and `&` escaped. Carriage returns are escaped, too, because readers
/// turn a bare one into a line feed.
pub fn push_escaped(text: &str, out: &mut String) {
    let special = |byte: u8| matches!(byte, b'<' | b'>' | b'&' | b'\r');
    // Nearly all text has nothing to escape. Checking every byte, rather than searching for the
    // first special one, lets the compiler compare many at once.
    if !text.bytes().fold(false, |found, byte| found | special(byte)) {
        out.push_str(text);
        return;
    }
    for (index, part) in text.split('\r').enumerate() {
        if index > 0 {
            out.push_str("&#xD;");
        }
        out.push_str(&escape::partial_escape(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Element, XmlError> {
        Element::read(text.as_bytes())
    }

    #[test]
    fn prefixes_marks_and_entities_are_seen_through() {
        let root = read("\u{FEFF}<?xml version=\"1.0\"?>\n<m:a xmlns:m=\"u\"><!-- c --><m:b>x &lt;&amp;&#x41;<![CDATA[<&]]></m:b><c/></m:a>\n").unwrap();
        assert_eq!((root.name.as_str(), root.children.len()), ("a", 2));
        assert_eq!(root.text_of("b"), Some("x <&A<&"));
        assert_eq!(root.text_of("c"), None);
        assert_eq!(root.require("d"), Err(XmlError::Missing("d")));
    }

    #[test]
    fn what_is_not_a_document_is_refused() {
        for text in [
            "",
            " ",
            "text",
            "<a>",
            "<a></b>",
            "</a>",
            "<a/><b/>",
            "<a/>text",
            "<a>&unknown;</a>",
            "<a>\u{1}</a>",
            "<a>&#1;</a>",
            "<!DOCTYPE a [<!ENTITY e \"x\">]><a>&e;</a>",
            "<a",
            "<a><",
            "{\"a\":1}",
        ] {
            assert!(matches!(read(text), Err(XmlError::Syntax { .. })), "{text}: {:?}", read(text));
        }
        assert!(matches!(Element::read(b"<a>\xFF</a>"), Err(XmlError::Syntax { at: 3 })));
    }

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(read(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(read(&nested(MAX_DEPTH + 1)), Err(XmlError::TooDeep));
        assert_eq!(read(&"<a>".repeat(100_000)), Err(XmlError::TooDeep));
    }

    #[test]
    fn written_text_reads_back() {
        for text in ["a<b>&c", "x\r\ny", " spaces ", "\"'", "😀", "&amp;"] {
            let mut writer = Writer::response();
            writer.start("a");
            writer.leaf("b", text);
            writer.end("a");
            let root = read(&writer.finish()).unwrap();
            assert_eq!(root.text_of("b"), Some(text));
        }
    }
}
