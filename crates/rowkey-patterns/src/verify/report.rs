//! What was found, and how far a run has come.

use rowkey::{Continuation, DynamicEntity, Entity, Key};
use serde::{Deserialize, Serialize};

/// What a run has found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The entities that were looked at.
    pub entities: u64,
    /// How many of them are not of the type, and how often one has a value that makes no key of an
    /// index.
    pub unfit: u64,
    /// What was found of each index.
    pub indexes: Vec<IndexReport>,
}

/// What a run has found of one index so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexReport {
    /// The name of the index.
    pub name: String,
    /// The copies that were looked at.
    pub copies: u64,
    /// Entities without a copy.
    pub missing: u64,
    /// Copies that no entity demands.
    pub orphan: u64,
    /// Copies that are not as their entity is, or that stand in the place of another's.
    pub stale: u64,
    /// Entities whose copy has no place: another entity has the value of a unique index, or a row of
    /// something else the key.
    pub taken: u64,
    /// How many of the missing, orphan and stale ones were mended.
    pub mended: u64,
}

/// How a row of an index and its entity are out of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drift {
    /// The entity has no copy.
    Missing,
    /// No entity demands the copy.
    Orphan,
    /// The copy is not as the entity is.
    Stale,
    /// The place of the copy is taken, by the copy of another entity that demands it or by a row that
    /// is no copy. Nothing mends this: change one of the entities.
    Taken,
    /// The entity is not of the type, or a value of it makes no key of the index.
    Unfit,
}

/// One row that is out of step, as [`found`](super::Verify::found) is told of it.
///
/// It has keys, so treat it as you treat the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub drift: Drift,
    /// The name of the index; `None` for an entity that is not of the type.
    pub index: Option<&'static str>,
    /// The address of the entity: where it is, or was.
    pub entity: Key<DynamicEntity>,
    /// The address of the copy, if it has one.
    pub copy: Option<Key<DynamicEntity>>,
    /// Whether it was mended.
    pub mended: bool,
}

/// Where a run stands: store it after each step, and give it to [`Run::resume`](super::Run::resume)
/// in another process.
///
/// It holds a continuation token, which may contain keys: treat it as you treat the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Whether the rows up to there were mended.
    pub(super) mend: bool,
    /// Which indexes were verified up to there, by table.
    pub(super) verified: Vec<Vec<String>>,
    /// Which of the tables is being read; as many as there are at the end.
    pub(super) table: usize,
    /// Where in it to go on; `None` at its beginning.
    pub(super) next: Option<Continuation>,
    /// What was found up to there.
    pub(super) report: Report,
}

impl Report {
    pub(super) fn new<E: Entity>() -> Self {
        let name = |index: &rowkey::Index| index.name.to_owned();
        let report = |index| IndexReport { name: name(index), ..IndexReport::default() };
        Self { indexes: E::INDEXES.iter().map(report).collect(), ..Self::default() }
    }

    /// Whether every entity and every copy that were looked at are in step, or are so by now.
    pub fn is_in_step(&self) -> bool {
        self.unfit == 0 && self.indexes.iter().all(IndexReport::is_in_step)
    }

    /// What was found of the index with this name.
    pub fn index(&self, name: &str) -> Option<&IndexReport> {
        self.indexes.iter().find(|index| index.name == name)
    }

    pub(super) fn count(&mut self, position: Option<usize>, drift: Drift, mended: bool) {
        let index = position.and_then(|position| self.indexes.get_mut(position));
        let Some(index) = index.filter(|_| drift != Drift::Unfit) else {
            self.unfit += 1;
            return;
        };
        *match drift {
            Drift::Missing => &mut index.missing,
            Drift::Orphan => &mut index.orphan,
            Drift::Stale => &mut index.stale,
            Drift::Taken => &mut index.taken,
            Drift::Unfit => &mut self.unfit,
        } += 1;
        index.mended += u64::from(mended);
    }
}

impl IndexReport {
    /// How many rows were out of step.
    pub fn drifted(&self) -> u64 {
        self.missing + self.orphan + self.stale + self.taken
    }

    /// Whether none was, or all were mended.
    pub fn is_in_step(&self) -> bool {
        self.drifted() == self.mended
    }
}

impl Checkpoint {
    /// What was found up to here.
    pub fn report(&self) -> &Report {
        &self.report
    }
}
