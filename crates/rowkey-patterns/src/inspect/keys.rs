//! Detects the format of keys: their parts, the separators between them, and a template that produces all of
//! them.

use std::fmt;

/// Separators, tried in this order. A hyphen counts only if it is not part of a GUID or a date.
const SEPARATORS: [char; 6] = ['|', ';', ',', '~', '_', ' '];

/// Describes a key: `guid`, `GUID`, `date`, `text_number:6`. `number:6` is padded to six digits.
pub(super) fn format(key: &str) -> String {
    let each = split(key).into_iter().map(|(part, separator)| {
        let format = known(part).unwrap_or_else(|| "text".to_owned());
        separator.map_or_else(|| format.clone(), |separator| format!("{format}{separator}"))
    });
    each.collect()
}

/// The parts of a key, each with the separator after it.
fn split(key: &str) -> Vec<(&str, Option<char>)> {
    let is_one = known(key).is_some();
    let has_known = |separator| key.split(separator).any(|part| known(part).is_some());
    let separator = SEPARATORS.into_iter().find(|separator| key.contains(*separator));
    // Colons and hyphens also occur in dates.
    let separator = separator.or_else(|| key.contains(':').then_some(':'));
    let separator = separator.or_else(|| (key.contains('-') && has_known('-')).then_some('-'));
    let Some(separator) = separator.filter(|_| !is_one) else { return vec![(key, None)] };
    let parts: Vec<_> = key.split(separator).collect();
    let last = parts.len() - 1;
    let parts = parts.into_iter().enumerate().flat_map(|(at, part)| {
        let mut inner = split(part);
        if let Some(end) = inner.last_mut().filter(|_| at < last) {
            end.1 = Some(separator);
        }
        inner
    });
    parts.collect()
}

/// A type, and the format after the colon in a template part: `u32` and `:6`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Notation {
    rust: &'static str,
    words: String,
}

/// A part that all keys of a sample have.
#[derive(Clone, Debug)]
struct Part {
    /// The notations that read and write the part in all keys, the most specific first. Empty for text.
    notations: Vec<Notation>,
    /// Whether its text needs no escape.
    plain: bool,
    separator: Option<char>,
}

/// The common format of all keys of a sample.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    parts: Vec<Part>,
    is_varied: bool,
    differs: bool,
}

/// Reads the keys of a sample. Keeps the first one.
#[derive(Clone, Default)]
pub(super) struct ShapeBuilder {
    first: Option<String>,
    shape: Shape,
}

impl ShapeBuilder {
    pub(super) fn add(&mut self, key: &str) {
        let found: Vec<_> = split(key)
            .into_iter()
            .map(|(text, separator)| {
                let plain =
                    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
                Part { notations: notations(text), plain, separator }
            })
            .collect();
        let Some(first) = &self.first else {
            self.first = Some(key.to_owned());
            self.shape.parts = found;
            return;
        };
        self.shape.is_varied |= first != key;
        let parts = &mut self.shape.parts;
        let is_alike = parts.len() == found.len()
            && parts.iter().zip(&found).all(|(one, other)| one.separator == other.separator);
        if !is_alike {
            self.shape.differs = true;
            return;
        }
        for (part, found) in parts.iter_mut().zip(found) {
            part.notations.retain(|notation| found.notations.contains(notation));
            part.plain &= found.plain;
        }
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }
}

/// Without the key.
impl fmt::Debug for ShapeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape.fmt(f)
    }
}

impl Shape {
    /// The template of these keys, and its fields with their types, named after `name`. The key is one text
    /// field unless several keys agree on more specific parts.
    pub(super) fn template(&self, name: &str) -> (String, Vec<(String, &'static str)>) {
        let text = || (format!("{{{name}}}"), vec![(name.to_owned(), "String")]);
        let is_typed = self.parts.iter().any(|part| !part.notations.is_empty());
        // A text part before another part must need no escape, and end at one of these separators.
        let is_safe = self.parts.iter().all(|part| {
            let ends =
                part.separator.is_none_or(|end| matches!(end, '_' | ':' | '|' | ',' | ';' | '-'));
            !part.notations.is_empty() || part.separator.is_none() || (part.plain && ends)
        });
        if !self.is_varied || self.differs || !is_typed || !is_safe {
            return text();
        }
        let mut template = String::new();
        let mut fields = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            let field = match self.parts.len() {
                1 => name.to_owned(),
                _ => format!("{name}_{}", at + 1),
            };
            let notation = part.notations.first();
            let words = notation.map_or("", |notation| &notation.words);
            let is_last = at + 1 == self.parts.len();
            let unordered = if words == "unpadded" && !is_last { ",unordered" } else { "" };
            let colon = if words.is_empty() { "" } else { ":" };
            for piece in ["{", &field, colon, words, unordered, "}"] {
                template.push_str(piece);
            }
            template.extend(part.separator);
            fields.push((field, notation.map_or("String", |notation| notation.rust)));
        }
        (template, fields)
    }
}

const INSTANT: &str = "rowkey::edm::DateTime";
const GUID: &str = "rowkey::edm::Guid";

/// The notations that read a part and write it back unchanged, the most specific first.
fn notations(part: &str) -> Vec<Notation> {
    let mut all = Vec::new();
    let mut add = |rust, words: String| all.push(Notation { rust, words });
    let length = part.len();
    match known(part).as_deref() {
        Some("guid") => add(GUID, String::new()),
        Some("GUID") => add(GUID, "upper".to_owned()),
        Some("guid:N") => add(GUID, "N".to_owned()),
        Some("GUID:N") => add(GUID, "N,upper".to_owned()),
        Some("guid:B") => add(GUID, "B".to_owned()),
        Some("GUID:B") => add(GUID, "B,upper".to_owned()),
        Some("date") => add(INSTANT, "date".to_owned()),
        Some("datetime") => {
            let fraction = part.strip_suffix('Z').and_then(|text| text.get(19..));
            match fraction.map(|fraction| fraction.strip_prefix('.').unwrap_or(fraction).len()) {
                Some(0) => add(INSTANT, "iso".to_owned()),
                Some(digits @ 1..=7) => add(INSTANT, format!("iso{digits}")),
                _ => {}
            }
        }
        Some("ticks") => add(INSTANT, String::new()),
        Some("ticks:desc") => add(INSTANT, "desc".to_owned()),
        Some("ticks:unpadded") => add(INSTANT, "18".to_owned()),
        Some("unix") => add(INSTANT, "unix".to_owned()),
        Some("unix:milliseconds") => add(INSTANT, "unix_ms".to_owned()),
        _ => {}
    }
    if part.parse::<u64>().is_ok_and(|number| number.to_string() == part) {
        add("u64", "unpadded".to_owned());
    }
    if part.parse::<i64>().is_ok_and(|number| number.to_string() == part) {
        add("i64", "unpadded".to_owned());
    }
    if part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u64>().is_ok() {
        add("u64", length.to_string());
    }
    if (8..=16).contains(&length) && part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        for (prefix, other) in
            [('x', u8::is_ascii_uppercase as fn(&u8) -> bool), ('X', u8::is_ascii_lowercase)]
        {
            if !part.bytes().any(|byte| other(&byte)) {
                add("u64", format!("{prefix}{length}"));
            }
        }
    }
    all
}

/// The format of a part that is more specific than text.
fn known(part: &str) -> Option<String> {
    if part.is_empty() {
        return Some("empty".to_owned());
    }
    if let Some(guid) = guid(part) {
        return Some(guid);
    }
    if part.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(number(part));
    }
    if part.parse::<chrono::NaiveDate>().is_ok() && part.len() == 10 {
        return Some("date".to_owned());
    }
    if chrono::DateTime::parse_from_rfc3339(part).is_ok() {
        return Some("datetime".to_owned());
    }
    if part.strip_prefix('-').is_some_and(|rest| rest.parse::<u64>().is_ok()) {
        return Some("number".to_owned());
    }
    // Shorter ones may be words.
    if part.len() >= 8 && part.bytes().any(|byte| byte.is_ascii_digit()) {
        let case = case(part)?;
        return Some(format!("{}:{}", if case { "HEX" } else { "hex" }, part.len()));
    }
    None
}

/// Returns whether the letters of a hexadecimal text are upper case; `None` for other text or mixed case.
fn case(text: &str) -> Option<bool> {
    let letters = text.bytes().filter(u8::is_ascii_alphabetic);
    let upper = letters.clone().all(|byte| matches!(byte, b'A'..=b'F'));
    let lower = letters.clone().all(|byte| matches!(byte, b'a'..=b'f'));
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && (upper || lower)).then_some(upper && letters.count() > 0)
}

fn guid(part: &str) -> Option<String> {
    let (inner, form) = match part.len() {
        38 => (part.strip_prefix('{')?.strip_suffix('}')?, ":B"),
        36 => (part, ""),
        32 => (part, ":N"),
        _ => return None,
    };
    let hyphens: Vec<_> = inner.match_indices('-').map(|(at, _)| at).collect();
    let expected: &[usize] = if form == ":N" { &[] } else { &[8, 13, 18, 23] };
    if hyphens != expected {
        return None;
    }
    let digits = inner.replace('-', "");
    let spelling = match case(&digits) {
        Some(true) => "GUID",
        Some(false) => "guid",
        None if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => "guid:mixed",
        None => return None,
    };
    Some(format!("{spelling}{form}"))
}

/// The format of a number of digits only. Instants are detected by their length and first digits.
fn number(digits: &str) -> String {
    match (digits.len(), digits.as_bytes()) {
        // .NET ticks of the years 1901 to 2218, and inverted ticks.
        (18, [b'6', ..]) => "ticks:unpadded".to_owned(),
        (19, [b'0', b'6', ..]) => "ticks".to_owned(),
        (19, [b'2', b'4' | b'5', ..]) => "ticks:desc".to_owned(),
        (10, [b'1', ..]) => "unix".to_owned(),
        (13, [b'1', ..]) => "unix:milliseconds".to_owned(),
        (length, [b'0', _, ..]) => format!("number:{length}"),
        _ => "number".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ShapeBuilder, format};

    /// The template of the keys, and the types of its fields.
    fn template(keys: &[&str]) -> String {
        let mut builder = ShapeBuilder::default();
        for key in keys {
            builder.add(key);
        }
        let (template, fields) = builder.shape().template("row");
        let types: Vec<_> =
            fields.iter().map(|(_, rust)| rust.trim_start_matches("rowkey::edm::")).collect();
        format!("{template} {}", types.join(" "))
    }

    #[test]
    fn keys_with_a_common_format_have_typed_parts() {
        for (keys, expected) in [
            (&["7", "42"][..], "{row:unpadded} u64"),
            (&["7", "-42"], "{row:unpadded} i64"),
            (&["07", "42"], "{row:2} u64"),
            (&["0000abcd", "00001234"], "{row:x8} u64"),
            (&["0000ABCD", "00001234"], "{row:X8} u64"),
            (&["0000ABCD", "0000abcd"], "{row} String"),
            (&["1714979289", "1714979290"], "{row:unix} DateTime"),
            (&["1714979289", "999"], "{row:unpadded} u64"),
            (&["1714979289123", "1714979289124"], "{row:unix_ms} DateTime"),
            (&["0638505760891230000", "0638505760891230001"], "{row} DateTime"),
            (&["2516872738983769999", "2516872738983769998"], "{row:desc} DateTime"),
            (&["638505760891230000", "638505760891230001"], "{row:18} DateTime"),
            (&["2024-05-06", "2024-05-07"], "{row:date} DateTime"),
            (&["2024-05-06T07:08:09.123Z", "2024-05-07T07:08:09.000Z"], "{row:iso3} DateTime"),
            (&["2024-05-06T07:08:09Z", "2024-05-07T07:08:09Z"], "{row:iso} DateTime"),
            (&["2024-05-06T07:08:09Z", "2024-05-07T07:08:09.5Z"], "{row} String"),
            (
                &["0d391d16-97f1-4b9a-be68-4cc871f90001", "0d391d16-97f1-4b9a-be68-4cc871f90002"],
                "{row} Guid",
            ),
            (
                &["0D391D16-97F1-4B9A-BE68-4CC871F90001", "0D391D16-97F1-4B9A-BE68-4CC871F90002"],
                "{row:upper} Guid",
            ),
            (
                &["0D391D16-97F1-4B9A-BE68-4CC871F90001", "0d391d16-97f1-4b9a-be68-4cc871f90002"],
                "{row} String",
            ),
            (&["order_000123", "order_000200"], "{row_1}_{row_2:6} String u64"),
            (&["7_de", "12_fr"], "{row_1:unpadded,unordered}_{row_2} u64 String"),
            (&["de-0042", "fr-0043"], "{row_1}-{row_2:4} String u64"),
            (
                &["a_2024-05-06T07:08:09Z", "b_2024-05-06T07:08:09Z"],
                "{row_1}_{row_2:iso} String DateTime",
            ),
            // A single key proves too little, and escaped text is not recognized.
            (&["42"], "{row} String"),
            (&["42", "42"], "{row} String"),
            (&["a", "b"], "{row} String"),
            (&["a.b_1", "c_2"], "{row} String"),
            (&["a_1", "c"], "{row} String"),
            (&["1_2", "1:2"], "{row} String"),
        ] {
            assert_eq!(template(keys), expected, "{keys:?}");
        }
    }

    #[test]
    fn key_formats_are_distinguished() {
        for (key, expected) in [
            ("0d391d16-97f1-4b9a-be68-4cc871f90001", "guid"),
            ("0D391D16-97F1-4B9A-BE68-4CC871F90002", "GUID"),
            ("0D391D16-97F1-4b9a-be68-4CC871F90002", "guid:mixed"),
            ("0d391d1697f14b9abe684cc871f90001", "guid:N"),
            ("{0d391d16-97f1-4b9a-be68-4cc871f90001}", "guid:B"),
            ("7", "number"),
            ("0", "number"),
            ("-1", "number"),
            ("0000000042", "number:10"),
            ("000001909d7e3c40", "hex:16"),
            ("000001909D7E3C41", "HEX:16"),
            ("2024-05-06", "date"),
            ("2024-05-06T07:08:09.123Z", "datetime"),
            ("1714979289", "unix"),
            ("1714979289123", "unix:milliseconds"),
            ("0638505760891230000", "ticks"),
            ("2516872738983769999", "ticks:desc"),
            ("de-0042", "text-number:4"),
            ("mail_2024-05-06T07:08:09Z", "text_datetime"),
            ("fffffe70b344c7dc:00000000ffff5eed", "hex:16:hex:16"),
            ("order_000123", "text_number:6"),
            ("o'brien", "text"),
            ("o-brien", "text"),
            ("", "empty"),
        ] {
            assert_eq!(format(key), expected, "{key}");
        }
    }
}
