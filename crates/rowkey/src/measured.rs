//! The halves of an operation that need no request, for `cargo bench`: no part of what is promised.

use crate::entity::{Entity, Projection, Stored};
use crate::error::{Error, Result};
use crate::table::handle::{Row, decode_body};
use crate::table::wire::odata::decode;

/// The body of an insert.
pub fn encode<E: Entity>(entity: &E) -> Result<Vec<u8>> {
    Ok(Row::of(entity)?.body)
}

/// Reads the answer to a point get.
pub fn decode<P: Projection>(body: &[u8]) -> Result<Stored<P>> {
    decode_body(body, None)
}

/// Reads the answer to a query.
pub fn decode_page<P: Projection>(body: &[u8]) -> Result<Vec<Stored<P>>> {
    let mut entities = Vec::new();
    decode::page(body, |fields| {
        entities.push(Stored::decode(fields).map_err(|error| error.to_string())?);
        Ok::<_, String>(())
    })
    .map_err(|error| Error::decode(format!("{error:?}")))?;
    Ok(entities)
}
