//! The stored format, version 2: the encryption of values, and the metadata beside them.
//!
//! The key of a row is derived from a branch key and the id of the operation that writes it, so the row
//! contains nothing that decrypts it. See [`crate::branch`] for branch keys.

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use hkdf::Hkdf;
use rowkey_client::edm::Value;
use rowkey_client::{Error, ErrorKind, Result};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{
    Address, HEAD, METADATA, NO_NAMES, NONCE, Nonce, TAG, VERSION, append, base64, bound,
    canonical, decrypt, encrypt, is_plain, names, refused, unbase64,
};
use crate::key::DataKey;

/// The type code in the associated data of a seal.
const SEAL: u8 = 0;

/// The maximum size of a value in bytes: the service stores 64 KiB, and encryption adds 30.
const MAX_VALUE: usize = (64 << 10) - HEAD - NONCE - TAG;

/// The key of one row as written by one operation.
pub(crate) struct Row<'a> {
    address: Address<'a>,
    branch: &'a str,
    /// The id of the operation that wrote the row.
    op: &'a str,
    cipher: Aes256Gcm,
}

/// The data that a seal covers besides its context.
pub(crate) struct Covered<'a> {
    /// Each encrypted property with its blind index (empty for none) and its stored bytes.
    pub(crate) sealed: Vec<(&'a str, &'a str, &'a [u8])>,
    /// The other properties, if they are signed.
    pub(crate) signed: Option<Vec<(&'a str, &'a Value)>>,
}

impl<'a> Row<'a> {
    /// Derives the key of a row.
    pub(crate) fn new(
        branch: &'a str,
        key: &DataKey,
        op: &'a str,
        address: Address<'a>,
    ) -> Result<Self> {
        let mut info = b"rowkey-row-key".to_vec();
        info.push(VERSION);
        append(&mut info, branch.as_bytes());
        append(&mut info, op.as_bytes());
        let mut row = Zeroizing::new([0; 32]);
        Hkdf::<Sha256>::new(None, key.as_bytes())
            .expand(&info, &mut *row)
            .map_err(|_| Error::refused(ErrorKind::Unexpected, "a row key cannot be derived"))?;
        Ok(Self { address, branch, op, cipher: Aes256Gcm::new((&*row).into()) })
    }

    /// Encrypts one property.
    pub(crate) fn encrypt(&self, nonce: &Nonce, name: &str, value: &Value) -> Result<Vec<u8>> {
        let (kind, plaintext) = canonical(value);
        let plaintext = Zeroizing::new(plaintext);
        if plaintext.len() > MAX_VALUE {
            let what = format!(
                "property `{name}` has {} bytes; {MAX_VALUE} can be encrypted",
                plaintext.len()
            );
            return Err(Error::refused(ErrorKind::TooLarge, what));
        }
        encrypt(&self.cipher, nonce, kind, &plaintext, &self.bound(kind, name)).ok_or_else(too_long)
    }

    /// Decrypts one property; `None` if it was not encrypted for this row.
    pub(crate) fn decrypt(&self, name: &str, stored: &[u8]) -> Option<Value> {
        decrypt(&self.cipher, stored, |kind| self.bound(kind, name))
    }

    /// Creates the seal over the given properties.
    pub(crate) fn seal(&self, nonce: &Nonce, covered: &Covered<'_>) -> Result<Vec<u8>> {
        let payload = Payload { msg: &[], aad: &self.covering(covered) };
        let tag = self.cipher.encrypt(nonce.into(), payload).map_err(|_| too_long())?;
        Ok([&nonce[..], &tag].concat())
    }

    /// Returns whether this is the seal of the given properties.
    pub(crate) fn is_sealed(&self, seal: &[u8], covered: &Covered<'_>) -> bool {
        let Some((nonce, tag)) = seal.split_first_chunk::<NONCE>() else { return false };
        let payload = Payload { msg: tag, aad: &self.covering(covered) };
        let opened = self.cipher.decrypt(nonce.into(), payload);
        opened.is_ok_and(|plaintext| plaintext.is_empty())
    }

    /// The associated data. The field for an index is empty for entities and their whole copies, which have the same
    /// bytes; no other rows are encrypted.
    fn bound(&self, kind: u8, name: &str) -> Vec<u8> {
        let Address { table, partition_key, row_key } = self.address;
        let parts = [self.branch, self.op, table, "", partition_key, row_key, name];
        bound(b"rowkey-encryption", kind, &parts)
    }

    fn covering(&self, covered: &Covered<'_>) -> Vec<u8> {
        let mut bound = self.bound(SEAL, METADATA);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
        bound.extend(count(covered.sealed.len()));
        for (name, index, stored) in &covered.sealed {
            append(&mut bound, name.as_bytes());
            append(&mut bound, index.as_bytes());
            // The tag represents the value, so values encrypted twice in one operation cannot be mixed.
            append(&mut bound, &stored[stored.len().saturating_sub(TAG)..]);
        }
        let Some(signed) = &covered.signed else {
            bound.push(0);
            return bound;
        };
        bound.push(1);
        bound.extend(count(signed.len()));
        let mut signed: Vec<_> = signed.clone();
        signed.sort_by_key(|(name, _)| *name);
        for (name, value) in signed {
            let (kind, bytes) = match value {
                // A service may lose the sign of zero.
                Value::Double(value) if *value == 0.0 => canonical(&Value::Double(0.0)),
                value => canonical(value),
            };
            append(&mut bound, name.as_bytes());
            bound.push(kind);
            append(&mut bound, &bytes);
        }
        bound
    }
}

fn too_long() -> Error {
    Error::refused(ErrorKind::Unexpected, "the cipher refuses a value")
}

/// Whether a branch key can have this name: 19 digits of ticks, `_`, and 16 hexadecimal digits. Others are refused
/// before a request is sent, because its error would differ from name to name.
fn is_branch(name: &str) -> bool {
    name.split_once('_').is_some_and(|(ticks, mark)| {
        (ticks.len(), mark.len()) == (19, 16)
            && ticks.bytes().all(|byte| byte.is_ascii_digit())
            && mark.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// The value of the metadata property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The name of the branch key.
    pub(crate) branch: String,
    /// The id of the operation.
    pub(crate) op: String,
    pub(crate) seal: Vec<u8>,
    /// The encrypted properties, in the order in which the seal covers them.
    pub(crate) names: Vec<String>,
    /// Whether the seal covers the other properties.
    pub(crate) signed: bool,
}

impl Envelope {
    pub(crate) fn print(&self) -> String {
        let names = match &*self.names {
            [] => NO_NAMES.to_owned(),
            names => names.join(","),
        };
        let signed = if self.signed { "signed" } else { NO_NAMES };
        format!("2 {} {} {} {names} {signed}", self.branch, self.op, base64(&self.seal))
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parse = || {
            let parts: [&str; 6] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
            let ["2", branch, op, seal, list, signed] = parts else { return None };
            let is_mark = op.len() == 16 && op.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_list = !list.is_empty() && list.chars().all(is_plain);
            if !is_branch(branch) || !is_mark || !is_list {
                return None;
            }
            let signed = match signed {
                "signed" => true,
                NO_NAMES => false,
                _ => return None,
            };
            let (branch, op) = (branch.to_owned(), op.to_owned());
            Some(Self { branch, op, seal: unbase64(seal)?, names: names(list), signed })
        };
        parse().ok_or_else(refused)
    }
}
