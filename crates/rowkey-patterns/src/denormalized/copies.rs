//! What one declaration of copies does when the entity changes.

use futures_util::future::BoxFuture;
use rowkey::{Entity, Error, ErrorKind, Key, Result, Stored, Table, Transaction};

use super::OPERATION;

/// A [`Rule`] without the types of its targets and of what is copied.
pub(super) trait Copies<S>: Send + Sync {
    /// Adds to the transaction what the targets need when the entity was `old` and is `new`.
    fn follow<'a>(
        &'a self,
        table: &'a Table,
        transaction: Transaction,
        old: Option<&'a S>,
        new: Option<&'a S>,
    ) -> BoxFuture<'a, Result<Transaction>>;
}

/// What is copied, where to, and how.
pub(super) struct Rule<S, T, V> {
    pub(super) targets: Targets<S, T>,
    pub(super) what: Box<dyn Fn(&S) -> V + Send + Sync>,
    pub(super) set: Set<T, V>,
}

type Targets<S, T> = Box<dyn Fn(&S) -> Vec<Key<T>> + Send + Sync>;
type Set<T, V> = Box<dyn Fn(&mut T, Option<&V>) + Send + Sync>;

/// Where an entity is copied to, and what.
struct Copied<T, V> {
    targets: Vec<Key<T>>,
    what: Option<V>,
}

impl<S, T, V> Copies<S> for Rule<S, T, V>
where
    S: Send + Sync,
    T: Entity + Clone + PartialEq + Send + Sync + 'static,
    V: PartialEq + Send + Sync,
{
    fn follow<'a>(
        &'a self,
        table: &'a Table,
        mut transaction: Transaction,
        old: Option<&'a S>,
        new: Option<&'a S>,
    ) -> BoxFuture<'a, Result<Transaction>> {
        Box::pin(async move {
            let (old, new) = (self.copied(old), self.copied(new));
            for key in &new.targets {
                if old.what == new.what && old.targets.contains(key) {
                    continue;
                }
                let Some(target) = table.get(key.clone()).await? else {
                    return Err(missing(table));
                };
                if let Some(changed) = self.changed(&target, new.what.as_ref()) {
                    transaction = transaction.replace(&changed);
                }
            }
            for key in old.targets.iter().filter(|key| !new.targets.contains(key)) {
                // Where there is no target, there is no copy left.
                let Some(target) = table.get(key.clone()).await? else { continue };
                // A target holds this copy if putting it there changes nothing.
                let is_ours = self.changed(&target, old.what.as_ref()).is_none();
                if let Some(changed) = self.changed(&target, None).filter(|_| is_ours) {
                    transaction = transaction.replace(&changed);
                }
            }
            Ok(transaction)
        })
    }
}

impl<S, T: Clone + PartialEq, V> Rule<S, T, V> {
    fn copied(&self, source: Option<&S>) -> Copied<T, V> {
        Copied {
            targets: source.map(&self.targets).unwrap_or_default(),
            what: source.map(&self.what),
        }
    }

    /// The target with this copy; `None` if it is so already. Then it is neither written nor guarded:
    /// whoever changes it before the transaction is as one who changes it after, which anybody may.
    fn changed(&self, target: &Stored<T>, what: Option<&V>) -> Option<Stored<T>> {
        let changed = target.clone().map(|target| (self.set)(target, what));
        (changed.entity != target.entity).then_some(changed)
    }
}

fn missing(table: &Table) -> Error {
    let what = "the entity that the copies belong in is not there";
    Error::refused(ErrorKind::NotFound, what)
        .advise("store it first, or let the declaration name it only when it is there")
        .of(OPERATION, table.name())
}
