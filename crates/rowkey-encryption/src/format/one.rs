//! The stored format, version 1: read only on request, and never written.
//!
//! Its data key is stored with each entity, wrapped but not signed: a program that has the public key of a
//! key-encryption key and may write to the table can create entities that decrypt. So it is read only until
//! `Store::reencrypt` has converted the remaining entities to version 2.

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use rowkey::edm::Value;

use super::{METADATA, NONCE, append, names, of_canonical, unbase64};
use crate::key::DataKey;
use crate::key::ring::is_plain;

const VERSION: u8 = 1;
const SEAL: u8 = 0;
const STRING: u8 = 1;
const BINARY: u8 = 2;

/// What a ciphertext is bound to: it can be decrypted only with the same context.
pub(crate) struct EncryptionContext<'a> {
    /// The name of the stored table; bound without regard to case, which the service also ignores.
    pub(crate) table: &'a str,
    pub(crate) partition_key: &'a str,
    pub(crate) row_key: &'a str,
    pub(crate) key_id: &'a str,
}

impl EncryptionContext<'_> {
    /// Decrypts one property.
    pub(crate) fn decrypt(&self, key: &DataKey, name: &str, stored: &[u8]) -> Option<Value> {
        let [VERSION, kind @ (STRING | BINARY), rest @ ..] = stored else { return None };
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE>()?;
        let bound = self.bound(*kind, name);
        let payload = Payload { msg: ciphertext, aad: &bound };
        let plaintext =
            Aes256Gcm::new(key.as_bytes().into()).decrypt(nonce.into(), payload).ok()?;
        of_canonical(*kind, plaintext)
    }

    /// Returns whether this is the seal of these properties, each with its blind index (empty for none).
    pub(crate) fn is_sealed(&self, key: &DataKey, seal: &[u8], covered: &[(&str, &str)]) -> bool {
        let Some((nonce, tag)) = seal.split_first_chunk::<NONCE>() else { return false };
        let mut bound = self.bound(SEAL, METADATA);
        for (name, index) in covered {
            append(&mut bound, name.as_bytes());
            append(&mut bound, index.as_bytes());
        }
        let payload = Payload { msg: tag, aad: &bound };
        let opened = Aes256Gcm::new(key.as_bytes().into()).decrypt(nonce.into(), payload);
        opened.is_ok_and(|plaintext| plaintext.is_empty())
    }

    /// The associated data.
    fn bound(&self, kind: u8, name: &str) -> Vec<u8> {
        let table = self.table.to_ascii_lowercase();
        let mut bound = b"rowkey-encryption".to_vec();
        bound.extend([VERSION, kind]);
        for part in [&table, self.partition_key, self.row_key, self.key_id, name] {
            append(&mut bound, part.as_bytes());
        }
        bound
    }
}

/// The value of the metadata property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) key_id: String,
    pub(crate) algorithm: String,
    pub(crate) wrapped: Vec<u8>,
    pub(crate) seal: Vec<u8>,
    /// The encrypted properties.
    pub(crate) names: Vec<String>,
}

impl Envelope {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: [&str; 6] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let ["1", key_id, algorithm, wrapped, seal, list] = parts else { return None };
        if !parts.iter().all(|part| !part.is_empty() && part.chars().all(is_plain)) {
            return None;
        }
        Some(Self {
            key_id: key_id.to_owned(),
            algorithm: algorithm.to_owned(),
            wrapped: unbase64(wrapped)?,
            seal: unbase64(seal)?,
            names: names(list),
        })
    }
}

#[cfg(test)]
#[path = "one_tests.rs"]
mod tests;
