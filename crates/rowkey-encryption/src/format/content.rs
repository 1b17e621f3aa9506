//! The stored format, version 2: the content of a field in a blob.
//!
//! A content has its own random key, which the row holds as the encrypted property: encrypting the row also
//! encrypts this key, together with the digest of the only blob that it decrypts.

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::KeyInit as _;
use rowkey_client::edm::Value;
use rowkey_client::{Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::{Address, Nonce, VERSION, bound, canonical, decrypt, encrypt};

const KEY: usize = 32;
const DIGEST: usize = 32;

/// The value of the encrypted property for a field in a blob.
pub(crate) struct ContentKey {
    key: Zeroizing<[u8; KEY]>,
    /// SHA-256 of the blob.
    stored: [u8; DIGEST],
    /// SHA-256 of type and value, so that an unchanged value is not uploaded again.
    value: [u8; DIGEST],
}

impl ContentKey {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let [VERSION, rest @ ..] = bytes else { return None };
        let (key, rest) = rest.split_first_chunk::<KEY>()?;
        let (stored, value) = rest.split_first_chunk::<DIGEST>()?;
        let value = value.try_into().ok()?;
        Some(Self { key: Zeroizing::new(*key), stored: *stored, value })
    }

    fn print(&self) -> Vec<u8> {
        [&[VERSION], &self.key[..], &self.stored, &self.value].concat()
    }

    /// Returns whether this is the key of the value.
    pub(crate) fn is_of(&self, value: &Value) -> bool {
        self.value == digest(value)
    }

    /// Decrypts a blob; `None` if it was not encrypted under this key for this context.
    pub(crate) fn open(&self, at: Address<'_>, property: &str, stored: &[u8]) -> Option<Value> {
        if self.stored != <[u8; DIGEST]>::from(Sha256::digest(stored)) {
            return None;
        }
        let cipher = Aes256Gcm::new((&*self.key).into());
        decrypt(&cipher, stored, |kind| bound_to(kind, at, property))
    }
}

/// Encrypts a value for a blob under a new key; returns the blob's bytes and the content key for the row.
pub(crate) fn seal(
    key: Zeroizing<[u8; KEY]>,
    nonce: &Nonce,
    at: Address<'_>,
    property: &str,
    value: &Value,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let (kind, plaintext) = canonical(value);
    let plaintext = Zeroizing::new(plaintext);
    let (cipher, bound) = (Aes256Gcm::new((&*key).into()), bound_to(kind, at, property));
    let stored = encrypt(&cipher, nonce, kind, &plaintext, &bound).ok_or_else(|| {
        // The cipher accepts less than 64 GiB.
        let what = format!("the value of `{property}` is too long to be encrypted");
        Error::refused(ErrorKind::TooLarge, what)
    })?;
    let content = ContentKey { key, stored: Sha256::digest(&stored).into(), value: digest(value) };
    Ok((stored, content.print()))
}

/// The associated data of a blob.
fn bound_to(kind: u8, at: Address<'_>, property: &str) -> Vec<u8> {
    let Address { table, partition_key, row_key } = at;
    bound(b"rowkey-encrypted-blob", kind, &[table, partition_key, row_key, property])
}

fn digest(value: &Value) -> [u8; DIGEST] {
    let (kind, bytes) = canonical(value);
    Sha256::new().chain_update([kind]).chain_update(Zeroizing::new(bytes)).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::NONCE;

    const AT: Address<'_> =
        Address { table: "patients", partition_key: "north", row_key: "000007" };
    const PLACE: (Address<'_>, &str) = (AT, "Report");

    fn sealed(value: &Value) -> (Vec<u8>, Vec<u8>) {
        seal(Zeroizing::new([3; KEY]), &[4; NONCE], AT, "Report", value).unwrap()
    }

    fn opened((at, property): (Address<'_>, &str), key: &[u8], stored: &[u8]) -> Option<Value> {
        ContentKey::parse(key)?.open(at, property, stored)
    }

    /// The test vector in the book.
    #[test]
    fn blobs_stored_by_this_version_must_stay_readable() {
        let (stored, key) = sealed(&"Ada Lövelace".into());
        assert_eq!((hex(&stored), hex(&key)), (STORED.into(), CONTENT_KEY.into()));
        assert_eq!(opened(PLACE, &key, &stored), Some("Ada Lövelace".into()));
        let key = ContentKey::parse(&key).unwrap();
        assert!(key.is_of(&"Ada Lövelace".into()));
        assert!(!key.is_of(&Value::Binary("Ada Lövelace".into())));
    }

    const STORED: &str =
        "0201040404040404040404040404014372ede15db168fc78e13d14cd0d13c1357fd936701c565c62207922";
    const CONTENT_KEY: &str = "0203030303030303030303030303030303030303030303030303030303030303030b\
        84e89d24caa41ff0f28ebb54ac75c61d1081162adfb7499ee2e11402dfcbd0da1f9ced45de2487321400c0cb35794e\
        ae5cc50f529e6f543a1ba42d77fc483f";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    #[test]
    fn flipped_bits_and_truncation_of_blob_and_key_are_detected() {
        let (stored, key) = sealed(&Value::Binary(vec![1, 2, 3]));
        for bit in 0..stored.len() * 8 {
            let mut altered = stored.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opened(PLACE, &key, &altered), None);
        }
        // The last 32 bytes only identify the value and decrypt nothing; the row's seal protects them.
        for bit in 0..(key.len() - DIGEST) * 8 {
            let mut altered = key.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opened(PLACE, &altered, &stored), None);
        }
        for length in 0..stored.len() {
            assert_eq!(opened(PLACE, &key, &stored[..length]), None);
        }
        for length in 0..key.len() {
            assert_eq!(opened(PLACE, &key[..length], &stored), None);
        }
        assert_eq!(opened(PLACE, &[&key[..], &[0]].concat(), &stored), None);
    }

    #[test]
    fn a_blob_decrypts_only_at_its_own_address() {
        let (stored, key) = sealed(&Value::Binary(vec![1, 2, 3]));
        for place in [
            (Address { table: "others", ..AT }, "Report"),
            (Address { partition_key: "south", ..AT }, "Report"),
            (Address { row_key: "000008", ..AT }, "Report"),
            (AT, "Scan"),
            (Address { partition_key: "north0", row_key: "00007", ..AT }, "Report"),
        ] {
            assert_eq!(opened(place, &key, &stored), None);
        }
        let (key_bytes, nonce) = (Zeroizing::new([3; KEY]), [5; NONCE]);
        let (other, _) = seal(key_bytes, &nonce, AT, "Report", &"x".into()).unwrap();
        assert_eq!(opened(PLACE, &key, &other), None, "one key, and another blob");
    }
}
