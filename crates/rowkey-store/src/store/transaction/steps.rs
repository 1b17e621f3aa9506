//! The steps of a transaction: each adds its part to a plan, and does so again for each plan that is made.

use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::table::EncodedRow;
use rowkey_client::{Entity, Properties, Result};

use super::same;
use crate::plan::{Edit, Plan, Source, Write};
use crate::row::Keys;
use crate::store::Store;
use crate::store::if_match::IfMatch;

/// A step of a transaction.
pub(super) trait Add: Send + Sync {
    /// Reads what the step needs, and adds its part to a plan.
    fn add<'p>(&'p self, plan: &'p mut Plan) -> BoxFuture<'p, Result<()>>;

    /// Whether the step decides by a read of its own, so that it may run again if another writer came first.
    fn runs_again(&self) -> bool {
        false
    }
}

/// Inserts an entity, or replaces or deletes the entity that meets a condition.
pub(super) struct Written<'t, F> {
    pub(super) store: &'t Store<F>,
    pub(super) keys: Keys,
    pub(super) after: Option<&'t F>,
    /// `None` for an insert.
    pub(super) condition: Option<IfMatch>,
}

impl<F: Entity + Clone + Send + Sync + 'static> Add for Written<'_, F> {
    fn add<'p>(&'p self, plan: &'p mut Plan) -> BoxFuture<'p, Result<()>> {
        async move {
            let before = match &self.condition {
                None => None,
                Some(condition) => Some(self.store.read_if(&self.keys, condition).await?),
            };
            plan.heads_read += usize::from(before.is_some());
            self.store.add(plan, &self.keys, before.as_ref(), self.after).await
        }
        .boxed()
    }

    fn runs_again(&self) -> bool {
        self.condition == Some(IfMatch::Any)
    }
}

/// Inserts or replaces an entity.
pub(super) struct Upserted<'t, F> {
    pub(super) store: &'t Store<F>,
    pub(super) keys: Keys,
    pub(super) after: &'t F,
}

impl<F: Entity + Clone + Send + Sync + 'static> Add for Upserted<'_, F> {
    fn add<'p>(&'p self, plan: &'p mut Plan) -> BoxFuture<'p, Result<()>> {
        async move {
            let before = self.store.replaced(self.store.read_before(&self.keys).await?);
            plan.heads_read += 1;
            self.store.add(plan, &self.keys, before.as_ref(), Some(self.after)).await
        }
        .boxed()
    }

    fn runs_again(&self) -> bool {
        true
    }
}

/// Changes the entity that is stored when the plan is made.
pub(super) struct Changed<'t, F, C> {
    pub(super) store: &'t Store<F>,
    pub(super) keys: Keys,
    pub(super) condition: Option<IfMatch>,
    /// One plan is made at a time, so the lock is always free.
    pub(super) change: Mutex<C>,
}

impl<F, C> Add for Changed<'_, F, C>
where
    F: Entity + Clone + Send + Sync + 'static,
    C: FnMut(&mut F, &mut Properties, &[String]) -> Result<()> + Send,
{
    fn add<'p>(&'p self, plan: &'p mut Plan) -> BoxFuture<'p, Result<()>> {
        async move {
            let condition = self.condition.as_ref();
            let mut before = self.store.read_to_change(&self.keys, condition).await?;
            plan.heads_read += 1;
            let after = {
                let mut change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
                before.change(&self.keys, &mut *change)??
            };
            self.store.add(plan, &self.keys, Some(&before), Some(&after)).await
        }
        .boxed()
    }

    fn runs_again(&self) -> bool {
        true
    }
}

/// Inserts a row beside the entities.
pub(super) struct Beside(pub(super) Result<EncodedRow>);

impl Add for Beside {
    fn add<'p>(&'p self, plan: &'p mut Plan) -> BoxFuture<'p, Result<()>> {
        let added = match &self.0 {
            Ok(row) => plan.push(Edit {
                row_key: row.keys().1.to_owned(),
                write: Write::Insert(row.clone()),
                source: Source::Note,
            }),
            Err(error) => Err(same(error)),
        };
        async { added }.boxed()
    }
}

/// A step that cannot be added; the error of its keys or its store is reported before it runs.
pub(super) struct Refused;

impl Add for Refused {
    fn add<'p>(&'p self, _: &'p mut Plan) -> BoxFuture<'p, Result<()>> {
        async { Ok(()) }.boxed()
    }
}
