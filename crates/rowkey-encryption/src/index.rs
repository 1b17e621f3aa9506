//! Blind indexes: find equal values without decrypting them.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use rowkey_client::edm::Value;
use rowkey_client::{Error, ErrorKind, Result};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::format::{INDEX_SUFFIX, append, base64, canonical};

/// The key of blind indexes, 256 bits. It is not a key-encryption key and is not rotated with them: an index
/// under another key finds nothing until every entity is written again.
///
/// `Debug` does not show it, and its memory is cleared when it is dropped.
#[derive(Clone)]
pub struct IndexKey(Zeroizing<[u8; 32]>);

impl IndexKey {
    /// Creates the key from these bytes.
    pub fn new(key: [u8; 32]) -> Self {
        Self(Zeroizing::new(key))
    }

    /// The index of a value: the same for the same value, type, property and logical table.
    pub(crate) fn of(&self, table: &str, name: &str, value: &Value) -> Result<String> {
        let (kind, bytes) = canonical(value);
        let bytes = Zeroizing::new(bytes);
        let mut message = b"rowkey-blind-index".to_vec();
        message.extend([2, kind]);
        append(&mut message, table.as_bytes());
        append(&mut message, name.as_bytes());
        append(&mut message, &bytes);
        let message = Zeroizing::new(message);
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.0)
            .map_err(|_| Error::refused(ErrorKind::Unexpected, "invalid index key"))?;
        mac.update(&message);
        Ok(base64(&mac.finalize().into_bytes()))
    }
}

/// The name of the property that holds the index of this one.
pub(crate) fn property(name: &str) -> String {
    format!("{name}{INDEX_SUFFIX}")
}

impl fmt::Debug for IndexKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndexKey")
    }
}
