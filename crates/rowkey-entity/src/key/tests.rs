//! Tests the guarantees of every key part, with random values of every type in every format: text
//! order is value order, each value reads back, and no part runs into the one that follows. A
//! failure names its seed.

use std::cmp::Ordering;
use std::fmt::Debug;

use rowkey_wire::edm::{DateTime, Guid};
use rowkey_wire::key as wire;

use super::notation::Sorting;
use super::part::KeyPart;
use super::successor::successor;
use super::template::Order;
use super::{
    Key, KeyError, KeyReadError, KeyReader, KeyWriter, Notation, PartFormat, PartKind, Partition,
};
use crate::DynamicEntity;

/// Pairs of values for each type and format.
const PAIRS: u64 = 150;
/// Characters after a part; each type supports some of them.
const SEPARATORS: [char; 15] =
    ['_', ':', '|', ',', ';', '-', '=', '+', '!', '.', '~', ' ', 'Z', 'g', '\u{e9}'];

/// All notations that a template can specify; each type supports some of them.
pub(super) fn notations() -> Vec<Notation> {
    let mut all = vec![
        Notation::Standard,
        Notation::Unpadded,
        Notation::Date,
        Notation::CompactDate,
        Notation::Words { capitalized: true },
        Notation::Words { capitalized: false },
    ];
    all.extend([1, 2, 3, 6, 10, 18, 19, 20].map(Notation::Digits));
    for flag in [false, true] {
        all.extend([1, 3, 8, 15, 16].map(|digits| Notation::Hex { digits, upper: flag }));
        all.extend([0, 1, 3, 6, 7, 9].map(|fraction| Notation::Iso { fraction, naive: flag }));
        all.extend([false, true].map(|millis| Notation::Unix { millis, unpadded: flag }));
        all.push(Notation::Hyphenated { upper: flag });
        all.push(Notation::Simple { upper: flag });
        all.push(Notation::Braced { upper: flag });
    }
    all
}

/// `SplitMix64`.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.below(items.len() as u64)).unwrap()]
    }

    /// A random number of bits, so that small and large numbers are equally frequent; sometimes the
    /// neighbor of a power of ten, where the number of digits changes.
    fn bits(&mut self) -> u64 {
        if self.below(3) == 0 {
            let power = 10_u64.pow(u32::try_from(self.below(20)).unwrap());
            return power.wrapping_add(self.below(3)).wrapping_sub(1);
        }
        let shift = self.below(64);
        self.next() >> shift
    }

    /// The bytes of a number of any type: the lowest of these bits, or their complement.
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let bits = self.bits();
        let bits = if self.below(2) == 0 { bits } else { !bits };
        *bits.to_le_bytes().first_chunk().unwrap()
    }

    /// Text of characters that keys escape, of their neighbors, and of characters that UTF-16 sorts
    /// differently from UTF-8.
    fn text(&mut self) -> String {
        const CHARACTERS: [char; 30] = [
            ' ', '!', '"', '#', '$', '+', ',', '-', '.', '/', '0', '9', ':', ';', '<', '>', '?',
            '@', 'Z', '[', '\\', ']', '^', '_', '`', 'a', '{', '|', '}', '~',
        ];
        const BEYOND: [char; 7] =
            ['\u{A0}', 'é', '\u{D7FF}', '\u{E000}', '\u{FFFD}', '\u{FFFF}', '😀'];
        (0..self.below(5))
            .map(|_| if self.below(4) == 0 { self.pick(&BEYOND) } else { self.pick(&CHARACTERS) })
            .collect()
    }

    fn instant(&mut self) -> DateTime {
        let (min, max) = (DateTime::MIN.ticks(), DateTime::MAX.ticks());
        let span = u64::try_from(max - min).unwrap();
        let offset = i64::try_from(self.bits() % (span + 1)).unwrap();
        let ticks = if self.below(2) == 0 { min + offset } else { max - offset };
        DateTime::from_ticks(ticks).unwrap()
    }
}

fn write(part: &impl KeyPart, format: PartFormat) -> Result<String, KeyError> {
    let mut out = KeyWriter::new();
    out.part(part, format);
    out.finish()
}

/// Checks one type in all its formats. `fits` returns whether the notation can represent the value.
fn check<T: KeyPart + Clone + Debug + PartialEq>(
    mut value: impl FnMut(&mut Random) -> T,
    order: impl Fn(&T, &T) -> Ordering,
    fits: impl Fn(&T, Notation) -> bool,
) {
    let mut formats = Vec::new();
    // (`Lower` does not read back.)
    for notation in notations().into_iter().filter(|one| T::KIND.takes(*one, false)) {
        for descending in [false, true] {
            if descending && !T::KIND.takes(notation, true) {
                continue;
            }
            let separators = SEPARATORS.into_iter().filter(|one| T::KIND.ends_at(notation, *one));
            for separator in [None].into_iter().chain(separators.map(Some)) {
                formats.push(PartFormat { notation, descending, separator });
            }
        }
    }
    assert!(formats.len() >= 10, "{formats:?}");
    for (at, format) in formats.into_iter().enumerate() {
        let seed = at as u64;
        let random = &mut Random(seed);
        for _ in 0..PAIRS {
            let a = value(random);
            let b = if random.below(8) == 0 { a.clone() } else { value(random) };
            let context = format!("seed {seed}: {a:?} and {b:?} as {format:?}");
            let (Ok(x), Ok(y)) = (text_of(&a, format, &fits), text_of(&b, format, &fits)) else {
                continue;
            };
            let (a, b) = (kept(&a, &x, format, &order), kept(&b, &y, format, &order));
            let expected = if format.descending { order(&b, &a) } else { order(&a, &b) };
            let found = match T::KIND.sorting(format.notation) {
                Sorting::Integer => Order::Integer.compare(&x, &y).unwrap(),
                Sorting::Fixed => {
                    assert!(x == y || !x.starts_with(&y), "{context}: {x:?} continues {y:?}");
                    wire::compare(&x, &y)
                }
                Sorting::Text => wire::compare(&x, &y),
            };
            assert_eq!(found, expected, "{context}: {x:?} and {y:?}");
            let runs_on = format.separator.is_some_and(|separator| x.contains(separator));
            assert!(!runs_on, "{context}: {x:?} has the character that ends it");
            // Before another part, after another part, and between two.
            let end =
                format.separator.map_or_else(String::new, |separator| format!("{separator}7"));
            let key = format!("id_{x}{end}");
            let mut reader = KeyReader::new(&key);
            reader.literal("id_").unwrap();
            assert_eq!(reader.part(format).as_ref(), Ok(&a), "{context}: {x:?}");
            let rest = reader.part(PartFormat::DEFAULT);
            assert_eq!(rest, Ok(end), "{context}: {x:?} ends where it ends");
        }
    }
}

/// What remains of the value in its text: all of it, or for an instant what its notation
/// represents.
fn kept<T: KeyPart + Clone + Debug + PartialEq>(
    value: &T,
    text: &str,
    format: PartFormat,
    order: impl Fn(&T, &T) -> Ordering,
) -> T {
    let format = PartFormat { separator: None, ..format };
    let is_cut = matches!(T::KIND, PartKind::Instant)
        && !matches!(format.notation, Notation::Standard | Notation::Digits(_));
    if !is_cut {
        return value.clone();
    }
    let kept = KeyReader::new(text).part::<T>(format).unwrap_or_else(|error| {
        panic!("{text:?} of {value:?} as {format:?}: {error}");
    });
    assert!(order(&kept, value).is_le(), "{text:?} of {value:?} as {format:?} is later");
    assert_eq!(write(&kept, format).as_deref(), Ok(text), "{value:?} as {format:?}");
    kept
}

/// Returns the text, after checking that it is refused if and only if the notation cannot represent
/// the value.
fn text_of<T: KeyPart + Debug>(
    value: &T,
    format: PartFormat,
    fits: impl Fn(&T, Notation) -> bool,
) -> Result<String, KeyError> {
    let text = write(value, format);
    assert_eq!(text.is_ok(), fits(value, format.notation), "{value:?} as {format:?}: {text:?}");
    text
}

fn always<T>(_: &T, _: Notation) -> bool {
    true
}

fn has_room(value: i128, notation: Notation) -> bool {
    match notation {
        Notation::Digits(width) => {
            let limit = 10_i128.pow(width.into());
            (-limit..limit).contains(&value)
        }
        Notation::Hex { digits, .. } => value < 16_i128.pow(digits.into()),
        _ => true,
    }
}

/// Whether the notation can represent the instant.
fn is_in_range(instant: &chrono::DateTime<chrono::Utc>, notation: Notation) -> bool {
    match notation {
        Notation::Unix { unpadded: false, .. } => {
            (0..10_000_000_000).contains(&instant.timestamp())
        }
        Notation::Digits(18) => instant.timestamp() + 62_135_596_800 < 100_000_000_000,
        _ => true,
    }
}

macro_rules! numbers {
    ($($name:ident: $part:ty),*) => {$(
        #[test]
        fn $name() {
            check(
                |random| <$part>::from_le_bytes(random.bytes()),
                <$part>::cmp,
                |value, notation| has_room(i128::from(*value), notation),
            );
        }
    )*};
}

mod numbers {
    use super::*;

    numbers!(u8s: u8, u16s: u16, u32s: u32, u64s: u64, i8s: i8, i16s: i16, i32s: i32, i64s: i64);

    #[test]
    fn bools() {
        check(|random| random.below(2) == 0, bool::cmp, always);
    }
}

#[test]
fn strings() {
    check(Random::text, |a, b| wire::compare(a, b), always);
}

/// A part of several values, with literals between them and the separators that it was written for.
#[derive(Clone, Debug, PartialEq)]
struct Several<const SEPARATOR: char>(String, i16, String);

impl<const SEPARATOR: char> Several<SEPARATOR> {
    const TEXT: PartFormat = PartFormat { separator: Some(SEPARATOR), ..PartFormat::DEFAULT };
}

impl<const SEPARATOR: char> KeyPart for Several<SEPARATOR> {
    fn write(&self, out: &mut KeyWriter) {
        out.part(&self.0, Self::TEXT);
        out.literal(&format!("{SEPARATOR}at_"));
        out.part(&self.1, PartFormat { notation: Notation::Digits(5), ..Self::TEXT });
        out.literal(&SEPARATOR.to_string());
        // As the last part of its text, and separately.
        self.2.write(out);
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        let mut reader = KeyReader::new(text);
        let first = reader.part(Self::TEXT)?;
        reader.literal(match SEPARATOR {
            '_' => "_at_",
            ':' => ":at_",
            _ => "|at_",
        })?;
        let number = reader.part(PartFormat { notation: Notation::Digits(5), ..Self::TEXT })?;
        let rest = reader.part::<Then>(PartFormat::DEFAULT)?;
        let last = rest.0.strip_prefix(SEPARATOR).ok_or(KeyReadError::malformed("a separator"))?;
        Ok(Self(first, number, String::read(last, format)?))
    }
}

/// A handwritten newtype that does not declare that it is text.
#[derive(Clone, Debug, PartialEq)]
struct Then(String);

impl KeyPart for Then {
    fn write(&self, out: &mut KeyWriter) {
        out.literal(&self.0);
    }

    fn read(text: &str, _: PartFormat) -> Result<Self, KeyReadError> {
        Ok(Self(text.to_owned()))
    }
}

#[test]
fn parts_of_several_parts() {
    fn of<const SEPARATOR: char>() {
        let several = |random: &mut Random| {
            let number = i16::from_le_bytes(random.bytes());
            Several::<SEPARATOR>(random.text(), number, random.text())
        };
        let text = |value: &Several<SEPARATOR>| write(value, PartFormat::DEFAULT).unwrap();
        check(several, |a, b| wire::compare(&text(a), &text(b)), always);
    }
    of::<'_'>();
    of::<':'>();
    of::<'|'>();
}

#[test]
fn text_written_as_it_is() {
    let then = |random: &mut Random| Then(random.text().replace(['/', '\\', '#', '?'], "x"));
    check(then, |a, b| wire::compare(&a.0, &b.0), always);
}

#[test]
fn guids() {
    let guid = |random: &mut Random| Guid::from_u64_pair(random.bits(), random.bits());
    check(guid, Guid::cmp, always);
}

#[test]
fn instants() {
    let of_chrono = |instant: &DateTime, notation| is_in_range(&instant.to_chrono(), notation);
    check(Random::instant, DateTime::cmp, of_chrono);
    // Ticks keep chrono's instants to 100 ns.
    let instant = |random: &mut Random| chrono::DateTime::<chrono::Utc>::from(random.instant());
    check(instant, chrono::DateTime::cmp, is_in_range);
}

#[test]
fn dates() {
    let (first, last) = (chrono::NaiveDate::from_ymd_opt(1, 1, 1).unwrap(), 3_652_059);
    let date = |random: &mut Random| first + chrono::Days::new(random.bits() % last);
    check(date, chrono::NaiveDate::cmp, always);
}

#[test]
fn parts_of_fixed_width_sort_one_after_the_other() {
    type Key = (i32, DateTime, u16);
    let plain = PartFormat { separator: Some('_'), ..PartFormat::default() };
    let newest = PartFormat { descending: true, ..plain };
    let year = PartFormat { notation: Notation::Digits(4), ..PartFormat::default() };
    let write = |(a, b, c): &Key| {
        let mut out = KeyWriter::new();
        out.literal("row_");
        out.part(a, plain);
        out.literal("_");
        out.part(b, newest);
        out.literal("_at_");
        out.part(c, year);
        out.finish().unwrap()
    };
    for seed in 0..20_000 {
        let random = &mut Random(seed);
        // Often equal, so that the following part decides.
        let numbers = [i32::from_le_bytes(random.bytes()), -1, 0];
        let instants = [random.instant(), random.instant()];
        let mut key = || -> Key {
            let year = u16::try_from(random.below(10_000)).unwrap();
            (random.pick(&numbers), random.pick(&instants), random.pick(&[year, 2012, 2013]))
        };
        let (a, b) = (key(), key());
        let (x, y) = (write(&a), write(&b));
        let expected = a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2));
        assert_eq!(wire::compare(&x, &y), expected, "seed {seed}: {x:?} and {y:?}");

        let mut reader = KeyReader::new(&x);
        reader.literal("row_").unwrap();
        let first = reader.part(plain).unwrap();
        reader.literal("_").unwrap();
        let second = reader.part(newest).unwrap();
        reader.literal("_at_").unwrap();
        let third = reader.part(year).unwrap();
        reader.end().unwrap();
        assert_eq!((first, second, third), a, "seed {seed}: {x:?}");
    }
}

/// A string has no width, so greater strings may sort before it here; but the rows of one value are
/// adjacent, in the order of the part that follows.
#[test]
fn what_begins_with_one_text_lies_together_and_in_order() {
    for seed in 0..20_000 {
        let random = &mut Random(seed);
        let separator = random.pick(&SEPARATORS[..9]);
        let text = PartFormat { separator: Some(separator), ..PartFormat::default() };
        let prefix = |name: &String| {
            let mut out = KeyWriter::new();
            out.part(name, text);
            out.literal(&separator.to_string());
            out
        };
        let row = |name: &String, number: i16| {
            let mut out = prefix(name);
            out.part(&number, PartFormat::default());
            out.finish().unwrap()
        };
        let names = [random.text(), random.text()];
        let mut pair = || {
            (&names[usize::try_from(random.below(2)).unwrap()], i16::from_le_bytes(random.bytes()))
        };
        let ((name, number), (other, than)) = (pair(), pair());
        let (x, y) = (row(name, number), row(other, than));
        if name == other {
            assert_eq!(wire::compare(&x, &y), number.cmp(&than), "seed {seed}: {x:?} and {y:?}");
        }
        // The range that a query of `under_name` requests.
        let from = prefix(name).finish().unwrap();
        let to = successor(&from).unwrap();
        let within = wire::compare(&from, &y).is_le() && wire::compare(&y, &to).is_lt();
        assert_eq!(within, name == other, "seed {seed}: {from:?} and {y:?}");

        let mut reader = KeyReader::new(&x);
        assert_eq!(reader.part::<String>(text).as_ref(), Ok(name), "seed {seed}: {x:?}");
    }
}

#[test]
fn the_end_of_a_prefix_range_is_right_behind_what_begins_with_it() {
    for seed in 0..50_000 {
        let random = &mut Random(seed);
        let (prefix, rest) = (random.text(), random.text());
        let (Ok(prefix), Ok(rest)) =
            (write(&prefix, PartFormat::default()), write(&rest, PartFormat::default()))
        else {
            continue;
        };
        let key = if random.below(2) == 0 { format!("{prefix}{rest}") } else { rest };
        let end = successor(&prefix);
        let below = end.as_ref().is_none_or(|end| wire::compare(&key, end).is_lt());
        let within = wire::compare(&prefix, &key).is_le() && below;
        assert_eq!(within, key.starts_with(&prefix), "seed {seed}: {prefix:?} and {key:?}");
        if let Some(end) = end {
            assert!(wire::check(&end).is_ok(), "seed {seed}: {end:?} cannot be asked for");
        }
    }
}

/// Errors and logs show the `Debug` output of a type.
#[test]
fn debug_shows_no_key() {
    let mut writer = KeyWriter::new();
    writer.part(&"secret".to_owned(), PartFormat::default());
    let shown = format!(
        "{:?} {:?} {writer:?} {:?}",
        Key::<DynamicEntity>::new("secret", "secret"),
        Partition::<DynamicEntity>::new("secret").prefix("secret"),
        KeyReader::new("secret"),
    );
    assert!(!shown.contains("secret"), "{shown}");
    // The reason is shown, by code point and position.
    let none = format!("{:?}", Key::<DynamicEntity>::new("secret/", "secret"));
    assert!(none.contains("Forbidden") && !none.contains("secret"), "{none}");
}
