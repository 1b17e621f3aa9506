//! Tests that a key is read only if writing the value makes the same key again; otherwise a write
//! would go to a row other than the one that was read.

use rowkey_wire::edm::{DateTime, Guid};

use super::part::KeyPart;
use super::tests::{Random, notations};
use super::{KeyError, KeyReadError, KeyReader, KeyWriter, Notation, PartFormat};

const PLAIN: PartFormat = PartFormat::DEFAULT;
const SEPARATED: PartFormat = PartFormat { separator: Some('_'), ..PLAIN };
const DESCENDING: PartFormat = PartFormat { descending: true, ..PLAIN };

/// Reads the whole text as one part.
fn read<P: KeyPart>(text: &str, format: PartFormat) -> Result<P, KeyReadError> {
    let mut reader = KeyReader::new(text);
    let value = reader.part(format)?;
    if let Some(separator) = format.separator {
        reader.literal(if separator == '_' { "_" } else { unreachable!() })?;
    }
    reader.end()?;
    Ok(value)
}

fn write(part: &impl KeyPart, format: PartFormat) -> Result<String, KeyError> {
    let mut out = KeyWriter::new();
    out.part(part, format);
    if format.separator.is_some() {
        out.literal("_");
    }
    out.finish()
}

#[track_caller]
fn refused<P: KeyPart>(texts: &[&str], format: PartFormat) {
    for text in texts {
        assert!(read::<P>(text, format).is_err(), "{text:?} as {}", std::any::type_name::<P>());
    }
}

#[track_caller]
fn accepted<P: KeyPart>(texts: &[&str], format: PartFormat) {
    for text in texts {
        let value = read::<P>(text, format).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(&write(&value, format).unwrap(), text);
    }
}

#[test]
fn guids_are_read_in_the_spelling_that_is_written() {
    accepted::<Guid>(&["67e55044-10b1-426f-9247-bb680e5fe0c8"], PLAIN);
    refused::<Guid>(
        &[
            "67E55044-10B1-426F-9247-BB680E5FE0C8",
            "67e55044-10b1-426f-9247-bb680e5fe0C8",
            "67e5504410b1426f9247bb680e5fe0c8",
            "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
            "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
        ],
        PLAIN,
    );
}

#[test]
fn numbers_are_read_in_the_width_that_is_written() {
    accepted::<u32>(&["0000000007"], PLAIN);
    refused::<u32>(&["7", "00000000007", "+000000007", " 000000007", "٠٠٠٠٠٠٠٠٠٧", ""], PLAIN);
    accepted::<i16>(&["-99999", "-67232", "00007"], PLAIN);
    refused::<i8>(&["-0", "-001", "128", "+01", "--01"], PLAIN);
    accepted::<bool>(&["0", "1"], PLAIN);
    refused::<bool>(&["2", "9", "00", "true", ""], PLAIN);
    refused::<bool>(&["2", "9"], DESCENDING);
    refused::<DateTime>(&["9999999999999999999", "0", "2017-11-10T00:00:00Z"], PLAIN);
}

#[test]
fn text_that_the_writer_would_have_escaped_is_refused() {
    // `.~` is `/`; a `}` follows `.` only before a character that sorts as high as `~`.
    accepted::<String>(&["", ".", "a.~b", ".}~", ".}}", ".}\u{e9}", "_", "~", "}", "a}"], PLAIN);
    refused::<String>(
        &[".}", "{..}", ".}a", ".\u{e9}", "{.}", ".}.~", "a/b", "a\u{7}", "\u{85}"],
        PLAIN,
    );
    accepted::<String>(&["_", "john^~doe_", "^_", "^}~_", "^a_"], SEPARATED);
    refused::<String>(&["^}_", "^\u{e9}_", "^}a_", "a_b_"], SEPARATED);
}

#[test]
fn a_part_of_several_is_escaped_as_a_whole_or_not_at_all() {
    accepted::<Pair>(&["a;b_", "a^~;b_", "~;}_"], SEPARATED);
    refused::<Pair>(&["^};b_", "a^};b_"], SEPARATED);
}

/// Two texts, of which the first is escaped separately.
#[derive(Debug, PartialEq)]
struct Pair(String, String);

const FIRST: PartFormat = PartFormat { separator: Some(';'), ..PLAIN };

impl KeyPart for Pair {
    fn write(&self, out: &mut KeyWriter) {
        out.part(&self.0, FIRST);
        out.literal(";");
        out.part(&self.1, PLAIN);
    }

    fn read(text: &str, _: PartFormat) -> Result<Self, KeyReadError> {
        let mut reader = KeyReader::new(text);
        let first = reader.part(FIRST)?;
        reader.literal(";")?;
        let second = reader.part(PLAIN)?;
        reader.end()?;
        Ok(Self(first, second))
    }
}

/// A handwritten part whose `read` accepts more than its `write` makes.
#[derive(Debug, PartialEq)]
struct Loose(u32);

impl KeyPart for Loose {
    fn write(&self, out: &mut KeyWriter) {
        out.literal(&self.0.to_string());
    }

    fn read(text: &str, _: PartFormat) -> Result<Self, KeyReadError> {
        text.trim().parse().map(Self).map_err(|_| KeyReadError::malformed("a number"))
    }
}

#[test]
fn a_part_that_reads_more_than_it_writes_is_checked() {
    accepted::<Loose>(&["7"], PLAIN);
    refused::<Loose>(&["07", " 7", "+7"], PLAIN);
    accepted::<Loose>(&["7_"], SEPARATED);
    refused::<Loose>(&["07_", "+7_"], SEPARATED);
}

#[test]
fn any_text_is_refused_or_written_again_as_it_is() {
    fn check<P: KeyPart>(text: &str, format: PartFormat) {
        if let Ok(value) = read::<P>(text, format) {
            let again = write(&value, format);
            assert_eq!(again.as_deref(), Ok(text), "{} as {format:?}", std::any::type_name::<P>());
        }
    }
    const ALPHABET: &[&str] =
        &["", ".", "/", "~", "}", "^", "_", "a", "0", "7", "-", "\u{e9}", ";", ":"];
    let mut texts = Vec::new();
    for a in ALPHABET {
        for b in ALPHABET {
            for c in ALPHABET {
                for d in ALPHABET {
                    texts.push(format!("{a}{b}{c}{d}"));
                }
            }
        }
    }
    for text in &texts {
        for format in [PLAIN, DESCENDING, SEPARATED] {
            let text = if format.separator.is_some() { format!("{text}_") } else { text.clone() };
            if !format.descending {
                check::<String>(&text, format);
                check::<Pair>(&text, format);
                check::<Loose>(&text, format);
            }
            check::<bool>(&text, format);
            check::<u8>(&text, format);
            check::<i8>(&text, format);
            check::<u16>(&text, PartFormat { notation: Notation::Digits(2), ..format });
            check::<i64>(&text, PartFormat { notation: Notation::Digits(2), ..format });
        }
    }
}

#[test]
fn the_error_says_what_to_do_and_does_not_show_the_key() {
    let error = read::<Guid>("SECRET", PLAIN).unwrap_err().to_string();
    assert_eq!(
        error,
        "it is not what the template makes: expected a GUID of 36 characters in lower case; give the \
         template the format of the stored keys, or read such rows as `DynamicEntity`"
    );
    let error = KeyReader::new("SECRET").literal("id_").unwrap_err().to_string();
    assert!(error.contains("expected \"id_\"") && !error.contains("SECRET"), "{error}");
}

/// The characters that occur in texts of all notations, and their neighbors.
const SYMBOLS: &[char] = &[
    '0', '1', '2', '9', 'a', 'f', 'g', 'A', 'F', 'G', 'T', 'Z', 't', '-', '+', ':', '.', ',', ' ',
    '{', '}', '_', '\u{660}', '/',
];

/// Valid texts of all notations.
const TEXTS: &[&str] = &[
    "0",
    "-1",
    "00000007",
    "000000FF",
    "ffffffff",
    "18446744073709551615",
    "-9223372036854775808",
    "2026-11-23T04:45:06Z",
    "2026-11-23T04:45:06.123Z",
    "2026-11-23T04:45:06.123456",
    "2024-02-29",
    "0001-01-01",
    "9999-12-31",
    "19691231",
    "1795409106",
    "1795409106123",
    "-62135596800",
    "253402300799",
    "636458688000000000",
    "0636458688000000000",
    "2518920287999999999",
    "c9da6455-213d-42c9-9a79-3e9149a57833",
    "C9DA6455-213D-42C9-9A79-3E9149A57833",
    "c9da6455213d42c99a793e9149a57833",
    "{C9DA6455-213D-42C9-9A79-3E9149A57833}",
    "True",
    "false",
];

/// Texts of arbitrary length and characters, and valid ones with one character changed, added or
/// removed.
fn any_texts() -> Vec<String> {
    let mut random = Random(7);
    let mut below = move |end: usize| usize::try_from(random.below(end as u64)).unwrap();
    let mut texts: Vec<String> = TEXTS.iter().map(|text| (*text).to_owned()).collect();
    for _ in 0..1000 {
        texts.push((0..below(12)).map(|_| SYMBOLS[below(SYMBOLS.len())]).collect());
    }
    for _ in 0..4000 {
        let mut text: Vec<char> = TEXTS[below(TEXTS.len())].chars().collect();
        let (at, symbol) = (below(text.len()), SYMBOLS[below(SYMBOLS.len())]);
        match below(3) {
            0 => text[at] = symbol,
            1 => text.insert(at, symbol),
            _ => drop(text.remove(at)),
        }
        texts.push(text.into_iter().collect());
    }
    texts
}

#[test]
fn any_text_is_refused_or_written_again_in_every_notation() {
    /// The number of texts that were read.
    fn check<P: KeyPart>(texts: &[String]) -> usize {
        let mut accepted = 0;
        for notation in notations().into_iter().filter(|one| P::KIND.takes(*one, false)) {
            for descending in
                [false, true].into_iter().filter(|desc| !desc || P::KIND.takes(notation, true))
            {
                let format = PartFormat { notation, descending, separator: None };
                for text in texts {
                    let Ok(value) = read::<P>(text, format) else { continue };
                    let again = write(&value, format);
                    assert_eq!(
                        again.as_deref(),
                        Ok(&**text),
                        "{} as {format:?}",
                        std::any::type_name::<P>()
                    );
                    accepted += 1;
                }
            }
        }
        accepted
    }
    let texts = any_texts();
    let accepted = [
        check::<bool>(&texts),
        check::<u8>(&texts),
        check::<u32>(&texts),
        check::<u64>(&texts),
        check::<i8>(&texts),
        check::<i64>(&texts),
        check::<Guid>(&texts),
        check::<DateTime>(&texts),
        check::<chrono::DateTime<chrono::Utc>>(&texts),
        check::<chrono::NaiveDate>(&texts),
    ];
    assert!(accepted.iter().all(|count| *count >= 10), "{accepted:?}");
}
