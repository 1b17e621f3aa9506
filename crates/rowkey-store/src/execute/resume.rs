//! A worker with an announcement: decides the write, and settles or undoes it.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::Result;
use rowkey_client::telemetry::TraceParent;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::announce::Notice;
use super::noted::Noted;
use super::settler::Open;
use super::{Executor, claim};
use crate::declaring::settling::Settled;
use crate::layer::deciding::is_lost;
use crate::row::op::{OpRow, created_of, move_targets, remove_targets};
use crate::row::times::{KEPT, LATEST};
use crate::row::{Keys, text};

/// The property of an op row or a void that lists the types whose workers have settled it for the last
/// time.
const SETTLED: &str = "Settled";

/// The next step of a worker with an announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resumed {
    /// Settled, and no request can take effect any more.
    Done,
    /// Not settled: try again soon, with increasing waits.
    Soon,
    /// Settled in part: continue at once.
    More,
    /// Settled. Check again after this time.
    Again(Duration),
    /// Settled, except for these declarations, or types by the beginning of their RowKeys, of other
    /// programs. One of those programs has to receive the announcement.
    Undeclared(BTreeSet<String>),
}

impl Executor {
    /// Handles an announcement in a worker: decides the write, and settles or undoes it. Settling and
    /// undoing are the same procedure, because both go by the stored state.
    pub(crate) fn resume<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<Resumed>> {
        self.resume_notice(notice).boxed()
    }

    async fn resume_notice(&self, notice: &Notice) -> Result<Resumed> {
        let op = &notice.op;
        let mut found = claim::fate(&self.table, op).await?;
        if found.is_none() && !self.is_over(op) {
            claim::end(&self.table, op).await?;
            found = claim::fate(&self.table, op).await?;
        }
        let Some((_, row)) = found else {
            // Another announcement was handled first, and no request can take effect any more.
            let mut noted = Noted::default();
            let settled = self
                .settle_in_rounds(Open { op, targets: &[], claims: &notice.claims }, &mut noted)
                .await?;
            return Ok(match settled {
                Settled::Pending => Resumed::Soon,
                Settled::Done if noted.in_doubt => Resumed::Again(LATEST),
                Settled::Done if !noted.undeclared.is_empty() => {
                    Resumed::Undeclared(noted.undeclared)
                }
                Settled::Done => Resumed::Done,
            });
        };
        let trace = if let OpRow::Committed { trace, .. } = &row { *trace } else { None };
        let resumed = self.resume_from(notice, &row).instrument(self.span(trace));
        match trace {
            Some(trace) => trace.scope(resumed).await,
            None => resumed.await,
        }
    }

    /// Returns the span of settling, in the trace of the original write.
    fn span(&self, trace: Option<TraceParent>) -> tracing::Span {
        let table = self.table.table();
        let span = tracing::info_span!(
            "settle",
            otel.kind = "consumer",
            table = table.name(),
            trace_id = Empty,
            parent_id = Empty,
        );
        if let Some(trace) = trace {
            table.account().telemetry().follow(&span, trace);
        }
        span
    }

    async fn resume_from(&self, notice: &Notice, row: &OpRow) -> Result<Resumed> {
        let op = &notice.op;
        let none = Vec::new();
        let (created, targets, claims) = match row {
            OpRow::Committed { created, targets, claims, .. } => (*created, targets, claims),
            OpRow::Void { created } => (*created, &none, &notice.claims),
        };
        let mut noted = Noted::default();
        let settled = self.settle_in_rounds(Open { op, targets, claims }, &mut noted).await;
        let is_noted = self.note_finished(op, &noted).await;
        let settled = settled?;
        let now = self.table.clock().now();
        let age = (noted.begun().unwrap_or(now) - created).to_std().unwrap_or_default();
        let now = (now - created).to_std().unwrap_or_default();
        let types = targets.iter().map(|target| &target.of).chain(claims.iter().map(|one| &one.of));
        let unknown: BTreeSet<_> = types.filter(|of| !self.knows(of)).map(|of| &**of).collect();
        Ok(if noted.goes_on() && !noted.in_doubt {
            if is_noted { Resumed::More } else { Resumed::Soon }
        } else if settled == Settled::Pending && !noted.goes_on() {
            Resumed::Soon
        } else if noted.in_doubt {
            Resumed::Again(LATEST)
        } else if !noted.undeclared.is_empty() {
            Resumed::Undeclared(noted.undeclared)
        } else if !unknown.is_empty() && (age < KEPT || !self.is_left_by_all(op, &unknown).await?) {
            Resumed::Undeclared(unknown.into_iter().map(str::to_owned).collect())
        } else if age < KEPT {
            Resumed::Again(KEPT.saturating_sub(now))
        } else {
            // No request can take effect any more.
            let key = rowkey_client::Key::<rowkey_client::DynamicEntity>::new(&*op.0, &*op.1);
            self.table.table().delete_if_exists(key, rowkey_client::Match::Any).await?;
            Resumed::Done
        })
    }

    /// Whether the operation is so old, by its RowKey, that none of its requests can take effect. Its
    /// void, if there was one, has been removed, and no new one is needed.
    pub(crate) fn is_over(&self, op: &Keys) -> bool {
        let age = created_of(&op.1).map(|created| self.table.clock().now() - created);
        age.is_some_and(|age| age.to_std().is_ok_and(|age| age >= KEPT))
    }

    /// Removes settled targets that must not be settled again from an op row that stays, and notes how far
    /// others are settled. If this fails, which returns `false`, they are settled again.
    pub(super) async fn note_finished(&self, op: &Keys, noted: &Noted) -> bool {
        // A request that takes effect later may change a part that was settled.
        let moves = if noted.in_doubt { Vec::new() } else { noted.moves() };
        if noted.finished.is_empty() && moves.is_empty() {
            return true;
        }
        let take_off = async {
            let Some(found) = self.table.row(op).await? else { return Ok(()) };
            let mut row = found.entity;
            remove_targets(&mut row, &noted.finished)?;
            move_targets(&mut row, moves.iter().copied())?;
            self.table.table().replace((&row, found.etag)).await.map(drop)
        };
        let taken_off = take_off.await;
        if let Err(error) = &taken_off {
            tracing::debug!(%error, "a settled target will be settled again");
        }
        taken_off.is_ok()
    }

    /// Returns the declarations of the types of this program that an op row names and the program does
    /// not have.
    pub(crate) fn undeclared(&self, row: &OpRow) -> BTreeSet<String> {
        let OpRow::Committed { targets, claims, .. } = row else { return BTreeSet::new() };
        let targets = targets.iter().map(|target| (&target.of, &target.declaration));
        let named = targets.chain(claims.iter().map(|claim| (&claim.of, &claim.name)));
        let is_undeclared = |(of, name): &(&String, &String)| {
            let mut own = self.settlers.iter().filter(|settler| settler.of() == **of);
            own.any(|settler| !settler.declares(name))
        };
        named.filter(is_undeclared).map(|(_, name)| name.clone()).collect()
    }

    fn knows(&self, of: &str) -> bool {
        self.settlers.iter().any(|settler| settler.of() == of)
    }

    /// Records in the op row or void that the types of this worker are settled for the last time;
    /// returns whether all other types are recorded, too.
    async fn is_left_by_all(&self, op: &Keys, others: &BTreeSet<&str>) -> Result<bool> {
        let Some(found) = self.table.row(op).await? else { return Ok(true) };
        let mut row = found.entity;
        let noted = text(&row, SETTLED).unwrap_or_default().to_owned();
        let is_noted = |of: &str| noted.lines().any(|other| other == of);
        if others.iter().all(|of| is_noted(of)) {
            return Ok(true);
        }
        let own = self.settlers.iter().map(|settler| settler.of()).filter(|of| !is_noted(of));
        let own: Vec<_> = own.collect();
        if !own.is_empty() {
            row.set(SETTLED, format!("{noted}{}\n", own.join("\n")));
            let noted = self.table.table().replace((&row, found.etag)).await;
            // On a conflict, another worker recorded its types.
            noted.map(drop).or_else(|error| if is_lost(&error) { Ok(()) } else { Err(error) })?;
        }
        Ok(false)
    }
}
