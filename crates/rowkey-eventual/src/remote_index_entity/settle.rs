//! Makes a list agree with what entities are now.
//!
//! The list is read first, then the entity, and row 0 of the list is written under the tag it was read
//! with even if nothing changes. So of all who settle into one list each is refused if another one has
//! written since it began: however late a write comes, it is never one that was decided by an older
//! entity than the last.
//!
//! A list of nobody has no rows, and what is not there has no tag. So whoever begins a list looks at
//! the entity once more: another one, who knew better, may have found nothing to take away.

use rowkey::{Arg, Entity, ErrorKind, Key, KeyPart, Result};
use rowkey_patterns::rounds::Rounds;

use super::{CONCURRENCY, RemoteIndexEntity};
use crate::settling::{all, is_open};

impl<E: Entity + Send + Sync + 'static, V: KeyPart + Send + Sync + 'static>
    RemoteIndexEntity<E, V>
{
    /// Makes the list of a value agree with what the entity at `entity` is now, if it is at all. One
    /// query, one point query and one transaction (and another point query if the list was empty), and
    /// again if somebody else changed the list in between, up to 40 times.
    ///
    /// Call it after each change of an entity for the value it had, and for the one it has now. It may
    /// be called again, later, by several at once, and in any order. Fails with
    /// [`ErrorKind::TooLarge`] if the list is full.
    pub async fn settle(&self, entity: Key<E>, value: impl Arg<V>) -> Result<()> {
        let list = self.list_at(&value.into_arg())?;
        self.settle_all(&list, &[entity]).await
    }

    /// The same for several entities.
    pub(super) async fn settle_all(&self, list: &str, entities: &[Key<E>]) -> Result<()> {
        // What fills or empties several rows may be too much for one transaction.
        let mut open = vec![entities];
        while let Some(some) = open.pop() {
            match self.settle_some(list, some).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::TooLarge && some.len() > 1 => {
                    let (first, rest) = some.split_at(some.len() / 2);
                    open.extend([rest, first]);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn settle_some(&self, list: &str, entities: &[Key<E>]) -> Result<()> {
        let listed: Vec<_> = entities.iter().map(|key| self.listed(key)).collect::<Result<_>>()?;
        let mut rounds = Rounds::new(&self.lists, (list, listed.first()));
        loop {
            match self.settle_once(list, entities, &listed).await {
                Ok(None) => return Ok(()),
                Ok(Some(wanted)) => {
                    if self.wanted(list, entities).await? == wanted {
                        return Ok(());
                    }
                }
                Err(error) => {
                    if !is_open(&error) || !rounds.again().await {
                        return Err(self.named(error));
                    }
                }
            }
        }
    }

    /// Returns what was decided by if the list was begun, and that has to be looked at again.
    async fn settle_once(
        &self,
        at: &str,
        entities: &[Key<E>],
        listed: &[String],
    ) -> Result<Option<Vec<bool>>> {
        let mut list = self.read(at).await?;
        let is_new = !list.is_stored();
        let wanted = self.wanted(at, entities).await?;
        for (listed, wanted) in listed.iter().zip(&wanted) {
            if *wanted {
                list.add(listed, self.max_rows)?;
            } else {
                list.remove(listed);
            }
        }
        if is_new && list.is_empty() {
            return Ok(None);
        }
        list.write(self.lists.transaction()).submit().await?;
        Ok(is_new.then_some(wanted))
    }

    /// Which of the entities belong to the list.
    async fn wanted(&self, list: &str, entities: &[Key<E>]) -> Result<Vec<bool>> {
        let wanted: Vec<_> = entities.iter().map(|key| self.is_wanted(list, key)).collect();
        all(wanted, CONCURRENCY).await
    }

    async fn is_wanted(&self, list: &str, key: &Key<E>) -> Result<bool> {
        match self.entities.get(key.clone()).await? {
            Some(stored) => Ok(self.list_of(&stored.entity)?.as_deref() == Some(list)),
            None => Ok(false),
        }
    }
}
