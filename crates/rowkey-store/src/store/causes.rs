//! Why a repair could not make a row elsewhere agree: the error that a worker gets, which has no caller to return it to.

use rowkey_client::{Entity, Error, Result};

use super::Store;
use crate::declarations::Named;
use crate::declaring::Declaration;
use crate::layer::place::is_of;
use crate::row::Keys;
use crate::row::op::row_address;

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Settles the rows elsewhere of one declaration of an entity, given by its position among those with
    /// rows, and returns the error. `None` if there is no error, or if the rows are in the partition of the
    /// entity.
    pub(super) async fn cause(&self, keys: &Keys, at: usize) -> Result<Option<Error>> {
        let Some(named) = Named::all::<E>().nth(at) else { return Ok(None) };
        let is_named = |one: &&dyn Declaration<E>| is_of(one.name(), named.name::<E>());
        let mut declarations = self.inner.declarations.iter().map(|one| &**one);
        let Some(declaration) = declarations.find(is_named) else { return Ok(None) };
        let Some(head) = self.read_before(keys).await? else { return Ok(None) };
        let settling = self.settling(keys);
        for place in named.rows(&head.entity)? {
            match declaration.settle(&settling, &row_address(&place)).await {
                Ok(_) => {}
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => return Ok(Some(error)),
            }
        }
        Ok(None)
    }
}
