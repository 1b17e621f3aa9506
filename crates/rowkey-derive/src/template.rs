//! Key templates: literal text and parts, `"id_{id:6}_{at:desc}"`.

use syn::{Error, LitStr, Result};

use crate::names::did_you_mean;
use crate::notation::{Format, Notation};

/// The maximum length of a key, in UTF-16 code units.
const MAX_KEY_UNITS: usize = 512;

/// The maximum number of buckets: reading all of them takes at least one request each.
pub(crate) const MAX_BUCKETS: u16 = 1000;

/// The template of a PartitionKey or a RowKey.
pub(crate) struct Template {
    pub(crate) literal: LitStr,
    pub(crate) pieces: Vec<Piece>,
}

/// Literal text, or the value of a field.
pub(crate) enum Piece {
    Literal(String),
    Part(Part),
}

/// `{field}`, `{field:6,desc}`, `{field:iso3}` or `{field:bucket(8)}`.
pub(crate) struct Part {
    pub(crate) field: String,
    /// The index of the field, set by [`Template::resolve`].
    pub(crate) index: usize,
    pub(crate) format: Format,
    /// The number of buckets from which a hash of the value chooses; the value itself cannot be read back.
    pub(crate) bucket: Option<u16>,
    /// The character that follows the part, which its text must not contain.
    pub(crate) separator: Option<char>,
}

impl Template {
    /// The template of an entity's key, from which its fields are read back.
    pub(crate) fn parse(literal: &LitStr, is_row: bool) -> Result<Self> {
        let template = if is_row { Self::row } else { Self::index }(literal, false)?;
        if let Some(part) = template.parts().find(|part| part.format.notation == Notation::Lower) {
            let what = format!(
                "`{{{}:lower}}` is only valid in indexes: a key in lower case does not determine \
                 the value of the field",
                part.field
            );
            return Err(Error::new(literal.span(), what));
        }
        Ok(template)
    }

    /// The template of a PartitionKey, or of a key of an index. With `many`, several entities may have the
    /// same values; then `_` and the entity's RowKey follow the values.
    pub(crate) fn index(literal: &LitStr, many: bool) -> Result<Self> {
        let text = literal.value() + if many { "_" } else { "" };
        let pieces = parse(&text)
            .and_then(|pieces| check_order(&pieces, many).map(|()| pieces))
            .map_err(|what| Error::new(literal.span(), what))?;
        Ok(Self { literal: literal.clone(), pieces })
    }

    /// The template of a key that is not a PartitionKey, where a bucket would only break the order.
    pub(crate) fn row(literal: &LitStr, many: bool) -> Result<Self> {
        let template = Self::index(literal, many)?;
        let Some(part) = template.parts().find(|part| part.bucket.is_some()) else {
            return Ok(template);
        };
        let what = format!("`{{{}:bucket(..)}}` is only valid in PartitionKeys", part.field);
        Err(Error::new(literal.span(), what))
    }

    /// Resolves the fields of the parts among these names.
    pub(crate) fn resolve(&mut self, owner: &syn::Ident, names: &[String]) -> Result<()> {
        let mut seen = Vec::new();
        for piece in &mut self.pieces {
            let Piece::Part(part) = piece else { continue };
            let field = &part.field;
            let Some(index) = names.iter().position(|name| name == field) else {
                let hint = did_you_mean(field, names.iter().map(String::as_str));
                let what = format!("`{{{field}}}`: `{owner}` has no field `{field}`{hint}");
                return Err(Error::new(self.literal.span(), what));
            };
            if seen.contains(&index) {
                let what = format!("duplicate `{{{field}}}` in the template");
                return Err(Error::new(self.literal.span(), what));
            }
            seen.push(index);
            part.index = index;
        }
        Ok(())
    }

    /// The parts that are read back from a key: all except buckets.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Part> {
        self.parts().filter(|part| part.bucket.is_none())
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Part(part) => Some(part),
            Piece::Literal(_) => None,
        })
    }

    /// The literal text with which every key begins.
    pub(crate) fn head(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Literal(text)) => text,
            _ => "",
        }
    }
}

fn parse(text: &str) -> std::result::Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let tail = &rest[character.len_utf8()..];
        if (character == '{' || character == '}') && tail.starts_with(character) {
            literal.push(character);
            rest = &tail[1..];
        } else if character == '{' {
            let end = tail.find('}').ok_or("unclosed `{`; write `{{` for a literal brace")?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Part(part(&tail[..end])?));
            rest = &tail[end + 1..];
        } else if character == '}' {
            return Err("unopened `}`; write `}}` for a literal brace".to_owned());
        } else if matches!(character, '/' | '\\' | '#' | '?') || character.is_control() {
            return Err(format!(
                "keys must not contain {character:?}: `/`, `\\`, `#`, `?` and control characters \
                 are forbidden"
            ));
        } else {
            literal.push(character);
            rest = tail;
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    separate(&mut pieces)?;
    check_length(&pieces)?;
    Ok(pieces)
}

/// Parses the text between the braces.
fn part(text: &str) -> std::result::Result<Part, String> {
    let (field, formats) = text.split_once(':').map_or((text, None), |(f, s)| (f, Some(s)));
    if field.is_empty() {
        return Err("`{}` requires the name of a field: `{id}`".to_owned());
    }
    let mut part = Part {
        field: field.to_owned(),
        index: 0,
        format: Format::default(),
        bucket: None,
        separator: None,
    };
    if let Some(buckets) = formats.and_then(|formats| formats.strip_prefix("bucket(")) {
        let buckets = buckets.strip_suffix(')').and_then(|buckets| buckets.parse().ok());
        part.bucket = buckets.filter(|buckets| (2..=MAX_BUCKETS).contains(buckets));
        if part.bucket.is_none() {
            return Err(format!(
                "`{{{text}}}`: the number of buckets must be between 2 and {MAX_BUCKETS}, without \
                 another format: `{{{field}:bucket(8)}}`"
            ));
        }
        return Ok(part);
    }
    if let Some(formats) = formats {
        part.format = Format::parse(field, formats)?;
    }
    Ok(part)
}

/// Assigns to each part the character that ends it. Whether the part can contain that character is checked
/// with its type.
fn separate(pieces: &mut [Piece]) -> std::result::Result<(), String> {
    for i in 1..pieces.len() {
        let (before, after) = pieces.split_at_mut(i);
        let Some(Piece::Part(part)) = before.last_mut() else { continue };
        match after.first() {
            Some(Piece::Literal(text)) => part.separator = text.chars().next(),
            Some(Piece::Part(next)) => {
                return Err(format!(
                    "no separator between `{{{}}}` and `{{{}}}`; put a character between them that \
                     the first cannot contain, such as `_`",
                    part.field, next.field
                ));
            }
            None => {}
        }
    }
    Ok(())
}

/// Refuses a part before others whose text order is not value order, unless it is marked `unordered`.
fn check_order(pieces: &[Piece], many: bool) -> std::result::Result<(), String> {
    let parts = || {
        pieces.iter().enumerate().filter_map(|(at, piece)| match piece {
            Piece::Part(part) => Some((at, part)),
            Piece::Literal(_) => None,
        })
    };
    let last = parts().next_back().map(|(at, _)| at);
    for (at, part) in parts() {
        let Format { notation, unordered, .. } = part.format;
        if notation.is_in_order() || unordered || (Some(at) == last && !many) {
            continue;
        }
        let (field, words) = (&part.field, notation.words());
        return Err(format!(
            "`{{{field}:{words}}}` is followed by other parts and does not sort by value: 10 sorts \
             before 9; give the number a width, `{{{field}:6}}`, or write \
             `{{{field}:{words},unordered}}` if the order of the rows does not matter"
        ));
    }
    Ok(())
}

fn check_length(pieces: &[Piece]) -> std::result::Result<(), String> {
    let units: usize = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Literal(text) => text.encode_utf16().count(),
            Piece::Part(_) => 0,
        })
        .sum();
    if units > MAX_KEY_UNITS {
        return Err(format!(
            "the text of the template has {units} characters; the maximum for keys is \
             {MAX_KEY_UNITS}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(template: &str) -> std::result::Result<String, String> {
        let show = |piece: &Piece| match piece {
            Piece::Literal(text) => format!("{text:?}"),
            Piece::Part(p) => {
                let desc = if p.format.descending { " desc" } else { "" };
                format!("{} [{}]{desc} {:?}", p.field, p.format.notation.words(), p.separator)
            }
        };
        parse(template).map(|pieces| pieces.iter().map(show).collect::<Vec<_>>().join(" · "))
    }

    #[test]
    fn a_template_parses_into_text_and_parts_with_formats_and_separators() {
        assert_eq!(shown("").unwrap(), "");
        assert_eq!(shown("{a}").unwrap(), "a [] None");
        assert_eq!(shown("id_{id:6}").unwrap(), "\"id_\" · id [6] None");
        assert_eq!(
            shown("{a:desc}_x_{b:3,desc};{c:desc,4}").unwrap(),
            "a [] desc Some('_') · \"_x_\" · b [3] desc Some(';') · \";\" · c [4] desc None"
        );
        assert_eq!(shown("a{{b}}c").unwrap(), "\"a{b}c\"");
        assert_eq!(shown("{a}-{b}").unwrap(), "a [] Some('-') · \"-\" · b [] None");
        assert_eq!(shown("{a}end").unwrap(), "a [] Some('e') · \"end\"");
    }

    #[test]
    fn formats_round_trip_through_display() {
        for words in [
            "1",
            "20",
            "x8",
            "X16",
            "unpadded",
            "iso",
            "iso3",
            "iso9,naive",
            "unix",
            "unix_ms",
            "unix,unpadded",
            "date",
            "yyyyMMdd",
            "D",
            "N",
            "B",
            "N,upper",
            "D,upper",
            "true",
            "True",
            "lower",
        ] {
            let format = Format::parse("a", words).unwrap();
            assert_eq!(format.notation.words(), words);
            assert!(!format.descending && !format.unordered, "{words}");
        }
        assert_eq!(Format::parse("a", "upper").unwrap().notation.words(), "D,upper");
        assert!(Format::parse("a", "unpadded,unordered").unwrap().unordered);
    }

    #[test]
    fn a_format_without_key_order_is_last_or_marked_unordered() {
        let check = |template: &str, many| check_order(&parse(template).unwrap(), many);
        assert!(check("{a}_{b:unpadded}", false).is_ok());
        assert!(check("{b:unpadded}_end", false).is_ok());
        assert!(check("{b:unix_ms,unpadded,unordered}_{a}", true).is_ok());
        for (template, many) in [("{b:unpadded}_{a}", false), ("x_{b:unix,unpadded}", true)] {
            let error = check(template, many).unwrap_err();
            assert!(error.contains("unpadded,unordered}`"), "{error}");
        }
    }

    #[test]
    fn ambiguous_templates_are_rejected() {
        for template in [
            "{a}{b}",
            "{a",
            "a}",
            "{}",
            "{:6}",
            "{a:}",
            "{a:x}",
            "{a:0}",
            "{a:21}",
            "{a:desc,desc}",
            "{a:6,6}",
            "{a:6,x8}",
            "{a:x0}",
            "{a:x17}",
            "{a:X+8}",
            "{a:iso10}",
            "{a:iso0}",
            "{a:iso,desc}",
            "{a:6,unpadded}",
            "{a:6,naive}",
            "{a:6,upper}",
            "{a:naive}",
            "{a:unordered}",
            "{a:6,unordered}",
            "{a:hex}",
            "{a:n}",
            "{a:unix,desc}",
            "a/b",
            "a\\b",
            "a#b",
            "a?b",
            "a\tb",
            "a\u{80}",
        ] {
            assert!(shown(template).is_err(), "{template:?}");
        }
        assert!(shown(&"x".repeat(512)).is_ok());
        assert!(shown(&"x".repeat(513)).is_err());
    }
}
