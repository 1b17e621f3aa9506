//! Sealed properties: what encrypts them, and the layer that calls it.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::{DynamicEntity, Result, Table};

use crate::layer::{Closing, Layer};
use crate::plan::Op;

/// Encrypts the fields of a type that are marked `#[entity(encrypt)]`, and decrypts them:
/// [`StoreBuilder::keys`](crate::StoreBuilder::keys). `rowkey_encryption::KeyRing` is one.
///
/// A row is sealed once for each write of its entity. Whole copies hold the same bytes, and are opened
/// under the keys of the entity, so a sealer binds what it seals to the keys of the row that it is given.
///
/// Errors are those of [`Error::refused`](rowkey::Error::refused):
/// [`ErrorKind::Decode`](rowkey::ErrorKind::Decode) says that a row is not what was sealed, or that its
/// key is not known; other kinds that opening it may succeed another time.
pub trait Sealer: Send + Sync {
    /// Replaces the properties with these names by sealed ones, and adds what opening them needs. All
    /// rows of one operation may share a data key.
    fn seal<'a>(
        &'a self,
        op: &'a Op,
        table: &'a str,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>>;

    /// Replaces sealed properties by what they were. Fails, and is never wrong, if one of them is not
    /// what was sealed for this row.
    fn open<'a>(
        &'a self,
        table: &'a str,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>>;

    /// Whether a row, as it is stored, is sealed as [`seal`](Self::seal) would seal it now: by the current
    /// key, and all that is marked. [`Store::reencrypt`](crate::Store::reencrypt) writes the others.
    fn is_current(&self, names: &[&'static str], row: &DynamicEntity) -> bool;
}

/// The layer of a type with encrypted fields.
pub(crate) struct Sealed {
    pub(crate) sealer: std::sync::Arc<dyn Sealer>,
    pub(crate) names: &'static [&'static str],
}

impl Layer for Sealed {
    fn close<'a>(
        &'a self,
        closing: Closing<'a>,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        let Closing { plan, table, .. } = closing;
        async move { self.sealer.seal(&plan.op, table.name(), self.names, row).await }.boxed()
    }

    fn open<'a>(
        &'a self,
        table: &'a Table,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        self.sealer.open(table.name(), self.names, row)
    }
}
