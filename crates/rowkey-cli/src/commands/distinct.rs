//! Whether a backup has an entity twice, for `rowkey check`.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use crate::error::{Error, Exit, Result};

/// The most entities of a backup in any order. Of more, at most this number of runs of ascending keys is remembered.
const MOST: usize = 1_000_000;

/// Whether an entity is in a backup twice. Each counts then, and would hide one that only the table has.
///
/// The keys of up to a million entities are remembered, as hashes. The command writes backups in the order of keys, so of larger ones the
/// runs in which keys ascend are enough: if no two of them overlap, no entity is there twice.
#[derive(Default)]
pub(super) struct Distinct {
    hashes: HashSet<(u64, u64)>,
    by: [RandomState; 2],
    entities: usize,
    is_twice: bool,
    /// The first and the last keys of each run.
    runs: Vec<(Keys, Keys)>,
}

/// In UTF-16, by which the service orders keys.
type Keys = (Vec<u16>, Vec<u16>);

impl Distinct {
    /// Notes an entity of the backup.
    pub(super) fn note(&mut self, partition_key: &str, row_key: &str) {
        self.entities += 1;
        if self.entities <= MOST {
            let [one, other] = &self.by;
            let keys = (partition_key, row_key);
            self.is_twice |= !self.hashes.insert((one.hash_one(keys), other.hash_one(keys)));
        } else {
            self.hashes = HashSet::new();
        }
        let keys: Keys = (partition_key.encode_utf16().collect(), row_key.encode_utf16().collect());
        let is_full = self.runs.len() >= MOST;
        match self.runs.last_mut() {
            Some((_, last)) if *last < keys => *last = keys,
            _ if is_full => {}
            _ => self.runs.push((keys.clone(), keys)),
        }
    }

    /// Fails if an entity is there twice, or may be.
    pub(super) fn check(&mut self, shown: &str, name: &str) -> Result<()> {
        let runs = &mut self.runs;
        runs.sort();
        let is_in_order = runs.len() < MOST && runs.windows(2).all(|pair| pair[0].1 < pair[1].0);
        let why = match (self.is_twice, self.entities <= MOST || is_in_order) {
            (true, _) => "has an entity twice",
            (false, false) => {
                "is not in the order of keys, and too large to find what it has twice"
            }
            (false, true) => return Ok(()),
        };
        let what = format!(
            "the backup in {shown} {why}, so what only {name} has cannot be counted; import it into an empty table, and \
             compare the two tables"
        );
        Err(Error::new(Exit::Partly, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_that_is_there_twice_is_found() {
        // As if there were more of them than are remembered.
        let check = |keys: &[&str], before: usize| {
            let mut distinct = Distinct { entities: before, ..Distinct::default() };
            for key in keys {
                distinct.note("p", key);
            }
            distinct.check("backup", "orders").map_err(|error| error.to_string())
        };
        for keys in [&[][..], &["a"], &["c", "d", "a", "b"]] {
            check(keys, 0).unwrap();
            check(keys, MOST).unwrap();
        }
        for keys in [&["a", "c", "b"][..], &["a", "d", "b", "c"]] {
            check(keys, 0).unwrap();
            assert!(check(keys, MOST).unwrap_err().contains("not in the order"), "{keys:?}");
        }
        for keys in [&["a", "a"][..], &["a", "b", "a"]] {
            assert!(check(keys, 0).unwrap_err().contains("has an entity twice"), "{keys:?}");
            check(keys, MOST).unwrap_err();
        }
    }
}
