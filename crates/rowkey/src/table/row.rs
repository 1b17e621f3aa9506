//! Entities as the table service stores them: encoded for requests, decoded from responses, and the errors of both.

use rowkey_wire::etag::ETag;
use rowkey_wire::odata::Fields;

use super::failed::FailedRow;
use crate::entity::property::PropertyError;
use crate::entity::row::{RowReader, RowWriter};
use crate::entity::{DecodeError, Entity, Projection, Stored};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::table::wire::odata::decode::{self, BodyError};
use crate::table::wire::odata::encode::{EntityError, EntityWriter};

/// Initial capacity in bytes, enough for most entities.
const ROOM: usize = 1024;

/// An entity encoded as text, ready to be sent, without its type.
pub(crate) struct Row {
    /// PartitionKey and RowKey.
    pub(crate) keys: (String, String),
    pub(crate) body: Vec<u8>,
}

impl Row {
    pub(crate) fn of<E: Entity>(entity: &E) -> Result<Self> {
        const { not_of_a_store::<E>() };
        Self::unguarded(entity)
    }

    /// Like `of`, for a type that may belong to a store.
    pub(crate) fn unguarded<E: Entity>(entity: &E) -> Result<Self> {
        Self::encode(ROOM, entity, &[])
    }

    /// Like `of`, with room for an entity like one of `before` bytes, so that the buffer need not
    /// grow.
    pub(crate) fn like<E: Entity>(before: Option<usize>, entity: &E) -> Result<Self> {
        const { not_of_a_store::<E>() };
        Self::encode(before.map_or(ROOM, |before| before + before / 16), entity, &[])
    }

    /// Encodes the entity with the properties that its store encrypts afterwards still in plain
    /// text.
    pub(crate) fn plain<E: Entity>(entity: &E) -> Result<Self> {
        Self::encode(ROOM, entity, E::ENCRYPTED)
    }

    fn encode<E: Entity>(
        room: usize,
        entity: &E,
        encrypted: &'static [&'static str],
    ) -> Result<Self> {
        let keys = Key::of(entity).into_parts().map_err(|error| key_error(&error))?;
        let mut out = RowWriter::new(room, &keys.0, &keys.1).encrypting(encrypted);
        entity.encode(&mut out);
        Ok(Self { body: finish(out)?, keys })
    }

    pub(crate) fn keys(&self) -> (&str, &str) {
        (&self.keys.0, &self.keys.1)
    }
}

/// Refuses at compile time to write an entity without its store, which keeps other rows in step
/// with it.
pub(crate) const fn not_of_a_store<E: Entity>() {
    assert!(
        !E::STORE,
        "this type has #[entity(store)]: write and delete it through `rowkey_store::Store`, which keeps \
         its indexes, claims and other rows in step"
    );
}

fn finish(out: RowWriter) -> Result<Vec<u8>> {
    let out = out.finish().map_err(|(name, error)| property_error(&name, &error))?;
    EntityWriter::finish(out).map_err(|error| match error {
        EntityError::InvalidName { .. } => Error::invalid(error.to_string()),
        _ => Error::too_large(error.to_string()),
    })
}

/// The error for a value that cannot be stored in a property.
pub(crate) fn property_error(name: &str, error: &PropertyError) -> Error {
    Error::invalid(format!("property `{name}`: {error}"))
}
/// Decodes the body of a point get. The ETag of the header, which equals that of the body, takes
/// precedence.
pub(crate) fn decode_body<P: Projection>(body: &[u8], etag: Option<&str>) -> Result<Stored<P>> {
    let mut fields = Fields::default();
    decode::entity(body, &mut fields).map_err(body_error)?;
    let mut stored = Stored::decode(&mut fields)
        .map_err(|error| Error::of_rows(vec![FailedRow::of(&RowReader::new(&fields), &error)]))?;
    if let Some(etag) = etag.filter(|etag| *etag != stored.etag.as_str()) {
        stored.etag = ETag::new(etag);
    }
    Ok(stored)
}

impl<P: Projection> Stored<P> {
    /// Reads an entity of a response with minimal metadata.
    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, DecodeError> {
        const {
            assert!(
                !P::IS_OPENED,
                "this type has encrypted fields or is wide: read it through `rowkey_store::Store`, which opens its rows"
            );
            assert!(
                P::BLOBS.is_empty(),
                "this type has fields in blobs, #[entity(blob)]: read it through `rowkey_store::Store`"
            );
        }
        let etag = fields.etag.take();
        let row = RowReader::new(fields);
        let timestamp = row.timestamp()?;
        let entity = P::decode(&row)?;
        let etag = match etag {
            Some(etag) => ETag::new(etag),
            // Without metadata the ETag can be derived from the Timestamp.
            None => ETag::from_timestamp(timestamp),
        };
        Ok(Self { entity, etag, timestamp })
    }
}

impl Error {
    /// The error of an operation whose key is invalid: nothing was sent.
    #[cold]
    pub fn no_such_key(error: &crate::key::KeyError) -> Self {
        key_error(error)
    }
}

#[cold]
pub(crate) fn key_error(error: &crate::key::KeyError) -> Error {
    match error {
        crate::key::KeyError::Invalid(rowkey_wire::key::KeyError::TooLong { .. }) => {
            Error::too_large(error.to_string())
        }
        _ => Error::invalid(error.to_string()),
    }
}

#[cold]
pub(crate) fn body_error(error: BodyError) -> Error {
    Error::decode(error.to_string())
}
