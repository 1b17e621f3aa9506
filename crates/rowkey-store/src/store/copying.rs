//! Copies that another store keeps in the entities of this one: each is written through the plan of its type,
//! so that its own declarations stay consistent.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::{DynamicEntity, ETag, Entity, Error, ErrorKind, Properties, Result, Stored};

use super::examine::Kind;
use super::{Inner, ReadHead, Store, is_race};
use crate::contributor::StoredType;
use crate::layer::deciding::Deciding;
use crate::row::declared::Declared;
use crate::row::{Keys, keys_of};

/// An entity that was read to hold a copy.
pub(crate) struct HeldHead<E>(ReadHead<E>);

impl<E> HeldHead<E> {
    pub(crate) fn entity(&self) -> &E {
        &self.0.head.entity
    }

    pub(crate) fn etag(&self) -> &ETag {
        &self.0.etag
    }

    /// The properties that the type does not have.
    pub(crate) fn unknown(&mut self) -> &mut Properties {
        &mut self.0.head.unknown
    }
}

/// What became of a copy.
pub(crate) enum Copied {
    Done,
    /// Another writer changed the entity.
    Lost,
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    pub(crate) fn deciding(&self) -> &Deciding {
        &self.inner.deciding
    }

    /// The type of the store, and those that its contributors write through their stores.
    pub(crate) fn writes(&self) -> Result<Vec<StoredType>> {
        let mut all = vec![StoredType::of(&self.inner.table, Inner::<E>::of())];
        for contributor in &self.inner.contributors {
            all.extend(contributor.writes()?);
        }
        Ok(all)
    }

    /// Whether a row is that of an entity, and not one of its other rows.
    pub(crate) fn is_head(row: &DynamicEntity) -> bool {
        let keys = (row.partition_key.clone(), row.row_key.clone());
        let kind = Kind::of(row, &keys, &Declared::of::<E>(), Inner::<E>::of());
        matches!(kind, Some(Kind::Head))
    }

    /// Opens an entity; `None` for other rows, and for entities that this program cannot read.
    pub(crate) fn open_held(
        &self,
        stored: Stored<DynamicEntity>,
    ) -> BoxFuture<'_, Result<Option<HeldHead<E>>>> {
        async move {
            if !Self::is_head(&stored.entity) {
                return Ok(None);
            }
            let Inner { layers, deciding, .. } = &*self.inner;
            match layers.open(deciding.table(), stored).await {
                Ok(head) => Ok(head.map(|head| HeldHead(ReadHead::of(head)))),
                Err(error) if error.kind() == ErrorKind::Decode => Ok(None),
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    /// Writes an entity if it is unchanged since it was opened.
    pub(crate) async fn write_held(
        &self,
        keys: &Keys,
        held: HeldHead<E>,
        after: &E,
    ) -> Result<Copied> {
        if keys_of(after)? != *keys {
            let what = "a copy alters the key of a target, and keys cannot change";
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        match self.write(keys, Some(held.0), Some(after), &mut self.rounds(keys)).await {
            Ok(_) => Ok(Copied::Done),
            Err(error) if is_race(&error) => Ok(Copied::Lost),
            Err(error) => Err(error),
        }
    }
}
