//! Explaining: the requests of each write, before anything is written.

use std::fmt;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use rowkey_client::cost::Meter;
use rowkey_client::{Entity, Key, Properties, Result};
use rowkey_patterns::internals::pack;

use super::bulk::Group;
use super::if_match::IfMatch;
use super::{ReadHead, Store, parts};
use crate::execute::inline::recall;
use crate::execute::predict::predict;
use crate::execute::settler::Settler;
use crate::plan::Plan;
use crate::plan::explain::Explanation;
use crate::row::op::Op;
use crate::row::{Keys, keys_of};

/// The writes of a store as plans that are not run, from [`Store::explain`].
///
/// Each method reads what its write reads, fails if the write would be refused before anything is sent,
/// and writes nothing.
pub struct Explain<'s, E>(&'s Store<E>);

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Explains writes: their requests, their operations, the conditions and the cost.
    ///
    /// Queries, patches and transactions explain themselves: [`Query::explain`](super::Query::explain),
    /// [`Patch::explain`](super::Patch::explain), [`Transaction::explain`](super::Transaction::explain).
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
    /// #[entity(index(name = by_name, row = "name_{name}", many))]
    /// #[entity(unique(name = by_email, value = "{email:lower}"))]
    /// struct User { tenant: String, id: u32, name: String, email: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let users = Store::<User>::builder(account.table("users")).queue(account.queue("users")).build()?;
    /// # users.create_if_missing().await?;
    /// # let (tenant, name, email) = ("contoso".into(), "Ada".into(), "ada@contoso.com".into());
    /// users.insert(&User { tenant, id: 1, name, email }).await?;
    /// let renamed = |user: &mut User| user.name = "Ada L.".into();
    /// let plan = users.explain().update(User::key("contoso", 1), renamed).await?;
    /// assert_eq!((plan.reads(), plan.requests(), plan.operations()), (1, 1, 3));
    /// println!("{plan}");
    ///
    /// let deletion = users.explain().delete(User::key("contoso", 1)).await?;
    /// assert_eq!(deletion.reads(), 1);
    /// let (tenant, name, email) = ("contoso".into(), "Kim".into(), "kim@contoso.com".into());
    /// println!("{}", users.explain().load(&[User { tenant, id: 2, name, email }]).await?);
    /// # Ok(()) }
    /// ```
    pub fn explain(&self) -> Explain<'_, E> {
        Explain(self)
    }

    /// Explains a plan that is made now, with what this program remembers of the rows that it wrote. The reads of the
    /// plan are those that making it takes.
    pub(super) async fn explained(
        &self,
        planned: impl Future<Output = Result<Plan>> + Send,
    ) -> Result<Explanation> {
        let of_type = Arc::clone(&self.inner.of_type) as Arc<dyn Settler>;
        self.explained_by(&[of_type], planned).await
    }

    /// Like `explained`, for entities of all types that `settlers` settle.
    pub(super) async fn explained_by(
        &self,
        settlers: &[Arc<dyn Settler>],
        planned: impl Future<Output = Result<Plan>> + Send,
    ) -> Result<Explanation> {
        let meter = Meter::new();
        let mut plan = meter.scope(planned).await?;
        if let Some(announcer) = &self.inner.announcer {
            recall(announcer, &mut plan);
        }
        let writes = predict(&self.inner.deciding, settlers, &mut plan)?;
        Explanation::of(&plan, meter.usage(), writes)
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> Explain<'_, E> {
    /// Explains [`Store::insert`]. Reads the rows that declarations edit.
    pub async fn insert(&self, entity: &E) -> Result<Explanation> {
        let planned = async { self.plan(&keys_of(entity)?, None, Some(entity)).await };
        self.named(self.0.explained(planned).await)
    }

    /// Explains [`Store::replace_if`].
    pub async fn replace_if(&self, entity: &E, version: impl Into<IfMatch>) -> Result<Explanation> {
        let condition = version.into();
        let planned = async {
            let keys = keys_of(entity)?;
            let before = self.0.read_if(&keys, &condition).await?;
            self.plan(&keys, Some(before), Some(entity)).await
        };
        self.named(self.0.explained(planned).await)
    }

    /// Explains [`Store::upsert`].
    pub async fn upsert(&self, entity: &E) -> Result<Explanation> {
        let planned = async {
            let keys = keys_of(entity)?;
            let before = self.0.replaced(self.0.read_before(&keys).await?);
            self.plan(&keys, before, Some(entity)).await
        };
        self.named(self.0.explained(planned).await)
    }

    /// Explains [`Store::update`].
    pub async fn update(
        &self,
        key: Key<E>,
        change: impl FnOnce(&mut E) + Send,
    ) -> Result<Explanation> {
        self.update_whole(key, None, |entity, _, _| change(entity)).await
    }

    /// Like `update`, but `change` also gets the properties that the type does not have, and the entity meets a
    /// condition.
    pub(super) async fn update_whole(
        &self,
        key: Key<E>,
        condition: Option<&IfMatch>,
        change: impl FnOnce(&mut E, &mut Properties, &[String]) + Send,
    ) -> Result<Explanation> {
        let planned = async {
            let keys = parts(&key)?;
            let mut before = self.0.read_to_change(&keys, condition).await?;
            let mut after = before.entity.clone();
            let crate::row::Head { unknown, sealed, .. } = &mut before.head;
            change(&mut after, unknown, sealed);
            self.plan(&keys, Some(before), Some(&after)).await
        };
        self.named(self.0.explained(planned).await)
    }

    /// Explains [`Store::delete`].
    pub async fn delete(&self, key: Key<E>) -> Result<Explanation> {
        let planned = async {
            let keys = parts(&key)?;
            let before = self.0.read_before(&keys).await?;
            self.plan(&keys, before, None).await
        };
        self.named(self.0.explained(planned).await)
    }

    /// Explains [`Store::load`], with a line for each of its transactions, and their totals.
    pub async fn load(&self, entities: &[E]) -> Result<Explanation> {
        let explained = async {
            let store = self.0.clone();
            let group = |entity: &E| Group::of(store.clone(), false, entity.clone());
            let groups: Vec<_> = entities.iter().map(group).collect();
            let mut groups = pack(stream::iter(groups));
            let mut all = Explanation::default();
            while let Some(group) = groups.next().await {
                let mut count = 0;
                let planned = async {
                    let (entities, plan) = group.plan().await?;
                    count = entities;
                    Ok(plan)
                };
                let explained = store.explained(planned).await?;
                all.add(count, &explained);
            }
            Ok(all)
        };
        self.named(explained.await)
    }

    async fn plan(
        &self,
        keys: &Keys,
        before: Option<ReadHead<E>>,
        after: Option<&E>,
    ) -> Result<Plan> {
        let op = Op::random(self.0.inner.deciding.clock().now())?;
        let mut plan = Plan::new(keys.0.clone(), op);
        // A deletion of an entity that does not exist reads it and writes nothing.
        if before.is_some() || after.is_some() {
            plan.heads_read = usize::from(before.is_some());
            self.0.add(&mut plan, keys, before.as_ref(), after).await?;
        }
        Ok(plan)
    }

    fn named(&self, explained: Result<Explanation>) -> Result<Explanation> {
        explained.map_err(|error| self.0.named("Explain", error))
    }
}

impl<E> fmt::Debug for Explain<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Explain").field(self.0).finish()
    }
}
