//! The stored format, version 1: how a value is encrypted, and what is said beside it.
//!
//! The book's page on encryption describes it for other programs. It is a public contract: what this
//! version wrote must stay readable, so a change of anything here is a version 2.

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rowkey::edm::Value;
use rowkey::{Error, ErrorKind, Result};

use crate::key::DataKey;
use crate::key::ring::is_plain;

/// The property that says how the others of its entity are encrypted.
pub(crate) const METADATA: &str = "_RowkeyEncryption";

/// What the name of a blind index has beyond that of its property.
pub(crate) const INDEX_SUFFIX: &str = "_BlindIndex";

const VERSION: u8 = 1;

/// The same, as text.
const VERSION_TEXT: &str = "1";

/// Where a list of names would be.
const NO_NAMES: &str = "-";

const NONCE: usize = 12;
const TAG: usize = 16;

/// The version and the type of the value, before the nonce.
const HEAD: usize = 2;

/// The most bytes of a value: the service keeps 64 KiB, and encryption adds 30.
const MAX_VALUE: usize = (64 << 10) - HEAD - NONCE - TAG;

const SEAL: u8 = 0;
const STRING: u8 = 1;
const BINARY: u8 = 2;

pub(crate) type Nonce = [u8; NONCE];

/// What a ciphertext is bound to: it is readable nowhere else.
pub(crate) struct Place<'a> {
    /// As it is given; bound without its case, which the service does not heed either.
    pub(crate) table: &'a str,
    pub(crate) partition_key: &'a str,
    pub(crate) row_key: &'a str,
    pub(crate) key_id: &'a str,
}

impl Place<'_> {
    /// Encrypts one property.
    pub(crate) fn encrypt(
        &self,
        key: &DataKey,
        nonce: &Nonce,
        name: &str,
        value: &Value,
    ) -> Result<Vec<u8>> {
        let (kind, plaintext) = plaintext(name, value)?;
        if plaintext.len() > MAX_VALUE {
            let what = format!(
                "property `{name}` has {} bytes; {MAX_VALUE} can be encrypted",
                plaintext.len()
            );
            return Err(Error::refused(ErrorKind::TooLarge, what));
        }
        let mut stored = Vec::with_capacity(HEAD + NONCE + plaintext.len() + TAG);
        stored.extend([VERSION, kind]);
        stored.extend(nonce);
        stored.extend(gcm(key, nonce, &self.bound(kind, name), plaintext)?);
        Ok(stored)
    }

    /// Decrypts one property.
    pub(crate) fn decrypt(&self, key: &DataKey, name: &str, stored: &[u8]) -> Result<Value> {
        let refused = |what: &str| {
            Err(Error::refused(ErrorKind::Decode, format!("property `{name}` {what}"))
                .advise("it was altered, cut off, or moved here from another place"))
        };
        let [version, kind @ (STRING | BINARY), rest @ ..] = stored else {
            return refused("is not an encrypted value");
        };
        if *version != VERSION {
            let what = format!("property `{name}` is encrypted in the format {version}");
            let advice = "this version of rowkey-encryption reads the format 1";
            return Err(Error::refused(ErrorKind::Decode, what).advise(advice));
        }
        let Some((nonce, ciphertext)) = rest.split_first_chunk::<NONCE>() else {
            return refused("is not an encrypted value");
        };
        let bound = self.bound(*kind, name);
        let payload = Payload { msg: ciphertext, aad: &bound };
        let cipher = Aes256Gcm::new(key.as_bytes().into());
        let Ok(plaintext) = cipher.decrypt(nonce.into(), payload) else {
            return refused("is not what was encrypted for this entity");
        };
        if *kind == BINARY {
            return Ok(Value::Binary(plaintext));
        }
        match String::from_utf8(plaintext) {
            Ok(text) => Ok(Value::String(text)),
            Err(_) => refused("is no text, although it was encrypted as one"),
        }
    }

    /// Seals which properties are encrypted, and their blind indexes (empty for none).
    pub(crate) fn seal(
        &self,
        key: &DataKey,
        nonce: &Nonce,
        covered: &[(&str, &str)],
    ) -> Result<Vec<u8>> {
        let mut seal = nonce.to_vec();
        seal.extend(gcm(key, nonce, &self.covering(covered), &[])?);
        Ok(seal)
    }

    /// Whether this is the seal of these properties.
    pub(crate) fn is_sealed(&self, key: &DataKey, seal: &[u8], covered: &[(&str, &str)]) -> bool {
        let Some((nonce, tag)) = seal.split_first_chunk::<NONCE>() else { return false };
        let bound = self.covering(covered);
        let payload = Payload { msg: tag, aad: &bound };
        let opened = Aes256Gcm::new(key.as_bytes().into()).decrypt(nonce.into(), payload);
        opened.is_ok_and(|plaintext| plaintext.is_empty())
    }

    /// The associated data: every part with its length before it, so that no two places are alike.
    fn bound(&self, kind: u8, name: &str) -> Vec<u8> {
        let table = self.table.to_ascii_lowercase();
        let mut bound = b"rowkey-encryption".to_vec();
        bound.extend([VERSION, kind]);
        for part in [&table, self.partition_key, self.row_key, self.key_id, name] {
            append(&mut bound, part.as_bytes());
        }
        bound
    }

    fn covering(&self, covered: &[(&str, &str)]) -> Vec<u8> {
        let mut bound = self.bound(SEAL, METADATA);
        for (name, index) in covered {
            append(&mut bound, name.as_bytes());
            append(&mut bound, index.as_bytes());
        }
        bound
    }
}

fn gcm(key: &DataKey, nonce: &Nonce, bound: &[u8], plaintext: &[u8]) -> Result<Vec<u8>> {
    let payload = Payload { msg: plaintext, aad: bound };
    Aes256Gcm::new(key.as_bytes().into())
        .encrypt(nonce.into(), payload)
        .map_err(|_| Error::refused(ErrorKind::Unexpected, "the cipher refuses a value"))
}

/// Appends `part` with its length before it.
pub(crate) fn append(out: &mut Vec<u8>, part: &[u8]) {
    // No part is longer than a property, 64 KiB.
    let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
    out.extend(length.to_be_bytes());
    out.extend(part);
}

/// The bytes of a value and the mark of its type.
pub(crate) fn plaintext<'a>(name: &str, value: &'a Value) -> Result<(u8, &'a [u8])> {
    match value {
        Value::Binary(bytes) => Ok((BINARY, bytes)),
        Value::String(text) => Ok((STRING, text.as_bytes())),
        other => {
            let what = format!("property `{name}` is {}", other.edm_type());
            Err(Error::refused(ErrorKind::Invalid, what).advise(
                "Strings and Binaries are encrypted; of any other type make one, for instance with \
                 `#[entity(json)]`",
            ))
        }
    }
}

/// What the metadata property says.
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
    /// What the metadata of all entities under this key begins with.
    pub(crate) fn prefix(key_id: &str) -> String {
        format!("{VERSION_TEXT} {key_id} ")
    }

    pub(crate) fn print(&self) -> String {
        let names = match &*self.names {
            [] => NO_NAMES.to_owned(),
            names => names.join(","),
        };
        format!(
            "{}{} {} {} {names}",
            Self::prefix(&self.key_id),
            self.algorithm,
            URL_SAFE_NO_PAD.encode(&self.wrapped),
            URL_SAFE_NO_PAD.encode(&self.seal)
        )
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let refused = || {
            let what = format!("property `{METADATA}` does not say how the entity is encrypted");
            Error::refused(ErrorKind::Decode, what).advise("it was altered or cut off")
        };
        let mut parts = text.split(' ');
        let version = parts.next().unwrap_or_default();
        if version != VERSION_TEXT && version.parse::<u32>().is_ok() {
            let what = format!("the entity is encrypted in the format {version}");
            let advice = "this version of rowkey-encryption reads the format 1";
            return Err(Error::refused(ErrorKind::Decode, what).advise(advice));
        }
        let parts: [&str; 5] =
            parts.collect::<Vec<_>>().try_into().map_err(|_: Vec<&str>| refused())?;
        let [key_id, algorithm, wrapped, seal, names] = parts;
        let whole = parts.iter().all(|part| !part.is_empty() && part.chars().all(is_plain));
        if version != VERSION_TEXT || !whole {
            return Err(refused());
        }
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| refused());
        Ok(Self {
            key_id: key_id.to_owned(),
            algorithm: algorithm.to_owned(),
            wrapped: decode(wrapped)?,
            seal: decode(seal)?,
            names: match names {
                NO_NAMES => Vec::new(),
                names => names.split(',').map(str::to_owned).collect(),
            },
        })
    }
}

#[cfg(test)]
mod tests;
