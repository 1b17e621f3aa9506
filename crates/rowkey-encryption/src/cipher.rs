//! Whole entities, encrypted and decrypted: which properties, under which key, and what is refused.

use std::fmt;
use std::sync::Arc;

use rowkey::edm::Value;
use rowkey::{DynamicEntity, Error, ErrorKind, Result};

use crate::format::{self, Envelope, Nonce, Place};
use crate::index::{self, IndexKey};
use crate::key::ring::is_plain;
use crate::key::{DataKey, KeyRing};
use crate::legacy;
use crate::random::Random;

/// Says of a PartitionKey, a RowKey and the name of a property whether it is encrypted.
type Resolver = Arc<dyn Fn(&str, &str, &str) -> bool + Send + Sync>;

/// Properties that tell the type of an entity, which queries have to see.
const TYPE: [&str; 2] = ["EntityType", "EntityVersion"];

/// How the entities of one table are encrypted, without their type.
#[derive(Clone)]
pub(crate) struct Cipher {
    pub(crate) table: Box<str>,
    pub(crate) ring: KeyRing,
    /// The properties that the entity's type names.
    pub(crate) marked: &'static [&'static str],
    pub(crate) resolver: Option<Resolver>,
    pub(crate) index: Option<(IndexKey, Vec<String>)>,
    pub(crate) accepts_plaintext: bool,
    pub(crate) accepts_legacy: bool,
    pub(crate) random: Random,
}

/// A decrypted entity, and how it was stored.
pub(crate) struct Opened {
    pub(crate) entity: DynamicEntity,
    /// What was encrypted.
    pub(crate) names: Vec<String>,
    /// The blind indexes, by the name of their property.
    pub(crate) indexes: Vec<(String, String)>,
    /// Under which key; `None` when it was not encrypted, or by a retired SDK.
    pub(crate) key_id: Option<String>,
}

impl Cipher {
    /// Encrypts what is chosen of an entity.
    pub(crate) async fn encrypt(&self, entity: DynamicEntity) -> Result<DynamicEntity> {
        let names: Vec<_> = entity
            .iter()
            .map(|(name, _)| name)
            .filter(|name| self.chooses(&entity, name))
            .collect();
        let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
        let reserved = |name: &str| {
            [format::METADATA, legacy::METADATA, legacy::NAMES].contains(&name)
                || name
                    .strip_suffix(format::INDEX_SUFFIX)
                    .is_some_and(|of| names.iter().any(|n| n == of))
        };
        if let Some((name, _)) = entity.iter().find(|(name, _)| reserved(name)) {
            let what = format!("the entity has a property `{name}`, which encryption writes");
            return Err(Error::refused(ErrorKind::Invalid, what).advise("give it another name"));
        }
        if let Some(name) = names.iter().find(|name| !name.chars().all(is_plain)) {
            let what =
                format!("property `{name}` has white space or a control character in its name");
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        self.seal(entity, names, Vec::new()).await
    }

    /// Encrypts these properties under a new data key. Of `indexes`, those are kept that cannot be
    /// made here.
    pub(crate) async fn seal(
        &self,
        mut entity: DynamicEntity,
        names: Vec<String>,
        mut indexes: Vec<(String, String)>,
    ) -> Result<DynamicEntity> {
        let key_encryption_key = self.ring.current()?;
        let key = self.data_key()?;
        let (partition_key, row_key) = (entity.partition_key.clone(), entity.row_key.clone());
        let place = Place {
            table: &self.table,
            partition_key: &partition_key,
            row_key: &row_key,
            key_id: key_encryption_key.key_id(),
        };
        indexes.retain(|(name, _)| names.contains(name) && !self.indexes(name));
        for name in &names {
            let Some(value) = entity.get(name) else { continue };
            if let Some((index_key, _)) = self.index.as_ref().filter(|_| self.indexes(name)) {
                indexes.push((name.clone(), index_key.of(&self.table, name, value)?));
            }
            let stored = place.encrypt(&key, &self.random.bytes::<12>()?, name, value)?;
            entity.set(name, stored);
        }
        let nonce: Nonce = self.random.bytes()?;
        let seal = place.seal(&key, &nonce, &covered(&names, &indexes))?;
        for (name, index) in &indexes {
            entity.set(index::property(name), index.as_str());
        }
        let envelope = Envelope {
            key_id: place.key_id.to_owned(),
            algorithm: key_encryption_key.algorithm().to_owned(),
            wrapped: key_encryption_key.wrap_key(&key).await?,
            seal,
            names,
        };
        entity.set(format::METADATA, envelope.print());
        Ok(entity)
    }

    /// Decrypts an entity, whoever wrote it, or says why it must not be taken for what it says.
    pub(crate) async fn decrypt(&self, mut entity: DynamicEntity) -> Result<Opened> {
        let opened = match entity.remove(format::METADATA) {
            Some(Value::String(metadata)) => self.open(entity, &metadata).await?,
            Some(_) => {
                let what = format!("property `{}` is no String", format::METADATA);
                return Err(Error::refused(ErrorKind::Decode, what));
            }
            None if legacy::is_legacy(&entity) => {
                if !self.accepts_legacy {
                    let what = "the entity is encrypted in the format of the retired SDKs, V1, \
                                which authenticates nothing";
                    return Err(Error::refused(ErrorKind::Decode, what)
                        .advise("read it with `Encrypted::accept_legacy`"));
                }
                let names = legacy::decrypt(&mut entity, &self.ring).await?;
                Opened { entity, names, indexes: Vec::new(), key_id: None }
            }
            None if self.accepts_plaintext => {
                Opened { entity, names: Vec::new(), indexes: Vec::new(), key_id: None }
            }
            None => {
                let what = "the entity is not encrypted";
                return Err(Error::refused(ErrorKind::Decode, what).advise(PLAINTEXT));
            }
        };
        if !self.accepts_plaintext {
            let plain = |name: &str| {
                self.chooses(&opened.entity, name) && !opened.names.iter().any(|n| n == name)
            };
            if let Some((name, _)) = opened.entity.iter().find(|(name, _)| plain(name)) {
                let what = format!("property `{name}` is not encrypted");
                return Err(Error::refused(ErrorKind::Decode, what).advise(PLAINTEXT));
            }
        }
        Ok(opened)
    }

    async fn open(&self, mut entity: DynamicEntity, metadata: &str) -> Result<Opened> {
        let Envelope { key_id, algorithm, wrapped, seal, names } = Envelope::parse(metadata)?;
        let key = self.ring.find(&key_id)?.unwrap_key(&algorithm, &wrapped).await?;
        let (partition_key, row_key) = (entity.partition_key.clone(), entity.row_key.clone());
        let place = Place {
            table: &self.table,
            partition_key: &partition_key,
            row_key: &row_key,
            key_id: &key_id,
        };
        let mut indexes = Vec::new();
        for name in &names {
            match entity.remove(&index::property(name)) {
                Some(Value::String(index)) => indexes.push((name.clone(), index)),
                Some(_) => return Err(broken_seal()),
                None => {}
            }
        }
        if !place.is_sealed(&key, &seal, &covered(&names, &indexes)) {
            return Err(broken_seal());
        }
        for name in &names {
            let value = match entity.get(name) {
                Some(Value::Binary(stored)) => place.decrypt(&key, name, stored)?,
                Some(_) => {
                    let what = format!("property `{name}` was encrypted and is no Binary");
                    return Err(Error::refused(ErrorKind::Decode, what)
                        .advise("something that does not encrypt wrote it"));
                }
                None => {
                    let what = format!("property `{name}` was encrypted and is gone");
                    return Err(Error::refused(ErrorKind::Decode, what));
                }
            };
            entity.set(name, value);
        }
        Ok(Opened { entity, names, indexes, key_id: Some(key_id) })
    }

    /// Whether a property of this entity is to be encrypted.
    pub(crate) fn chooses(&self, entity: &DynamicEntity, name: &str) -> bool {
        self.marked.contains(&name) || self.resolves(&entity.partition_key, &entity.row_key, name)
    }

    pub(crate) fn resolves(&self, partition_key: &str, row_key: &str, name: &str) -> bool {
        let resolver = self.resolver.as_ref().filter(|_| !TYPE.contains(&name));
        resolver.is_some_and(|resolver| resolver(partition_key, row_key, name))
    }

    fn indexes(&self, name: &str) -> bool {
        self.index.as_ref().is_some_and(|(_, names)| names.iter().any(|indexed| indexed == name))
    }

    fn data_key(&self) -> Result<DataKey> {
        let mut bytes = zeroize::Zeroizing::new([0; 32]);
        self.random.fill(&mut *bytes)?;
        DataKey::new(&*bytes)
    }
}

const PLAINTEXT: &str = "something that does not encrypt wrote it; where that is expected, read it \
                         with `Encrypted::accept_plaintext`";

fn broken_seal() -> Error {
    let what = "the entity is not as it was encrypted: its keys, its encrypted properties or their \
                blind indexes are others";
    Error::refused(ErrorKind::Decode, what)
        .advise("it was altered, or moved here from another entity or table")
}

/// What the seal covers: the names in their order, each with its blind index.
fn covered<'a>(names: &'a [String], indexes: &'a [(String, String)]) -> Vec<(&'a str, &'a str)> {
    let index = |name: &str| indexes.iter().find(|(of, _)| of == name).map_or("", |(_, i)| i);
    names.iter().map(|name| (name.as_str(), index(name))).collect()
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher")
            .field("table", &self.table)
            .field("ring", &self.ring)
            .field("marked", &self.marked)
            .finish_non_exhaustive()
    }
}
