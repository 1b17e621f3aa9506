//! How a copy is made to agree with its entity.
//!
//! Entity and copy cannot be written together, so the order of the reads has to do what a transaction
//! would: the copy first, with its ETag, then the entity. A worker that comes late with an old entity
//! fails on the condition, for whoever came with a newer one has written the copy since. Where there
//! is no copy, there is no ETag to fail on: for that the source looks at the entity once more.

use rowkey::index::Copied;
use rowkey::{DynamicEntity, Entity, Error, ErrorKind, Key, Result, Stored};
use rowkey_patterns::index_row::{IndexRow, primary_key};

use super::{RemoteIndex, position_of, remote};
use crate::source::{Follower, Primary, Target};
use crate::worker::Done;

/// The name of the follower, which stored intents have.
const NAME: &str = "remote_index";
const OPERATION: &str = "SettleIndex";

/// The name of an index, and the keys of a copy in it.
type Address = (String, String, String);

pub(super) fn follower<E: Entity + Send + Sync + 'static>(index: RemoteIndex<E>) -> Follower<E> {
    Follower::new(NAME, targets::<E>, move |primary, address| {
        let index = index.clone();
        async move { index.settle(&primary, &address).await }
    })
}

/// The copies that an entity demands.
fn targets<E: Entity + Send + Sync + 'static>(entity: &E) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for (position, index) in remote::<E>() {
        let Some(row) = IndexRow::of(entity, position)? else { continue };
        let (partition_key, row_key) = row.keys();
        let address = serde_json::json!([index.name, partition_key, row_key]).to_string();
        let target = Target::new(address);
        targets.push(match index.copy {
            // Any change of the entity is one of a whole copy.
            Copied::All => target,
            Copied::Only(_) => {
                let copy = DynamicEntity::of(&row)?;
                target.content(format!("{:?}", copy.iter().collect::<Vec<_>>()))
            }
        });
    }
    Ok(targets)
}

impl<E: Entity + Send + Sync + 'static> RemoteIndex<E> {
    async fn settle(&self, primary: &Primary<E>, address: &str) -> Result<Done> {
        let (position, partition_key, row_key) = self.place(address)?;
        let copies = self.table(position);
        let at = Key::<DynamicEntity>::new(&*partition_key, &*row_key);
        let copy = copies.get(at.clone()).await?;
        let entity = primary.read().await?;
        // A value that makes no key demands nothing.
        let demanded =
            entity.as_ref().and_then(|entity| IndexRow::of(entity, position).ok().flatten());
        let demanded = demanded.filter(|row| row.keys() == (&partition_key, &row_key));
        match (copy, demanded) {
            (None, None) => return Ok(Done::AlreadyApplied),
            (None, Some(row)) => drop(copies.insert(&row).await?),
            (Some(copy), None) => {
                let owner = primary_key::<E>(&copy.entity);
                if owner.as_ref() != Some(primary.key()) {
                    return Ok(Done::AlreadyApplied);
                }
                copies.delete(at, &copy).await?;
            }
            (Some(copy), Some(row)) => {
                if row.is(&copy.entity)? {
                    return Ok(Done::AlreadyApplied);
                }
                if self.is_taken(position, &copy, primary.key()).await? {
                    let index = E::INDEXES[position].name;
                    let what = format!("its value is taken in the index `{index}`");
                    return Err(Error::refused(ErrorKind::AlreadyExists, what)
                        .of(OPERATION, copies.name())
                        .advise("give one of the two entities another value, and put it back"));
                }
                copies.replace((&row, copy.etag)).await?;
            }
        }
        Ok(Done::Applied)
    }

    /// Whether a row in the place of a copy of the entity at `key` is to stay there.
    async fn is_taken(
        &self,
        position: usize,
        row: &Stored<DynamicEntity>,
        key: &Key<E>,
    ) -> Result<bool> {
        let Some(owner) = primary_key::<E>(&row.entity) else { return Ok(true) };
        if owner == *key {
            return Ok(false);
        }
        let owner = match self.entities.table().get(owner).await {
            Ok(Some(owner)) => owner.entity,
            Ok(None) => return Ok(false),
            // A copy of what cannot be read may be all that is left of it.
            Err(error) if error.kind() == ErrorKind::Decode => return Ok(true),
            Err(error) => return Err(error),
        };
        let demanded = IndexRow::of(&owner, position).ok().flatten();
        let keys = (&*row.entity.partition_key, &*row.entity.row_key);
        Ok(demanded.is_some_and(|demanded| demanded.keys() == keys))
    }

    /// The index and the keys of the copy at an address.
    fn place(&self, address: &str) -> Result<(usize, String, String)> {
        let refused = |kind, what: &'static str| {
            Error::refused(kind, what).of(OPERATION, self.entities.table().name())
        };
        let (name, partition_key, row_key): Address = serde_json::from_str(address)
            .map_err(|_| refused(ErrorKind::Decode, "a target is not the address of a copy"))?;
        let position = position_of::<E>(&name).ok_or_else(|| {
            let what = "a target is in an index that the type does not declare";
            refused(ErrorKind::Invalid, what).advise("let a program handle it whose type has it")
        })?;
        Ok((position, partition_key, row_key))
    }
}
