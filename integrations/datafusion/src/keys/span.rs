//! What one query requests: partitions, and rows of them.

use std::ops::Bound;

use rowkey::{DynamicEntity, Filter, Operator, Query, ScanPolicy, Table};

use super::Interval;

/// A range of PartitionKeys and of RowKeys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) partition: Interval,
    pub(crate) row: Interval,
}

impl Span {
    pub(crate) const ALL: Self = Self { partition: Interval::ALL, row: Interval::ALL };

    /// Whether it has at most one entity.
    pub(crate) fn is_point(&self) -> bool {
        self.partition.point().is_some() && self.row.point().is_some()
    }

    /// Whether the service reads one partition for it, or a part of one.
    pub(crate) fn is_of_one_partition(&self) -> bool {
        self.partition.point().is_some()
    }

    /// The query of its entities.
    pub(crate) fn query(&self, table: &Table) -> Query<DynamicEntity> {
        let query = table.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow);
        self.filters().into_iter().fold(query, Query::filter)
    }

    fn filters(&self) -> Vec<Filter> {
        let mut filters = Vec::new();
        for (name, keys) in [("PartitionKey", &self.partition), ("RowKey", &self.row)] {
            let bound = |operator, key: &String| Filter::dynamic(name, operator, key.clone());
            if let Some(key) = keys.point() {
                filters.push(Filter::dynamic(name, Operator::Equal, key));
                continue;
            }
            match &keys.from {
                Bound::Included(from) if from.is_empty() => {}
                Bound::Included(from) => filters.push(bound(Operator::GreaterOrEqual, from)),
                Bound::Excluded(from) => filters.push(bound(Operator::Greater, from)),
                Bound::Unbounded => {}
            }
            match &keys.to {
                Bound::Included(to) => filters.push(bound(Operator::LessOrEqual, to)),
                Bound::Excluded(to) => filters.push(bound(Operator::Less, to)),
                Bound::Unbounded => {}
            }
        }
        filters
    }

    /// What of it is in a range of a scan, as the service orders keys; `None` if nothing is.
    pub(crate) fn within(&self, range: &Self) -> Option<Self> {
        let partition = self.partition.within(&range.partition)?;
        let row = self.row.within(&range.row)?;
        Some(Self { partition, row })
    }

    /// The parts between PartitionKeys at which a scan is divided, which are in the order of the service.
    pub(crate) fn divided(self, at: &[String]) -> Vec<Self> {
        if self.is_of_one_partition() {
            return vec![self];
        }
        let (mut parts, mut rest) = (Vec::new(), self.partition);
        for key in at {
            let before = Interval { from: rest.from.clone(), to: Bound::Excluded(key.clone()) };
            let behind = Interval { from: Bound::Included(key.clone()), to: rest.to.clone() };
            // A key outside leaves nothing on one side.
            if !rest.contains(key) || before.is_empty() || behind.is_empty() {
                continue;
            }
            parts.push(Self { partition: before, row: self.row.clone() });
            rest = behind;
        }
        parts.push(Self { partition: rest, row: self.row });
        parts
    }
}
