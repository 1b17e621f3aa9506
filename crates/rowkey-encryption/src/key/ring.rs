//! The key that wraps, and those that only unwrap.

use std::fmt;
use std::sync::Arc;

use rowkey::edm::Value;
use rowkey::{Error, ErrorKind, Filter, Operator, Result, Table};

use super::data::DataKey;
use super::wrapper::KeyWrapper;
use crate::cache::Cache;
use crate::cipher::{Indexes, WrappedKey};
use crate::index::{self, IndexKey};
use crate::random::Random;

/// The longest name of a key.
const MAX_KEY_ID: usize = 512;

/// The key-encryption keys that a program has: the current one wraps and unwraps, older ones unwrap.
///
/// It is what [`StoreBuilder::keys`](rowkey_store::StoreBuilder::keys) takes. What it opens is what was
/// sealed at that place; all else is an error of kind [`Decode`](ErrorKind::Decode) that says why, and no
/// part of the entity is returned: a wrong key, and anything that was altered, cut off, left out, or
/// moved from another property, entity or table.
///
/// Each write of a store makes one data key and has it wrapped, for all entities of the transaction. The
/// last 1,024 data keys are kept in memory for writing and as many for reading, so that entities that were
/// written together are unwrapped together, and once. With keys in memory a wrap is no request; with a
/// key vault it is one.
///
/// To rotate: make a ring of the new key [`with`](Self::with) the old one, give it to all programs,
/// run [`Store::reencrypt`](rowkey_store::Store::reencrypt), then leave the old key out. Programs that
/// write must know a key before another one writes with it: add it as an older one first.
///
/// ```
/// use rowkey_encryption::{AesKeyWrap, KeyRing};
///
/// let ring = KeyRing::new(AesKeyWrap::new("2027", [2; 32])).with(AesKeyWrap::new("2026", [1; 32]));
/// assert_eq!(format!("{ring:?}"), r#"KeyRing { current: "2027", older: ["2026"], .. }"#);
/// ```
#[derive(Clone)]
pub struct KeyRing {
    current: Arc<dyn KeyWrapper>,
    older: Vec<Arc<dyn KeyWrapper>>,
    pub(crate) index: Option<Indexes>,
    pub(crate) accepts_plaintext: bool,
    pub(crate) accepts_legacy: bool,
    pub(crate) random: Random,
    /// The data keys of writes, by the mark of the operation.
    pub(crate) written: Arc<Cache<Arc<WrappedKey>>>,
    pub(crate) unwrapped: Arc<Cache<DataKey>>,
}

impl KeyRing {
    /// A ring of one key.
    pub fn new(current: impl KeyWrapper + 'static) -> Self {
        Self {
            current: Arc::new(current),
            older: Vec::new(),
            index: None,
            accepts_plaintext: false,
            accepts_legacy: false,
            random: Random::default(),
            written: Arc::new(Cache::new()),
            unwrapped: Arc::new(Cache::new()),
        }
    }

    /// Adds a key that unwraps what it wrapped, and wraps nothing more.
    #[must_use]
    pub fn with(mut self, older: impl KeyWrapper + 'static) -> Self {
        self.older.push(Arc::new(older));
        self
    }

    /// Keeps a blind index beside these encrypted properties, so that equal values can be
    /// [found](Self::equals): an HMAC-SHA256 of the value under `key`.
    ///
    /// A reader of the table then sees which entities have the same value, and how often each
    /// occurs; without the key not which value it is. Do not index what has few values or is guessed
    /// easily from how often it occurs: a diagnosis, a sex, a year of birth.
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

    /// A filter for the entities of a table whose encrypted `property` is `value`, a String or a Binary,
    /// by its blind [index](Self::index). Values are compared byte for byte: bring both into one form
    /// first if case or spelling must not matter.
    ///
    /// An entity that was written without the index, or under another index key, is not found. Fails with
    /// [`ErrorKind::Invalid`] if the property has no blind index.
    pub fn equals(&self, table: &Table, property: &str, value: impl Into<Value>) -> Result<Filter> {
        let Some(index) = self.index.as_ref().filter(|_| self.indexes(property)) else {
            let what = format!("property `{property}` has no blind index");
            return Err(Error::refused(ErrorKind::Invalid, what)
                .of("QueryEntities", table.name())
                .advise("name it in `KeyRing::index`"));
        };
        let value = index.key.of(table.name(), property, &value.into())?;
        Ok(Filter::dynamic(index::property(property), Operator::Equal, value))
    }

    /// Reads entities, and encrypted properties, that are stored in plain: those from before there was
    /// encryption. A program that can write to the table can then put plaintext in the place of
    /// what was encrypted, so take this back when [`Store::reencrypt`](rowkey_store::Store::reencrypt)
    /// has passed.
    #[must_use]
    pub fn accept_plaintext(mut self) -> Self {
        self.accepts_plaintext = true;
        self
    }

    /// Reads entities that the retired SDKs encrypted (.NET, Java and Python, client-side encryption
    /// V1). Their keys belong on the ring under the names they had. V1 authenticates nothing, so
    /// take this back when [`Store::reencrypt`](rowkey_store::Store::reencrypt) has passed.
    #[must_use]
    pub fn accept_legacy(mut self) -> Self {
        self.accepts_legacy = true;
        self
    }

    /// Takes keys and nonces from `fill`, for tests that compare stored bytes. Bytes that repeat or
    /// can be guessed protect nothing.
    #[cfg(any(test, feature = "test-util"))]
    #[must_use]
    pub fn with_random(mut self, fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        self.random = Random::chosen(fill);
        self
    }

    /// The key that wraps.
    pub(crate) fn current(&self) -> Result<&dyn KeyWrapper> {
        let key_id = self.current.key_id();
        let length = key_id.chars().count();
        if length == 0 || length > MAX_KEY_ID || !key_id.chars().all(is_plain) {
            let what = format!(
                "the name of a key-encryption key has 1 to {MAX_KEY_ID} characters, none of them \
                 white space or a control character"
            );
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        self.find(key_id)
    }

    /// The key of this name.
    pub(crate) fn find(&self, key_id: &str) -> Result<&dyn KeyWrapper> {
        let all = std::iter::once(&self.current).chain(&self.older);
        let mut named = all.filter(|key| key.key_id() == key_id);
        match (named.next(), named.next()) {
            (Some(key), None) => Ok(&**key),
            (Some(_), Some(_)) => {
                let what = format!("two keys of the ring have the name `{key_id}`");
                Err(Error::refused(ErrorKind::Invalid, what).advise("a name is one key's for ever"))
            }
            (None, _) => {
                let what = format!("the data key is wrapped by `{key_id}`, which the ring lacks");
                Err(Error::refused(ErrorKind::Decode, what).advise("add it with `KeyRing::with`"))
            }
        }
    }
}

/// Whether it may stand in the name of a key.
pub(crate) fn is_plain(c: char) -> bool {
    !c.is_whitespace() && !c.is_control()
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let older: Vec<_> = self.older.iter().map(KeyWrapper::key_id).collect();
        f.debug_struct("KeyRing")
            .field("current", &self.current.key_id())
            .field("older", &older)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AesKeyWrap;

    fn error(ring: &KeyRing) -> String {
        ring.current().err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_name_is_one_keys() {
        let key = |name: &str| AesKeyWrap::new(name, [1; 32]);
        assert_eq!(error(&KeyRing::new(key("a")).with(key("b"))), "");
        assert!(error(&KeyRing::new(key("a")).with(key("a"))).contains("two keys"));
        for name in ["", "a b", "a\nb", &"x".repeat(513)] {
            assert!(error(&KeyRing::new(key(name))).contains("1 to 512"), "{name}");
        }
        let missing = KeyRing::new(key("a")).find("z").err().map(|error| error.to_string());
        assert!(missing.unwrap_or_default().contains("`z`, which the ring lacks"));
    }
}
