//! Settling copies elsewhere: a page of targets, the entity, and conditional writes of the targets that differ.

use rowkey_client::{Continuation, Entity, Result};
use rowkey_patterns::job::Verdict;

use super::held::{Doubt, Edit, Held};
use super::walk::Walk;
use super::{RemoteCopies, Wanted, source_of};
use crate::declaring::settling::{Move, Settled, Settling};

/// How often a page is read again whose targets other writers change.
const ROUNDS: u32 = 8;

impl<S, T, V> RemoteCopies<S, T, V>
where
    S: Entity + Send + Sync + 'static,
    T: Entity + Clone + PartialEq + Send + Sync + 'static,
    V: PartialEq + Send + Sync + 'static,
{
    /// Makes the targets of a range agree with the entity as it is now. In turns, settles one page.
    pub(super) async fn settle_at(
        &self,
        settling: &Settling<S>,
        mut walk: Walk,
    ) -> Result<Settled> {
        let all = walk.rows.address();
        let now = settling.table().clock().now();
        let begun = walk.begun();
        if let (true, Some(begun)) = (walk.has_ended(), begun) {
            settling.moves(Move { to: walk.address(), ended: Some((begun, all)) });
            return Ok(Settled::Done);
        }
        loop {
            let (settled, next) = self.settle_page(settling, &walk).await?;
            if settled == Settled::Pending {
                return Ok(Settled::Pending);
            }
            let goes_on = next.is_some();
            walk.moves_to(next, begun.unwrap_or(now));
            if settling.is_in_turns() && goes_on {
                settling.moves(Move { to: walk.address(), ended: None });
                return Ok(Settled::Done);
            }
            if !goes_on {
                if let Some(begun) = begun {
                    settling.moves(Move { to: walk.address(), ended: Some((begun, all)) });
                }
                return Ok(Settled::Done);
            }
        }
    }

    /// Settles the next page; returns where the one after it begins.
    ///
    /// The order matters. First the targets are read, then the entity. A late write is refused if another one
    /// came in between, so that one based on an older state of the entity never overwrites a newer one. At
    /// the end, [`Settling::is_unchanged`] covers targets that the newer state did not change.
    ///
    /// A write that was not answered may take effect much later. It requires that all its targets are as they
    /// were read, so one of them is written again, even if it is right.
    async fn settle_page(
        &self,
        settling: &Settling<S>,
        walk: &Walk,
    ) -> Result<(Settled, Option<Continuation>)> {
        let mut doubts: Vec<Doubt> = Vec::new();
        for _ in 0..ROUNDS {
            let (page, next) = self.holder.page(walk, &self.source).await?;
            if page.is_empty() && doubts.is_empty() {
                return Ok((Settled::Done, next));
            }
            let wanted = self.wanted(settling.entity().await?.as_ref());
            doubts.retain(|doubt| doubt.is_open(&page));
            let touched: Vec<_> = doubts.iter().filter_map(|doubt| doubt.on(&page)).collect();
            let touched: Vec<_> = touched.into_iter().cloned().collect();
            let mut writes = Vec::new();
            for held in page {
                let edit = self.edit(&held, &wanted, &source_of(settling));
                if edit.is_some() || touched.contains(&held.keys) {
                    writes.push((held, edit));
                }
            }
            let names = (self.name, &*self.source);
            let outcomes = self.holder.write(names, settling, writes).await?;
            if !outcomes.lost && outcomes.doubts.is_empty() {
                // Targets that are no longer on the page could not be written again.
                let is_left =
                    |doubt: &Doubt| !doubt.rows.iter().any(|(keys, _)| touched.contains(keys));
                for doubt in doubts.into_iter().filter(is_left) {
                    let _ = settling.wrote::<()>(Err(doubt.error))?;
                }
                return Ok((Settled::Done, next));
            }
            doubts.extend(outcomes.doubts);
        }
        for doubt in doubts {
            let _ = settling.wrote::<()>(Err(doubt.error))?;
        }
        Ok((Settled::Pending, None))
    }

    /// The new state of a target; `None` if it stays as it is.
    fn edit(&self, held: &Held<T>, wanted: &Wanted<V>, source: &str) -> Option<Edit<T>> {
        let (partition_key, row_key) = &held.keys;
        let is_target = wanted.targets.iter().any(|rows| rows.contains(partition_key, row_key));
        let holder = held.source.as_deref();
        let is_of_another = holder.is_some_and(|other| other != source);
        let mut after = held.entity.clone();
        if is_target {
            (self.set)(&mut after, wanted.value.as_ref());
            let is_right = after == held.entity && !is_of_another;
            return (!is_right).then(|| Edit { after, source: Some(source.to_owned()) });
        }
        if is_of_another {
            return None;
        }
        (self.set)(&mut after, None);
        let is_right = after == held.entity && holder.is_none();
        (!is_right).then_some(Edit { after, source: None })
    }

    /// Checks the targets of a range. One request for each page, and a read of the entity.
    pub(super) async fn verify_at(
        &self,
        settling: &Settling<S>,
        mut walk: Walk,
    ) -> Result<Verdict> {
        let wanted = self.wanted(settling.entity().await?.as_ref());
        let now = settling.table().clock().now();
        loop {
            let (page, next) = self.holder.page(&walk, &self.source).await?;
            for held in page {
                let edit = self.edit(&held, &wanted, &source_of(settling));
                if edit.is_some_and(|edit| edit.after != held.entity) {
                    return Ok(Verdict::Stale);
                }
            }
            match next {
                None => return Ok(Verdict::Right),
                next => walk.moves_to(next, now),
            }
        }
    }
}
