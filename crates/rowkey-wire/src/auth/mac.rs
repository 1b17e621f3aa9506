//! The account key: it signs a text, and verifies another's signature in constant time.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// The portal shows keys with padding, but copies of them lose it.
const KEY_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Length of a signature: of a SHA-256 in base64.
pub const SIGNATURE_LEN: usize = 44;

/// An account key (or a user delegation key), ready to sign with.
///
/// Holds the state of HMAC-SHA256 after the key has gone in, so that a signature copies that state
/// instead of hashing the key's two blocks again. Neither `Debug` nor any error shows the key, and its
/// memory, and that of every copy that is made on the way, is cleared when it is dropped.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// The key with this base64 text, as connection strings and the portal have it.
    ///
    /// Fails when the text is empty or not base64.
    pub fn from_base64(text: &str) -> Result<Self, InvalidKey> {
        // Made long enough at once, so that no copy is left behind by growing.
        let mut key = Zeroizing::new(Vec::with_capacity(base64::decoded_len_estimate(text.len())));
        KEY_BASE64.decode_vec(text.trim(), &mut key).map_err(|_| InvalidKey(()))?;
        if key.is_empty() {
            return Err(InvalidKey(()));
        }
        Hmac::new_from_slice(&key).map(Self).map_err(|_| InvalidKey(()))
    }

    /// The signature of `text`, in base64.
    pub fn sign(&self, text: &str) -> String {
        self.sign_into(text, &mut [0; SIGNATURE_LEN]).to_owned()
    }

    /// The signature of `text`, in base64, written to `out`.
    pub fn sign_into<'a>(&self, text: &str, out: &'a mut [u8; SIGNATURE_LEN]) -> &'a str {
        let mut mac = self.0.clone();
        mac.update(text.as_bytes());
        // It has just the length that it takes.
        let _ = BASE64_STANDARD.encode_slice(mac.finalize().into_bytes(), out);
        std::str::from_utf8(out).unwrap_or_default()
    }

    /// Whether `signature_base64` is the signature of `text`.
    ///
    /// Takes the same time wherever a wrong signature differs.
    pub fn verify(&self, text: &str, signature_base64: &str) -> bool {
        if signature_base64.len() != SIGNATURE_LEN {
            return false;
        }
        // A little more than 32 bytes: the decoder estimates before it sees the padding.
        let mut signature = [0; SIGNATURE_LEN];
        let Ok(len) = BASE64_STANDARD.decode_slice(signature_base64, &mut signature) else {
            return false;
        };
        let mut mac = self.0.clone();
        mac.update(text.as_bytes());
        mac.verify_slice(&signature[..len]).is_ok()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// A text that is no account key. It does not say which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKey(());

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the account key is not base64; copy it again from the account's access keys")
    }
}

impl std::error::Error for InvalidKey {}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bar`, from the Go SDK's tests.
    const KEY: &str = "YmFy";

    #[test]
    fn a_text_is_signed_as_the_go_sdk_signs_it() {
        let key = SigningKey::from_base64(KEY).unwrap();
        let signature = "h5U0ATVX6SpbFX1H6GNuxIMeXXCILLoIvhflPtuQZ30=";
        assert_eq!(key.sign("foobarzoo"), signature);
        assert_eq!(key.sign("foobarzoo"), signature, "the state must survive a signature");
        assert!(key.verify("foobarzoo", signature));
    }

    #[test]
    fn a_signature_of_something_else_or_of_no_shape_is_refused() {
        let key = SigningKey::from_base64(KEY).unwrap();
        let signature = "h5U0ATVX6SpbFX1H6GNuxIMeXXCILLoIvhflPtuQZ30=";
        assert!(!key.verify("foobarzo", signature));
        assert!(!SigningKey::from_base64("YmF6").unwrap().verify("foobarzoo", signature));
        for wrong in [
            "",
            "=",
            "h5U0ATVX6SpbFX1H6GNuxIMeXXCILLoIvhflPtuQZ30",
            "i5U0ATVX6SpbFX1H6GNuxIMeXXCILLoIvhflPtuQZ30=",
            "h5U0ATVX6SpbFX1H6GNuxIMeXXCILLoIvhflPtuQZ3==",
            "h5U0ATVX6SpbFX1H6GNuxIMeXXCILLoIvhflPtuQZ30A",
            "????????????????????????????????????????????",
            "h5U0ATVX6SpbFX1H6GNuxIMeXXCILLoIvhflPtuQZ30=h5U0ATVX6SpbFX1H6GNuxIMeXXCILLoIvhflPtuQZ30=",
        ] {
            assert!(!key.verify("foobarzoo", wrong), "{wrong}");
        }
    }

    #[test]
    fn keys_may_lack_padding_but_not_content() {
        let padded = SigningKey::from_base64("YWNjZXNzLWtleQ==").unwrap();
        let bare = SigningKey::from_base64(" YWNjZXNzLWtleQ\n").unwrap();
        assert_eq!(padded.sign("x"), bare.sign("x"));
        for wrong in ["", "  ", "=", "key!", "a"] {
            assert!(SigningKey::from_base64(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_made_of_a_key_is_cleared_when_it_is_dropped() {
        fn cleared<T: zeroize::ZeroizeOnDrop>() {}
        // Two of them are the state of HMAC, which forges signatures as the key does.
        cleared::<Sha256>();
        cleared::<Zeroizing<Vec<u8>>>();
    }

    #[test]
    fn neither_debug_nor_the_error_shows_the_key() {
        let key = SigningKey::from_base64(KEY).unwrap();
        assert_eq!(format!("{key:?}"), "SigningKey(..)");
        let error = SigningKey::from_base64("secret!").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret!"));
    }
}
