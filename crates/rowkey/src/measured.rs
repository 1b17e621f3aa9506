//! The parts of an operation that send no request, for `cargo bench`. Not part of the stable API.

use crate::entity::{Entity, Projection, Stored};
use crate::error::{Error, Result};
use crate::table::handle::{Row, decode_body};
use crate::table::wire::odata::decode;

/// Encodes the body of an insert.
pub fn encode<E: Entity>(entity: &E) -> Result<Vec<u8>> {
    Ok(Row::of(entity)?.body)
}

/// Decodes the response to a point get.
pub fn decode<P: Projection>(body: &[u8]) -> Result<Stored<P>> {
    decode_body(body, None)
}

/// Decodes the response to a query.
pub fn decode_page<P: Projection>(body: &[u8]) -> Result<Vec<Stored<P>>> {
    let mut entities = Vec::new();
    decode::page(body, |fields| {
        entities.push(Stored::decode(fields).map_err(|error| error.to_string())?);
        Ok::<_, String>(())
    })
    .map_err(|error| Error::decode(format!("{error:?}")))?;
    Ok(entities)
}
