//! Pages: which rows a query scans, how many at a time, and where the next page starts.
//!
//! A [`Scan`] runs in short steps, between which nothing is locked. If a step ends inside a
//! partition that changes before the next step, the page ends there: the service may end a page
//! anywhere, and this way no page shows part of a transaction.

use std::ops::Bound;

use super::filter::Compiled;
use super::partition::Key;
use super::row::Row;
use super::table::Table;

/// The work of one step, as the number of rows that are scanned without matching. This takes about
/// 50 microseconds, which is the longest that other requests wait for it.
pub(crate) const STEP: usize = 512;

/// The number of rows that are read at once, see [`Compiled::candidates`].
const AHEAD: usize = 16;

/// The number of rows that cost as much as one, when reading [`AHEAD`] shows that they do not match.
const SKIPPED: usize = 4;

/// The rendered bytes of a row that cost as much as scanning one row.
const BYTES: usize = 512;

/// The position of a row.
pub(crate) type Position = (Key, Key);

/// The part of a table that a shared access signature makes accessible: positions, both ends
/// included. An end without RowKey includes the whole partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// `spk` and `srk`.
    pub(crate) from: Option<(Key, Option<Key>)>,
    /// `epk` and `erk`.
    pub(crate) to: Option<(Key, Option<Key>)>,
}

impl Window {
    /// Whether it contains a row with these keys.
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

/// Where a page ends early although there are more rows, as the service may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// After the first partition.
    Partition,
    /// After this number of scanned rows.
    Rows(u32),
}

/// A page that is being built.
#[derive(Debug)]
pub(crate) struct Scan {
    filter: Compiled,
    window: Window,
    /// Where to continue.
    at: Option<Position>,
    /// The number of rows that may still be added.
    room: u32,
    /// The table's version when the last step ended, if it ended inside a partition.
    inside: Option<u64>,
    /// Where the page ends early.
    cut: Option<Cut>,
    /// The first scanned partition, if the page is to end with it.
    first: Option<Key>,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There are no more rows.
    End,
    /// The page ends here; the next one starts at this position.
    Page(Position),
    /// There may be more rows. Let other requests run, then take the next step.
    Pause,
}

impl Scan {
    /// A page of at most `room` rows that match `filter`, beginning at `from`.
    pub(crate) fn new(filter: Compiled, window: Window, from: Option<Position>, room: u32) -> Self {
        let mut at = from;
        if let Some((partition_key, row_key)) = &window.from {
            let first = (partition_key.clone(), row_key.clone().unwrap_or_default());
            at = at.max(Some(first));
        }
        Self { filter, window, at, room, inside: None, cut: None, first: None }
    }

    /// The same page, with an early end.
    pub(crate) fn cut(self, cut: Option<Cut>) -> Self {
        Self { cut, ..self }
    }

    /// Where the next page starts if the page ends now.
    pub(crate) fn position(&self) -> Option<Position> {
        self.at.clone()
    }

    /// Scans the next rows and passes those that match to `take`.
    pub(crate) fn step(&mut self, table: &Table, mut take: impl FnMut(&Key, &Key, &Row)) -> Step {
        let Self { filter, window, at, room, inside, cut, first } = self;
        if let (Some(version), Some(position)) = (inside.take(), &at)
            && table.has_changed_since(version, &position.0)
        {
            return Step::Page(position.clone());
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
        let mut ahead = Vec::with_capacity(AHEAD);
        'partitions: for (partition_key, partition) in
            table.partitions(partition_keys.from.as_ref())
        {
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
                // Partitions without a row in the range also count as work. No row of this
                // partition has been returned, so later changes to it do no harm.
                _ if seen >= STEP => {
                    *at = Some((partition_key.clone(), Key::default()));
                    return Step::Pause;
                }
                _ => {}
            }
            seen += 1;
            let mut rows = partition.from(range.from.as_ref());
            loop {
                ahead.clear();
                ahead.extend(rows.by_ref().take(AHEAD));
                let Some((last, _)) = ahead.last() else { break };
                let candidates = filter.candidates(&ahead);
                if candidates == 0
                    && seen < STEP
                    && *room > 0
                    && cut.is_none()
                    && !range.ends_before(last)
                    && !window.ends_before(partition_key, last)
                {
                    seen += AHEAD / SKIPPED;
                    continue;
                }
                for (index, (row_key, row)) in ahead.iter().enumerate() {
                    if range.ends_before(row_key) {
                        continue 'partitions;
                    }
                    if window.ends_before(partition_key, row_key) {
                        return Step::End;
                    }
                    if *room == 0 || *cut == Some(Cut::Rows(0)) {
                        return Step::Page((partition_key.clone(), (*row_key).clone()));
                    }
                    if seen >= STEP && partition.is_large() {
                        *at = Some((partition_key.clone(), (*row_key).clone()));
                        *inside = Some(table.version());
                        return Step::Pause;
                    }
                    seen += 1;
                    if let Some(Cut::Rows(left)) = cut {
                        *left -= 1;
                    }
                    if candidates & 1 << index != 0 && filter.matches(partition_key, row_key, row) {
                        *room -= 1;
                        seen += row.rendered_len() / BYTES;
                        take(partition_key, row_key, row);
                    }
                }
            }
        }
        Step::End
    }
}
