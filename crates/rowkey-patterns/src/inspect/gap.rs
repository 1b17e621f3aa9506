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

use crate::probe::{LOWEST, changed, common, middle, next};

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
    /// The character to change next, and how many are passed if the probe finds nothing.
    pub(super) at: usize,
    step: usize,
    /// Whether keys are known to differ in this character.
    differs: bool,
    /// Whether the gap is at the end of the table and its end is looked for before other gaps are divided.
    pub(super) is_first: bool,
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
        }
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
        self.at = if self.at < length { (self.at + self.step).min(length) } else { length + 1 };
        self.step *= 2;
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
        self.differs = false;
        self.is_first = false;
    }

    /// The character before which those of the gap end, if keys differ in it.
    fn high(&self) -> Option<char> {
        let to = self.to.as_deref()?;
        to.chars().nth(self.at).filter(|_| common(&self.position, to) >= self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
