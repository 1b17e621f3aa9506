//! Gaps: what a sample knows of the keys between two of its places, and which key it asks for next.
//!
//! A gap is behind the last row that was read at a place, and before the next place. First it is one of PartitionKeys. When no other
//! partition can be in it, it is one of the RowKeys in its partition.
//!
//! The first probe for each character asks for the next one: if it finds nothing, all keys of the gap have the character in common.
//! If it finds a key, keys differ there, and the following probes halve the characters that are left. Common prefixes are passed in
//! steps that double, because a probe for a later character also finds keys that differ in an earlier one.

use rowkey_client::DynamicEntity;
use rowkey_client::internals::compare_keys;

use crate::probe::{LOWEST, changed, common, distance, middle, next};

const BEHIND_DIGITS: char = ':';

/// The keys behind a position, up to the next place.
pub(super) struct Gap {
    /// The partition, if no other one is in the gap.
    pub(super) partition: Option<String>,
    /// The PartitionKey of the last row that was read, or its RowKey if all are in one partition.
    position: String,
    /// Its RowKey, if rows of its partition may follow.
    row_key: Option<String>,
    /// Before which key the gap ends.
    pub(super) to: Option<String>,
    /// The character to change next, and how many are passed if the probe finds nothing; 0 for one before the steps begin.
    pub(super) at: usize,
    step: usize,
    /// Whether keys are known to differ in this character.
    differs: bool,
    /// Whether the gap is at the end of the table and its end is looked for before other gaps are divided.
    pub(super) is_first: bool,
    /// Whether gaps are to be divided evenly, rather than to find keys of other forms.
    is_even: bool,
}

impl Gap {
    /// Everything behind a row.
    pub(super) fn behind(row: &DynamicEntity) -> Self {
        Self {
            partition: None,
            position: row.partition_key.clone(),
            row_key: Some(row.row_key.clone()),
            to: None,
            at: 0,
            step: 1,
            differs: false,
            is_first: true,
            is_even: false,
        }
    }

    /// The partitions behind the first page of a table, divided evenly: the end of the table is not looked for first.
    ///
    /// The keys of the page show what is likely to differ, such as the number behind a prefix. The first probe asks for keys without
    /// that prefix, and the next ones begin there if there are none.
    pub(super) fn behind_page(first: &str, last: &DynamicEntity) -> Self {
        let prefix = likely_prefix(first, &last.partition_key);
        // Without a prefix the first character is the first that may differ.
        let (at, step) = prefix.checked_sub(1).map_or((0, 1), |at| (at, 0));
        Self { at, step, is_first: false, is_even: true, ..Self::behind(last) }
    }

    /// Whether a row is before the next place.
    pub(super) fn has(&self, row: &DynamicEntity) -> bool {
        let is_before =
            |key: &str| self.to.as_deref().is_none_or(|to| compare_keys(key, to).is_lt());
        match &self.partition {
            Some(partition) => row.partition_key == *partition && is_before(&row.row_key),
            None => is_before(&row.partition_key),
        }
    }

    /// The key to ask for; `None` if the gap has no other place.
    pub(super) fn key(&mut self) -> Option<String> {
        loop {
            let character = self.position.chars().nth(self.at);
            if self.differs {
                let middle = character.and_then(|low| middle(low, self.high()));
                if let Some(middle) = middle {
                    return Some(changed(&self.position, self.at, middle));
                }
                self.deeper();
                continue;
            }
            let length = self.position.chars().count();
            let character = match character {
                Some(character) => next(character),
                None => (self.at == length).then_some(LOWEST),
            };
            if let Some(character) = character {
                return Some(changed(&self.position, self.at, character));
            }
            if self.at < length {
                self.at += 1;
            } else {
                // No other partition is left.
                self.enter()?;
            }
        }
    }

    /// Nothing is between a key that was asked for and the end.
    pub(super) fn missed(&mut self, key: String) {
        self.to = Some(key);
        if self.differs {
            return;
        }
        let length = self.position.chars().count();
        let step = self.step.max(1);
        self.at = if self.at < length { (self.at + step).min(length) } else { length + 1 };
        self.step = (self.step * 2).max(1);
    }

    /// There is a place from a key on. Returns the gap behind the last row that was read there.
    pub(super) fn found(&mut self, key: String, last: &DynamicEntity) -> Self {
        let (position, row_key) = match self.partition {
            Some(_) => (last.row_key.clone(), None),
            None => (last.partition_key.clone(), Some(last.row_key.clone())),
        };
        let behind = Self {
            partition: self.partition.clone(),
            at: common(&self.position, &position),
            position,
            row_key,
            to: self.to.replace(key),
            step: 1,
            differs: true,
            is_first: self.is_first,
            is_even: self.is_even,
        };
        self.is_first = false;
        if !self.differs {
            self.deeper();
        }
        behind
    }

    /// Makes this the gap behind the last row in its partition, and returns that of the partitions behind it.
    pub(super) fn divide(&mut self) -> Option<Self> {
        let partitions = Self {
            partition: None,
            position: self.position.clone(),
            row_key: None,
            to: self.to.clone(),
            ..*self
        };
        self.enter()?;
        self.is_first = false;
        Some(partitions)
    }

    /// The key from which partitions follow that of the gap.
    pub(super) fn following(&self) -> String {
        format!("{}{LOWEST}", self.position)
    }

    /// Leaves the partitions behind the last row out of the gap; `None` if it has rows of one partition, or none of them.
    fn enter(&mut self) -> Option<()> {
        let row_key = self.row_key.take()?;
        self.partition = Some(std::mem::replace(&mut self.position, row_key));
        self.to = None;
        (self.at, self.step, self.differs) = (0, 1, false);
        Some(())
    }

    /// Goes on with the next character: the gap has no keys that differ in this one.
    fn deeper(&mut self) {
        self.at += 1;
        self.step = 1;
        self.differs = self.is_later_digit();
        self.is_first = false;
    }

    /// The character before which those of the gap end, if keys differ in it.
    fn high(&self) -> Option<char> {
        let to = self.to.as_deref().filter(|to| common(&self.position, to) >= self.at);
        let character = to.and_then(|to| to.chars().nth(self.at));
        character.or_else(|| self.is_later_digit().then_some(BEHIND_DIGITS))
    }

    /// Whether gaps are divided evenly and the character belongs to a number whose digits before it are the same in the gap, and differ
    /// elsewhere: then all digits are likely to occur, and no letters.
    fn is_later_digit(&self) -> bool {
        let Some(before) = self.at.checked_sub(1).filter(|_| self.is_even) else { return false };
        let mut word = self.position.chars().skip(before).take_while(|one| one.is_alphanumeric());
        let digits = word.by_ref().take_while(char::is_ascii_digit).count();
        // The gap ends where the digit before this one is another one.
        let end = self.position.chars().nth(before).and_then(next);
        let end = end.map(|end| changed(&self.position, before, end));
        digits > 1 && word.next().is_none() && self.to == end
    }

    /// How many characters are left to divide, if keys differ in this one.
    pub(super) fn width(&self) -> u32 {
        let low = self.position.chars().nth(self.at).filter(|_| self.differs);
        low.zip(self.high()).map_or(u32::MAX, |(low, high)| distance(low, high))
    }
}

/// How many characters at the beginning keys from one to another are likely to share with those behind them: those in front of the
/// number or word in which they differ first, or that they end with.
fn likely_prefix(first: &str, last: &str) -> usize {
    let last_chars: Vec<_> = last.chars().collect();
    let same = common(first, last).min(last_chars.len());
    let Some(differs) = last_chars.get(same).or(last_chars.last()) else { return 0 };
    let is_same_kind = |character: &&char| match differs {
        digit if digit.is_ascii_digit() => character.is_ascii_digit(),
        letter if letter.is_alphabetic() => character.is_alphabetic(),
        _ => false,
    };
    same - last_chars[..same].iter().rev().take_while(is_same_kind).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_likely_to_differ_in_the_number_or_word_where_those_of_a_page_do() {
        for (first, last, expected) in [
            ("customer-0000", "customer-0004", "customer-"),
            ("customer-0000", "customer-0000", "customer-"),
            ("2026-01-01", "2026-01-05", "2026-01-"),
            ("00f3", "0a11", "0"),
            ("1f", "1f7", "1f"),
            ("a.b.com", "a.b.com", "a.b."),
            ("a|b", "a|c", "a|"),
            ("a-", "a-", "a-"),
            ("", "", ""),
            ("", "é", ""),
        ] {
            let prefix: String = last.chars().take(likely_prefix(first, last)).collect();
            assert_eq!(prefix, expected, "{first} {last}");
        }
    }

    /// The keys that are asked for in a table of these PartitionKeys, each with one row; places have one row.
    fn probes(keys: &[&str]) -> Vec<String> {
        let mut gap = Gap::behind(&DynamicEntity::new(keys[0], "r"));
        let mut asked = Vec::new();
        while let Some(key) = gap.key() {
            if gap.partition.is_some() {
                break;
            }
            asked.push(key.clone());
            let is_found = |one: &&&str| {
                compare_keys(one, &key).is_ge() && gap.has(&DynamicEntity::new(**one, "r"))
            };
            match keys.iter().find(is_found) {
                Some(found) => {
                    gap = gap.found(key, &DynamicEntity::new(*found, "r"));
                }
                None => gap.missed(key),
            }
        }
        asked
    }

    #[test]
    fn a_common_prefix_is_passed_in_steps_that_double() {
        let asked = probes(&["device-1"]);
        assert_eq!(asked, ["e", "df", "devj", "device-2", "device-1 "]);
    }

    #[test]
    fn the_end_is_found_by_other_kinds_and_then_by_halves() {
        let keys = ["device-00", "device-10", "device-37", "device-90"];
        let asked = probes(&keys);
        let expected = ["e", "df", "devj", "device-1", "device-:", "device-5", "device-91"];
        assert_eq!(asked[..7], expected);
    }

    #[test]
    fn a_gap_that_was_divided_ends_before_the_next_place() {
        let row = |partition: &str, row: &str| DynamicEntity::new(partition, row);
        let mut gap = Gap::behind(&row("a", "5"));
        assert!(gap.has(&row("a", "6")) && gap.has(&row("z", "")));
        assert_eq!(gap.key().as_deref(), Some("b"));
        let behind = gap.found("b".to_owned(), &row("c", "1"));
        assert!(gap.has(&row("aa", "")) && !gap.has(&row("b", "")));
        assert!(behind.is_first && !gap.is_first && behind.has(&row("d", "")));
        // The rows behind the last one in its partition, and the partitions behind it.
        let partitions = gap.divide().unwrap();
        assert!(gap.has(&row("a", "6")) && !gap.has(&row("aa", "")));
        assert_eq!((&*partitions.following(), partitions.to.as_deref()), ("a ", Some("b")));
        assert_eq!(gap.key().as_deref(), Some("6"));
        assert!(gap.divide().is_none(), "it has rows of one partition");
    }
}
