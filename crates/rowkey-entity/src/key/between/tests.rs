//! Tests every range of small keys against a list of their values: which rows the stretches
//! contain, how many stretches there are, and which rows are read unnecessarily.

use std::cmp::Ordering;
use std::fmt::Debug;

use super::super::template::Piece;
use rowkey_wire::key as wire;

use super::super::{KeyWriter, Notation, PartFormat};
use super::*;

const UNDER: PartFormat = PartFormat { separator: Some('_'), ..PartFormat::DEFAULT };

/// The values of a key, in the order of its parts.
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

/// Finds every range of these keys; `check` receives the result for each.
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
            // In key order: each stretch begins after the end of the one before.
            let order: Vec<usize> = rows
                .iter()
                .filter_map(|(row, _)| found.stretches().iter().position(|it| is_within(row, it)))
                .collect();
            assert!(order.is_sorted(), "{from:?} to {to:?}");
            check(from, to, &found, &excess);
        }
    }
}

/// Three numbers, each ascending or descending.
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

/// Text between an ascending number and a descending one.
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
        // A row that is read unnecessarily has a text that is a beginning of the lower one, or that
        // shares more with the upper one than the two ends share.
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

/// A number without leading zeros, text, and another such number at the end.
#[derive(Clone, Debug)]
struct Unpadded(i64, String, i64);

const UNPADDED: PartFormat = PartFormat { notation: Notation::Unpadded, ..PartFormat::DEFAULT };
const BEFORE: PartFormat = PartFormat { separator: Some(';'), ..UNPADDED };

impl Values for Unpadded {
    const TEMPLATE: &'static [Piece] = &[
        Piece::part::<i64>(BEFORE),
        Piece::Literal(";"),
        Piece::part::<String>(UNDER),
        Piece::Literal("_"),
        Piece::part::<i64>(UNPADDED),
    ];

    fn write(&self, out: &mut KeyWriter) {
        out.part(&self.0, BEFORE);
        out.literal(";");
        out.part(&self.1, UNDER);
        out.literal("_");
        out.part(&self.2, UNPADDED);
    }

    fn order(&self, other: &Self) -> Ordering {
        let text = wire::compare(&self.1, &other.1);
        self.0.cmp(&other.0).then(text).then(self.2.cmp(&other.2))
    }
}

#[test]
fn numbers_without_zeros_in_front_are_compared_row_by_row() {
    let numbers = [-10, -9, 0, 9, 10, 100];
    let all = numbers.into_iter().flat_map(|first| {
        [("", -1), ("a", 9), ("a", 10), ("a b", 0)].map(|(text, n)| Unpadded(first, text.into(), n))
    });
    every_range(&all.collect::<Vec<_>>(), |from, to, found, excess| {
        let is_one = match (from, to) {
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => from.0 == to.0,
            _ => false,
        };
        // Only rows with the same first number, if both ends have it.
        let first = |row: &str| row.split(';').next().and_then(|n| n.parse::<i64>().ok());
        if let (true, Bound::Included(from) | Bound::Excluded(from)) = (is_one, from) {
            assert!(excess.iter().all(|row| first(row) == Some(from.0)), "{from:?} to {to:?}");
        }
        assert!(found.stretches().len() <= 4);
    });
}

#[test]
fn a_number_that_the_template_does_not_make_ends_no_range() {
    for row in ["007;a_1", "+7;a_1", "-0;a_1", "7;a_", "x;a_1"] {
        let end = End::new(Unpadded::TEMPLATE, Bound::Included((row.to_owned(), Extent::Whole)));
        assert_eq!(end.err(), Some(NotOfTemplate), "{row:?}");
    }
}
