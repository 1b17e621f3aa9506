//! Why a repair could not make a row elsewhere agree: the error that a worker gets, which has no caller to return it to.

use rowkey_client::{Entity, Error, Result};

use super::Store;
use crate::contributor::Contributor;
use crate::declarations::list::list_keys;
use crate::layer::place::is_of;
use crate::row::op::row_address;
use crate::row::{Keys, index_keys};

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Settles the rows elsewhere of one declaration of an entity, given by its position among the indexes and
    /// lists, and returns the error. `None` if there is no error, or if the rows are in the partition of the
    /// entity.
    pub(super) async fn cause(&self, keys: &Keys, at: usize) -> Result<Option<Error>> {
        let name = match at.checked_sub(E::DECLARED.indexes.len()) {
            None => E::DECLARED.indexes.get(at).map(|index| index.name),
            Some(list) => E::DECLARED.lists.get(list).map(|list| list.name),
        };
        let is_named = |one: &&dyn Contributor<E>| name.is_some_and(|name| is_of(one.name(), name));
        let mut contributors = self.inner.contributors.iter().map(|one| &**one);
        let Some(contributor) = contributors.find(is_named) else { return Ok(None) };
        let Some(head) = self.read_before(keys).await? else { return Ok(None) };
        let places = match at.checked_sub(E::DECLARED.indexes.len()) {
            None => index_keys(&head.entity, at)?.into_iter().collect(),
            Some(list) => list_keys(&head.entity, list),
        };
        let settling = self.settling(keys);
        for place in places {
            match contributor.settle(&settling, &row_address(&place)).await {
                Ok(_) => {}
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => return Ok(Some(error)),
            }
        }
        Ok(None)
    }
}
