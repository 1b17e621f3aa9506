//! Fields in blobs: frees the blobs that heads no longer name. [`BlobFields`] uploads and reads them.

use async_trait::async_trait;
use rowkey_client::{Entity, Result};

use crate::contributor::settling::{Settled, Settling};
use crate::contributor::{Change, Contribution, Contributor};
use crate::layer::blob_field::BlobFields;
use crate::row::blob_pointer;

/// The name of the contributor that frees blobs.
pub(crate) const NAME: &str = "fields in blobs";

#[async_trait]
impl<E: Entity + Send + Sync + 'static> Contributor<E> for BlobFields {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operations(&self) -> usize {
        0
    }

    fn contribute(&self, _: Change<'_, E>, _: &mut Contribution<'_>) -> Result<()> {
        // The store names the targets, after those of all contributors: see `Store::add`.
        Ok(())
    }

    async fn settle(&self, settling: &Settling<E>, address: &str) -> Result<Settled> {
        let head = settling.table().row(settling.keys()).await?;
        let is_named = head.is_some_and(|head| {
            blob_pointer::named(self.fields, &head.entity).iter().any(|(_, blob)| blob == address)
        });
        if !is_named {
            // A late or repeated call is harmless: no head will ever name the blob again.
            self.blobs.deciding().blob(address).delete_if_exists().await?;
        }
        Ok(Settled::Done)
    }
}
