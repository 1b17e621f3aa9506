//! Encryption of properties: the sealer, and the layer that calls it.

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::edm::Value;
use rowkey::{DynamicEntity, Result, Table};

use crate::layer::{Closing, Layer};
use crate::plan::Op;

/// Encrypts and decrypts the fields of a type that are marked `#[entity(encrypt)]`: see
/// [`StoreBuilder::keys`](crate::StoreBuilder::keys). `rowkey_encryption::KeyRing` is an implementation.
///
/// A row is sealed once for each write of its entity. Whole copies hold the same bytes and are opened
/// under the keys of the entity. A sealer therefore binds the sealed values to the keys of the row that
/// it is given.
///
/// Errors are created by [`Error::refused`](rowkey::Error::refused).
/// [`ErrorKind::Decode`](rowkey::ErrorKind::Decode) means that the row was altered or its key is not
/// known; other kinds mean that a later attempt may succeed.
pub trait Sealer: Send + Sync {
    /// Replaces the properties with these names by sealed ones, and adds what opening them needs.
    /// `table` is the table of the row; keys shared by all its rows may be stored there.
    fn seal<'a>(
        &'a self,
        op: &'a Op,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>>;

    /// Replaces sealed properties by their values. Must fail if one of them was not sealed for this
    /// row, and never return a wrong value.
    fn open<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>>;

    /// Creates a key that all writers of the table use within a minute, unless the newest one is
    /// already protected by the current key of the ring. Returns the creation time of the newest key.
    fn renew<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Result<DateTime<Utc>>>;

    /// Whether a stored row has all marked fields sealed under the newest key.
    /// [`Store::reencrypt`](crate::Store::reencrypt) rewrites the others.
    fn is_current<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a DynamicEntity,
    ) -> BoxFuture<'a, Result<bool>>;

    /// Whether the sealer signs the properties that it does not seal. If so, a patch, which merges in the
    /// service, is refused.
    fn signs_plaintext(&self) -> bool {
        false
    }

    /// Whether the sealer accepts unencrypted values, so that a field in a blob that was stored before
    /// the field was marked `encrypt` can be read.
    fn accepts_plaintext(&self) -> bool {
        false
    }

    /// Encrypts the value of a field in a blob, a Binary or a String, under a new key. Returns the content
    /// of the blob and the key. The row stores the key under the name of the property, sealed like every
    /// encrypted property.
    fn seal_content(
        &self,
        row: &DynamicEntity,
        property: &str,
        value: &Value,
    ) -> Result<(Vec<u8>, Vec<u8>)>;

    /// Decrypts the content of a blob. Must fail if it was not sealed with this key for this field of
    /// this row, and never return a wrong value.
    fn open_content(
        &self,
        row: &DynamicEntity,
        property: &str,
        key: &[u8],
        stored: &[u8],
    ) -> Result<Value>;

    /// Whether a key belongs to a blob with this value, so that the value need not be uploaded
    /// again.
    fn is_content(&self, key: &[u8], value: &Value) -> bool;
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
        async move { self.sealer.seal(&plan.op, table, self.names, row).await }.boxed()
    }

    fn open<'a>(
        &'a self,
        table: &'a Table,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        self.sealer.open(table, self.names, row)
    }
}
