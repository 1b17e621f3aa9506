//! Frees the blobs that heads no longer name: those of fields in blobs, which [`BlobFields`] uploads and reads, and
//! those of [references](super::blob_ref).
//!
//! [`BlobFields`]: crate::layer::blob_field::BlobFields

use async_trait::async_trait;
use rowkey_client::cost::{Class, Usage};
use rowkey_client::entity::BlobField;
use rowkey_client::{Entity, Result};

use super::blob_ref;
use crate::declaring::settling::{Settled, Settling};
use crate::declaring::{Change, Contribution, Declaration};
use crate::layer::deciding::Deciding;
use crate::row::blobs::Blobs;
use crate::row::{Keys, blob_pointer};

/// The name of the declaration that frees the blobs of fields.
pub(crate) const NAME: &str = "fields in blobs";

/// Frees blobs.
pub(crate) struct Freeing {
    pub(crate) blobs: Blobs,
    /// The fields in blobs; `None` for references.
    pub(crate) fields: Option<&'static [BlobField]>,
}

#[async_trait]
impl<E: Entity + Send + Sync + 'static> Declaration<E> for Freeing {
    fn name(&self) -> &'static str {
        if self.fields.is_some() { NAME } else { blob_ref::NAME }
    }

    fn operations(&self) -> usize {
        0
    }

    fn contribute(&self, _: Change<'_, E>, _: &mut Contribution<'_>) -> Result<()> {
        // The store names the targets, after those of all declarations: see `Store::add`.
        Ok(())
    }

    /// The writer itself deletes blobs whose place it knows: these targets have none, and only the entity is read.
    fn settling_usage(&self, _: &str) -> Usage {
        Usage::of(Class::TableRead, 1)
    }

    async fn settle(&self, settling: &Settling<E>, address: &str) -> Result<Settled> {
        self.free(settling.table(), settling.keys(), address).await
    }
}

impl Freeing {
    /// Deletes the blob at an address, unless the head names it.
    async fn free(&self, table: &Deciding, keys: &Keys, address: &str) -> Result<Settled> {
        let head = table.row(keys).await?;
        let is_named = head.is_some_and(|head| match self.fields {
            Some(fields) => {
                blob_pointer::named(fields, &head.entity).iter().any(|(_, blob)| blob == address)
            }
            None => blob_ref::is_named(head.entity.iter(), address),
        });
        let blob = match self.fields {
            Some(_) => Some(self.blobs.deciding().blob(address)),
            None => self.blobs.at_path(address),
        };
        if let (false, Some(blob)) = (is_named, blob) {
            // A late or repeated call is harmless: no head will ever name the blob again.
            blob.delete_if_exists().await?;
        }
        Ok(Settled::Done)
    }
}
