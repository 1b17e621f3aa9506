//! Compares what follows the entities of a table with them, and mends it: how views and lists of keys
//! elsewhere are verified, and built for entities that were there before.
//!
//! A run reads both tables once, in steps that can be gone on from after a crash: first the entities,
//! to see that each is where it has to be, then what follows them, to see that nothing else is there.
//! Writers and workers may go on meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use rowkey::{
    Continuation, DynamicEntity, Entity, Error, ErrorKind, Key, Result, ScanPolicy, Stored, Table,
};
use rowkey_patterns::index_row::is_entity;
use rowkey_patterns::pace::Pace;
use serde::{Deserialize, Serialize};

use crate::settling::all;

const CONCURRENCY: usize = 8;
const PAGE: u32 = 1000;

/// What follows the entities of a table, as a run needs to know it.
///
/// An address is text that says where something of an entity has to be: a summary, a list.
pub(crate) trait Following<E>: Send + Sync {
    /// The table of the entities, and that of what follows them.
    fn tables(&self) -> [&Table; 2];

    /// How many entities are settled together.
    fn batch(&self) -> usize;

    /// Where an entity has to be.
    fn address(&self, entity: &E) -> Result<Option<String>>;

    /// The entities that a row says are at an address.
    fn claims(&self, row: &DynamicEntity) -> Option<(String, Vec<Key<E>>)>;

    /// Those of the entities that are not at the address as they have to be, or that are though they
    /// must not. Writes nothing.
    fn drifted<'a>(
        &'a self,
        address: &'a str,
        keys: &'a [Key<E>],
    ) -> BoxFuture<'a, Result<Vec<Drifted<E>>>>;

    /// Makes the address agree with the entities.
    fn settle<'a>(&'a self, address: &'a str, keys: &'a [Key<E>]) -> BoxFuture<'a, Result<()>>;

    /// Whether what a row says of its address as a whole is right; mends it if asked to.
    fn is_sound<'a>(&'a self, row: &'a DynamicEntity, mend: bool) -> BoxFuture<'a, Result<bool>>;
}

/// An entity that is out of step with an address.
pub(crate) struct Drifted<E> {
    pub(crate) key: Key<E>,
    /// Whether it has to be there.
    pub(crate) is_wanted: bool,
}

/// A run over entities and what follows them: [`run`](Self::run) to its end, or [`step`](Self::step)
/// by step, storing the [`checkpoint`](Self::checkpoint) after each.
///
/// Made by the pattern that is verified: [`View::repair`](crate::view::View::repair) for instance.
pub struct Run<E> {
    following: Arc<dyn Following<E>>,
    page_size: u32,
    concurrency: usize,
    pace: Pace,
    checkpoint: Checkpoint,
}

/// What a run has found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The entities that were looked at.
    pub entities: u64,
    /// How many of them are not of the type, or have a value that makes no key.
    pub unfit: u64,
    /// What was looked at of what follows them: contributions to summaries, keys in lists.
    pub claims: u64,
    /// Entities that were not where they have to be, or not as they are.
    pub missing: u64,
    /// Claims of entities that are gone, or that have to be elsewhere.
    pub orphan: u64,
    /// Summaries that were not those of their contributions.
    pub unsound: u64,
    /// How many of the missing, orphan and unsound ones were mended.
    pub mended: u64,
}

/// Where a run stands: store it after each step, and give it to [`Run::resume`] in another process.
///
/// It holds a continuation token, which may contain keys: treat it as you treat the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Whether the rows up to there were mended.
    mend: bool,
    /// Which of the two tables is being read; 2 at the end.
    table: usize,
    /// Where in it to go on; `None` at its beginning.
    next: Option<Continuation>,
    /// What was found up to there.
    report: Report,
}

impl Report {
    /// How much was out of step.
    pub fn drifted(&self) -> u64 {
        self.missing + self.orphan + self.unsound
    }

    /// Whether all that was looked at is in step, or is so by now.
    pub fn is_in_step(&self) -> bool {
        self.unfit == 0 && self.drifted() == self.mended
    }
}

impl Checkpoint {
    /// What was found up to here.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl<E: Entity + Send + Sync + 'static> Run<E> {
    pub(crate) fn new(following: impl Following<E> + 'static, mend: bool) -> Self {
        Self {
            following: Arc::new(following),
            page_size: PAGE,
            concurrency: CONCURRENCY,
            pace: Pace::new(None),
            checkpoint: Checkpoint { mend, ..Checkpoint::default() },
        }
    }

    /// Looks at no more entities, or claims of them, in a second than this, so that the tables' other
    /// users are not slowed down; at as many as there are answers, if it is not set. Each takes two
    /// requests, and up to five if it is mended.
    #[must_use = "the run itself does not change"]
    pub fn entities_per_second(mut self, entities: u32) -> Self {
        self.pace = Pace::new(Some(entities));
        self
    }

    /// How many rows a step reads, 1 to 1000, which is what it is unless set. So many are in memory.
    #[must_use = "the run itself does not change"]
    pub fn page_size(mut self, rows: u32) -> Self {
        self.page_size = rows;
        self
    }

    /// How many summaries or lists are looked at at a time; 8 unless set.
    #[must_use = "the run itself does not change"]
    pub fn concurrency(mut self, addresses: usize) -> Self {
        self.concurrency = addresses.max(1);
        self
    }

    /// Goes on where another run stood when it gave this checkpoint.
    ///
    /// Fails with [`ErrorKind::Invalid`] if one of the two mends and the other does not: what lies
    /// before the checkpoint would be left as it is.
    pub fn resume(mut self, checkpoint: Checkpoint) -> Result<Self> {
        let has_begun = checkpoint.table > 0 || checkpoint.next.is_some();
        if has_begun && checkpoint.mend != self.checkpoint.mend {
            let what = "the checkpoint is of a run that mends where this one does not, or the other \
                        way round";
            let [entities, _] = self.following.tables();
            return Err(Error::refused(ErrorKind::Invalid, what).of("Repair", entities.name()));
        }
        self.checkpoint = Checkpoint { mend: self.checkpoint.mend, ..checkpoint };
        Ok(self)
    }

    /// Runs to the end. After an error nothing is lost: call it again, or go on from the checkpoint.
    pub async fn run(&mut self) -> Result<&Report> {
        while self.step().await? {}
        Ok(self.report())
    }

    /// Reads one page of rows, and looks at each; says whether there was one.
    ///
    /// After an error the checkpoint is what it was before.
    pub async fn step(&mut self) -> Result<bool> {
        let tables = self.following.tables();
        let Some(table) = tables.get(self.checkpoint.table) else { return Ok(false) };
        let mut query =
            table.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow).page_size(self.page_size);
        if let Some(next) = &self.checkpoint.next {
            query = query.resume(next.clone());
        }
        let page = query.pages().try_next().await?;
        let (rows, next) = page.map(|page| (page.entities, page.continuation)).unwrap_or_default();
        let report = if self.checkpoint.table == 0 {
            self.entities(&rows).await?
        } else {
            self.claims(&rows).await?
        };
        let table = self.checkpoint.table + usize::from(next.is_none());
        self.checkpoint = Checkpoint { mend: self.checkpoint.mend, table, next, report };
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

    /// Looks at entities: are they where they have to be?
    async fn entities(&self, rows: &[Stored<DynamicEntity>]) -> Result<Report> {
        let mut report = self.checkpoint.report.clone();
        let mut demands = BTreeMap::<_, Vec<_>>::new();
        for Stored { entity: row, .. } in rows.iter().filter(|row| is_entity::<E>(&row.entity)) {
            report.entities += 1;
            match row.read_as::<E>().and_then(|entity| self.following.address(&entity)) {
                Ok(Some(address)) => demands.entry(address).or_default().push(row.key().cast()),
                Ok(None) => {}
                Err(_) => report.unfit += 1,
            }
        }
        let drifted = self.look_at(&demands, |_| true).await?;
        report.missing += drifted;
        report.mended += if self.checkpoint.mend { drifted } else { 0 };
        Ok(report)
    }

    /// Looks at what follows entities: is it there for a reason?
    async fn claims(&self, rows: &[Stored<DynamicEntity>]) -> Result<Report> {
        let mut report = self.checkpoint.report.clone();
        let mut claims = BTreeMap::<_, Vec<_>>::new();
        // A row for each address, and the others that say something of one.
        let mut wholes = Vec::new();
        for Stored { entity: row, .. } in rows {
            if let Some((address, keys)) = self.following.claims(row) {
                report.claims += u64::try_from(keys.len()).unwrap_or(u64::MAX);
                let known = claims.entry(address).or_default();
                if known.is_empty() {
                    wholes.push(row);
                }
                known.extend(keys);
            } else {
                wholes.push(row);
            }
        }
        // What is there and not as it has to be was met among the entities.
        let orphan = self.look_at(&claims, |drifted| !drifted.is_wanted).await?;
        report.orphan += orphan;
        report.mended += if self.checkpoint.mend { orphan } else { 0 };
        let sound: Vec<_> =
            wholes.iter().map(|row| self.following.is_sound(row, self.checkpoint.mend)).collect();
        let sound = all(sound, self.concurrency).await?;
        let unsound = sound.into_iter().filter(|is_sound| !is_sound).count();
        let unsound = u64::try_from(unsound).unwrap_or(u64::MAX);
        report.unsound += unsound;
        report.mended += if self.checkpoint.mend { unsound } else { 0 };
        Ok(report)
    }

    /// How many of these entities are out of step with their address, and count; mends all.
    async fn look_at(
        &self,
        at: &BTreeMap<String, Vec<Key<E>>>,
        counts: fn(&Drifted<E>) -> bool,
    ) -> Result<u64> {
        let addresses: Vec<_> =
            at.iter().map(|(address, keys)| self.look_at_one(address, keys, counts)).collect();
        let drifted = all(addresses, self.concurrency).await?.iter().sum::<usize>();
        Ok(u64::try_from(drifted).unwrap_or(u64::MAX))
    }

    async fn look_at_one(
        &self,
        address: &str,
        keys: &[Key<E>],
        counts: fn(&Drifted<E>) -> bool,
    ) -> Result<usize> {
        let mut counted = 0;
        let [entities, _] = self.following.tables();
        for keys in keys.chunks(self.following.batch()) {
            self.pace.take(entities.account().clock(), keys.len()).await;
            let drifted = self.following.drifted(address, keys).await?;
            counted += drifted.iter().filter(|drifted| counts(drifted)).count();
            if self.checkpoint.mend && !drifted.is_empty() {
                let keys: Vec<_> = drifted.into_iter().map(|drifted| drifted.key).collect();
                self.following.settle(address, &keys).await?;
            }
        }
        Ok(counted)
    }
}

impl<E> fmt::Debug for Run<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("checkpoint", &self.checkpoint).finish_non_exhaustive()
    }
}
