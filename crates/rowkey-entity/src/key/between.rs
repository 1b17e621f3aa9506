//! Finds the RowKeys that are between two others by the values in them.
//!
//! A template such as `"{name}_{at:desc}"` stores rows in an order that is not that of their
//! values: the latest come first, and `ann B_..` comes before `ann_..`, because a space sorts
//! before `_`. So the rows between two keys by value may be several stretches (contiguous ranges)
//! of rows, or a part of one.
//!
//! [`between`] finds the stretches, part by part. Let `k` be the lower end. The rows above it are
//! those whose first part is greater, and those whose first part is equal and whose rest is above
//! the rest of `k`. For a part of numbers or dates both are stretches, whose order depends on
//! whether the part is descending; adjacent stretches are joined. Text that is followed by a
//! separator is less exact: values that continue each other are not adjacent, and other values are
//! between them. Then the stretches contain all matching rows and possibly a few more, and a
//! [`Between`] checks each row that is read.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

use super::stretch::{RowKeys, Stretch, end_of, prefix, start_of};
use super::successor::successor;
use super::template::{Extent, Order, PartRange, Piece, split};

/// An end of a range.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct End {
    text: String,
    parts: Vec<PartRange>,
    /// Whether it is one row, rather than all rows that begin with these parts.
    is_row: bool,
    /// Whether the end is included in the range.
    is_in: bool,
}

/// The rows between two ends, by the values in them.
#[derive(Clone, PartialEq, Eq)]
pub struct Between {
    template: &'static [Piece],
    from: Option<End>,
    to: Option<End>,
}

impl End {
    /// Splits the ends of a range into parts: a row if `extent` is [`Extent::Whole`], or all rows
    /// that begin with the same parts. `Err` if the text does not match the template.
    pub(crate) fn new(
        template: &[Piece],
        bound: Bound<(String, Extent)>,
    ) -> Result<Option<Self>, NotOfTemplate> {
        let is_in = matches!(bound, Bound::Included(_));
        let (Bound::Included((text, extent)) | Bound::Excluded((text, extent))) = bound else {
            return Ok(None);
        };
        let parts = split(template, &text, extent).ok_or(NotOfTemplate)?;
        Ok(Some(Self { text, parts, is_row: extent == Extent::Whole, is_in }))
    }

    fn part(&self, at: usize) -> Option<&str> {
        self.parts.get(at).map(|part| &self.text[part.start..part.end])
    }

    /// The rows with all the parts of this end, if it is included in the range.
    fn itself(&self) -> Vec<Stretch> {
        if !self.is_in {
            Vec::new()
        } else if self.is_row {
            vec![(Bound::Included(self.text.clone()), Bound::Included(self.text.clone()))]
        } else {
            vec![prefix(&self.text)]
        }
    }

    /// The prefix of the rows that have the same parts before this one.
    fn base(&self, part: &PartRange) -> &str {
        &self.text[..part.start]
    }

    /// The start of the rows whose part is after this one in key order.
    fn behind(&self, part: &PartRange) -> Option<Bound<String>> {
        let equal = &self.text[..part.after];
        if part.after == part.end {
            // Nothing follows, so only one row has this part.
            return Some(Bound::Excluded(equal.to_owned()));
        }
        successor(equal).map(Bound::Included)
    }

    /// The end of the rows whose part is before this one in key order.
    fn before(&self, part: &PartRange) -> Bound<String> {
        Bound::Excluded(self.text[..part.after].to_owned())
    }

    /// Compares a row's parts with those of this end.
    fn compare(&self, row: &str, parts: &[PartRange]) -> Option<Ordering> {
        for (at, own) in self.parts.iter().enumerate() {
            let part = parts.get(at)?;
            let texts = (&row[part.start..part.end], &self.text[own.start..own.end]);
            let order = own.order.compare(texts.0, texts.1)?;
            if order.is_ne() {
                return Some(order);
            }
        }
        Some(Ordering::Equal)
    }
}

impl fmt::Debug for Between {
    /// Does not show the ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Between").finish_non_exhaustive()
    }
}

/// The key does not match the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOfTemplate;

impl Between {
    /// Whether the range contains the row. A row that does not match the template has no values,
    /// and is not contained.
    pub fn contains(&self, row: &str) -> bool {
        let Some(parts) = split(self.template, row, Extent::Row) else { return false };
        let lies = |end: &Option<End>, on: Ordering| match end {
            None => true,
            Some(end) => end
                .compare(row, &parts)
                .is_some_and(|order| order == on || (order.is_eq() && end.is_in)),
        };
        lies(&self.from, Ordering::Greater) && lies(&self.to, Ordering::Less)
    }

    /// The ends as text, to distinguish ranges.
    pub fn texts(&self) -> [String; 2] {
        [&self.from, &self.to].map(|end| match end {
            None => String::new(),
            Some(end) => format!("{}{}", if end.is_in { '=' } else { '-' }, end.text),
        })
    }
}

/// The rows between two ends.
pub(crate) fn between(template: &'static [Piece], from: Option<End>, to: Option<End>) -> RowKeys {
    let mut finder = Finder { is_exact: true };
    let stretches = match (&from, &to) {
        (None, None) => vec![prefix("")],
        (Some(from), None) => finder.above(from, 0),
        (None, Some(to)) => finder.below(to, 0),
        (Some(from), Some(to)) => finder.between(from, to),
    };
    let check = (!finder.is_exact).then_some(Between { template, from, to });
    RowKeys::new(stretches, check)
}

struct Finder {
    /// Whether the stretches contain only matching rows.
    is_exact: bool,
}

impl Finder {
    /// The rows above `end` among those that share its parts before `at`.
    fn above(&mut self, end: &End, at: usize) -> Vec<Stretch> {
        let Some(part) = end.parts.get(at) else { return end.itself() };
        let base = end.base(part);
        match part.order {
            Order::Ascending => {
                let mut found = self.above(end, at + 1);
                found.extend(end.behind(part).map(|from| (from, end_of(base))));
                found
            }
            Order::Descending => {
                let mut found = vec![(start_of(base), end.before(part))];
                found.extend(self.above(end, at + 1));
                found
            }
            Order::Text(_) => {
                // Texts that continue this one sort after it. So may a shorter text that this one
                // continues, although it is less: `Jones_..` sorts after `Jones Jr_..`.
                self.is_exact = false;
                vec![(start_of(&end.text[..part.end]), end_of(base))]
            }
            Order::Integer => self.all(base),
        }
    }

    /// The rows below `end` among those that share its parts before `at`.
    fn below(&mut self, end: &End, at: usize) -> Vec<Stretch> {
        let Some(part) = end.parts.get(at) else { return end.itself() };
        let base = end.base(part);
        match part.order {
            Order::Ascending => {
                let mut found = vec![(start_of(base), end.before(part))];
                found.extend(self.below(end, at + 1));
                found
            }
            Order::Descending => {
                let mut found = self.below(end, at + 1);
                found.extend(end.behind(part).map(|from| (from, end_of(base))));
                found
            }
            Order::Text(separator) => {
                let text = &end.text[part.start..part.end];
                let Some(first) = text.chars().next() else { return self.below(end, at + 1) };
                self.is_exact = false;
                let last = last_below(text, separator, 1);
                let mut found = vec![(start_of(base), end_of(&format!("{base}{last}")))];
                if first < separator {
                    // The empty text is less than all others, but sorts after all that begin with
                    // the same character.
                    found.push(prefix(&format!("{base}{separator}")));
                }
                found
            }
            Order::Integer => self.all(base),
        }
    }

    fn between(&mut self, from: &End, to: &End) -> Vec<Stretch> {
        let mut at = 0;
        while from.part(at).is_some() && from.part(at) == to.part(at) {
            at += 1;
        }
        let (low, high) = match (from.parts.get(at), to.parts.get(at)) {
            (Some(low), Some(high)) => (low, high),
            // One end is all rows that begin with the shared parts.
            (None, None) if from.is_in && to.is_in => return from.itself(),
            (None, Some(_)) if from.is_in => return self.below(to, at),
            (Some(_), None) if to.is_in => return self.above(from, at),
            _ => return Vec::new(),
        };
        let texts = (&from.text[low.start..low.end], &to.text[high.start..high.end]);
        if low.order.compare(texts.0, texts.1) != Some(Ordering::Less) {
            return Vec::new();
        }
        let base = from.base(low);
        match low.order {
            Order::Ascending => {
                let mut found = self.above(from, at + 1);
                found.extend(from.behind(low).map(|first| (first, to.before(high))));
                found.extend(self.below(to, at + 1));
                found
            }
            Order::Descending => {
                let mut found = self.below(to, at + 1);
                found.extend(to.behind(high).map(|first| (first, from.before(low))));
                found.extend(self.above(from, at + 1));
                found
            }
            Order::Text(separator) => {
                self.is_exact = false;
                let shared = common(texts.0, texts.1);
                let next = texts.1[shared..].chars().next();
                // Beginnings of the upper text that are greater than the lower one.
                let last = last_below(texts.1, separator, shared + 1);
                let mut found =
                    vec![(start_of(&from.text[..low.end]), end_of(&format!("{base}{last}")))];
                if shared == texts.0.len() && next.is_some_and(|next| next < separator) {
                    // The lower text is also a beginning of the upper one, and sorts after all
                    // texts that continue it in the same way.
                    found.extend(self.above(from, at + 1));
                }
                found
            }
            Order::Integer => self.all(base),
        }
    }

    fn all(&mut self, base: &str) -> Vec<Stretch> {
        self.is_exact = false;
        vec![prefix(base)]
    }
}

/// The prefix of the last rows, in key order, whose text is `text` or a beginning of it with at
/// least `least` bytes.
///
/// A beginning is less than the text by value, but its rows sort after those of the text if the
/// separator sorts after the character that continues the beginning.
fn last_below(text: &str, separator: char, least: usize) -> String {
    let behind = |&(at, character): &(usize, char)| at >= least && character < separator;
    let end = text.char_indices().find(behind).map_or(text.len(), |(at, _)| at);
    format!("{}{separator}", &text[..end])
}

/// The length of the common prefix in bytes, in whole characters.
fn common(a: &str, b: &str) -> usize {
    a.char_indices()
        .zip(b.chars())
        .find(|((_, a), b)| a != b)
        .map_or_else(|| a.len().min(b.len()), |((at, _), _)| at)
}

#[cfg(test)]
mod tests;
