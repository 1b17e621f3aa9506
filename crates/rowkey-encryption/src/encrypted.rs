//! A table whose entities have encrypted properties.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use rowkey::edm::Value;
use rowkey::entity::Write;
use rowkey::{
    DynamicEntity, ETag, Entity, Error, ErrorKind, Filter, Key, Operator, Partition, Projection,
    Result, Stored, Table,
};

use crate::cipher::Cipher;
use crate::index::{self, IndexKey};
use crate::key::KeyRing;
use crate::query::EncryptedQuery;
use crate::random::Random;
use crate::reencryption::Reencryption;
use crate::transaction::EncryptedTransaction;

/// A table seen through a cipher: chosen properties of the entities of type `E` are encrypted as they
/// are written and decrypted as they are read.
///
/// Chosen are the properties that `E` marks with `#[entity(encrypt)]`, and those that a
/// [`resolver`](Self::resolver) names. They are Strings or Binaries, are stored as Binary, and come
/// back as what they were. Everything else is stored as it is, and the
/// [table](Self::table) itself may be used for it: to delete, to merge properties that are not
/// encrypted, to read those.
///
/// What does not decrypt is an error of kind [`Decode`](ErrorKind::Decode) that says why, and no part
/// of it is returned: a wrong key, and anything that was altered, cut off, left out, or moved here from
/// another property, entity or table.
///
/// Each write makes a data key and has it wrapped, each entity that is read has one unwrapped. With
/// keys in memory that is no request; with a key vault it is one each.
///
/// ```
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_encryption::{AesKeyWrap, Encrypted, KeyRing};
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{ward}", row = "{number:6}", rename_all = "PascalCase")]
/// struct Patient {
///     ward: String,
///     number: u32,
///     #[entity(encrypt)]
///     name: String,
///     bed: i32,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let table = account.table("patients");
/// table.create_if_missing().await?;
/// let key = [7; 32]; // from where secrets are kept
/// let patients = Encrypted::<Patient>::new(table, KeyRing::new(AesKeyWrap::new("2026", key)));
///
/// let ada = Patient { ward: "north".into(), number: 7, name: "Ada".into(), bed: 3 };
/// patients.insert(&ada).await?;
/// let stored = patients.get(Patient::key("north", 7)).await?.ok_or("not there")?;
/// assert_eq!(stored.entity, ada);
/// patients.replace(&stored.map(|patient| patient.name = "Ada L.".into())).await?;
///
/// let in_ward = patients.query(Patient::partition("north")).filter(Patient::BED.is(3)).all().await?;
/// assert_eq!(in_ward[0].entity.name, "Ada L.");
/// # Ok(())
/// # }
/// ```
pub struct Encrypted<E> {
    table: Table,
    pub(crate) cipher: Cipher,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity + Send + 'static> Encrypted<E> {
    /// The entities of type `E` in `table`, encrypted under the keys of `ring`.
    pub fn new(table: Table, ring: KeyRing) -> Self {
        let cipher = Cipher {
            table: table.name().into(),
            ring,
            marked: E::ENCRYPTED,
            resolver: None,
            index: None,
            accepts_plaintext: false,
            accepts_legacy: false,
            random: Random::default(),
        };
        Self { table, cipher, entity: PhantomData }
    }

    /// Also encrypts the properties for which `resolver` says so: it is asked with the PartitionKey,
    /// the RowKey and the name of each property, except `EntityType` and `EntityVersion`, which
    /// queries have to see. It must always answer the same.
    #[must_use]
    pub fn resolver(
        mut self,
        resolver: impl Fn(&str, &str, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.cipher.resolver = Some(Arc::new(resolver));
        self
    }

    /// Keeps a blind index beside these encrypted properties, so that equal values can be
    /// [found](Self::equals): an HMAC-SHA256 of the value under `key`.
    ///
    /// Whoever reads the table then sees which entities have the same value, and how often each
    /// occurs; without the key not which value it is. Do not index what has few values or is guessed
    /// easily from how often it occurs: a diagnosis, a sex, a year of birth.
    #[must_use]
    pub fn index<N: Into<String>>(
        mut self,
        key: IndexKey,
        properties: impl IntoIterator<Item = N>,
    ) -> Self {
        self.cipher.index = Some((key, properties.into_iter().map(Into::into).collect()));
        self
    }

    /// Reads entities, and chosen properties, that are not encrypted as they are: those from before
    /// there was encryption. Whoever can write to the table can then put plaintext in the place of
    /// what was encrypted, so take this back when [`reencryption`](Self::reencryption) has passed.
    #[must_use]
    pub fn accept_plaintext(mut self) -> Self {
        self.cipher.accepts_plaintext = true;
        self
    }

    /// Reads entities that the retired SDKs encrypted (.NET, Java and Python, client-side encryption
    /// V1). Their keys belong on the ring under the names they had. V1 authenticates nothing, so
    /// take this back when [`reencryption`](Self::reencryption) has passed.
    #[must_use]
    pub fn accept_legacy(mut self) -> Self {
        self.cipher.accepts_legacy = true;
        self
    }

    /// Takes keys and nonces from `fill`, for tests that compare stored bytes. Bytes that repeat or
    /// can be guessed protect nothing.
    #[cfg(any(test, feature = "test-util"))]
    #[must_use]
    pub fn with_random(mut self, fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        self.cipher.random = Random::chosen(fill);
        self
    }

    /// The table itself, which knows of no encryption.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Stores a new entity, as [`Table::insert`] does.
    pub fn insert(&self, entity: &E) -> impl Future<Output = Result<ETag>> + Send {
        let row = DynamicEntity::of(entity);
        async move { self.table.insert(&self.sealed(row).await?).await }
    }

    /// Reads the entity at `key`, or `None` when there is none, as [`Table::get`] does.
    pub async fn get(&self, key: Key<E>) -> Result<Option<Stored<E>>> {
        self.get_as(key).await
    }

    /// Reads the entity at `key` as `P`, as [`Table::get_as`] does. All of it is fetched and decrypted:
    /// what is encrypted is sealed as a whole.
    pub async fn get_as<P: Projection>(&self, key: Key<E>) -> Result<Option<Stored<P>>> {
        match self.table.get_as::<DynamicEntity>(key).await? {
            Some(stored) => self.decrypt_as(stored).await.map(Some),
            None => Ok(None),
        }
    }

    /// Replaces an entity under a condition, as [`Table::replace`] does.
    pub fn replace<'a>(
        &self,
        write: impl Into<Write<'a, E>>,
    ) -> impl Future<Output = Result<ETag>> + Send {
        let (entity, condition) = write.into().into_parts();
        let row = DynamicEntity::of(entity);
        async move { self.table.replace((&self.sealed(row).await?, condition)).await }
    }

    /// Replaces an entity or inserts it, as [`Table::upsert`] does.
    pub fn upsert(&self, entity: &E) -> impl Future<Output = Result<ETag>> + Send {
        let row = DynamicEntity::of(entity);
        async move { self.table.upsert(&self.sealed(row).await?).await }
    }

    /// Merges an entity into the stored one, as [`Table::merge`] does.
    ///
    /// All encrypted properties of an entity are under one data key, which a merge replaces. So it
    /// is refused, with [`ErrorKind::Invalid`], unless every property that may be encrypted is
    /// present: those that `E` marks, and those that the resolver names among the properties of `E`
    /// (never, with a resolver, for a [`DynamicEntity`], which does not tell its properties). To change
    /// properties that are not encrypted, merge them in the [table](Self::table).
    pub fn merge<'a>(
        &self,
        write: impl Into<Write<'a, E>>,
    ) -> impl Future<Output = Result<ETag>> + Send {
        let (entity, condition) = write.into().into_parts();
        let row = self.mergeable(entity, "MergeEntity");
        async move { self.table.merge((&self.sealed(row).await?, condition)).await }
    }

    /// Merges an entity or inserts it, as [`Table::upsert_merge`] does; refused when
    /// [`merge`](Self::merge) is.
    pub fn upsert_merge(&self, entity: &E) -> impl Future<Output = Result<ETag>> + Send {
        let row = self.mergeable(entity, "InsertOrMergeEntity");
        async move { self.table.upsert_merge(&self.sealed(row).await?).await }
    }

    /// A query of a partition, as [`Table::query`].
    pub fn query(&self, partition: Partition<E>) -> EncryptedQuery<E> {
        let query = self.table.query(partition).project::<DynamicEntity>();
        EncryptedQuery::new(self.clone(), query)
    }

    /// A query of all partitions, as [`Table::scan`].
    pub fn scan(&self) -> EncryptedQuery<E> {
        EncryptedQuery::new(self.clone(), self.table.scan::<E>().project::<DynamicEntity>())
    }

    /// A filter for the entities whose encrypted `property` is `value`, a String or a Binary, by its
    /// blind [index](Self::index). Values are compared byte for byte: bring both into one form first
    /// if case or spelling must not matter.
    ///
    /// An entity that was written without the index, or under another index key, is not found.
    pub fn equals(&self, property: &str, value: impl Into<Value>) -> Result<Filter> {
        let index = self.cipher.index.as_ref();
        let Some((key, _)) = index.filter(|(_, names)| names.iter().any(|name| name == property))
        else {
            let what = format!("property `{property}` has no blind index");
            return Err(Error::refused(ErrorKind::Invalid, what)
                .of("QueryEntities", self.table.name())
                .advise("name it in `Encrypted::index`"));
        };
        if self.cipher.resolver.is_none() && !self.cipher.marked.contains(&property) {
            let what = format!("property `{property}` is not encrypted, so it has no blind index");
            return Err(Error::refused(ErrorKind::Invalid, what)
                .of("QueryEntities", self.table.name())
                .advise("compare it by its column"));
        }
        let index = key.of(self.table.name(), property, &value.into())?;
        Ok(Filter::dynamic(index::property(property), Operator::Equal, index))
    }

    /// A job that writes what is not under the current key anew: see [`Reencryption`].
    pub fn reencryption(&self) -> Reencryption<E> {
        Reencryption::new(self.clone())
    }

    /// A transaction of entities that are encrypted, as [`Table::transaction`].
    pub fn transaction(&self) -> EncryptedTransaction<E> {
        EncryptedTransaction::new(self.clone())
    }

    /// Encrypts an entity without writing it. It is readable at its own keys in this table alone.
    pub fn encrypt(&self, entity: &E) -> impl Future<Output = Result<DynamicEntity>> + Send {
        let row = DynamicEntity::of(entity);
        async move { self.sealed(row).await }
    }

    /// Decrypts an entity that was read from the [table](Self::table) with all its properties.
    pub async fn decrypt(&self, stored: Stored<DynamicEntity>) -> Result<Stored<E>> {
        self.decrypt_as(stored).await
    }

    pub(crate) async fn decrypt_as<P: Projection>(
        &self,
        stored: Stored<DynamicEntity>,
    ) -> Result<Stored<P>> {
        let Stored { entity, etag, timestamp } = stored;
        let read = async { self.cipher.decrypt(entity).await?.entity.read_as::<P>() };
        let entity = read.await.map_err(|error| error.of("Decrypt", self.table.name()))?;
        Ok(Stored { entity, etag, timestamp })
    }

    pub(crate) async fn sealed(&self, row: Result<DynamicEntity>) -> Result<DynamicEntity> {
        let sealed = async { self.cipher.encrypt(row?).await };
        sealed.await.map_err(|error| error.of("Encrypt", self.table.name()))
    }

    /// The entity, if all is there that a merge would have to encrypt anew.
    pub(crate) fn mergeable(&self, entity: &E, operation: &'static str) -> Result<DynamicEntity> {
        let row = DynamicEntity::of(entity)?;
        let refused = |what: String| {
            Err(Error::refused(ErrorKind::Invalid, what)
                .of(operation, self.table.name())
                .advise("replace the entity, or merge what is not encrypted in the table itself"))
        };
        if self.cipher.resolver.is_some() && E::COLUMNS.is_none() {
            return refused(
                "a merge needs every encrypted property, and which there are cannot be known of \
                 entities of any properties under a resolver"
                    .to_owned(),
            );
        }
        let columns = E::COLUMNS.unwrap_or_default().iter();
        let named = columns
            .filter(|name| self.cipher.resolves(&row.partition_key, &row.row_key, name))
            .filter(|name| !["PartitionKey", "RowKey", "Timestamp"].contains(name));
        match E::ENCRYPTED.iter().chain(named).find(|name| row.get(name).is_none()) {
            Some(name) => refused(format!(
                "a merge needs every encrypted property, and `{name}` is absent: all are under one \
                 key, which it replaces"
            )),
            None => Ok(row),
        }
    }
}

impl<E> Clone for Encrypted<E> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), cipher: self.cipher.clone(), entity: PhantomData }
    }
}

impl<E> fmt::Debug for Encrypted<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted")
            .field("table", &self.table)
            .field("cipher", &self.cipher)
            .finish()
    }
}
