//! A key-encryption key in memory.

use std::fmt;

use aes_kw::{KeyInit as _, KwAes256};
use async_trait::async_trait;
use rowkey_client::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

use super::data::DataKey;
use super::wrapper::KeyWrapper;

const ALGORITHM: &str = "A256KW";

/// The additional length of a wrapped key: the integrity check of RFC 3394.
const OVERHEAD: usize = 8;

/// A key-encryption key of 256 bits in the memory of this process: AES Key Wrap,
/// [RFC 3394](https://www.rfc-editor.org/rfc/rfc3394).
///
/// Its memory is cleared when it is dropped, and `Debug` shows only its name.
///
/// ```
/// use rowkey::encryption::{AesKeyWrap, KeyWrapper as _};
///
/// let key = AesKeyWrap::new("patients-2026", [7; 32]);
/// assert_eq!((key.key_id(), key.algorithm()), ("patients-2026", "A256KW"));
/// ```
pub struct AesKeyWrap {
    key_id: Box<str>,
    key: Zeroizing<[u8; 32]>,
}

impl AesKeyWrap {
    /// Creates a key from a name and bytes. Load the bytes from a secret store; generate them with a
    /// cryptographic random generator, never from a password.
    pub fn new(key_id: impl Into<Box<str>>, key: [u8; 32]) -> Self {
        Self { key_id: key_id.into(), key: Zeroizing::new(key) }
    }

    fn cipher(&self) -> KwAes256 {
        KwAes256::new((&*self.key).into())
    }
}

#[async_trait]
impl KeyWrapper for AesKeyWrap {
    fn key_id(&self) -> &str {
        &self.key_id
    }

    fn algorithm(&self) -> &str {
        ALGORITHM
    }

    async fn wrap_key(&self, key: &DataKey) -> Result<Vec<u8>> {
        let mut wrapped = vec![0; key.as_bytes().len() + OVERHEAD];
        match self.cipher().wrap_key(key.as_bytes(), &mut wrapped) {
            Ok(_) => Ok(wrapped),
            Err(_) => Err(Error::refused(ErrorKind::Unexpected, "a data key cannot be wrapped")),
        }
    }

    async fn unwrap_key(&self, algorithm: &str, wrapped: &[u8]) -> Result<DataKey> {
        if algorithm != ALGORITHM {
            let what = "a key is wrapped by another algorithm than A256KW, the only one that keys in memory support";
            return Err(Error::refused(ErrorKind::Decode, what));
        }
        let mut key = Zeroizing::new(vec![0; wrapped.len()]);
        let unwrapped = self.cipher().unwrap_key(wrapped, &mut key).map_err(|_| {
            let what = format!("the key `{}` does not unwrap the stored key", self.key_id);
            Error::refused(ErrorKind::Decode, what)
                .advise("it is another key of the same name, or the stored one was altered")
        })?;
        DataKey::new(unwrapped)
    }
}

impl fmt::Debug for AesKeyWrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesKeyWrap").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let pair = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(pair).collect()
    }

    /// The test vector of RFC 3394, section 4.6.
    #[tokio::test]
    async fn key_wrap_matches_the_rfc_vector() {
        let kek = bytes("000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F");
        let data = bytes("00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F");
        let wrapped = bytes(
            "28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21",
        );
        let key = AesKeyWrap::new("k", kek.try_into().unwrap());
        let data = DataKey::new(&data).unwrap();
        assert_eq!(key.wrap_key(&data).await.unwrap(), wrapped);
        let unwrapped = key.unwrap_key("A256KW", &wrapped).await.unwrap();
        assert_eq!(unwrapped.as_bytes(), data.as_bytes());
    }

    #[tokio::test]
    async fn altered_or_truncated_keys_do_not_unwrap() {
        let key = AesKeyWrap::new("k", [1; 32]);
        let wrapped = key.wrap_key(&DataKey::new(&[2; 32]).unwrap()).await.unwrap();
        let mut altered = wrapped.clone();
        altered[5] ^= 1;
        for wrong in [&altered[..], &wrapped[..32], &wrapped[..39], &[]] {
            let error = key.unwrap_key("A256KW", wrong).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
        }
        let other = AesKeyWrap::new("k", [3; 32]).unwrap_key("A256KW", &wrapped).await;
        assert!(other.unwrap_err().to_string().contains("another key of the same name"));
        let error = key.unwrap_key("RSA-OAEP", &wrapped).await.unwrap_err();
        assert!(error.to_string().contains("another algorithm"), "{error}");
    }

    #[test]
    fn debug_output_contains_no_key() {
        let data = DataKey::new(&[77; 32]).unwrap();
        let shown = format!("{:?} {data:?}", AesKeyWrap::new("name", [77; 32]));
        assert!(shown.contains("name") && !shown.contains("77"), "{shown}");
    }
}
