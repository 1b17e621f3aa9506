//! The messages of scans and writes.
//!
//! They have names and conditions, and no credential. Keys are in them, because ranges are bounded by keys.

use std::ops::Bound;

use datafusion_proto::protobuf;
use prost::{Message, Oneof};

use crate::columns::Rows;
use crate::keys::{Interval, KeySet, Keys, Span};

/// A plan node of this crate.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    pub(super) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Kind {
    #[prost(message, tag = "1")]
    Scan(Box<Scan>),
    #[prost(message, tag = "2")]
    Write(Box<Write>),
    #[prost(message, tag = "3")]
    Total(Total),
}

/// A table by name.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Place {
    #[prost(string, tag = "1")]
    pub(super) account: String,
    #[prost(string, tag = "2")]
    pub(super) table: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Scan {
    /// What all file scans have: columns, projection, statistics, and the files, whose names have no meaning.
    #[prost(message, optional, tag = "1")]
    pub(super) files: Option<protobuf::FileScanExecConf>,
    #[prost(message, optional, tag = "2")]
    pub(super) place: Option<Place>,
    /// The range of each file, in their order.
    #[prost(message, repeated, tag = "3")]
    pub(super) ranges: Vec<Box2>,
    /// What the keys of rows are checked for: sets that all hold.
    #[prost(message, repeated, tag = "4")]
    pub(super) check: Vec<Boxes>,
    #[prost(string, optional, tag = "5")]
    pub(super) filter: Option<String>,
    #[prost(message, optional, tag = "6")]
    pub(super) rows: Option<Which>,
    #[prost(bool, tag = "7")]
    pub(super) misfits_are_null: bool,
    #[prost(bool, tag = "10")]
    pub(super) is_whole: bool,
    /// The message of files has 32 bits for it.
    #[prost(uint64, optional, tag = "8")]
    pub(super) limit: Option<u64>,
    #[prost(message, repeated, tag = "9")]
    pub(super) told: Vec<Told>,
}

/// What a join tells a scan.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Told {
    #[prost(message, optional, tag = "1")]
    pub(super) expression: Option<protobuf::PhysicalExprNode>,
    /// How many hash joins are between them.
    #[prost(uint32, tag = "2")]
    pub(super) between: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Write {
    #[prost(message, optional, tag = "1")]
    pub(super) place: Option<Place>,
    #[prost(message, optional, tag = "2")]
    pub(super) schema: Option<protobuf::Schema>,
    #[prost(bool, tag = "3")]
    pub(super) replaces: bool,
    #[prost(uint64, tag = "4")]
    pub(super) most_rejects: u64,
    #[prost(bool, tag = "5")]
    pub(super) is_sorted: bool,
    #[prost(message, optional, tag = "6")]
    pub(super) rows: Option<Which>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Total {
    #[prost(string, tag = "1")]
    pub(super) table: String,
    #[prost(uint64, tag = "2")]
    pub(super) most_rejects: u64,
}

/// A bound of an interval.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Limit {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(bool, tag = "2")]
    is_excluded: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Keyed {
    #[prost(message, optional, tag = "1")]
    from: Option<Limit>,
    #[prost(message, optional, tag = "2")]
    to: Option<Limit>,
}

/// PartitionKeys and RowKeys.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Box2 {
    #[prost(message, optional, tag = "1")]
    partition: Option<Keyed>,
    #[prost(message, optional, tag = "2")]
    row: Option<Keyed>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Boxes {
    #[prost(message, repeated, tag = "1")]
    boxes: Vec<Box2>,
}

/// Which rows of a table are those of a type.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Which {
    #[prost(message, optional, tag = "1")]
    keys: Option<Box2>,
    /// The name of the discriminator, and its value.
    #[prost(string, repeated, tag = "2")]
    kind: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    copies: Vec<String>,
}

impl Keyed {
    fn of(interval: &Interval) -> Self {
        let limit = |bound: &Bound<String>| match bound {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(Limit { key: key.clone(), is_excluded: false }),
            Bound::Excluded(key) => Some(Limit { key: key.clone(), is_excluded: true }),
        };
        Self { from: limit(&interval.from), to: limit(&interval.to) }
    }

    fn interval(self) -> Interval {
        let bound = |limit: Option<Limit>| match limit {
            None => Bound::Unbounded,
            Some(Limit { key, is_excluded: false }) => Bound::Included(key),
            Some(Limit { key, is_excluded: true }) => Bound::Excluded(key),
        };
        Interval { from: bound(self.from), to: bound(self.to) }
    }
}

impl Box2 {
    fn new(partition: &Interval, row: &Interval) -> Self {
        Self { partition: Some(Keyed::of(partition)), row: Some(Keyed::of(row)) }
    }

    pub(super) fn of(span: &Span) -> Self {
        Self::new(&span.partition, &span.row)
    }

    fn intervals(self) -> (Interval, Interval) {
        // A message without fields may be left out.
        let interval = |keys: Option<Keyed>| keys.unwrap_or_default().interval();
        (interval(self.partition), interval(self.row))
    }

    pub(super) fn span(self) -> Span {
        let (partition, row) = self.intervals();
        Span { partition, row }
    }
}

pub(super) fn of_keys(keys: &Keys) -> Vec<Boxes> {
    let boxes = |set: &KeySet| Boxes {
        boxes: set.boxes().map(|(partition, row)| Box2::new(partition, row)).collect(),
    };
    keys.sets().iter().map(boxes).collect()
}

pub(super) fn keys(sets: Vec<Boxes>) -> Keys {
    Keys::of(
        sets.into_iter().map(|set| KeySet::of_boxes(set.boxes.into_iter().map(Box2::intervals))),
    )
}

pub(super) fn of_rows(rows: &Rows) -> Which {
    let kind = rows.kind.iter().flat_map(|(name, value)| [name.clone(), value.clone()]);
    Which {
        keys: Some(Box2::new(&rows.partitions, &rows.rows)),
        kind: kind.collect(),
        copies: rows.copies.clone(),
    }
}

pub(super) fn rows(which: Which) -> Rows {
    let (partitions, rows) = which.keys.unwrap_or_default().intervals();
    let mut kind = which.kind.into_iter();
    Rows { partitions, rows, kind: kind.next().zip(kind.next()), copies: which.copies }
}
