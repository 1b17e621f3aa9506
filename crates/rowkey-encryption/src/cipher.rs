//! Whole rows, sealed and opened: which properties, under which key, and what is refused.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::edm::Value;
use rowkey::{DynamicEntity, Error, ErrorKind, Result};
use rowkey_store::{Op, Sealer};

use crate::format::{self, Envelope, Nonce, Place};
use crate::index::{self, IndexKey};
use crate::key::ring::is_plain;
use crate::key::{DataKey, KeyRing};
use crate::legacy;

/// A data key and how it is stored.
pub(crate) struct WrappedKey {
    key_id: String,
    algorithm: String,
    key: DataKey,
    wrapped: Vec<u8>,
}

/// The blind indexes of a ring.
#[derive(Clone)]
pub(crate) struct Indexes {
    pub(crate) key: IndexKey,
    /// The properties that have one.
    pub(crate) names: Arc<[String]>,
}

impl Sealer for KeyRing {
    fn seal<'a>(
        &'a self,
        op: &'a Op,
        table: &'a str,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        let sealed = async move {
            check(row, names)?;
            let key = self.data_key(op).await?;
            self.seal_with(&key, table, names, row)
        };
        sealed.map(move |sealed| sealed.map_err(|error| error.of("Encrypt", table))).boxed()
    }

    fn open<'a>(
        &'a self,
        table: &'a str,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        let opened = self.open_row(table, names, row);
        opened.map(move |opened| opened.map_err(|error| error.of("Decrypt", table))).boxed()
    }

    fn is_current(&self, names: &[&'static str], row: &DynamicEntity) -> bool {
        let Some(Value::String(metadata)) = row.get(format::METADATA) else { return false };
        let (Ok(envelope), Ok(current)) = (Envelope::parse(metadata), self.current()) else {
            return false;
        };
        let is_sealed = |name: &str| envelope.names.iter().any(|sealed| sealed == name);
        envelope.key_id == current.key_id()
            && names.iter().all(|name| row.get(name).is_none() || is_sealed(name))
            && envelope.names.iter().all(|name| {
                let has_index = row.get(&index::property(name)).is_some();
                names.contains(&&**name) && has_index == self.indexes(name)
            })
    }
}

/// Refuses a row that cannot be sealed.
fn check(row: &DynamicEntity, names: &[&'static str]) -> Result<()> {
    let reserved = |name: &str| {
        [format::METADATA, legacy::METADATA, legacy::NAMES].contains(&name)
            || name.strip_suffix(format::INDEX_SUFFIX).is_some_and(|of| names.contains(&of))
    };
    if let Some((name, _)) = row.iter().find(|(name, _)| reserved(name)) {
        let what = format!("the entity has a property `{name}`, which encryption writes");
        return Err(Error::refused(ErrorKind::Invalid, what).advise("give it another name"));
    }
    if let Some(name) = names.iter().find(|name| !name.chars().all(is_plain)) {
        let what = format!("property `{name}` has white space or a control character in its name");
        return Err(Error::refused(ErrorKind::Invalid, what));
    }
    Ok(())
}

impl KeyRing {
    /// The data key of a write: one for all its entities.
    async fn data_key(&self, op: &Op) -> Result<Arc<WrappedKey>> {
        let cell = self.written.cell(op.mark().as_bytes().to_vec());
        let made = cell.get_or_try_init(|| async {
            let current = self.current()?;
            let mut bytes = zeroize::Zeroizing::new([0; 32]);
            self.random.fill(&mut *bytes)?;
            let key = DataKey::new(&*bytes)?;
            let wrapped = current.wrap_key(&key).await?;
            let (key_id, algorithm) = (current.key_id().to_owned(), current.algorithm().to_owned());
            Ok(Arc::new(WrappedKey { key_id, algorithm, key, wrapped }))
        });
        made.await.cloned()
    }

    /// Unwraps a data key, or takes the one that was unwrapped before.
    async fn unwrapped(&self, key_id: &str, algorithm: &str, wrapped: &[u8]) -> Result<DataKey> {
        let key_encryption_key = self.find(key_id)?;
        let mut name = Vec::new();
        for part in [key_id.as_bytes(), algorithm.as_bytes(), wrapped] {
            format::append(&mut name, part);
        }
        let cell = self.unwrapped.cell(name);
        let unwrap = || key_encryption_key.unwrap_key(algorithm, wrapped);
        cell.get_or_try_init(unwrap).await.cloned()
    }

    fn seal_with(
        &self,
        key: &WrappedKey,
        table: &str,
        names: &[&'static str],
        row: &mut DynamicEntity,
    ) -> Result<()> {
        let (partition_key, row_key) = (row.partition_key.clone(), row.row_key.clone());
        let place =
            Place { table, partition_key: &partition_key, row_key: &row_key, key_id: &key.key_id };
        let mut indexes = Vec::new();
        let mut sealed = Vec::new();
        for name in names {
            let Some(value) = row.get(name) else { continue };
            if let Some(of) = self.index.as_ref().filter(|_| self.indexes(name)) {
                indexes.push(((*name).to_owned(), of.key.of(table, name, value)?));
            }
            let stored = place.encrypt(&key.key, &self.random.bytes::<12>()?, name, value)?;
            row.set(*name, stored);
            sealed.push((*name).to_owned());
        }
        let nonce: Nonce = self.random.bytes()?;
        let seal = place.seal(&key.key, &nonce, &covered(&sealed, &indexes))?;
        for (name, index) in &indexes {
            row.set(index::property(name), index.as_str());
        }
        let envelope = Envelope {
            key_id: key.key_id.clone(),
            algorithm: key.algorithm.clone(),
            wrapped: key.wrapped.clone(),
            seal,
            names: sealed,
        };
        row.set(format::METADATA, envelope.print());
        Ok(())
    }

    /// Opens a row of any program, or says why it must not be taken for what it says.
    async fn open_row(
        &self,
        table: &str,
        names: &[&'static str],
        row: &mut DynamicEntity,
    ) -> Result<()> {
        let opened = match row.remove(format::METADATA) {
            Some(Value::String(metadata)) => self.open_sealed(table, row, &metadata).await?,
            Some(_) => {
                let what = format!("property `{}` is no String", format::METADATA);
                return Err(Error::refused(ErrorKind::Decode, what));
            }
            None if legacy::is_legacy(row) => {
                if !self.accepts_legacy {
                    let what = "the entity is encrypted in the format of the retired SDKs, V1, \
                                which authenticates nothing";
                    return Err(Error::refused(ErrorKind::Decode, what)
                        .advise("read it with `KeyRing::accept_legacy`"));
                }
                legacy::decrypt(row, self).await?
            }
            None if self.accepts_plaintext => Vec::new(),
            None => {
                let what = "the entity is not encrypted";
                return Err(Error::refused(ErrorKind::Decode, what).advise(PLAINTEXT));
            }
        };
        let is_plain =
            |name: &str| row.get(name).is_some() && !opened.iter().any(|one| one == name);
        if let Some(name) = names.iter().find(|name| is_plain(name))
            && !self.accepts_plaintext
        {
            let what = format!("property `{name}` is not encrypted");
            return Err(Error::refused(ErrorKind::Decode, what).advise(PLAINTEXT));
        }
        Ok(())
    }

    /// Returns the names of what was sealed.
    async fn open_sealed(
        &self,
        table: &str,
        row: &mut DynamicEntity,
        metadata: &str,
    ) -> Result<Vec<String>> {
        let Envelope { key_id, algorithm, wrapped, seal, names } = Envelope::parse(metadata)?;
        let key = self.unwrapped(&key_id, &algorithm, &wrapped).await?;
        let (partition_key, row_key) = (row.partition_key.clone(), row.row_key.clone());
        let place =
            Place { table, partition_key: &partition_key, row_key: &row_key, key_id: &key_id };
        let mut indexes = Vec::new();
        for name in &names {
            match row.remove(&index::property(name)) {
                Some(Value::String(index)) => indexes.push((name.clone(), index)),
                Some(_) => return Err(broken_seal()),
                None => {}
            }
        }
        if !place.is_sealed(&key, &seal, &covered(&names, &indexes)) {
            return Err(broken_seal());
        }
        for name in &names {
            let value = match row.get(name) {
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
            row.set(name.as_str(), value);
        }
        Ok(names)
    }

    pub(crate) fn indexes(&self, name: &str) -> bool {
        self.index.as_ref().is_some_and(|index| index.names.iter().any(|indexed| indexed == name))
    }
}

const PLAINTEXT: &str = "something that does not encrypt wrote it; where that is expected, read it \
                         with `KeyRing::accept_plaintext`";

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

impl fmt::Debug for WrappedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrappedKey").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}
