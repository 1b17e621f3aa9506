//! Key rings: the key that wraps, the keys that only unwrap, and the keys that sign.

use std::fmt;
use std::sync::Arc;

use rowkey_client::edm::Value;
use rowkey_client::{Error, ErrorKind, Filter, Operator, Result};

use crate::branch::{BranchKey, CurrentBranchKey};
use crate::cache::Cache;
use crate::format::is_plain;
use crate::index::{self, IndexKey};
use crate::key::{KeySigner, KeyWrapper};
use crate::random::Random;

/// The maximum length of a key's name.
const MAX_KEY_ID: usize = 512;

/// The keys of a program for one logical table: the current key-encryption key wraps and unwraps, older ones
/// unwrap, and signers sign the wrapped keys.
///
/// Pass it to [`StoreBuilder::keys`](rowkey_store::StoreBuilder::keys). Data is decrypted only at the place
/// for which it was encrypted. Anything else is an error of kind [`Decode`](ErrorKind::Decode) with a uniform
/// text, and no part of the entity is returned: a wrong key, and anything that was altered, truncated,
/// removed, or moved from another property, entity or table.
///
/// A key-encryption key wraps **branch keys**, which are stored in the table itself, in the partition
/// `encryption`, each with a signature. The key of a row is derived from the newest branch key and the id of
/// the operation. So the first write of a program costs one request to the table for the newest record, and
/// with a key vault two more, one that verifies and one that unwraps; the very first write to the table
/// wraps, signs and stores a record instead. After that, writing costs one request to the table per minute,
/// which looks for a newer record. Reading has the same cost once for each branch key; the last 1,024 stay in
/// memory.
///
/// To rotate the key: create a ring of the new key [`with`](Self::with) the old one, deploy it to all
/// programs, run [`Store::reencrypt`](rowkey_store::Store::reencrypt), then
/// [`Store::verify_keys`](rowkey_store::Store::verify_keys), and remove the old key when that finds nothing.
///
/// ```
/// use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
///
/// let signer = MacKey::new("records", [9; 32]);
/// let ring = KeyRing::new("patients", AesKeyWrap::new("2027", [2; 32]), signer)
///     .with(AesKeyWrap::new("2026", [1; 32]));
/// assert_eq!(
///     format!("{ring:?}"),
///     r#"KeyRing { table: "patients", current: "2027", older: ["2026"], signer: "records", .. }"#,
/// );
/// ```
pub struct KeyRing {
    /// The logical name of the table.
    pub(crate) table: Arc<str>,
    current: Arc<dyn KeyWrapper>,
    older: Vec<Arc<dyn KeyWrapper>>,
    /// The first one signs.
    pub(crate) signers: Vec<Arc<dyn KeySigner>>,
    pub(crate) index: Option<Indexes>,
    pub(crate) signs: bool,
    /// The properties that are no longer encrypted.
    pub(crate) stopped: Arc<[String]>,
    pub(crate) accepts: Accepts,
    pub(crate) random: Random,
    /// The branch key for writing.
    pub(crate) branch_key: tokio::sync::Mutex<Option<CurrentBranchKey>>,
    /// Branch keys by name.
    pub(crate) branches: Arc<Cache<BranchKey>>,
}

/// The formats that are read in addition to format 2.
#[derive(Clone, Copy, Default)]
pub(crate) struct Accepts {
    pub(crate) plaintext: bool,
    pub(crate) legacy: bool,
}

/// The blind indexes of a ring.
#[derive(Clone)]
pub(crate) struct Indexes {
    pub(crate) key: IndexKey,
    /// The properties that have a blind index.
    pub(crate) names: Arc<[String]>,
}

impl Clone for KeyRing {
    fn clone(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            current: Arc::clone(&self.current),
            older: self.older.clone(),
            signers: self.signers.clone(),
            index: self.index.clone(),
            random: self.random.clone(),
            // Each store looks up the branch key of its own table.
            branch_key: tokio::sync::Mutex::default(),
            branches: Arc::clone(&self.branches),
            stopped: Arc::clone(&self.stopped),
            ..*self
        }
    }
}

impl KeyRing {
    /// Creates a ring with one key for a table with the logical name `table`.
    ///
    /// All encrypted data is bound to this name instead of the name of the stored table, so a table that is
    /// restored under another name can be decrypted with its original ring. Use a different name for each
    /// table, and different keys for each environment. `signer` signs the records of branch keys; it must not
    /// be the wrapping key.
    pub fn new(
        table: impl Into<Arc<str>>,
        current: impl KeyWrapper + 'static,
        signer: impl KeySigner + 'static,
    ) -> Self {
        Self {
            table: table.into(),
            current: Arc::new(current),
            older: Vec::new(),
            signers: vec![Arc::new(signer)],
            index: None,
            signs: false,
            stopped: Arc::default(),
            accepts: Accepts::default(),
            random: Random::default(),
            branch_key: tokio::sync::Mutex::default(),
            branches: Arc::new(Cache::new()),
        }
    }

    /// Adds a key that signed earlier records; it is used only to verify.
    ///
    /// ```
    /// # use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
    /// # struct Patient { ward: String, number: u32, #[entity(encrypt)] name: String, bed: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let wrapper = || AesKeyWrap::new("2026", [7; 32]);
    /// # let ring = KeyRing::new("patients", wrapper(), MacKey::new("records", [9; 32]));
    /// # let table = account.table("patients");
    /// # table.create().await?;
    /// # let ada = Patient { ward: "north".into(), number: 7, name: "Ada".into(), bed: 3 };
    /// let patients = Store::<Patient>::builder(table.clone()).keys(ring).build()?;
    /// patients.insert(&ada).await?;
    ///
    /// let older = MacKey::new("records", [9; 32]);
    /// let ring = KeyRing::new("patients", wrapper(), MacKey::new("records-2027", [10; 32]));
    /// let patients = Store::<Patient>::builder(table).keys(ring.with_signer(older)).build()?;
    /// assert!(patients.get(Patient::key("north", 7)).await?.is_some());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_signer(mut self, older: impl KeySigner + 'static) -> Self {
        self.signers.push(Arc::new(older));
        self
    }

    /// Also signs the properties that are not encrypted: none of them can be altered, added or removed.
    ///
    /// Entities that were written without this are refused, unless
    /// [`accept_plaintext`](Self::accept_plaintext) accepts them until
    /// [`Store::reencrypt`](rowkey_store::Store::reencrypt) has signed them. Changes that a program
    /// made without the store are refused. What one ring signed stays signed, by any ring.
    ///
    /// ```
    /// # use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
    /// # struct Patient { ward: String, number: u32, #[entity(encrypt)] name: String, bed: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let wrapper = || AesKeyWrap::new("2026", [7; 32]);
    /// # let ring = KeyRing::new("patients", wrapper(), MacKey::new("records", [9; 32]));
    /// # let table = account.table("patients");
    /// # table.create().await?;
    /// # let ada = Patient { ward: "north".into(), number: 7, name: "Ada".into(), bed: 3 };
    /// let ring = ring.sign_plaintext();
    /// let patients = Store::<Patient>::builder(table.clone()).keys(ring).build()?;
    /// patients.insert(&ada).await?;
    ///
    /// // Another program moves the patient to another bed.
    /// let mut moved = rowkey::DynamicEntity::new("north", "patient_000007");
    /// moved.set("Bed", 4_i64);
    /// table.upsert_merge(&moved).await?;
    /// let refused = patients.get(Patient::key("north", 7)).await.unwrap_err();
    /// assert_eq!(refused.kind(), rowkey::ErrorKind::Decode);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn sign_plaintext(mut self) -> Self {
        self.signs = true;
        self
    }

    /// Adds a key that wrapped earlier keys; it is used only to unwrap.
    #[must_use]
    pub fn with(mut self, older: impl KeyWrapper + 'static) -> Self {
        self.older.push(Arc::new(older));
        self
    }

    /// Stores a blind index beside these encrypted properties, so that equal values can be
    /// [found](Self::equals): an HMAC-SHA256 of the value under `key`.
    ///
    /// A reader of the table then sees which entities have the same value, and how often each value occurs,
    /// but needs the key to learn the value. Do not index properties with few values, or with values that are
    /// easily guessed from their frequency: a diagnosis, a sex, a year of birth.
    #[must_use]
    pub fn index<N: Into<String>>(
        mut self,
        key: IndexKey,
        properties: impl IntoIterator<Item = N>,
    ) -> Self {
        let names = properties.into_iter().map(Into::into).collect();
        self.index = Some(Indexes { key, names });
        self
    }

    /// A filter for the entities whose encrypted `property` has `value`, by its blind [index](Self::index).
    /// Values are compared byte for byte: normalize both first if case or spelling must not matter.
    ///
    /// An entity that was written without the index, or under another index key, is not found. Fails with
    /// [`ErrorKind::Invalid`] if the property has no blind index.
    ///
    /// ```
    /// # use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
    /// # struct Patient { ward: String, number: u32, #[entity(encrypt)] name: String, bed: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let wrapper = || AesKeyWrap::new("2026", [7; 32]);
    /// # let ring = KeyRing::new("patients", wrapper(), MacKey::new("records", [9; 32]));
    /// # let table = account.table("patients");
    /// # table.create().await?;
    /// # let ada = Patient { ward: "north".into(), number: 7, name: "Ada".into(), bed: 3 };
    /// use rowkey::encryption::IndexKey;
    ///
    /// let ring = ring.index(IndexKey::new([5; 32]), ["Name"]);
    /// let patients = Store::<Patient>::builder(table).keys(ring.clone()).build()?;
    /// patients.insert(&ada).await?;
    ///
    /// let is_ada = ring.equals("Name", "Ada")?;
    /// let found = patients.query(Patient::partition("north")).filter(is_ada).all().await?;
    /// assert_eq!(found[0].entity, ada);
    /// # Ok(()) }
    /// ```
    pub fn equals(&self, property: &str, value: impl Into<Value>) -> Result<Filter> {
        let Some(index) = self.index.as_ref().filter(|_| self.indexes(property)) else {
            let what = format!("property `{property}` has no blind index");
            return Err(Error::refused(ErrorKind::Invalid, what)
                .of("QueryEntities", &self.table)
                .advise("name it in `KeyRing::index`"));
        };
        let value = index.key.of(&self.table, property, &value.into())?;
        Ok(Filter::dynamic(index::property(property), Operator::Equal, value))
    }

    /// Accepts plaintext entities and properties that were written before encryption was enabled. A program
    /// that can write to the table can then replace encrypted data by plaintext, so remove this when
    /// [`Store::reencrypt`](rowkey_store::Store::reencrypt) has finished.
    ///
    /// ```
    /// # use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
    /// # struct Patient { ward: String, number: u32, #[entity(encrypt)] name: String, bed: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let wrapper = || AesKeyWrap::new("2026", [7; 32]);
    /// # let ring = KeyRing::new("patients", wrapper(), MacKey::new("records", [9; 32]));
    /// # let table = account.table("patients");
    /// # table.create().await?;
    /// # let ada = Patient { ward: "north".into(), number: 7, name: "Ada".into(), bed: 3 };
    /// # #[derive(Entity)]
    /// # #[entity(partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
    /// # struct Before { ward: String, number: u32, name: String, bed: u32 }
    /// # table.insert(&Before { ward: "north".into(), number: 7, name: "Ada".into(), bed: 3 }).await?;
    /// let accepts = ring.clone().accept_plaintext();
    /// let during = Store::<Patient>::builder(table.clone()).keys(accepts).build()?;
    /// assert_eq!(during.get(Patient::key("north", 7)).await?.ok_or("not found")?.entity, ada);
    /// assert_eq!(during.reencrypt().run().await?.total.repaired, 1);
    ///
    /// let after = Store::<Patient>::builder(table).keys(ring).build()?;
    /// assert_eq!(after.get(Patient::key("north", 7)).await?.ok_or("not found")?.entity, ada);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn accept_plaintext(mut self) -> Self {
        self.accepts.plaintext = true;
        self
    }

    /// Reads entities that the retired SDKs encrypted (.NET, Java and Python, client-side encryption V1). Add
    /// their keys to the ring under their original names. V1 authenticates nothing, so remove this when
    /// [`Store::reencrypt`](rowkey_store::Store::reencrypt) has finished.
    #[must_use]
    pub fn accept_legacy(mut self) -> Self {
        self.accepts.legacy = true;
        self
    }

    /// Stops encrypting these properties, whose fields have no `#[entity(encrypt)]` any more: they are
    /// decrypted in every entity, and each write stores them in plaintext.
    ///
    /// Without this, encrypted properties stay encrypted, and a program whose type has such a field without
    /// `encrypt` is refused with an error that names the property. All programs that still encrypt the field
    /// must [accept plaintext](Self::accept_plaintext). Remove both settings when
    /// [`Store::reencrypt`](rowkey_store::Store::reencrypt) has finished. Fields in blobs are refused: copy
    /// them to another field.
    ///
    /// ```
    /// # use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
    /// # struct Before { ward: String, number: u32, #[entity(encrypt)] name: String }
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
    /// struct Patient { ward: String, number: u32, name: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let ring = KeyRing::new("patients", AesKeyWrap::new("2026", [7; 32]), MacKey::new("records", [9; 32]));
    /// # let table = account.table("patients");
    /// # table.create().await?;
    /// # let before = Store::<Before>::builder(table.clone()).keys(ring.clone()).build()?;
    /// # before.insert(&Before { ward: "north".into(), number: 7, name: "Ada".into() }).await?;
    /// let ring = ring.stop_encrypting(["Name"]);
    /// let patients = Store::<Patient>::builder(table).keys(ring).build()?;
    /// let ada = patients.get(Patient::key("north", 7)).await?.ok_or("not found")?;
    /// assert_eq!(ada.entity.name, "Ada");
    /// assert_eq!(patients.reencrypt().run().await?.total.repaired, 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn stop_encrypting(
        mut self,
        properties: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.stopped = properties.into_iter().map(Into::into).collect();
        self
    }

    /// Takes keys and nonces from `fill`, for tests that compare stored bytes. Bytes that repeat or can be
    /// guessed protect nothing.
    #[cfg(any(test, feature = "test-util"))]
    #[must_use]
    pub fn with_random(mut self, fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        self.random = Random::chosen(fill);
        self
    }

    /// The key that wraps.
    pub(crate) fn current(&self) -> Result<&dyn KeyWrapper> {
        check_name("key-encryption key", self.current.key_id())?;
        self.find(self.current.key_id())
    }

    /// The key that signs.
    pub(crate) fn signer(&self) -> Result<&dyn KeySigner> {
        let signer = &*self.signers[0];
        check_name("signing key", signer.key_id())?;
        if self.signers.iter().filter(|other| other.key_id() == signer.key_id()).count() > 1 {
            let what = format!("two signers of the ring have the name `{}`", signer.key_id());
            return Err(Error::refused(ErrorKind::Invalid, what)
                .advise("give each key a unique name, and never reuse it"));
        }
        if self.current.key_id() == signer.key_id() {
            let what = format!("the key `{}` is used both to wrap and to sign", signer.key_id());
            return Err(Error::refused(ErrorKind::Invalid, what).advise("use another key to sign"));
        }
        Ok(signer)
    }

    /// The key of this name.
    pub(crate) fn find(&self, key_id: &str) -> Result<&dyn KeyWrapper> {
        let all = std::iter::once(&self.current).chain(&self.older);
        let mut named = all.filter(|key| key.key_id() == key_id);
        match (named.next(), named.next()) {
            (Some(key), None) => Ok(&**key),
            (Some(_), Some(_)) => {
                let what = format!("two keys of the ring have the name `{key_id}`");
                Err(Error::refused(ErrorKind::Invalid, what)
                    .advise("give each key a unique name, and never reuse it"))
            }
            (None, _) => {
                let what = format!("a key is wrapped by `{key_id}`, which the ring lacks");
                Err(Error::refused(ErrorKind::Decode, what).advise("add it with `KeyRing::with`"))
            }
        }
    }
}

fn check_name(what: &str, key_id: &str) -> Result<()> {
    let length = key_id.chars().count();
    if length == 0 || length > MAX_KEY_ID || !key_id.chars().all(is_plain) {
        let what = format!(
            "the name of a {what} must have 1 to {MAX_KEY_ID} characters, without white space and \
             control characters"
        );
        return Err(Error::refused(ErrorKind::Invalid, what));
    }
    Ok(())
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let older: Vec<_> = self.older.iter().map(KeyWrapper::key_id).collect();
        f.debug_struct("KeyRing")
            .field("table", &self.table)
            .field("current", &self.current.key_id())
            .field("older", &older)
            .field("signer", &self.signers[0].key_id())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{AesKeyWrap, MacKey};

    fn ring(current: &str) -> KeyRing {
        KeyRing::new("t", AesKeyWrap::new(current, [1; 32]), MacKey::new("s", [2; 32]))
    }

    fn error(ring: &KeyRing) -> String {
        let error = ring.current().err().or_else(|| ring.signer().err());
        error.map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn key_names_are_unique_and_valid() {
        let key = |name: &str| AesKeyWrap::new(name, [1; 32]);
        assert_eq!(error(&ring("a").with(key("b"))), "");
        assert!(error(&ring("a").with(key("a"))).contains("two keys"));
        for name in ["", "a b", "a\nb", &"x".repeat(513)] {
            assert!(error(&ring(name)).contains("1 to 512"), "{name}");
        }
        let missing = ring("a").find("z").err().map(|error| error.to_string());
        assert!(missing.unwrap_or_default().contains("`z`, which the ring lacks"));
    }

    #[test]
    fn the_signing_key_differs_from_wrapping_keys() {
        assert!(error(&ring("s")).contains("to wrap and to sign"));
        let twice = ring("a").with_signer(MacKey::new("s", [3; 32]));
        assert!(error(&twice).contains("two signers"));
        let unnamed = KeyRing::new("t", AesKeyWrap::new("a", [1; 32]), MacKey::new("", [2; 32]));
        assert!(error(&unnamed).contains("signing key"));
    }
}
