//! The stored format of an index in blobs: names, and what is in them. What is here must stay
//! readable.
//!
//! A blob is text: a line of JSON that says what it is, then a line for each entry, its parts divided
//! by tabs. Keys contain neither tabs nor line breaks, nor anything else below a space.

use std::fmt::Write as _;

use rowkey::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::name::hexadecimal;

const FORMAT: &str = "rowkey-index/1";

/// Names of values that would be longer are hashes.
const MAX_NAME: usize = 400;

/// The keys of an entity, as a list names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Listed {
    pub(super) partition_key: String,
    pub(super) row_key: String,
}

/// A part of a list that is too long for one blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// What follows the name of the list in that of the blob: never used twice.
    pub(super) id: String,
    /// The keys in it are not smaller, except in the first chunk of a list.
    pub(super) from: Listed,
}

/// What a blob of a list holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// Keys, in order, each once.
    Keys(Vec<Listed>),
    /// Where they are, in order: the first blob of a long list.
    Chunks(Vec<Chunk>),
    /// Nothing any more: what was here went to these chunks. The list's first blob may not know
    /// that yet.
    Moved(Vec<Chunk>),
}

#[derive(Serialize, Deserialize)]
struct Head<'a> {
    format: &'a str,
    /// In full, since the name may be a hash.
    value: std::borrow::Cow<'a, str>,
    holds: Holds,
    count: usize,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Holds {
    Keys,
    Chunks,
    Moved,
}

impl Page {
    pub(super) fn print(&self, value: &str) -> Result<String> {
        let (holds, count) = match self {
            Self::Keys(keys) => (Holds::Keys, keys.len()),
            Self::Chunks(chunks) => (Holds::Chunks, chunks.len()),
            Self::Moved(chunks) => (Holds::Moved, chunks.len()),
        };
        let head = Head { format: FORMAT, value: value.into(), holds, count };
        let mut text = serde_json::to_string(&head)
            .map_err(|_| Error::refused(ErrorKind::Invalid, "the list cannot be written"))?;
        text.push('\n');
        // Memory takes whatever is written.
        match self {
            Self::Keys(keys) => {
                for key in keys {
                    let _ = writeln!(text, "{}\t{}", key.partition_key, key.row_key);
                }
            }
            Self::Chunks(chunks) | Self::Moved(chunks) => {
                for Chunk { id, from } in chunks {
                    let _ = writeln!(text, "{id}\t{}\t{}", from.partition_key, from.row_key);
                }
            }
        }
        Ok(text)
    }

    /// Reads what [`print`](Self::print) wrote for this value.
    pub(super) fn parse(text: &[u8], value: &str) -> Result<Self> {
        let (stored, page) = Self::read(text).ok_or_else(|| {
            let what = "a blob of the index does not hold a part of a list";
            Error::refused(ErrorKind::Decode, what)
                .advise("something else wrote to it: repair the index")
        })?;
        if stored != value {
            let what = "a blob of the index holds the list of another value";
            return Err(Error::refused(ErrorKind::Decode, what)
                .advise("something else wrote to it: repair the index"));
        }
        Ok(page)
    }

    /// The value, and what the blob holds of its list.
    pub(super) fn read(text: &[u8]) -> Option<(String, Self)> {
        let text = std::str::from_utf8(text).ok()?;
        let (head, lines) = text.split_once('\n')?;
        let head: Head<'_> = serde_json::from_str(head).ok()?;
        // A line that lacks its end was cut off.
        if head.format != FORMAT || !(lines.is_empty() || lines.ends_with('\n')) {
            return None;
        }
        let key = |line: &str| {
            let (partition_key, row_key) = line.split_once('\t')?;
            Some(Listed { partition_key: partition_key.into(), row_key: row_key.into() })
        };
        let chunk = |line: &str| {
            let (id, from) = line.split_once('\t')?;
            Some(Chunk { id: id.into(), from: key(from)? })
        };
        let (page, count) = match head.holds {
            Holds::Keys => {
                let keys: Vec<_> = lines.lines().map(key).collect::<Option<_>>()?;
                if !keys.is_sorted_by(|one, next| one < next) {
                    return None;
                }
                let count = keys.len();
                (Self::Keys(keys), count)
            }
            Holds::Chunks | Holds::Moved => {
                let chunks: Vec<_> = lines.lines().map(chunk).collect::<Option<_>>()?;
                let count = chunks.len();
                match head.holds {
                    Holds::Chunks => (Self::Chunks(chunks), count),
                    _ => (Self::Moved(chunks), count),
                }
            }
        };
        (count == head.count).then(|| (head.value.into_owned(), page))
    }
}

/// The name of a list's first blob: the name of the index, and the value with every byte as `=2F`
/// that is not a letter, a digit, `-` or `_`; of a long value its SHA-256.
pub(super) fn blob_name(index: &str, value: &str) -> String {
    let mut name = format!("{index}/");
    if value.is_empty() {
        name.push('=');
    }
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "={byte:02X}");
        }
        if name.len() > MAX_NAME {
            return format!("{index}/=sha256={}", hexadecimal(&Sha256::digest(value)));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(partition_key: &str, row_key: &str) -> Listed {
        Listed { partition_key: partition_key.into(), row_key: row_key.into() }
    }

    #[test]
    fn lists_stored_by_this_version_must_stay_readable() {
        let keys = Page::Keys(vec![listed("", "id_1"), listed("a b", "id_2")]);
        let text = "{\"format\":\"rowkey-index/1\",\"value\":\"O'Neil\\n\",\"holds\":\"keys\",\
                    \"count\":2}\n\tid_1\na b\tid_2\n";
        assert_eq!(keys.print("O'Neil\n").unwrap(), text);
        assert_eq!(Page::parse(text.as_bytes(), "O'Neil\n").unwrap(), keys);

        let chunks = vec![
            Chunk { id: "00ff".into(), from: listed("", "") },
            Chunk { id: "11ee".into(), from: listed("p", "r") },
        ];
        for (page, holds) in
            [(Page::Chunks(chunks.clone()), "chunks"), (Page::Moved(chunks), "moved")]
        {
            let text = format!(
                "{{\"format\":\"rowkey-index/1\",\"value\":\"v\",\"holds\":\"{holds}\",\"count\":2}}\n\
                 00ff\t\t\n11ee\tp\tr\n"
            );
            assert_eq!(page.print("v").unwrap(), text);
            assert_eq!(Page::parse(text.as_bytes(), "v").unwrap(), page);
        }
    }

    #[test]
    fn what_was_cut_off_or_is_of_another_value_is_refused_without_showing_it() {
        let page = Page::Keys(vec![listed("p", "r1"), listed("p", "r2")]);
        let text = page.print("secret").unwrap();
        assert!(Page::parse(text.as_bytes(), "other").is_err());
        for end in 0..text.len() {
            let error = Page::parse(&text.as_bytes()[..end], "secret").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(!error.to_string().contains("secret"));
        }
        let twice = Page::Keys(vec![listed("p", "r1"), listed("p", "r1")]).print("v").unwrap();
        assert!(Page::parse(twice.as_bytes(), "v").is_err(), "a key is in a list once");
    }

    #[test]
    fn different_values_have_different_names_and_all_are_names() {
        let long = "x".repeat(2000);
        let values =
            ["", "=", "/", "..", "a/b", "a=2Fb", "a b", "a_b", "é", "E", "e", "=sha256=", &long];
        let names: std::collections::BTreeSet<_> =
            values.iter().map(|value| blob_name("last", value)).collect();
        assert_eq!(names.len(), values.len());
        assert!(names.iter().all(|name| name.len() < 1000 && name.matches('/').count() == 1));
        assert_eq!(blob_name("last", "O'Neil"), "last/O=27Neil");
        assert_eq!(blob_name("last", ""), "last/=");
        assert_eq!(blob_name("last", ".."), "last/=2E=2E");
    }
}
