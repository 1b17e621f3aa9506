//! Pages: which rows a query looks at, how many at a time, and where the next page begins.
//!
//! A [`Scan`] goes in short steps, and nothing is locked between them. When a step ended inside a
//! partition that has changed in the meantime, the page ends where it stands: the service may cut a
//! page anywhere, and so no page shows a part of a transaction.

use std::ops::Bound;

use super::filter::Compiled;
use super::partition::Key;
use super::row::Row;
use super::table::Table;

/// What is done in one step, in rows that are looked at and found not to match. That is some 50
/// microseconds, and as long is the longest that others wait for it.
pub(crate) const STEP: usize = 512;

/// Bytes of a row in an answer that cost as much to write as a row costs to look at.
const BYTES: usize = 512;

/// The place of a row.
pub(crate) type Place = (Key, Key);

/// The part of a table that a shared access signature opens: places, both ends included. An end
/// without RowKey is the whole partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// `spk` and `srk`.
    pub(crate) from: Option<(Key, Option<Key>)>,
    /// `epk` and `erk`.
    pub(crate) to: Option<(Key, Option<Key>)>,
}

impl Window {
    /// Whether a row with these keys is in it.
    pub(crate) fn contains(&self, partition_key: &Key, row_key: &Key) -> bool {
        self.from.as_ref().is_none_or(|(first, row)| {
            partition_key > first
                || partition_key == first && row.as_ref().is_none_or(|row| row_key >= row)
        }) && !self.ends_before(partition_key, row_key)
    }

    fn ends_before(&self, partition_key: &Key, row_key: &Key) -> bool {
        self.to.as_ref().is_some_and(|(last, row)| {
            partition_key > last
                || partition_key == last && row.as_ref().is_some_and(|row| row_key > row)
        })
    }
}

/// Where a page ends early although there is more, as the service may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// With the first partition.
    Partition,
    /// After a number of rows were looked at.
    Rows(u32),
}

/// A page in the making.
#[derive(Debug)]
pub(crate) struct Scan {
    filter: Compiled,
    window: Window,
    /// Where to go on.
    at: Option<Place>,
    /// Rows that may still be taken.
    room: u32,
    /// The table's version when the last step ended, if it ended inside a partition.
    inside: Option<u64>,
    /// Where the page ends early.
    cut: Option<Cut>,
    /// The first partition that was looked at, if the page is to end with it.
    first: Option<Key>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is nothing more.
    End,
    /// The page ends here; the next one begins at this place.
    Page(Place),
    /// There may be more. Let others have a turn, then take the next step.
    Pause,
}

impl Scan {
    /// A page of at most `room` rows that match `filter`, beginning at `from`.
    pub(crate) fn new(filter: Compiled, window: Window, from: Option<Place>, room: u32) -> Self {
        let mut at = from;
        if let Some((partition_key, row_key)) = &window.from {
            let first = (partition_key.clone(), row_key.clone().unwrap_or_default());
            at = at.max(Some(first));
        }
        Self { filter, window, at, room, inside: None, cut: None, first: None }
    }

    /// The same, ending where `cut` says.
    pub(crate) fn cut(self, cut: Option<Cut>) -> Self {
        Self { cut, ..self }
    }

    /// Where a page that ends now is to be continued.
    pub(crate) fn place(&self) -> Option<Place> {
        self.at.clone()
    }

    /// Looks at the next rows and gives those that match to `take`.
    pub(crate) fn step(&mut self, table: &Table, mut take: impl FnMut(&Key, &Key, &Row)) -> Step {
        let Self { filter, window, at, room, inside, cut, first } = self;
        if let (Some(version), Some(place)) = (inside.take(), &at)
            && table.has_changed_since(version, &place.0)
        {
            return Step::Page(place.clone());
        }
        let (mut partition_keys, row_keys) =
            (filter.partition_keys.clone(), filter.row_keys.clone());
        if let Some((partition_key, _)) = at {
            partition_keys.begin_at(Bound::Included(partition_key.clone()));
        }
        if partition_keys.is_empty() || row_keys.is_empty() {
            return Step::End;
        }
        let mut seen = 0;
        for (partition_key, partition) in table.partitions(partition_keys.from.as_ref()) {
            if partition_keys.ends_before(partition_key) {
                return Step::End;
            }
            if *cut == Some(Cut::Partition)
                && first.get_or_insert_with(|| partition_key.clone()) != partition_key
            {
                return Step::Page((partition_key.clone(), Key::default()));
            }
            let mut range = row_keys.clone();
            match at {
                Some((at_partition, at_row)) if at_partition == partition_key => {
                    range.begin_at(Bound::Included(at_row.clone()));
                }
                // Partitions without a row in the range cost a look, too. Whatever happens before
                // the next step, nothing of this partition has been shown.
                _ if seen >= STEP => {
                    *at = Some((partition_key.clone(), Key::default()));
                    return Step::Pause;
                }
                _ => {}
            }
            seen += 1;
            for (row_key, row) in partition.from(range.from.as_ref()) {
                if range.ends_before(row_key) {
                    break;
                }
                if window.ends_before(partition_key, row_key) {
                    return Step::End;
                }
                if *room == 0 || *cut == Some(Cut::Rows(0)) {
                    return Step::Page((partition_key.clone(), row_key.clone()));
                }
                if seen >= STEP && partition.is_large() {
                    *at = Some((partition_key.clone(), row_key.clone()));
                    *inside = Some(table.version());
                    return Step::Pause;
                }
                seen += 1;
                if let Some(Cut::Rows(left)) = cut {
                    *left -= 1;
                }
                if filter.matches(partition_key, row_key, row) {
                    *room -= 1;
                    seen += row.rendered_len() / BYTES;
                    take(partition_key, row_key, row);
                }
            }
        }
        Step::End
    }
}
