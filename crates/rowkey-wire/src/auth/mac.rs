//! The account key: signs text, and verifies signatures in constant time.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// The portal shows keys with padding, which is sometimes lost in copies.
const KEY_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The length of a signature: a SHA-256 in base64.
pub const SIGNATURE_LEN: usize = 44;

/// An account key (or a user delegation key), ready for signing.
///
/// Holds the state of HMAC-SHA256 after the key has been absorbed, so that a signature copies that
/// state instead of hashing the key's two blocks again. Neither `Debug` nor any error shows the
/// key. Its memory, and that of every intermediate copy, is cleared on drop.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// Creates a key from its base64 text, as in connection strings and the portal.
    ///
    /// Fails when the text is empty or not base64.
    pub fn from_base64(text: &str) -> Result<Self, InvalidKey> {
        // Allocated in full, because growing would leave a copy behind.
        let mut key = Zeroizing::new(Vec::with_capacity(base64::decoded_len_estimate(text.len())));
        KEY_BASE64.decode_vec(text.trim(), &mut key).map_err(|_| InvalidKey(()))?;
        if key.is_empty() {
            return Err(InvalidKey(()));
        }
        Hmac::new_from_slice(&key).map(Self).map_err(|_| InvalidKey(()))
    }

    /// Signs `text`; returns the signature in base64.
    pub fn sign(&self, text: &str) -> String {
        self.sign_into(text, &mut [0; SIGNATURE_LEN]).to_owned()
    }

    /// Signs `text`; writes the signature to `out` in base64.
    pub fn sign_into<'a>(&self, text: &str, out: &'a mut [u8; SIGNATURE_LEN]) -> &'a str {
        let mut mac = self.0.clone();
        mac.update(text.as_bytes());
        // The buffer has exactly the length of a signature.
        let _ = BASE64_STANDARD.encode_slice(mac.finalize().into_bytes(), out);
        std::str::from_utf8(out).unwrap_or_default()
    }

    /// Whether `signature_base64` is the signature of `text`.
    ///
    /// Takes the same time regardless of where a wrong signature differs.
    pub fn verify(&self, text: &str, signature_base64: &str) -> bool {
        if signature_base64.len() != SIGNATURE_LEN {
            return false;
        }
        // A little more than 32 bytes: the decoder estimates the length without the padding.
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

/// The error for text that is not an account key. It does not contain the text.
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
        // Two of these are the state of HMAC, which can forge signatures just like the key.
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
