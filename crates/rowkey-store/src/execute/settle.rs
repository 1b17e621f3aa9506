//! Settling a write: its targets and claims agree with what is stored afterwards.

use rowkey_client::Result;
use rowkey_client::rounds::Rounds;

use super::announce::{Announcer, HIDDEN};
use super::noted::Noted;
use super::settler::{Open, both};
use super::{Executor, inline};
use crate::declaring::settling::Settled;
use crate::plan::Plan;
use crate::row::Keys;
use crate::row::op::Target;

impl Executor {
    /// Settles a plan and never fails: a worker settles the remaining targets.
    pub(super) async fn settle(
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
            && self.settle_surely(Open { op, targets: &targets, claims: &claims }, noted).await?
                == Settled::Pending
        {
            return Ok(Settled::Pending);
        }
        // Blobs are deleted last, when no other target needs them any more.
        let blobs = inline::free(&self.table, announcer, (plan, op)).await;
        if blobs.is_empty() {
            return Ok(Settled::Done);
        }
        self.settle_surely(Open { op, targets: &blobs, claims: &[] }, noted).await
    }

    /// Settles. If a request was not answered, settles once more, to do what the request would have
    /// done.
    async fn settle_surely(&self, open: Open<'_>, noted: &mut Noted) -> Result<Settled> {
        let was_in_doubt = std::mem::take(&mut noted.in_doubt);
        let settled = self.settle_all(open, noted).await;
        let unanswered = noted.in_doubt;
        noted.in_doubt |= was_in_doubt;
        if !unanswered {
            return settled;
        }
        // Stop at an error. The second pass also settles the targets that the first left pending.
        let _ = settled?;
        noted.moved.clear();
        self.settle_all(open, noted).await
    }

    /// Settles as a worker does, and repeats targets that lost against another writer. Writes that one
    /// worker settles in parallel compete for lists that several entities share.
    pub(super) async fn settle_in_rounds(
        &self,
        open: Open<'_>,
        noted: &mut Noted,
    ) -> Result<Settled> {
        let mut rounds = Rounds::new(self.table.table(), open.op);
        loop {
            let settled = self.settle_surely(open, noted).await?;
            let is_over = settled == Settled::Done || noted.in_doubt || noted.goes_on();
            if is_over || !rounds.again().await {
                return Ok(settled);
            }
            noted.moved.clear();
        }
    }

    async fn settle_all(&self, open: Open<'_>, noted: &mut Noted) -> Result<Settled> {
        let mut all = Ok(Settled::Done);
        for settler in &self.settlers {
            let is_open =
                |target: &&Target| target.of == settler.of() && !noted.finished.contains(target);
            let targets: Vec<_> = open.targets.iter().filter(is_open).cloned().collect();
            let claims = open.claims.iter().filter(|claim| claim.of == settler.of());
            let claims: Vec<_> = claims.cloned().collect();
            if !(targets.is_empty() && claims.is_empty()) {
                let open = Open { op: open.op, targets: &targets, claims: &claims };
                let one = settler.settle(open, noted).await;
                all = both(all, one);
            }
        }
        all
    }
}
