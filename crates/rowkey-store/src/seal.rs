//! Sealed properties: what encrypts them, and the layer that calls it.

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::edm::Value;
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
    /// Replaces the properties with these names by sealed ones, and adds what opening them needs. The
    /// table is that of the row; keys that all its rows share may be kept there.
    fn seal<'a>(
        &'a self,
        op: &'a Op,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>>;

    /// Replaces sealed properties by what they were. Fails, and is never wrong, if one of them is not
    /// what was sealed for this row.
    fn open<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>>;

    /// Makes a key that all writers of the table use within a minute, unless the newest one is already
    /// protected by the current key of the ring. Returns when the newest one was made.
    fn renew<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Result<DateTime<Utc>>>;

    /// Whether a row, as it is stored, is sealed as it is to be: by the newest key, and all that is marked.
    /// [`Store::reencrypt`](crate::Store::reencrypt) writes the others.
    fn is_current<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a DynamicEntity,
    ) -> BoxFuture<'a, Result<bool>>;

    /// Whether it signs the properties that it does not seal: then a patch, which merges in the service, is
    /// refused.
    fn signs_plaintext(&self) -> bool {
        false
    }

    /// Whether it opens what is stored in plain, so that a field that was in a blob before it was marked
    /// `encrypt` is read.
    fn accepts_plaintext(&self) -> bool {
        false
    }

    /// Encrypts the value of a field in a blob, a Binary or a String, under a key of its own. Returns what
    /// the blob is to hold, and the key, which the row is to hold under the name of the property: sealed as
    /// each encrypted property is.
    fn seal_content(
        &self,
        row: &DynamicEntity,
        property: &str,
        value: &Value,
    ) -> Result<(Vec<u8>, Vec<u8>)>;

    /// Decrypts what a blob holds. Fails, and is never wrong, if it is not what was sealed with this key
    /// for this field of this row.
    fn open_content(
        &self,
        row: &DynamicEntity,
        property: &str,
        key: &[u8],
        stored: &[u8],
    ) -> Result<Value>;

    /// Whether a key is that of a blob with this value, which then need not be uploaded again.
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
