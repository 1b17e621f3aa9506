//! Intervals of keys, in the order of SQL: that of the characters' code points.

use std::fmt;
use std::ops::Bound;

/// The first character that the service orders otherwise than SQL: it compares UTF-16 units, and SQL code points.
const FIRST_OF_ANOTHER_ORDER: char = '\u{e000}';
/// The most characters of a key. A longer text in a condition would only make the request too long.
const LONGEST: usize = 512;

/// Keys from one bound to another.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) from: Bound<String>,
    pub(crate) to: Bound<String>,
}

impl Interval {
    pub(crate) const ALL: Self = Self { from: Bound::Unbounded, to: Bound::Unbounded };

    pub(crate) fn one(key: &str) -> Self {
        Self { from: Bound::Included(key.to_owned()), to: Bound::Included(key.to_owned()) }
    }

    /// The keys that begin with a text.
    pub(crate) fn prefix(text: &str) -> Self {
        let to = successor(text, char::MAX).map_or(Bound::Unbounded, Bound::Excluded);
        Self { from: Bound::Included(text.to_owned()), to }
    }

    pub(crate) fn is_all(&self) -> bool {
        // No key is before the empty one.
        let from = match &self.from {
            Bound::Unbounded => true,
            Bound::Included(key) => key.is_empty(),
            Bound::Excluded(_) => false,
        };
        from && self.to == Bound::Unbounded
    }

    /// The only key that it has.
    pub(crate) fn point(&self) -> Option<&str> {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) if from == to => Some(from),
            _ => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to)) => from >= to,
            (Bound::Excluded(from), Bound::Included(to)) => from >= to,
            (_, Bound::Unbounded) | (Bound::Unbounded, Bound::Included(_)) => false,
            (Bound::Unbounded, Bound::Excluded(to)) => to.is_empty(),
        }
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        let is_behind = match &self.from {
            Bound::Unbounded => true,
            Bound::Included(from) => key >= from.as_str(),
            Bound::Excluded(from) => key > from.as_str(),
        };
        is_behind
            && match &self.to {
                Bound::Unbounded => true,
                Bound::Included(to) => key <= to.as_str(),
                Bound::Excluded(to) => key < to.as_str(),
            }
    }

    /// The keys of both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let from = match Self::from_order(&self.from, &other.from) {
            std::cmp::Ordering::Less => &other.from,
            _ => &self.from,
        };
        let to = match Self::to_order(&self.to, &other.to) {
            std::cmp::Ordering::Greater => &other.to,
            _ => &self.to,
        };
        Self { from: from.clone(), to: to.clone() }
    }

    /// The keys of both, in the order of the service; `None` if there are none.
    ///
    /// Bounds are those of requests here: they mean the same in both orders, or are boundaries of a scan's ranges.
    pub(crate) fn within(&self, other: &Self) -> Option<Self> {
        let units = |key: &String| key.encode_utf16().collect::<Vec<_>>();
        let from = |bound: &Bound<String>| match bound {
            Bound::Unbounded => None,
            Bound::Included(key) => Some((units(key), 0)),
            Bound::Excluded(key) => Some((units(key), 1)),
        };
        // Behind `(key, 0)` is all from the key on, and before `(key, 1)` all up to the key.
        let to = |bound: &Bound<String>| match bound {
            Bound::Unbounded => (1, Vec::new(), 0),
            Bound::Included(key) => (0, units(key), 1),
            Bound::Excluded(key) => (0, units(key), 0),
        };
        let first = if from(&self.from) < from(&other.from) { &other.from } else { &self.from };
        let last = if to(&self.to) > to(&other.to) { &other.to } else { &self.to };
        let (is_last, end, including) = to(last);
        let has_any = is_last == 1 || from(first).is_none_or(|first| first < (end, including));
        has_any.then(|| Self { from: first.clone(), to: last.clone() })
    }

    /// The keys of both, and those between them.
    pub(crate) fn hull(&self, other: &Self) -> Self {
        let from = match Self::from_order(&self.from, &other.from) {
            std::cmp::Ordering::Greater => &other.from,
            _ => &self.from,
        };
        let to = match Self::to_order(&self.to, &other.to) {
            std::cmp::Ordering::Less => &other.to,
            _ => &self.to,
        };
        Self { from: from.clone(), to: to.clone() }
    }

    pub(crate) fn from_order(one: &Bound<String>, other: &Bound<String>) -> std::cmp::Ordering {
        let rank = |bound: &Bound<String>| match bound {
            Bound::Unbounded => None,
            Bound::Included(key) => Some((key.clone(), 0)),
            Bound::Excluded(key) => Some((key.clone(), 1)),
        };
        rank(one).cmp(&rank(other))
    }

    fn to_order(one: &Bound<String>, other: &Bound<String>) -> std::cmp::Ordering {
        let rank = |bound: &Bound<String>| match bound {
            Bound::Unbounded => (1, String::new(), 0),
            Bound::Included(key) => (0, key.clone(), 1),
            Bound::Excluded(key) => (0, key.clone(), 0),
        };
        rank(one).cmp(&rank(other))
    }

    /// Whether no entity can have such a key, because it is longer than a key may be.
    pub(crate) fn is_impossible(&self) -> bool {
        self.point().is_some_and(|key| key.chars().count() > LONGEST)
    }

    /// An interval with all of these keys, and maybe more, whose bounds mean the same in the order of the service.
    ///
    /// The two orders differ from U+D800 on: the service has the characters beyond U+FFFF before those from U+E000 on. A bound is cut
    /// before the first such character. Points stay: equality has no order.
    pub(crate) fn in_both_orders(&self) -> Self {
        if self.point().is_some() {
            return self.clone();
        }
        let from = match &self.from {
            Bound::Included(key) | Bound::Excluded(key) if common(key).len() < key.len() => {
                Bound::Included(common(key).to_owned())
            }
            from => from.clone(),
        };
        let to = match &self.to {
            Bound::Included(key) | Bound::Excluded(key) if common(key).len() < key.len() => {
                successor(common(key), '\u{d7ff}').map_or(Bound::Unbounded, Bound::Excluded)
            }
            to => to.clone(),
        };
        Self { from, to }
    }
}

/// The beginning of a key that both orders compare alike, not longer than a key may be.
fn common(key: &str) -> &str {
    let is_behind = |at: usize, character| at >= LONGEST || character >= FIRST_OF_ANOTHER_ORDER;
    let mut characters = key.char_indices().enumerate();
    let end = characters.find(|(at, (_, character))| is_behind(*at, *character));
    &key[..end.map_or(key.len(), |(_, (end, _))| end)]
}

/// Whether a text has the same place in both orders.
pub(crate) fn has_one_order(text: &str) -> bool {
    common(text).len() == text.len()
}

/// The first text behind all that begin with this one, whose last character is at most `limit`; `None` if there is none.
fn successor(text: &str, limit: char) -> Option<String> {
    let mut before = text;
    while let Some(last) = before.chars().next_back() {
        before = &before[..before.len() - last.len_utf8()];
        let next = match last {
            // The surrogates are no characters.
            '\u{d7ff}' => Some(FIRST_OF_ANOTHER_ORDER),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next.filter(|next| *next <= limit) {
            return Some(format!("{before}{next}"));
        }
    }
    None
}

impl fmt::Debug for Interval {
    /// Does not show keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_all() {
            "all"
        } else if self.point().is_some() {
            "one key"
        } else {
            "a range"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_an_interval() {
        for (prefix, inside, outside) in [
            ("a", "a\u{10ffff}", "b"),
            ("a\u{d7ff}", "a\u{d7ff}x", "a\u{e000}"),
            ("a\u{10ffff}", "a\u{10ffff}\u{10ffff}", "b"),
            ("", "\u{10ffff}", "\u{10ffff}"),
        ] {
            let interval = Interval::prefix(prefix);
            assert!(interval.contains(prefix) && interval.contains(inside), "{prefix:?}");
            assert!(prefix.is_empty() || !interval.contains(outside), "{prefix:?}");
        }
    }

    #[test]
    fn parts_of_ranges_in_the_order_of_the_service_have_each_key_once() {
        let mut keys =
            ["", "a", "a\u{e000}", "a\u{10000}", "b", "\u{e000}", "\u{10000}", "\u{ffff}"];
        keys.sort_by_key(|key| key.encode_utf16().collect::<Vec<_>>());
        let part = |from: Option<&&str>, to: Option<&&str>| Interval {
            from: from.map_or(Bound::Unbounded, |key| Bound::Included((*key).to_owned())),
            to: to.map_or(Bound::Unbounded, |key| Bound::Excluded((*key).to_owned())),
        };
        let ranges: Vec<_> =
            (0..keys.len()).map(|at| part(keys.get(at), keys.get(at + 1))).collect();
        for key in keys {
            let found = ranges.iter().filter_map(|range| Interval::one(key).within(range));
            assert_eq!(found.collect::<Vec<_>>(), [Interval::one(key)], "{key:?}");
        }
        // A condition whose bounds are cut is cut into parts, which do not overlap.
        let wide = Interval { from: Bound::Excluded("a\u{e000}".into()), to: Bound::Unbounded };
        let wide = wide.in_both_orders();
        let parts: Vec<_> = ranges.iter().filter_map(|range| wide.within(range)).collect();
        assert_eq!(parts, ranges[1..], "from \"a\" on");
        assert_eq!(Interval::ALL.within(&ranges[3]).as_ref(), Some(&ranges[3]));
    }

    #[test]
    fn a_bound_of_two_orders_is_widened() {
        let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
        let keys = ["a", "a\u{d7ff}", "a\u{e000}", "a\u{ffff}", "a\u{10000}", "a\u{10ffff}", "b"];
        for from in keys {
            for to in keys {
                let interval =
                    Interval { from: Bound::Excluded(from.into()), to: Bound::Included(to.into()) };
                if interval.is_empty() || interval.point().is_some() {
                    continue;
                }
                let wide = interval.in_both_orders();
                for key in keys.iter().filter(|key| interval.contains(key)) {
                    // As the service compares.
                    let is_behind = match &wide.from {
                        Bound::Included(from) => units(key) >= units(from),
                        Bound::Excluded(from) => units(key) > units(from),
                        Bound::Unbounded => true,
                    };
                    let is_before = match &wide.to {
                        Bound::Included(to) => units(key) <= units(to),
                        Bound::Excluded(to) => units(key) < units(to),
                        Bound::Unbounded => true,
                    };
                    assert!(is_behind && is_before, "{key:?} of {from:?} to {to:?}");
                }
            }
        }
    }
}
