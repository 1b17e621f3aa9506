//! A run over the tables, page by page.

use std::collections::HashMap;
use std::fmt;

use futures_util::stream::iter;
use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey::index::PRIMARY_ROW_KEY;
use rowkey::{DynamicEntity, Entity, Result, ScanPolicy, Stored, Table};

use super::Verify;
use super::examine::Examiner;
use super::report::{Checkpoint, Drift, Finding, Report};
use crate::index_row::{IndexRow, is_entity, position_of, primary_key};
use crate::pace::Pace;

/// A run of [`Verify`]: [`run`](Self::run) to its end, or [`step`](Self::step) by step, storing the
/// [`checkpoint`](Self::checkpoint) after each.
pub struct Run<E> {
    verify: Verify<E>,
    mend: bool,
    pace: Pace,
    checkpoint: Checkpoint,
}

impl<E: Entity + Send + Sync + 'static> Run<E> {
    pub(super) fn new(verify: Verify<E>, mend: bool) -> Self {
        let pace = Pace::new(verify.requests_per_second);
        let report = Report::new::<E>();
        let checkpoint = Checkpoint { mend, verified: Vec::new(), table: 0, next: None, report };
        Self { verify, mend, pace, checkpoint }
    }

    /// Goes on where another run stood when it gave this checkpoint.
    ///
    /// Fails with [`ErrorKind::Invalid`](rowkey::ErrorKind::Invalid) if the type declared other indexes
    /// then, if that run verified other indexes, or if one of the two mends and the other does not:
    /// what lies before the checkpoint would be left as it is.
    pub fn resume(mut self, checkpoint: Checkpoint) -> Result<Self> {
        let names = |report: &Report| -> Vec<String> {
            report.indexes.iter().map(|index| index.name.clone()).collect()
        };
        if names(&checkpoint.report) != names(&self.checkpoint.report) {
            return Err(self.verify.refused("the checkpoint is of a type with other indexes"));
        }
        let has_begun = checkpoint.table > 0 || checkpoint.next.is_some();
        let is_alike = checkpoint.mend == self.mend
            && checkpoint.verified == names_of::<E>(&self.verify.sources()?);
        if has_begun && !is_alike {
            return Err(self.verify.refused(
                "the checkpoint is of a run over other indexes, or of one that mends where this one \
                 does not, or the other way round",
            ));
        }
        self.checkpoint = checkpoint;
        Ok(self)
    }

    /// Runs to the end.
    ///
    /// After an error nothing is lost: call it again, or go on from the checkpoint.
    pub async fn run(&mut self) -> Result<&Report> {
        while self.step().await? {}
        Ok(self.report())
    }

    /// Reads one page of rows, and looks at each; says whether there was one.
    ///
    /// After an error the checkpoint is what it was before.
    pub async fn step(&mut self) -> Result<bool> {
        let sources = self.verify.sources()?;
        let Some((table, indexes)) = sources.get(self.checkpoint.table) else { return Ok(false) };
        self.pace.take(table.account().clock(), 1).await;
        let mut query = table
            .scan::<DynamicEntity>()
            .scan_policy(ScanPolicy::Allow)
            .page_size(self.verify.page_size);
        if let Some(next) = &self.checkpoint.next {
            query = query.resume(next.clone());
        }
        let page = query.pages().try_next().await?;
        let (rows, next) = page.map(|page| (page.entities, page.continuation)).unwrap_or_default();

        let mut report = self.checkpoint.report.clone();
        let doubts = self.doubts(&rows, &sources, indexes, &mut report);
        let findings: Vec<_> = iter(doubts)
            .map(|doubt| self.settle(doubt, &sources))
            .buffer_unordered(self.verify.concurrency)
            .try_concat()
            .await?;
        for (position, mut finding) in findings {
            finding.index = position.map(|position| E::INDEXES[position].name);
            report.count(position, finding.drift, finding.mended);
            (self.verify.found)(&finding);
        }
        let table = self.checkpoint.table + usize::from(next.is_none());
        let verified = names_of::<E>(&sources);
        self.checkpoint = Checkpoint { mend: self.mend, verified, table, next, report };
        Ok(true)
    }

    /// Where the run stands: after the last step that succeeded.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// What was found so far.
    pub fn report(&self) -> &Report {
        &self.checkpoint.report
    }

    /// What has to be looked at closely. A page is how the rows were at one time, so what is in step
    /// there needs no look.
    fn doubts(
        &self,
        rows: &[Stored<DynamicEntity>],
        sources: &[(Table, Vec<usize>)],
        indexes: &[usize],
        report: &mut Report,
    ) -> Vec<Doubt> {
        let here = self.checkpoint.table == 0;
        let page: HashMap<_, _> = rows
            .iter()
            .map(|row| ((&*row.entity.partition_key, &*row.entity.row_key), &row.entity))
            .collect();
        let mut doubts = Vec::new();
        for row in rows {
            let (partition_key, row_key) = (&*row.entity.partition_key, &*row.entity.row_key);
            if row.entity.get(PRIMARY_ROW_KEY).is_some() {
                let position = position_of::<E>(partition_key, row_key);
                let Some(position) = position.filter(|at| indexes.contains(at)) else { continue };
                report.indexes[position].copies += 1;
                let owner = primary_key::<DynamicEntity>(&row.entity);
                let owner = owner.as_ref().and_then(|key| key.parts().ok());
                let owner = owner.and_then(|keys| page.get(&keys)).filter(|_| here);
                let in_step =
                    owner.and_then(|owner| owner.read_as::<E>().ok()).is_some_and(|owner| {
                        let demanded = IndexRow::of(&owner, position).ok().flatten();
                        demanded.is_some_and(|copy| copy.keys() == (partition_key, row_key))
                    });
                if !in_step {
                    doubts.push(Doubt::Copy(position, row.clone()));
                }
            } else if here && is_entity::<E>(&row.entity) {
                report.entities += 1;
                let Ok(entity) = row.entity.read_as::<E>() else {
                    doubts.push(Doubt::Unfit(row.entity.clone()));
                    continue;
                };
                let is_doubtful = |position: &usize| {
                    let in_step = match IndexRow::of(&entity, *position) {
                        Ok(None) => true,
                        Ok(Some(copy)) => page
                            .get(&copy.keys())
                            .is_some_and(|stored| matches!(copy.is(stored), Ok(true))),
                        Err(_) => false,
                    };
                    // What is in another table is not on this page, whatever its keys.
                    !in_step || !indexes.contains(position)
                };
                let positions = sources.iter().flat_map(|(_, indexes)| indexes).copied();
                let positions: Vec<_> = positions.filter(is_doubtful).collect();
                if !positions.is_empty() {
                    doubts.push(Doubt::Entity(positions, row.entity.clone()));
                }
            }
        }
        doubts
    }

    async fn settle(
        &self,
        doubt: Doubt,
        sources: &[(Table, Vec<usize>)],
    ) -> Result<Vec<(Option<usize>, Finding)>> {
        let examiner = |position| Examiner {
            primary: &self.verify.primary,
            copies: sources
                .iter()
                .find(|(_, indexes)| indexes.contains(&position))
                .map_or(&self.verify.primary, |(table, _)| table),
            position,
            mend: self.mend,
            pace: &self.pace,
        };
        match doubt {
            Doubt::Copy(position, copy) => {
                let found = examiner(position).copy::<E>(copy).await?;
                Ok(found.into_iter().map(|found| (Some(position), found)).collect())
            }
            Doubt::Entity(positions, row) => {
                // One after the other: each changes the tag of the entity.
                let mut all = Vec::new();
                for position in positions {
                    let Ok(entity) = row.read_as::<E>() else { continue };
                    let found = examiner(position).entity(row.key(), entity).await?;
                    all.extend(found.map(|found| (Some(position), found)));
                }
                Ok(all)
            }
            Doubt::Unfit(row) => {
                let (drift, entity) = (Drift::Unfit, row.key());
                let found = Finding { drift, index: None, entity, copy: None, mended: false };
                Ok(vec![(None, found)])
            }
        }
    }
}

/// A row that may be out of step, with the place of the index, or those of several.
enum Doubt {
    Copy(usize, Stored<DynamicEntity>),
    Entity(Vec<usize>, DynamicEntity),
    Unfit(DynamicEntity),
}

/// The names of the indexes in each table, in the order in which the type declares them.
fn names_of<E: Entity>(sources: &[(Table, Vec<usize>)]) -> Vec<Vec<String>> {
    let names = |places: &Vec<usize>| {
        let indexes = E::INDEXES.iter().enumerate().filter(|(place, _)| places.contains(place));
        indexes.map(|(_, index)| index.name.to_owned()).collect()
    };
    sources.iter().map(|(_, places)| names(places)).collect()
}

impl<E> fmt::Debug for Run<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("mend", &self.mend)
            .field("report", &self.checkpoint.report)
            .finish_non_exhaustive()
    }
}
