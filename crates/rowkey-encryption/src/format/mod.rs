//! The stored format, version 2.
//!
//! The book's page on the format describes it for other programs. It is a public contract: any change here
//! requires a version 3.
//!
//! [`two`] has rows, and [`content`] has blobs.

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{Aead as _, Payload};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rowkey_client::edm::{DateTime, Guid, Value};
use rowkey_client::{Error, ErrorKind};

pub(crate) mod content;
pub(crate) mod two;

const VERSION: u8 = 2;

/// The only cipher of this version. It is part of the associated data and never read from a row.
const ALGORITHM: &str = "A256GCM";

/// The property with the encryption metadata of its entity.
pub(crate) const METADATA: &str = "_RowkeyEncryption";

/// The suffix that forms the name of a blind index from that of its property.
pub(crate) const INDEX_SUFFIX: &str = "_BlindIndex";

pub(crate) const NONCE: usize = 12;
pub(crate) const TAG: usize = 16;

/// The version and the type of the value, before the nonce.
pub(crate) const HEAD: usize = 2;

/// Stands for an empty list of names.
const NO_NAMES: &str = "-";

pub(crate) type Nonce = [u8; NONCE];

/// The error for everything that cannot be decrypted. Naming the failed step or a length would help an
/// attacker to guess.
pub(crate) fn refused() -> Error {
    let what = "the entity cannot be decrypted: authentication failed";
    Error::refused(ErrorKind::Decode, what).advise(
        "it was altered or moved, was written without encryption, or needs other keys than those of the ring",
    )
}

/// Appends `part`, preceded by its length, so that no two lists of parts have the same encoding.
pub(crate) fn append(out: &mut Vec<u8>, part: &[u8]) {
    // No part is longer than a property, 64 KiB.
    let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
    out.extend(length.to_be_bytes());
    out.extend(part);
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes canonical base64 text.
pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// The canonical bytes of a value, and the code of its type.
pub(crate) fn canonical(value: &Value) -> (u8, Vec<u8>) {
    match value {
        Value::String(text) => (1, text.as_bytes().to_vec()),
        Value::Binary(bytes) => (2, bytes.clone()),
        Value::Boolean(value) => (3, vec![u8::from(*value)]),
        Value::Int32(value) => (4, value.to_be_bytes().to_vec()),
        Value::Int64(value) => (5, value.to_be_bytes().to_vec()),
        Value::Double(value) => {
            // All NaNs are equal, as they are in JSON.
            let value = if value.is_nan() { f64::NAN } else { *value };
            (6, value.to_bits().to_be_bytes().to_vec())
        }
        Value::DateTime(time) => (7, time.ticks().to_be_bytes().to_vec()),
        Value::Guid(guid) => (8, guid.as_bytes().to_vec()),
    }
}

/// The value with these canonical bytes.
pub(crate) fn of_canonical(kind: u8, bytes: Vec<u8>) -> Option<Value> {
    Some(match kind {
        1 => Value::String(String::from_utf8(bytes).ok()?),
        2 => Value::Binary(bytes),
        3 => match *bytes {
            [0] => Value::Boolean(false),
            [1] => Value::Boolean(true),
            _ => return None,
        },
        4 => Value::Int32(i32::from_be_bytes(bytes.try_into().ok()?)),
        5 => Value::Int64(i64::from_be_bytes(bytes.try_into().ok()?)),
        6 => Value::Double(f64::from_bits(u64::from_be_bytes(bytes.try_into().ok()?))),
        7 => {
            let ticks = i64::from_be_bytes(bytes.try_into().ok()?);
            Value::DateTime(DateTime::from_ticks(ticks).ok()?)
        }
        8 => Value::Guid(Guid::from_bytes(bytes.try_into().ok()?)),
        _ => return None,
    })
}

/// The address of a row, to which its ciphertexts are bound.
#[derive(Clone, Copy)]
pub(crate) struct Address<'a> {
    /// The logical name of the table, set by the program.
    pub(crate) table: &'a str,
    pub(crate) partition_key: &'a str,
    pub(crate) row_key: &'a str,
}

/// The associated data of a ciphertext: what it can be decrypted with only.
fn bound(domain: &[u8], kind: u8, parts: &[&str]) -> Vec<u8> {
    let mut bound = [domain, &[VERSION, kind]].concat();
    for part in [ALGORITHM].iter().chain(parts) {
        append(&mut bound, part.as_bytes());
    }
    bound
}

/// Encrypts a value of this type code; `None` if the cipher refuses it.
fn encrypt(
    cipher: &Aes256Gcm,
    nonce: &Nonce,
    kind: u8,
    plaintext: &[u8],
    bound: &[u8],
) -> Option<Vec<u8>> {
    let sealed = cipher.encrypt(nonce.into(), Payload { msg: plaintext, aad: bound }).ok()?;
    Some([&[VERSION, kind], &nonce[..], &sealed].concat())
}

/// Decrypts a value that is bound to the data for its type code.
fn decrypt(cipher: &Aes256Gcm, stored: &[u8], bound: impl Fn(u8) -> Vec<u8>) -> Option<Value> {
    let [VERSION, kind @ 1..=8, rest @ ..] = stored else { return None };
    let (nonce, ciphertext) = rest.split_first_chunk::<NONCE>()?;
    let payload = Payload { msg: ciphertext, aad: &bound(*kind) };
    of_canonical(*kind, cipher.decrypt(nonce.into(), payload).ok()?)
}

/// Returns whether the character is allowed in the name of a key.
pub(crate) fn is_plain(c: char) -> bool {
    !c.is_whitespace() && !c.is_control()
}

/// Splits a comma-separated list of names.
fn names(text: &str) -> Vec<String> {
    match text {
        NO_NAMES => Vec::new(),
        names => names.split(',').map(str::to_owned).collect(),
    }
}
