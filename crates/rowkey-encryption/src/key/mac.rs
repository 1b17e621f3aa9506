//! A key in memory that signs records.

use std::fmt;

use async_trait::async_trait;
use hmac::{Hmac, KeyInit as _, Mac as _};
use rowkey_client::{Error, ErrorKind, Result};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::signer::KeySigner;

/// A key of 256 bits in the memory of this process that signs the records of branch keys: HMAC-SHA256.
///
/// Use other bytes than those of the wrapping key. Its memory is cleared when it is dropped, and `Debug`
/// shows only its name.
///
/// ```
/// use rowkey::encryption::{KeySigner as _, MacKey};
///
/// let key = MacKey::new("records-2026", [9; 32]);
/// assert_eq!((key.key_id(), key.algorithm()), ("records-2026", "HS256"));
/// ```
pub struct MacKey {
    key_id: Box<str>,
    key: Zeroizing<[u8; 32]>,
}

impl MacKey {
    /// Creates a key from a name and bytes. Load the bytes from a secret store; generate them with a
    /// cryptographic random generator, never from a password.
    pub fn new(key_id: impl Into<Box<str>>, key: [u8; 32]) -> Self {
        Self { key_id: key_id.into(), key: Zeroizing::new(key) }
    }

    fn mac(&self, message: &[u8]) -> Result<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.key)
            .map_err(|_| Error::refused(ErrorKind::Unexpected, "invalid signing key"))?;
        mac.update(message);
        Ok(mac)
    }
}

#[async_trait]
impl KeySigner for MacKey {
    fn key_id(&self) -> &str {
        &self.key_id
    }

    fn algorithm(&self) -> &'static str {
        "HS256"
    }

    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        Ok(self.mac(message)?.finalize().into_bytes().to_vec())
    }

    async fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool> {
        // In constant time.
        Ok(self.mac(message)?.verify_slice(signature).is_ok())
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MacKey").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn verify_accepts_only_the_whole_signature_of_the_message() {
        let key = MacKey::new("k", [1; 32]);
        let signature = key.sign(b"message").await.unwrap();
        assert!(key.verify(b"message", &signature).await.unwrap());
        assert!(!key.verify(b"messagf", &signature).await.unwrap());
        assert!(!MacKey::new("k", [2; 32]).verify(b"message", &signature).await.unwrap());
        for cut in 0..signature.len() {
            assert!(!key.verify(b"message", &signature[..cut]).await.unwrap());
        }
        assert!(!format!("{:?}", MacKey::new("name", [77; 32])).contains("77"));
    }
}
