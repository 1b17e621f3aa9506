//! The executor: runs a plan. It handles conditions, repetitions, unanswered requests and settling.
//!
//! - `announce`: the message, or the backlog row
//! - `blobs`: uploads before the commit, and deletions, which share requests
//! - `claim`: claims of values before the commit
//! - `commit`: the transaction
//! - `ending`: clean-up that writes in flight share
//! - `group`: requests that rows of one partition share
//! - `inline`: settling by the writer, by conditional writes
//! - `remembered`: what the program knows of rows that it wrote
//! - [`settle`]: settling by state, as workers do: reads, then a conditional write

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::rounds::Rounds;
use rowkey_client::telemetry::TraceParent;
use rowkey_client::{ETag, Error, Outcome, Result};
use rowkey_patterns::internals::try_all;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::declarations::list::check_join;
use crate::layer::deciding::{Deciding, is_lost};
use crate::plan::Plan;
use crate::row::op::{ClaimRef, OpRow, Target, created_of, move_targets, remove_targets};
use crate::row::times::{KEPT, LATEST};
use crate::row::{Keys, text};

pub(crate) mod announce;
pub(crate) mod blobs;
pub(crate) mod claim;
pub(crate) mod commit;
pub(crate) mod ending;
pub(crate) mod group;
pub(crate) mod inline;
pub(crate) mod remembered;
pub(crate) mod settle;

use crate::contributor::settling::Settled;
use announce::{Announced, Announcer, HIDDEN, Notice};
use blobs::{UPLOADS, forget, upload};
use commit::{Committed, commit};
use ending::Ended;
use group::Claimed;
use settle::{Noted, Settler, release};

/// The property of an op row or a void that lists the types whose workers have settled it for the last
/// time.
const SETTLED: &str = "Settled";

/// Runs plans on one table.
pub(crate) struct Executor {
    pub(crate) table: Deciding,
    /// `None` if no type of the table prepares or settles anything.
    pub(crate) announcer: Option<Arc<Announcer>>,
    /// One settler per type.
    pub(crate) settlers: Vec<Arc<dyn Settler>>,
}

/// The result of a plan.
pub(crate) enum Ran {
    Done {
        /// The `ETag` of each head in order; `None` for deletions and if the response was lost.
        etags: Vec<Option<ETag>>,
        /// Whether everything outside the transaction agrees.
        settled: Settled,
    },
    /// Rows that the plan is based on have changed: make the plan again. Nothing was written.
    Stale(Error),
}

impl Executor {
    /// Runs a plan: prepares, commits and settles. If the future is dropped, a worker finishes the write,
    /// and a sweep deletes blobs that are left.
    ///
    /// Boxed, so that it is compiled here, and not again in each program that writes; and so that the
    /// futures of callers stay small.
    pub(crate) fn run(&self, mut plan: Plan) -> BoxFuture<'_, Result<Ran>> {
        let naming = std::mem::take(&mut plan.naming);
        plan.expires = !naming.is_empty();
        async move {
            naming.send();
            let ran = self.run_plan(plan).await;
            // If the future is dropped or the outcome is unknown, the references are spent.
            if match &ran {
                Ok(ran) => matches!(ran, Ran::Stale(_)),
                Err(error) => error.outcome() != Outcome::Unknown,
            } {
                naming.release();
            }
            ran
        }
        .boxed()
    }

    async fn run_plan(&self, plan: Plan) -> Result<Ran> {
        if !plan.has_op_row() {
            // `commit` also checks before it sends anything.
            return Ok(match commit(&self.table, &plan, &mut false).await? {
                Committed::Yes(etags) => Ran::Done { etags, settled: Settled::Done },
                Committed::Stale(error) => Ran::Stale(error),
            });
        }
        let announcer = self.announcer()?;
        let flight = announcer.ending.begin();
        let ran = self.run_in_flight(announcer, plan).await;
        drop(flight);
        self.clean_up(announcer).await;
        ran
    }

    /// Runs a plan that has an op row.
    async fn run_in_flight(&self, announcer: &Announcer, mut plan: Plan) -> Result<Ran> {
        plan.trace = self.table.table().account().telemetry().current();
        self.check(&plan)?;
        self.check_joined(&plan).await?;
        inline::recall(announcer, &mut plan);
        inline::look_at_claims(&self.table, &mut plan).await?;
        inline::look(&self.table, &mut plan).await?;
        let op = (plan.partition_key.clone(), plan.op.row_key()?);
        let made = plan.claims.iter().map(|claim| claim.reference.clone()).collect();
        let notice = Notice::new(op.clone(), made);
        if let Err(error) = upload(&plan).await {
            forget(announcer, &plan, false).await;
            return Err(error.with_outcome(Outcome::Rejected));
        }
        // Errors before the transaction are `Outcome::Rejected`, even if a request was not answered.
        let announced = announcer.announce(&self.table, &notice).await;
        let announced = match announced {
            Ok(announced) => announced,
            Err(error) => {
                forget(announcer, &plan, false).await;
                let error = error.with_outcome(Outcome::Rejected);
                return Err(error.at_operation(plan.step_of_op()));
            }
        };
        let mut in_doubt = false;
        let mut claimed = Vec::new();
        let table = (&self.table, announcer);
        let made = group::claim_all(table, &plan, &mut claimed, &mut in_doubt).await;
        if let Err(error) = made {
            forget(announcer, &plan, in_doubt).await;
            self.undo(&op, &claimed, announced, in_doubt).await;
            return Err(error.with_outcome(Outcome::Rejected));
        }
        let etags = match commit(&self.table, &plan, &mut in_doubt).await {
            Ok(Committed::Yes(etags)) => etags,
            Ok(Committed::Stale(error)) => {
                forget(announcer, &plan, in_doubt).await;
                self.undo(&op, &claimed, announced, in_doubt).await;
                return Ok(Ran::Stale(error));
            }
            Err(error) if error.outcome() == Outcome::Unknown => return Err(error),
            Err(error) => {
                forget(announcer, &plan, in_doubt).await;
                self.undo(&op, &claimed, announced, in_doubt).await;
                return Err(error);
            }
        };
        group::remember(announcer, &plan, &op.1, claimed);
        // The head that was just written confirms new claims, so they need no settling.
        let mut noted = Noted { in_doubt, ..Noted::default() };
        let settled = self.settle(announcer, &plan, &op, &mut noted).await;
        self.end(announcer, &plan, announced, settled, &noted).await?;
        let settled = if noted.missed { Settled::Pending } else { settled };
        Ok(Ran::Done { etags, settled })
    }

    /// Refuses a transaction that would be refused later, before anything is sent.
    fn check(&self, plan: &Plan) -> Result<()> {
        let operations = plan.operations()?;
        let add = |transaction, edit: &crate::plan::Edit| {
            edit.write.add_to(transaction, &plan.partition_key, &edit.row_key)
        };
        operations.iter().fold(self.table.transaction(), add).check().map_err(|error| {
            let at = error.details().operation_index.and_then(|at| operations.get(at));
            error.at_operation(at.and_then(|edit| plan.step_of_edit(edit)))
        })
    }

    /// Refuses a write whose entities join lists in other partitions that have no room. One request for each
    /// list.
    async fn check_joined(&self, plan: &Plan) -> Result<()> {
        let checked = plan.joined.iter().map(|joined| async move {
            match joined.at.row(&self.table).await {
                Ok(Some(found)) => check_join(&found.entity, joined.list, &joined.listed),
                Ok(None) => Ok(()),
                // The write does not wait for a table that is unavailable.
                Err(error) if joined.at.may_be_left(&error) => Ok(()),
                Err(error) => Err(error),
            }
        });
        let checked = try_all(checked, UPLOADS).await;
        checked.map(drop).map_err(|error| error.with_outcome(Outcome::Rejected))
    }

    /// Settles a plan and never fails: a worker settles the remaining targets.
    async fn settle(
        &self,
        announcer: &Announcer,
        plan: &Plan,
        op: &Keys,
        noted: &mut Noted,
    ) -> Settled {
        let age = (self.table.clock().now() - plan.op.created()).to_std().unwrap_or_default();
        if age >= HIDDEN {
            // A worker may have the message by now, and expects no more requests of the writer.
            return Settled::Pending;
        }
        match self.settle_inline(announcer, (plan, op), noted).await {
            Ok(_) if !noted.undeclared.is_empty() => Settled::Pending,
            Ok(settled) => settled,
            Err(error) => {
                tracing::warn!(%error, "a committed write is left to be settled by a worker");
                Settled::Pending
            }
        }
    }

    /// Settles by conditional writes, and the targets that these leave by reading them first.
    async fn settle_inline(
        &self,
        announcer: &Announcer,
        (plan, op): (&Plan, &Keys),
        noted: &mut Noted,
    ) -> Result<Settled> {
        let targets = inline::write_rows(&self.table, announcer, (plan, op), noted).await;
        // A failure of one does not stop the other.
        let claims = inline::release(&self.table, plan).await;
        let (targets, claims) = (targets?, claims?);
        if !(targets.is_empty() && claims.is_empty())
            && self.settle_surely(op, &targets, &claims, noted).await? == Settled::Pending
        {
            return Ok(Settled::Pending);
        }
        // Blobs are deleted last, when no other target needs them any more.
        let blobs = inline::free(&self.table, announcer, (plan, op)).await;
        if blobs.is_empty() {
            return Ok(Settled::Done);
        }
        self.settle_surely(op, &blobs, &[], noted).await
    }

    /// Settles. If a request was not answered, settles once more, to do what the request would have
    /// done.
    async fn settle_surely(
        &self,
        op: &Keys,
        targets: &[Target],
        claims: &[ClaimRef],
        noted: &mut Noted,
    ) -> Result<Settled> {
        let was_in_doubt = std::mem::take(&mut noted.in_doubt);
        let settled = self.settle_all(op, targets, claims, noted).await;
        let unanswered = noted.in_doubt;
        noted.in_doubt |= was_in_doubt;
        if !unanswered {
            return settled;
        }
        // Stop at an error. The second pass also settles the targets that the first left pending.
        let _ = settled?;
        noted.moved.clear();
        self.settle_all(op, targets, claims, noted).await
    }

    /// Settles as a worker does, and repeats targets that lost against another writer. Writes that one
    /// worker settles in parallel compete for lists that several entities share.
    async fn settle_in_rounds(
        &self,
        op: &Keys,
        targets: &[Target],
        claims: &[ClaimRef],
        noted: &mut Noted,
    ) -> Result<Settled> {
        let mut rounds = Rounds::new(self.table.table(), op);
        loop {
            let settled = self.settle_surely(op, targets, claims, noted).await?;
            let is_over = settled == Settled::Done || noted.in_doubt || noted.goes_on();
            if is_over || !rounds.again().await {
                return Ok(settled);
            }
            noted.moved.clear();
        }
    }

    async fn settle_all(
        &self,
        op: &Keys,
        targets: &[Target],
        claims: &[ClaimRef],
        noted: &mut Noted,
    ) -> Result<Settled> {
        let mut all = Ok(Settled::Done);
        for settler in &self.settlers {
            let is_open =
                |target: &&Target| target.of == settler.of() && !noted.finished.contains(target);
            let targets: Vec<_> = targets.iter().filter(is_open).cloned().collect();
            let claims: Vec<_> =
                claims.iter().filter(|claim| claim.of == settler.of()).cloned().collect();
            if !(targets.is_empty() && claims.is_empty()) {
                let one = settler.settle(op, &targets, &claims, noted).await;
                all = settle::both(all, one);
            }
        }
        all
    }

    /// Ends a write that was settled inline, or leaves it to a worker.
    async fn end(
        &self,
        announcer: &Announcer,
        plan: &Plan,
        announced: Announced,
        settled: Settled,
        noted: &Noted,
    ) -> Result<()> {
        let op = (plan.partition_key.clone(), plan.op.row_key()?);
        if settled == Settled::Pending || noted.in_doubt {
            let _ = self.note_finished(&op, noted).await;
        }
        if settled == Settled::Pending {
            announcer.reveal(&announced, Duration::ZERO).await;
        } else if noted.missed {
            // By then, the writer that may insert the missing row has stopped sending requests.
            announcer.reveal(&announced, HIDDEN).await;
        } else if noted.in_doubt {
            // A late request must meet the op row, which stays until no request can take effect.
            announcer.reveal(&announced, KEPT).await;
        } else {
            announcer.ending.leave(Ended { op, announced, created: plan.op.created() });
        }
        Ok(())
    }

    /// Deletes the op rows and then the messages of settled writes, unless writes in flight will do so. One
    /// request for the op rows of each partition, and one for each message.
    async fn clean_up(&self, announcer: &Announcer) {
        let now = self.table.clock().now();
        let ended = announcer.ending.take(now);
        let mut partitions: BTreeMap<String, Vec<Ended>> = BTreeMap::new();
        for one in ended {
            partitions.entry(one.op.0.clone()).or_default().push(one);
        }
        let deleted = partitions.into_iter().map(|(partition_key, ended)| async move {
            let is_gone = self.delete_op_rows(&partition_key, &ended).await;
            Ok::<_, Error>(if is_gone { ended } else { Vec::new() })
        });
        let deleted = try_all(deleted, UPLOADS).await.unwrap_or_default();
        let (mut messages, mut rows) = (Vec::new(), Vec::new());
        for one in deleted.into_iter().flatten() {
            match one.announced {
                Announced::Message(message) => messages.push((message, one.created)),
                Announced::Backlog(_) => rows.push(one),
            }
        }
        let gone = announcer.ending.free(messages, now).into_iter();
        let messages = gone.map(|message| async move {
            announcer.withdraw(&self.table, Announced::Message(message)).await;
            Ok::<_, Error>(())
        });
        let rows = rows.into_iter().map(|one| async move {
            self.withdraw(announcer, &one.op, one.announced).await;
            Ok::<_, Error>(())
        });
        let _ = try_all(messages, UPLOADS).await;
        let _ = try_all(rows, UPLOADS).await;
    }

    /// Deletes op rows of a partition; returns whether they are gone. If not, their messages appear.
    async fn delete_op_rows(&self, partition_key: &str, ended: &[Ended]) -> bool {
        let key = |one: &Ended| {
            rowkey_client::Key::<rowkey_client::DynamicEntity>::new(partition_key, &*one.op.1)
        };
        let deleted = match ended {
            [one] => self
                .table
                .table()
                .delete_if_exists(key(one), rowkey_client::Match::Any)
                .await
                .map(drop),
            several => {
                let delete = |transaction: rowkey_client::Transaction, one: &Ended| {
                    transaction.delete(key(one), rowkey_client::Match::Any)
                };
                several.iter().fold(self.table.transaction(), delete).submit().await.map(drop)
            }
        };
        if let Err(error) = &deleted {
            tracing::debug!(%error, "the op rows of settled writes were not deleted");
        }
        deleted.is_ok()
    }

    /// Undoes the preparation of a write that was not committed and never will be.
    ///
    /// Decides by the stored state: an entity that existed before may have the value.
    async fn undo(&self, op: &Keys, claimed: &[Claimed<'_>], announced: Announced, in_doubt: bool) {
        let mut undone = true;
        for Claimed { new, .. } in claimed {
            let how = (&new.demands, new.position);
            let table = (&self.table, self.announcer.as_deref());
            match release(table, op, &new.reference, how).await {
                Ok(released) => undone &= released == Settled::Done,
                Err(error) => {
                    undone = false;
                    tracing::debug!(%error, "a claim is left to be released by a worker");
                }
            }
        }
        let Ok(announcer) = self.announcer() else { return };
        if !undone {
            announcer.reveal(&announced, Duration::ZERO).await;
        } else if in_doubt {
            // The worker undoes late requests. If there is a void, it must stay until no request can
            // take effect; the worker then removes it.
            announcer.reveal(&announced, KEPT).await;
        } else {
            self.withdraw(announcer, op, announced).await;
        }
    }

    /// Withdraws the announcement of a write that left nothing to settle. Keeps it if it is a backlog row
    /// that a worker may have read by now: the worker may have inserted a void for the write, and removes
    /// the void when it reads the row again. For a message, the pop receipt shows whether a worker has it; a
    /// row has none.
    async fn withdraw(&self, announcer: &Announcer, op: &Keys, announced: Announced) {
        let age = created_of(&op.1).map(|created| self.table.clock().now() - created);
        // Half the time after which workers read the row, because clocks differ.
        let is_young = age.is_some_and(|age| age.to_std().is_ok_and(|age| age < HIDDEN / 2));
        if is_young || matches!(announced, Announced::Message(_)) {
            announcer.withdraw(&self.table, announced).await;
        }
    }

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
            let settled = self.settle_in_rounds(op, &[], &notice.claims, &mut noted).await?;
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
        let settled = self.settle_in_rounds(op, targets, claims, &mut noted).await;
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
    async fn note_finished(&self, op: &Keys, noted: &Noted) -> bool {
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
        let targets = targets.iter().map(|target| (&target.of, &target.contributor));
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

    fn announcer(&self) -> Result<&Announcer> {
        self.announcer.as_deref().ok_or_else(|| {
            let what = "the write needs a queue, and the store has none";
            Error::refused(rowkey_client::ErrorKind::Invalid, what)
                .advise("give one to `StoreBuilder::queue`")
        })
    }
}

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
