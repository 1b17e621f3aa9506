//! Encryption of properties: the sealer, and the layer that calls it.
//!
//! Programs of several versions write one table, and their types may encrypt different fields. What a row
//! has sealed stays sealed when any of them writes it:
//!
//! | a property that the row has sealed | read | write |
//! |---|---|---|
//! | the type encrypts it | opened | sealed |
//! | the type does not have it | left out | sealed again, with its blind index |
//! | the type has it without `encrypt` | refused by name | refused by name |
//! | [`Sealer::stopped`] names it | opened | in plaintext |
//!
//! A program without keys copies sealed bytes as it copies other unknown properties. Where that is not enough, it
//! gets an error that names the property.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use rowkey_client::edm::Value;
use rowkey_client::{DynamicEntity, Entity, Result, Table};

use super::{Closing, Layer};
use crate::row::blob_pointer::is_in_blob;
use crate::row::envelope::other_version;
use crate::row::op::Op;
use crate::row::version_of;

/// Encrypts and decrypts the fields of a type that are marked `#[entity(encrypt)]`: see
/// [`StoreBuilder::keys`](crate::StoreBuilder::keys). `rowkey::encryption::KeyRing` is an implementation.
///
/// A row is sealed once for each write of its entity. Whole copies hold the same bytes and are opened
/// under the keys of the entity. A sealer therefore binds the sealed values to the keys of the row that
/// it is given.
///
/// Errors are created by [`Error::refused`](rowkey_client::Error::refused).
/// [`ErrorKind::Decode`](rowkey_client::ErrorKind::Decode) means that the row was altered or its key is not
/// known; other kinds mean that a later attempt may succeed.
pub trait Sealer: Send + Sync {
    /// Replaces the properties with these names by sealed ones, and adds what opening them needs.
    /// `table` is the table of the row; keys shared by all its rows may be stored there.
    ///
    /// `before` is the stored row that this one replaces, and the names with which it was opened. Its properties
    /// that are sealed under other names are sealed again and added to the row. Must fail, and name the property,
    /// if the row has one of them in plaintext, unless the sealer [stopped](Self::stopped) sealing it.
    fn seal<'a>(
        &'a self,
        op: &'a Op,
        table: &'a Table,
        names: &'a [&'static str],
        before: Option<(&'a DynamicEntity, &'a [&'static str])>,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>>;

    /// Replaces sealed properties by their values. Must fail if one of them was not sealed for this
    /// row, and never return a wrong value.
    ///
    /// Removes sealed properties that have other names, unless the sealer [stopped](Self::stopped) sealing
    /// them, and returns their names.
    fn open<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<Vec<String>>>;

    /// Creates a key that all writers of the table use within a minute, unless the newest one is
    /// already protected by the current key of the ring.
    fn renew<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Result<()>>;

    /// How long the newest key has been in the table, by the clock of the service. Must look for the newest key
    /// first.
    fn age<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Result<Duration>>;

    /// Whether a stored row has all marked fields sealed under the newest key, and none that the sealer
    /// [stopped](Self::stopped) sealing. [`Store::reencrypt`](crate::Store::reencrypt) rewrites the others.
    fn is_current<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a DynamicEntity,
    ) -> BoxFuture<'a, Result<bool>>;

    /// The properties that are no longer sealed: they are opened in every row, and written in plaintext.
    fn stopped(&self) -> &[String] {
        &[]
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

/// The properties that a type and its older versions encrypt.
#[derive(Clone, Copy)]
pub(crate) struct Encrypted {
    pub(crate) names: &'static [&'static str],
    of_version: fn(i32) -> &'static [&'static str],
}

impl Encrypted {
    pub(crate) fn of<E: Entity>() -> Self {
        Self { names: E::DECLARED.encrypted, of_version: E::encrypted }
    }

    /// The names with which a stored row is opened: those of the type, and of the version that wrote the
    /// row, which is converted. What the type seals must be sealed in rows of older versions as well.
    pub(crate) fn opened(self, row: &DynamicEntity) -> Vec<&'static str> {
        let older = (self.of_version)(version_of(row)).iter();
        let older = older.filter(|name| !self.names.contains(name));
        self.names.iter().chain(older).copied().collect()
    }
}

/// The layer of a store with keys.
pub(crate) struct Sealed {
    sealer: Arc<dyn Sealer>,
    encrypted: Encrypted,
    /// The fields that are sealed in the row, and not in a blob.
    in_row: Vec<&'static str>,
}

impl Sealed {
    pub(crate) fn of<E: Entity>(sealer: Arc<dyn Sealer>) -> Self {
        let is_in_row =
            |name: &&&str| !E::DECLARED.blobs.iter().any(|field| field.property == **name);
        let in_row = E::DECLARED.encrypted.iter().filter(is_in_row).copied().collect();
        Self { sealer, encrypted: Encrypted::of::<E>(), in_row }
    }
}

#[async_trait]
impl Layer for Sealed {
    async fn close(&self, closing: Closing<'_>, row: &mut DynamicEntity) -> Result<()> {
        let Closing { op, table, before, .. } = closing;
        let opened = before.map(|before| self.encrypted.opened(before)).unwrap_or_default();
        let before = before.map(|before| (before, &*opened));
        self.sealer.seal(op, table, self.encrypted.names, before, row).await
    }

    async fn open(
        &self,
        table: &Table,
        row: &mut DynamicEntity,
        sealed: &mut Vec<String>,
    ) -> Result<()> {
        let names = self.encrypted.opened(row);
        *sealed = self.sealer.open(table, &names, row).await?;
        // The value of such a property is the key of the blob.
        let stopped = self.sealer.stopped().iter().map(String::as_str);
        let mut in_row = self.in_row.iter().copied().chain(stopped);
        match in_row.find(|name| is_in_blob(row, name)) {
            Some(name) => Err(other_version(name, "encrypted it in a blob")),
            None => Ok(()),
        }
    }
}
