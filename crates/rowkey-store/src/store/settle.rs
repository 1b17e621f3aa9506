//! Settling for one type: its targets by their contributors, its claims by their entities.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::index::Scope;
use rowkey::{Entity, Error, ErrorKind, Result, Rows};

use super::Inner;
use crate::execute::settle::{Settled, Settler, Settling, release};
use crate::plan::op::{ClaimRef, Target};
use crate::row::demands;

impl<E: Entity> Inner<E> {
    /// Whether the program gave contributors besides those that the type declares.
    pub(super) fn has_contributors(&self) -> bool {
        self.added > 0
    }

    /// The type, by the text that its RowKeys begin with.
    pub(super) const fn of() -> &'static str {
        match E::ROWS {
            Rows::Head(head) | Rows::One(head) => head,
            // A store is refused by the derive without a head.
            Rows::All => "",
        }
    }
}

impl<E: Entity + Send + Sync + 'static> Settler for Inner<E> {
    fn of(&self) -> &'static str {
        Self::of()
    }

    fn settle<'a>(
        &'a self,
        partition_key: &'a str,
        op: &'a str,
        targets: &'a [Target],
        claims: &'a [ClaimRef],
    ) -> BoxFuture<'a, Result<Settled>> {
        async move {
            let mut settled = Settled::Done;
            let mut rest = targets;
            while let Some(first) = rest.first() {
                // The targets of one entity follow each other.
                let same = rest.iter().take_while(|other| other.row_key == first.row_key).count();
                let (of_one, others) = rest.split_at(same);
                rest = others;
                let keys = (partition_key.to_owned(), first.row_key.clone());
                let settling = Settling::<E>::new(self.deciding.clone(), keys);
                settled = settled.and(self.settle_one(&settling, of_one).await?);
            }
            for claim in claims {
                let is_it = |position: &usize| {
                    let index = E::INDEXES[*position];
                    index.scope == Scope::Claim && index.name == claim.name
                };
                // A unique value that this program does not know is settled by one that does.
                let Some(position) = (0..E::INDEXES.len()).find(is_it) else {
                    settled = Settled::Pending;
                    continue;
                };
                let how = (demands::<E> as _, position);
                let released = release(&self.deciding, partition_key, op, claim, how).await?;
                settled = settled.and(released);
            }
            Ok(settled)
        }
        .boxed()
    }
}

impl<E: Entity + Send + Sync + 'static> Inner<E> {
    async fn settle_one(&self, settling: &Settling<E>, targets: &[Target]) -> Result<Settled> {
        let mut settled = Settled::Done;
        let mut failed = None;
        for target in targets {
            let mut contributors = self.contributors.iter();
            let Some(contributor) = contributors.find(|one| one.name() == target.contributor)
            else {
                settled = Settled::Pending;
                continue;
            };
            match contributor.settle(settling, &target.address).await {
                Ok(one) => settled = settled.and(one),
                // One target must not hold the others up.
                Err(error) => {
                    let name = contributor.name().to_owned();
                    failed.get_or_insert(error.during(name));
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if settled == Settled::Done && !settling.is_unchanged().await? {
            return Ok(Settled::Pending);
        }
        Ok(settled)
    }
}

/// The error of a store that has nothing to receive from.
pub(super) fn no_queue() -> Error {
    Error::refused(ErrorKind::Invalid, "the store has no queue")
        .advise("give one to `StoreBuilder::queue`")
}
