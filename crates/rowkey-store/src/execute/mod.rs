//! The executor: runs a plan. It owns conditions, rounds, unanswered requests and settling.
//!
//! - `announce`: the message, or the row of the backlog
//! - `claim`: values that are claimed before the commit
//! - `commit`: the transaction
//! - [`settle`]: what follows elsewhere
//! - `rounds`: how often a write that lost a race is tried again

use std::sync::Arc;
use std::time::Duration;

use rowkey::{ETag, Error, Outcome, Result};

use crate::deciding::Deciding;
use crate::plan::op::{ClaimRef, OpRow, Target};
use crate::plan::{NewClaim, Plan, Released};
use crate::row::{Claim, Keys};

pub(crate) mod announce;
pub(crate) mod claim;
pub(crate) mod commit;
pub(crate) mod rounds;
pub(crate) mod settle;

use announce::{Announced, Announcer, LATEST, Notice};
use claim::Fate;
use commit::{Committed, commit};
use settle::{Settled, Settler, release};

/// What runs plans on one table.
pub(crate) struct Executor {
    pub(crate) table: Deciding,
    /// `None` if nothing of the table is prepared or settled.
    pub(crate) announcer: Option<Arc<Announcer>>,
    /// What settles, a type each.
    pub(crate) settlers: Vec<Arc<dyn Settler>>,
}

/// What became of a plan.
pub(crate) enum Ran {
    Done {
        /// The `ETag` of each head in order; `None` for deletions and where the answer was lost.
        etags: Vec<Option<ETag>>,
        /// Whether everything elsewhere agrees.
        settled: Settled,
    },
    /// Rows that the plan was made from have changed: make it again. Nothing was written.
    Stale(Error),
}

impl Executor {
    /// Runs a plan: prepares, commits and settles.
    pub(crate) async fn run(&self, mut plan: Plan) -> Result<Ran> {
        if !plan.has_op_row() {
            // Checked before anything is sent, as below.
            return Ok(match commit(&self.table, &plan, &mut false).await? {
                Committed::Yes(etags) => Ran::Done { etags, settled: Settled::Done },
                Committed::Stale(error) => Ran::Stale(error),
            });
        }
        plan.operations()?;
        self.read_released(&mut plan).await?;
        let op = (plan.partition_key.clone(), plan.op.row_key()?);
        let made = plan.claims.iter().map(|claim| claim.reference.clone()).collect();
        let notice = Notice::new(op.clone(), made);
        let announced = self.announcer()?.announce(&self.table, &notice).await?;
        let mut claimed = Vec::new();
        for new in &plan.claims {
            match claim::claim(&self.table, new, &plan.op).await {
                Ok(_) => claimed.push(new),
                Err(error) if error.outcome() == Outcome::Unknown => {
                    // The claim may be there: the worker undoes it.
                    return Err(error);
                }
                Err(error) => {
                    self.undo(&op, claimed, announced, false).await;
                    return Err(error);
                }
            }
        }
        let mut in_doubt = false;
        let etags = match commit(&self.table, &plan, &mut in_doubt).await {
            Ok(Committed::Yes(etags)) => etags,
            Ok(Committed::Stale(error)) => {
                self.undo(&op, claimed, announced, in_doubt).await;
                return Ok(Ran::Stale(error));
            }
            Err(error) if error.outcome() == Outcome::Unknown => return Err(error),
            Err(error) => {
                self.undo(&op, claimed, announced, in_doubt).await;
                return Err(error);
            }
        };
        // A new claim is kept by the head that was just written.
        let released: Vec<_> = plan.released.into_iter().map(|one| one.reference).collect();
        let settled = self.settle(&op, &plan.targets, &released).await;
        self.end(&op, announced, settled, in_doubt).await;
        Ok(Ran::Done { etags, settled })
    }

    /// Notes which operations wrote the claims that are given up, and sees to it that none of them can
    /// still be committed. One request each, or two if the claim was written before the head.
    async fn read_released(&self, plan: &mut Plan) -> Result<()> {
        let mut released = Vec::new();
        for Released { reference, mark } in std::mem::take(&mut plan.released) {
            // One that is not there, or is another's, needs no release.
            let Some(found) = self.table.row(&reference.keys).await? else { continue };
            let found = Claim::read(&found.entity)?;
            if found.owner != (plan.partition_key.clone(), reference.row_key.clone()) {
                continue;
            }
            // An insert of the same entity may have written it, and be committed when this is deleted.
            if !mark.as_ref().is_some_and(|mark| found.op.ends_with(mark.as_str())) {
                claim::end(&self.table, &plan.partition_key, &found.op, &plan.op).await?;
            }
            let reference = ClaimRef { before: Some(found.op), ..reference };
            released.push(Released { reference, mark });
        }
        plan.released = released;
        Ok(())
    }

    /// Settles targets and claims, and never fails: what is left is left to a worker.
    async fn settle(&self, op: &Keys, targets: &[Target], claims: &[ClaimRef]) -> Settled {
        match self.settle_all(op, targets, claims).await {
            Ok(settled) => settled,
            Err(error) => {
                tracing::warn!(%error, "a committed write is left to be settled by a worker");
                Settled::Pending
            }
        }
    }

    async fn settle_all(
        &self,
        op: &Keys,
        targets: &[Target],
        claims: &[ClaimRef],
    ) -> Result<Settled> {
        let of_known = |of: &str| self.settlers.iter().any(|settler| settler.of() == of);
        let all_known = targets.iter().all(|target| of_known(&target.of))
            && claims.iter().all(|claim| of_known(&claim.of));
        let mut settled = if all_known { Settled::Done } else { Settled::Pending };
        for settler in &self.settlers {
            let targets: Vec<_> =
                targets.iter().filter(|target| target.of == settler.of()).cloned().collect();
            let claims: Vec<_> =
                claims.iter().filter(|claim| claim.of == settler.of()).cloned().collect();
            if !(targets.is_empty() && claims.is_empty()) {
                settled = settled.and(settler.settle(&op.0, &op.1, &targets, &claims).await?);
            }
        }
        Ok(settled)
    }

    /// Ends a write that was settled inline, or leaves it to a worker.
    async fn end(&self, op: &Keys, announced: Announced, settled: Settled, in_doubt: bool) {
        let Ok(announcer) = self.announcer() else { return };
        if settled == Settled::Pending {
            return announcer.reveal(&announced, Duration::ZERO).await;
        }
        if in_doubt {
            // A request that lands late must meet the op row: it stays until none can.
            return announcer.reveal(&announced, LATEST).await;
        }
        let key = rowkey::Key::<rowkey::DynamicEntity>::new(&*op.0, &*op.1);
        match self.table.table().delete_if_exists(key, rowkey::Match::Any).await {
            Ok(_) => announcer.withdraw(&self.table, announced).await,
            Err(error) => tracing::debug!(%error, "the op row of a settled write stays"),
        }
    }

    /// Undoes what a write prepared that certainly was not committed and never will be.
    ///
    /// It goes by what is: an entity that was there before may have the value.
    async fn undo(&self, op: &Keys, claimed: Vec<&NewClaim>, announced: Announced, in_doubt: bool) {
        for new in claimed {
            let how = (new.demands, new.position);
            if let Err(error) = release(&self.table, &op.0, &op.1, &new.reference, how).await {
                tracing::debug!(%error, "a claim stays until its value is claimed again");
            }
        }
        let Ok(announcer) = self.announcer() else { return };
        if in_doubt {
            // A void stands, and has to until no request can land any more. The worker removes it.
            announcer.reveal(&announced, LATEST).await;
        } else {
            announcer.withdraw(&self.table, announced).await;
        }
    }

    /// What a worker does for an announcement: decides the write, and settles or undoes it. Both are the
    /// same, because settling goes by what is.
    pub(crate) async fn resume(&self, notice: &Notice) -> Result<Resumed> {
        let op = &notice.op;
        let now = self.table.clock().now();
        let mut found = claim::fate(&self.table, op).await?;
        if found.is_none() {
            let by = crate::plan::Op::random(now)?;
            claim::end(&self.table, &op.0, &op.1, &by).await?;
            found = claim::fate(&self.table, op).await?;
        }
        let Some((fate, row)) = found else { return Ok(Resumed::Done) };
        let (created, settled) = match (fate, &row) {
            (Fate::Committed, OpRow::Committed { created, targets, claims }) => {
                (*created, self.settle_all(op, targets, claims).await?)
            }
            (_, OpRow::Void { created } | OpRow::Committed { created, .. }) => {
                (*created, self.settle_all(op, &[], &notice.claims).await?)
            }
        };
        let age = (now - created).to_std().unwrap_or_default();
        Ok(match settled {
            Settled::Pending => Resumed::Again(Duration::from_secs(1)),
            // Nothing that was sent can land any more.
            Settled::Done if age >= LATEST => {
                let key = rowkey::Key::<rowkey::DynamicEntity>::new(&*op.0, &*op.1);
                self.table.table().delete_if_exists(key, rowkey::Match::Any).await?;
                Resumed::Done
            }
            Settled::Done => Resumed::Again(LATEST.saturating_sub(age)),
        })
    }

    fn announcer(&self) -> Result<&Announcer> {
        self.announcer.as_deref().ok_or_else(|| {
            let what = "the write needs a queue, and the store has none";
            Error::refused(rowkey::ErrorKind::Invalid, what)
                .advise("give one to `StoreBuilder::queue`")
        })
    }
}

/// What a worker is to do with an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resumed {
    /// It is settled, and nothing of it can land any more.
    Done,
    /// Look again after this time.
    Again(Duration),
}
