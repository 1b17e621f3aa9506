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
//! - `settle`: the changes in other places after the commit: by the writer, and by what is stored
//! - `settler`: the same for one type, through its declarations · `release`: a claim · `noted`: notes on it
//! - `resume`: a worker that continues a write
//! - `caused`: which declarations cause a request · `predict`: the requests of a plan, before it runs

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::internals::{declared, impatient};
use rowkey_client::{ETag, Error, Outcome, Result};
use rowkey_patterns::internals::try_all;

use crate::declarations::list::check_join;
use crate::layer::deciding::Deciding;
use crate::plan::Plan;
use crate::row::Keys;
use crate::row::op::created_of;
use crate::row::times::KEPT;

pub(crate) mod announce;
pub(crate) mod blobs;
mod caused;
pub(crate) mod claim;
pub(crate) mod commit;
pub(crate) mod ending;
pub(crate) mod group;
pub(crate) mod inline;
pub(crate) mod noted;
pub(crate) mod predict;
pub(crate) mod release;
pub(crate) mod remembered;
pub(crate) mod resume;
mod settle;
pub(crate) mod settler;

use crate::declaring::settling::Settled;
use announce::{Announced, Announcer, HIDDEN, Notice};
use blobs::{UPLOADS, forget, upload};
use commit::{Committed, commit};
use ending::Ended;
use group::Claimed;
use noted::Noted;
use release::release;
use settler::Settler;

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
        let mut noted = Noted { in_doubt, by_writer: true, ..Noted::default() };
        // A worker settles what fails, so a job does not wait for a table that is unavailable.
        let settled = impatient(self.settle(announcer, &plan, &op, &mut noted)).await;
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
            match impatient(declared(joined.list.name, joined.at.row(&self.table))).await {
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

    fn announcer(&self) -> Result<&Announcer> {
        self.announcer.as_deref().ok_or_else(|| {
            let what = "the write needs a queue, and the store has none";
            Error::refused(rowkey_client::ErrorKind::Invalid, what)
                .advise("give one to `StoreBuilder::queue`")
        })
    }
}
