//! Repairing by groups: entities of a partition whose rows do not agree with them are written again by one transaction,
//! with one announcement, and their missing claims share requests. Copies elsewhere are settled one by one.
//!
//! An entity is examined by itself. What has to be repaired is collected for the page. If a group is refused, its
//! entities are repaired one by one.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use rowkey_client::index::Scope;
use rowkey_client::{Entity, Error, ErrorKind, Result};
use rowkey_patterns::internals::try_all;
use rowkey_patterns::job::{Report, Verdict};

use super::examine::{Walked, note_failure};
use super::orphans::Orphans;
use super::totals::OnPage;
use super::verify::is_wrong;
use super::{ReadHead, Store, is_race};
use crate::declaring::settling::Settled;
use crate::execute::Ran;
use crate::execute::announce::no_queue;
use crate::execute::claim::claim;
use crate::execute::release::release;
use crate::plan::{MAX_OPERATIONS, NewClaim, Plan};
use crate::row::op::Op;
use crate::row::{Head, Keys, index_keys};

/// Partitions whose entities are repaired at once.
const AT_A_TIME: usize = 8;

/// An entity, and what was found of its rows.
pub(super) struct Examined<E> {
    pub(super) keys: Keys,
    pub(super) head: ReadHead<E>,
    /// By declaration, the indexes and unique values first, then the lists, then those of the program.
    pub(super) found: Vec<(Cow<'static, str>, Verdict)>,
    pub(super) in_blobs: Vec<(&'static str, Verdict)>,
    /// The targets of each declaration of the program.
    pub(super) added: Vec<Vec<String>>,
}

impl<E> Examined<E> {
    /// Whether a rewrite of the entity may repair something.
    pub(super) fn is_wrong(&self) -> bool {
        self.found.iter().any(is_wrong)
    }
}

/// What a repair has found on a page.
pub(super) struct Found<E> {
    wrong: Mutex<Vec<Examined<E>>>,
    pub(super) orphans: Orphans,
}

impl<E> Default for Found<E> {
    fn default() -> Self {
        Self { wrong: Mutex::default(), orphans: Orphans::default() }
    }
}

impl<E> Found<E> {
    pub(super) fn add(&self, examined: Examined<E>) {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push(examined);
    }
}

/// How an entity whose rows do not agree with it is repaired.
pub(super) enum Repairs<'f, E> {
    Nothing,
    /// It is written again by itself.
    Now,
    /// It is written again together with others of its partition.
    Later(&'f Found<E>),
}

impl<E> Clone for Repairs<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Repairs<'_, E> {}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Repairs what was found on a page.
    pub(super) async fn repair_found(
        &self,
        walked: &Walked,
        found: Found<E>,
        totals: &OnPage<'_>,
        report: &mut Report,
    ) -> Result<()> {
        let Found { wrong, orphans } = found;
        let mut wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
        wrong.sort_by(|one, other| one.keys.cmp(&other.keys));
        let most = ((MAX_OPERATIONS - 1) / self.inner.operations()).max(1);
        let partitions = wrong.chunk_by(|one, other| one.keys.0 == other.keys.0);
        let repaired = partitions.map(|partition| async move {
            let mut report = Report::default();
            for group in partition.chunks(most) {
                self.repair_group(group, totals, &mut report).await?;
            }
            Ok(report)
        });
        for one in try_all(repaired, AT_A_TIME).await? {
            report.merge(one);
        }
        // After the entities: one that was just written may demand a row again.
        report.merge(orphans.delete(&walked.table).await?);
        Ok(())
    }

    async fn repair_group(
        &self,
        group: &[Examined<E>],
        totals: &OnPage<'_>,
        report: &mut Report,
    ) -> Result<()> {
        let together = if group.len() > 1 { Some(self.rewrite_all(group).await) } else { None };
        let settled = match together {
            Some(Ok(settled)) => Some(settled),
            Some(Err(error)) if error.is_retryable() || error.kind() == ErrorKind::Auth => {
                return Err(error);
            }
            // One by one, because others of the group can be repaired.
            Some(Err(_)) | None => None,
        };
        for one in group {
            let repaired = match settled {
                Some(_) => self.report_head(one, (settled, Ok(())), totals, report).await,
                None => self.repair_one(one, totals, report).await,
            };
            if let Err(error) = repaired {
                note_failure(error, &one.keys, report)?;
            }
        }
        Ok(())
    }

    async fn repair_one(
        &self,
        one: &Examined<E>,
        totals: &OnPage<'_>,
        report: &mut Report,
    ) -> Result<()> {
        let repaired = self.rewrite_head(&one.keys, &one.head).await;
        if repaired.as_ref().is_err_and(is_race) && self.has_changed(&one.keys, &one.head).await? {
            return self.examine_head(&one.keys, Repairs::Now, totals, report).await;
        }
        self.report_head(one, (Some(Settled::Pending), repaired), totals, report).await
    }

    /// Writes unchanged entities of a partition again with all their rows, and makes their missing claims.
    async fn rewrite_all(&self, group: &[Examined<E>]) -> Result<Settled> {
        let op = Op::random(self.inner.deciding.clock().now())?;
        let mut plan = Plan::new(group[0].keys.0.clone(), op);
        plan.rewrites = true;
        for Examined { keys, head, found, .. } in group {
            self.add(&mut plan, keys, Some(head), Some(&head.entity)).await?;
            for (position, index) in E::DECLARED.indexes.iter().enumerate() {
                if index.scope != Scope::Claim || !is_wrong(&found[position]) {
                    continue;
                }
                let Some(at) = index_keys(&head.entity, position)? else { continue };
                if plan.claims.iter().any(|other| other.reference.keys == at) {
                    let what = format!("two entities have the same value of `{}`", index.name);
                    return Err(Error::refused(ErrorKind::AlreadyExists, what));
                }
                plan.claims.push(self.new_claim(keys, position, at));
            }
        }
        // In the order in which all writers make theirs.
        plan.claims.sort_by(|one, other| one.reference.keys.cmp(&other.reference.keys));
        match self.executor().run(plan).await? {
            Ran::Done { settled, .. } => Ok(settled),
            Ran::Stale(error) => Err(error),
        }
    }

    /// Rewrites an unchanged entity with all its rows, and claims its values.
    pub(super) async fn rewrite_head(&self, keys: &Keys, head: &ReadHead<E>) -> Result<()> {
        let op = Op::random(self.inner.deciding.clock().now())?;
        let mut made = Vec::new();
        let rewritten = self.rewrite_claiming(keys, head, &op, &mut made).await;
        if rewritten.is_err() {
            // No message names these claims. If the entity was deleted in the meantime, nothing else releases them.
            let op = (keys.0.clone(), op.row_key()?);
            let table = (&self.inner.deciding, self.inner.announcer.as_deref());
            for new in made {
                let how = (&new.demands, new.position);
                if let Err(error) = release(table, &op, &new.reference, how).await {
                    tracing::debug!(%error, "a claim is left to another repair");
                }
            }
        }
        rewritten
    }

    async fn rewrite_claiming(
        &self,
        keys: &Keys,
        head: &ReadHead<E>,
        op: &Op,
        made: &mut Vec<NewClaim>,
    ) -> Result<()> {
        for (position, index) in E::DECLARED.indexes.iter().enumerate() {
            if index.scope == Scope::Claim
                && let Some(at) = index_keys(&head.entity, position)?
                && self.examine_demand(keys, head, position).await? != Verdict::Right
            {
                let new = self.new_claim(keys, position, at);
                let announcer = self.inner.announcer.as_ref().ok_or_else(no_queue)?;
                made.push(new.clone());
                claim(&self.inner.deciding, announcer, &new, op, &mut false).await?;
            }
        }
        let after = head.entity.clone();
        let before = ReadHead {
            head: Head {
                entity: after.clone(),
                mark: head.mark.clone(),
                closed: head.closed.clone(),
                unknown: head.unknown.clone(),
                sealed: head.sealed.clone(),
                is_signed: head.is_signed,
                older: head.older.clone(),
            },
            etag: head.etag.clone(),
            is_of_another: false,
        };
        let rounds = &mut self.rounds(keys);
        self.write_all(keys, Some(before), Some(&after), true, rounds).await.map(drop)
    }
}
