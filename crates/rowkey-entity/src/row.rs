//! Entities as the table service stores them: encoded for requests and decoded from responses.

use std::fmt;

use rowkey_wire::etag::ETag;
use rowkey_wire::odata::Fields;

use crate::EncodeError;
use crate::entity::receipt::Receipt;
use crate::entity::row::{RowReader, RowWriter};
use crate::entity::{DecodeError, Entity, Projection, Stored};
use crate::key::Key;

/// Initial capacity in bytes, enough for most entities.
const ROOM: usize = 1024;

/// An entity encoded as text, ready to be sent, without its type.
pub struct Row {
    /// PartitionKey and RowKey.
    pub keys: (String, String),
    /// The JSON of the request.
    pub body: Vec<u8>,
    /// The bytes of the entity as the service counts them.
    pub size: usize,
}

impl Row {
    /// Encodes an entity for a table.
    pub fn of<E: Entity>(entity: &E) -> Result<Self, EncodeError> {
        const { not_of_a_store::<E>() };
        Self::unguarded(entity)
    }

    /// Like `of`, for a type that may belong to a store.
    pub fn unguarded<E: Entity>(entity: &E) -> Result<Self, EncodeError> {
        Self::encode(ROOM, entity, &[])
    }

    /// Like `of`, with room for an entity like one of `before` bytes, so that the buffer need not
    /// grow.
    pub fn like<E: Entity>(before: Option<usize>, entity: &E) -> Result<Self, EncodeError> {
        const { not_of_a_store::<E>() };
        Self::encode(before.map_or(ROOM, |before| before + before / 16), entity, &[])
    }

    /// Encodes the entity; the properties that its store encrypts afterwards are still in plaintext.
    pub fn plain<E: Entity>(entity: &E) -> Result<Self, EncodeError> {
        Self::encode(ROOM, entity, E::DECLARED.encrypted)
    }

    fn encode<E: Entity>(
        room: usize,
        entity: &E,
        encrypted: &'static [&'static str],
    ) -> Result<Self, EncodeError> {
        let keys = Key::of(entity).into_parts()?;
        let mut out = RowWriter::new(room, &keys.0, &keys.1).encrypting(encrypted);
        entity.encode(&mut out);
        let (body, size) = out.finish()?;
        Ok(Self { keys, body, size })
    }

    /// The PartitionKey and the RowKey.
    pub fn keys(&self) -> (&str, &str) {
        (&self.keys.0, &self.keys.1)
    }
}

impl fmt::Debug for Row {
    /// Shows neither the keys nor the properties.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("size", &self.size).finish_non_exhaustive()
    }
}

/// Refuses at compile time to write an entity without its store, which keeps other rows in step
/// with it.
pub const fn not_of_a_store<E: Entity>() {
    assert!(
        !E::STORE,
        "this type has #[entity(store)]: write and delete it through `rowkey::store::Store`, which keeps \
         its indexes, claims and other rows in step"
    );
}

impl<P: Projection> Stored<P> {
    /// Reads an entity of a response with minimal metadata.
    #[doc(hidden)]
    pub fn decode(fields: &mut Fields<'_>) -> Result<Self, DecodeError> {
        const {
            assert!(
                !P::DECLARED.is_opened(),
                "this type has encrypted fields or is wide: read it through `rowkey::store::Store`, which opens its rows"
            );
            assert!(
                P::DECLARED.blobs.is_empty(),
                "this type has fields in blobs, #[entity(blob)]: read it through `rowkey::store::Store`"
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
        Ok(Self { entity, etag, timestamp, receipt: Receipt::default() })
    }
}
