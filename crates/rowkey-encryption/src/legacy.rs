//! Reads entities that the retired SDKs encrypted: client-side encryption V1, AES-256-CBC.
//!
//! V1 authenticates nothing, so this module only reads. The names, and the order of the keys in the
//! initialization vectors, are those of the .NET, Java and Python SDKs.

use aes::Aes256;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt as _, KeyIvInit as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowkey_client::edm::Value;
use rowkey_client::{DynamicEntity, Error, ErrorKind, Result};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::key::DataKey;
use crate::ring::KeyRing;

/// The property with the encryption metadata of the entity, as JSON.
pub(crate) const METADATA: &str = "_ClientEncryptionMetadata1";

/// The encrypted list of the encrypted properties.
pub(crate) const NAMES: &str = "_ClientEncryptionMetadata2";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Metadata {
    wrapped_content_key: WrappedKey,
    encryption_agent: Agent,
    #[serde(rename = "ContentEncryptionIV")]
    content_encryption_iv: String,
    #[serde(default, rename = "KeyWrappingMetadata")]
    key_wrapping: Option<KeyWrapping>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WrappedKey {
    key_id: String,
    encrypted_key: String,
    algorithm: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Agent {
    protocol: String,
    encryption_algorithm: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyWrapping {
    #[serde(default)]
    encryption_library: Option<String>,
}

/// Returns whether a retired SDK encrypted the entity.
pub(crate) fn is_legacy(entity: &DynamicEntity) -> bool {
    entity.get(METADATA).is_some() || entity.get(NAMES).is_some()
}

/// Decrypts the entity in place; returns the names of the encrypted properties.
pub(crate) async fn decrypt(entity: &mut DynamicEntity, ring: &KeyRing) -> Result<Vec<String>> {
    let Some(Value::String(metadata)) = entity.remove(METADATA) else {
        return Err(unreadable("is missing or not a String"));
    };
    // serde's errors quote the text.
    let metadata: Metadata =
        serde_json::from_str(&metadata).map_err(|_| unreadable("is not the JSON it should be"))?;
    let Agent { protocol, encryption_algorithm } = &metadata.encryption_agent;
    if protocol != "1.0" || encryption_algorithm != "AES_CBC_256" {
        return Err(unreadable(
            "names an unsupported protocol or cipher (1.0 with AES-256-CBC is supported)",
        ));
    }
    let wrapped = STANDARD.decode(&metadata.wrapped_content_key.encrypted_key);
    let wrapped = wrapped.map_err(|_| unreadable("has a key that is not base64"))?;
    let entity_iv = STANDARD.decode(&metadata.content_encryption_iv);
    let entity_iv = entity_iv.map_err(|_| unreadable("has a vector that is not base64"))?;
    let WrappedKey { key_id, algorithm, .. } = &metadata.wrapped_content_key;
    let key = ring.find(key_id)?.unwrap_key(algorithm, &wrapped).await?;

    let is_java = metadata.is_java();
    let cipher = Cipher { key, entity_iv, is_java };
    let Some(Value::Binary(names)) = entity.remove(NAMES) else {
        return Err(altered(NAMES));
    };
    let names = cipher.decrypt(entity, NAMES, &names)?;
    let names = list(&names, is_java).ok_or_else(|| altered(NAMES))?;
    for name in &names {
        let Some(Value::Binary(stored)) = entity.get(name) else { return Err(altered(name)) };
        let text = cipher.decrypt(entity, name, stored)?;
        entity.set(name, text);
    }
    Ok(names)
}

impl Metadata {
    /// Java wrote no library name at first, and its own name later. An object without a name comes from an
    /// early .NET version.
    fn is_java(&self) -> bool {
        self.key_wrapping.as_ref().is_none_or(|metadata| {
            metadata.encryption_library.as_ref().is_some_and(|library| library.contains("Java"))
        })
    }
}

struct Cipher {
    key: DataKey,
    entity_iv: Vec<u8>,
    is_java: bool,
}

impl Cipher {
    fn decrypt(&self, entity: &DynamicEntity, name: &str, stored: &[u8]) -> Result<String> {
        let (partition_key, row_key) = (&*entity.partition_key, &*entity.row_key);
        // RowKey first: .NET once joined the keys with the first of them as the separator.
        let keys = if self.is_java { [partition_key, row_key] } else { [row_key, partition_key] };
        let mut hash = Sha256::new();
        hash.update(&self.entity_iv);
        for part in keys.into_iter().chain([name]) {
            hash.update(part);
        }
        let hash = hash.finalize();
        let (iv, _) = hash.split_first_chunk::<16>().ok_or_else(|| altered(name))?;
        let plaintext = cbc::Decryptor::<Aes256>::new(self.key.as_bytes().into(), iv.into())
            .decrypt_padded_vec::<Pkcs7>(stored)
            .map_err(|_| altered(name))?;
        String::from_utf8(plaintext).map_err(|_| altered(name))
    }
}

/// The names in a list: JSON, or the printed form of Java's arrays.
fn list(text: &str, is_java: bool) -> Option<Vec<String>> {
    if !is_java {
        return serde_json::from_str(text).ok();
    }
    let names = text.strip_prefix('[')?.strip_suffix(']')?;
    Some(names.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn unreadable(what: &str) -> Error {
    Error::refused(ErrorKind::Decode, format!("property `{METADATA}` {what}"))
}

/// One message for everything that cannot be decrypted: naming the failed step would help an attacker to
/// guess.
fn altered(name: &str) -> Error {
    let what = format!("property `{name}` cannot be decrypted");
    Error::refused(ErrorKind::Decode, what)
        .advise("it was altered or moved, or the ring has another key with this name")
}

#[cfg(test)]
mod tests;
