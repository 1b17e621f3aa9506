//! The addresses of targets: ranges of rows, and how far one is settled.

use std::ops::Bound;

use chrono::{DateTime, Utc};
use rowkey_client::{Continuation, DynamicEntity, Entity, Error, ErrorKind, Partition, Result};

use crate::row::Keys;
use crate::row::op::row_address;

/// The separator in the addresses. No key contains it.
const SEPARATOR: char = '\n';

/// A range of rows in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    partition_key: String,
    from: Bound<String>,
    to: Bound<String>,
}

impl Stretch {
    /// Returns the rows of a partition; `None` if there can be none.
    pub(super) fn of<T: Entity>(partition: Partition<T>, name: &str) -> Result<Option<Self>> {
        let span = partition.into_span().map_err(|error| Error::no_such_key(&error))?;
        if span.rows.stretches().is_empty() {
            return Ok(None);
        }
        let Some((from, to)) = span.rows.exactly().filter(|_| span.index.is_none()) else {
            let what = format!("the targets of `{name}` are not one range of RowKeys");
            return Err(Error::refused(ErrorKind::Invalid, what).advise(
                "name keys, prefixes of RowKeys, or ranges that differ in the last part alone",
            ));
        };
        let (from, to) = (from.clone(), to.clone());
        Ok(Some(Self { partition_key: span.partition_key, from, to }))
    }

    /// One row.
    pub(super) fn one((partition_key, row_key): Keys) -> Self {
        let end = Bound::Included(row_key);
        Self { partition_key, from: end.clone(), to: end }
    }

    /// Returns the keys of the row if the range is one row.
    pub(super) fn keys(&self) -> Option<Keys> {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) if from == to => {
                Some((self.partition_key.clone(), from.clone()))
            }
            _ => None,
        }
    }

    /// The rows of the range, as they are stored.
    pub(super) fn partition(&self) -> Partition<DynamicEntity> {
        let bounds = (self.from.as_ref().map(|row| &**row), self.to.as_ref().map(|row| &**row));
        Partition::new(&*self.partition_key).row_keys(bounds)
    }

    pub(super) fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let of_row = || self.partition().row_keys(row_key..=row_key).into_span();
        partition_key == self.partition_key
            && of_row().is_ok_and(|span| !span.rows.stretches().is_empty())
    }

    pub(super) fn address(&self) -> String {
        let (from, to) = (end(&self.from), end(&self.to));
        row_address(&(self.partition_key.clone(), format!("{from}{SEPARATOR}{to}")))
    }
}

fn end(bound: &Bound<String>) -> String {
    match bound {
        Bound::Included(row_key) => format!("[{row_key}"),
        Bound::Excluded(row_key) => format!("({row_key}"),
        Bound::Unbounded => String::new(),
    }
}

fn bound(end: &str) -> Option<Bound<String>> {
    if end.is_empty() {
        return Some(Bound::Unbounded);
    }
    let included = end.strip_prefix('[').map(|row_key| Bound::Included(row_key.to_owned()));
    included.or_else(|| end.strip_prefix('(').map(|row_key| Bound::Excluded(row_key.to_owned())))
}

/// How far the rows of a range are settled.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    pub(super) rows: Stretch,
    /// Where it continues, and when it was begun; `None` at the beginning.
    progress: Option<(Progress, DateTime<Utc>)>,
}

#[derive(Clone, Debug)]
enum Progress {
    /// The rows before this place are settled.
    At(Continuation),
    /// All rows are settled.
    Ended,
}

impl Walk {
    /// Reads the address of a target.
    pub(super) fn read(address: &str, name: &str) -> Result<Self> {
        let read = || {
            let mut parts = address.split(SEPARATOR);
            let mut next = || parts.next();
            let partition_key = next()?.to_owned();
            let rows = Stretch { partition_key, from: bound(next()?)?, to: bound(next()?)? };
            let Some(at) = next() else { return Some(Self { rows, progress: None }) };
            let begun = DateTime::from_timestamp_micros(next()?.parse().ok()?)?;
            let progress = match at {
                "" => Progress::Ended,
                at => Progress::At(at.parse().ok()?),
            };
            Some(Self { rows, progress: Some((progress, begun)) })
        };
        read().ok_or_else(|| {
            let what = format!("a target of `{name}` has no range of keys");
            Error::refused(ErrorKind::Decode, what)
        })
    }

    /// Where the next page begins; `None` at the beginning.
    pub(super) fn from(&self) -> Option<Continuation> {
        match &self.progress {
            Some((Progress::At(at), _)) => Some(at.clone()),
            _ => None,
        }
    }

    /// When it was begun, if a part of it is settled.
    pub(super) fn begun(&self) -> Option<DateTime<Utc>> {
        self.progress.as_ref().map(|(_, begun)| *begun)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.progress, Some((Progress::Ended, _)))
    }

    /// Continues at the next page, or ends.
    pub(super) fn moves_to(&mut self, next: Option<Continuation>, begun: DateTime<Utc>) {
        self.progress = Some((next.map_or(Progress::Ended, Progress::At), begun));
    }

    pub(super) fn address(&self) -> String {
        let rows = self.rows.address();
        let Some((progress, begun)) = &self.progress else { return rows };
        let at = match progress {
            Progress::At(at) => at.to_string(),
            Progress::Ended => String::new(),
        };
        format!("{rows}{SEPARATOR}{at}{SEPARATOR}{}", begun.timestamp_micros())
    }
}
