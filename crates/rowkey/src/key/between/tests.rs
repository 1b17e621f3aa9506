//! Every range of small keys against a list of their values: what the stretches hold, how many there
//! are, and what is read in excess.

use std::cmp::Ordering;
use std::fmt::Debug;

use super::super::template::Piece;
use super::super::{KeyPart, KeyWriter, PartFormat};
use super::*;

const UNDER: PartFormat = PartFormat { separator: Some('_'), ..PartFormat::DEFAULT };

/// What a key is made of, in the order of its values.
trait Values: Clone + Debug {
    const TEMPLATE: &'static [Piece];

    fn write(&self, out: &mut KeyWriter);
    fn order(&self, other: &Self) -> Ordering;

    fn row(&self) -> String {
        let mut out = KeyWriter::new();
        self.write(&mut out);
        out.finish().unwrap()
    }
}

fn ends<T: Clone>(all: &[T]) -> Vec<Bound<T>> {
    let both = all.iter().flat_map(|it| [Bound::Included(it.clone()), Bound::Excluded(it.clone())]);
    both.chain([Bound::Unbounded]).collect()
}

fn lies<T: Values>(value: &T, from: &Bound<T>, to: &Bound<T>) -> bool {
    let above = match from {
        Bound::Included(from) => value.order(from).is_ge(),
        Bound::Excluded(from) => value.order(from).is_gt(),
        Bound::Unbounded => true,
    };
    above
        && match to {
            Bound::Included(to) => value.order(to).is_le(),
            Bound::Excluded(to) => value.order(to).is_lt(),
            Bound::Unbounded => true,
        }
}

fn is_within(row: &str, (from, to): &Stretch) -> bool {
    let above = match from {
        Bound::Included(from) => wire::compare(row, from).is_ge(),
        Bound::Excluded(from) => wire::compare(row, from).is_gt(),
        Bound::Unbounded => true,
    };
    above
        && match to {
            Bound::Included(to) => wire::compare(row, to).is_le(),
            Bound::Excluded(to) => wire::compare(row, to).is_lt(),
            Bound::Unbounded => true,
        }
}

/// Asks for every range of these keys; `check` sees what was found for each.
fn every_range<T: Values>(all: &[T], check: impl Fn(&Bound<T>, &Bound<T>, &RowKeys, &[&str])) {
    let mut rows: Vec<(String, &T)> = all.iter().map(|it| (it.row(), it)).collect();
    rows.sort_by(|a, b| wire::compare(&a.0, &b.0));
    let end = |bound: &Bound<T>| {
        let bound = bound.clone().map(|it| (it.row(), Extent::Whole));
        End::new(T::TEMPLATE, bound).ok().unwrap()
    };
    for from in &ends(all) {
        for to in &ends(all) {
            let found = between(T::TEMPLATE, end(from), end(to));
            let mut excess = Vec::new();
            for (row, value) in &rows {
                let read = found.stretches().iter().filter(|one| is_within(row, one)).count();
                let meant = found.checks().iter().all(|check| check.contains(row));
                let expected = lies(*value, from, to);
                assert_eq!(read == 1 && meant, expected, "{row:?} in {from:?} to {to:?}");
                assert!(read <= 1, "{row:?} is read twice in {from:?} to {to:?}");
                if read == 1 && !meant {
                    excess.push(&**row);
                }
            }
            // In the order of the keys: the first row of each behind the last of the one before.
            let order: Vec<usize> = rows
                .iter()
                .filter_map(|(row, _)| found.stretches().iter().position(|it| is_within(row, it)))
                .collect();
            assert!(order.is_sorted(), "{from:?} to {to:?}");
            check(from, to, &found, &excess);
        }
    }
}

/// Three numbers, each in one direction or the other.
#[derive(Clone, Debug)]
struct Numbers<const A: bool, const B: bool, const C: bool>(u8, i8, u8);

impl<const A: bool, const B: bool, const C: bool> Numbers<A, B, C> {
    const FORMATS: [PartFormat; 3] = [
        PartFormat { descending: A, ..UNDER },
        PartFormat { descending: B, ..UNDER },
        PartFormat { descending: C, ..PartFormat::DEFAULT },
    ];
}

impl<const A: bool, const B: bool, const C: bool> Values for Numbers<A, B, C> {
    const TEMPLATE: &'static [Piece] = &[
        Piece::Literal("id_"),
        Piece::part::<u8>(Self::FORMATS[0]),
        Piece::Literal("_x_"),
        Piece::part::<i8>(Self::FORMATS[1]),
        Piece::Literal("_"),
        Piece::part::<u8>(Self::FORMATS[2]),
    ];

    fn write(&self, out: &mut KeyWriter) {
        out.literal("id_");
        out.part(&self.0, Self::FORMATS[0]);
        out.literal("_x_");
        out.part(&self.1, Self::FORMATS[1]);
        out.literal("_");
        out.part(&self.2, Self::FORMATS[2]);
    }

    fn order(&self, other: &Self) -> Ordering {
        (self.0, self.1, self.2).cmp(&(other.0, other.1, other.2))
    }
}

#[test]
fn ranges_of_numbers_are_exact_in_every_direction() {
    fn of<const A: bool, const B: bool, const C: bool>() {
        let all = (0..3).flat_map(|a| (-1..2).flat_map(move |b| (0..3).map(move |c| (a, b, c))));
        let all: Vec<_> = all.map(|(a, b, c)| Numbers::<A, B, C>(a, b, c)).collect();
        every_range(&all, |from, to, found, excess| {
            assert!(excess.is_empty() && found.checks().is_empty(), "{from:?} to {to:?}");
            let most = if A == B && B == C { 1 } else { 5 };
            assert!(found.stretches().len() <= most, "{from:?} to {to:?}: {found:?}");
        });
    }
    of::<false, false, false>();
    of::<false, false, true>();
    of::<false, true, false>();
    of::<false, true, true>();
    of::<true, false, false>();
    of::<true, false, true>();
    of::<true, true, false>();
    of::<true, true, true>();
}

/// Text between a number and one that counts down.
#[derive(Clone, Debug)]
struct Text(u8, String, u8);

const DOWN: PartFormat = PartFormat { descending: true, ..PartFormat::DEFAULT };

impl Values for Text {
    const TEMPLATE: &'static [Piece] = &[
        Piece::part::<u8>(UNDER),
        Piece::Literal("_"),
        Piece::part::<String>(UNDER),
        Piece::Literal("_"),
        Piece::part::<u8>(DOWN),
    ];

    fn write(&self, out: &mut KeyWriter) {
        out.part(&self.0, UNDER);
        out.literal("_");
        out.part(&self.1, UNDER);
        out.literal("_");
        out.part(&self.2, DOWN);
    }

    fn order(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0).then(wire::compare(&self.1, &other.1)).then(self.2.cmp(&other.2))
    }
}

#[test]
fn ranges_of_text_hold_all_that_is_meant_and_little_else() {
    let texts =
        ["", " ", "AB", "AB C", "ABC", "B", "a", "a/b", "a^", "a^~", "a_", "a_b", "ab", "é"];
    let all = texts.into_iter().flat_map(|text| {
        [(0, 1), (1, 0), (1, 1)].map(|(group, n)| Text(group, text.to_owned(), n))
    });
    every_range(&all.collect::<Vec<_>>(), |from, to, found, excess| {
        assert!(found.stretches().len() <= 4, "{from:?} to {to:?}: {found:?}");
        let (Bound::Included(low), Bound::Included(high)) = (from, to) else { return };
        if low.0 != high.0 {
            return;
        }
        // What is read in excess is what the lower text continues, begins like the upper one beyond
        // what both share, or is one of them.
        let written = |row: &str| row.split('_').nth(1).unwrap_or_default().to_owned();
        let (low, high) = (written(&low.row()), written(&high.row()));
        let shared = common(&low, &high);
        for row in excess {
            let text = written(row);
            let is_near = low.starts_with(&text) || common(&text, &high) > shared;
            assert!(is_near, "{row:?} is read for {from:?} to {to:?}");
        }
    });
}

/// Text at the end, where nothing follows it, and a part that says nothing of itself.
#[derive(Clone, Debug)]
struct Rest(Odd, String);

/// Written by hand, largest first and of any length.
#[derive(Clone, Debug)]
struct Odd(usize);

impl KeyPart for Odd {
    const DESCENDING: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.literal(["zz", "z", "y"][self.0]);
    }

    fn read(_: &str, _: PartFormat) -> Result<Self, super::super::KeyReadError> {
        Ok(Self(0))
    }
}

const ODD: PartFormat = PartFormat { descending: true, separator: Some(';'), ..UNDER };

impl Values for Rest {
    const TEMPLATE: &'static [Piece] =
        &[Piece::part::<Odd>(ODD), Piece::Literal(";"), Piece::part::<String>(PartFormat::DEFAULT)];

    fn write(&self, out: &mut KeyWriter) {
        out.part(&self.0, ODD);
        out.literal(";");
        out.part(&self.1, PartFormat::DEFAULT);
    }

    fn order(&self, other: &Self) -> Ordering {
        self.0.0.cmp(&other.0.0).then(wire::compare(&self.1, &other.1))
    }
}

#[test]
fn a_part_of_unknown_order_is_compared_row_by_row() {
    let texts = ["", "a", "a b", "ab", "b", "é"];
    let all = (0..3).flat_map(|odd| texts.map(|text| Rest(Odd(odd), text.to_owned())));
    every_range(&all.collect::<Vec<_>>(), |from, to, found, excess| {
        let is_exact = match (from, to) {
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => from.0.0 == to.0.0,
            _ => false,
        };
        assert!(!is_exact || excess.is_empty(), "{from:?} to {to:?}");
        assert!(found.stretches().len() <= 1);
    });
}
