//! The response to a point get.

use rowkey_entity::entity::RowReader;
use rowkey_entity::internals::decode;
use rowkey_entity::{ETag, FailedRow, Projection, Stored};
use rowkey_wire::odata::Fields;

use crate::error::Result;

/// Decodes the body of a point get. The ETag of the header, which equals that of the body, takes
/// precedence.
pub(crate) fn decode_body<P: Projection>(body: &[u8], etag: Option<&str>) -> Result<Stored<P>> {
    let mut fields = Fields::default();
    decode::entity(body, &mut fields)?;
    let mut stored = Stored::decode(&mut fields)
        .map_err(|error| FailedRow::of(&RowReader::new(&fields), &error))?;
    if let Some(etag) = etag.filter(|etag| *etag != stored.etag.as_str()) {
        stored.etag = ETag::new(etag);
    }
    Ok(stored)
}
