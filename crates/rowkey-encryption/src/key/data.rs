//! A key that is stored wrapped.

use std::fmt;

use rowkey_client::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

/// A key of 256 bits that is stored wrapped by a [`KeyWrapper`](crate::KeyWrapper).
///
/// Either a branch key, or the data key of an entity in an older format. Its memory is cleared when it is
/// dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct DataKey(Zeroizing<[u8; 32]>);

impl DataKey {
    /// Creates the key from these bytes; fails unless there are 32.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let mut key = Self(Zeroizing::new([0; 32]));
        if bytes.len() != key.0.len() {
            // The length would help an attacker to guess.
            let what = "the unwrapped key does not have 32 bytes";
            return Err(Error::refused(ErrorKind::Decode, what));
        }
        key.0.copy_from_slice(bytes);
        Ok(key)
    }

    /// The bytes of the key: a secret.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}
