//! The key that signs tokens: JSON Web Tokens by RS256, as Microsoft Entra ID makes them.

use std::fmt;
use std::io;
use std::sync::OnceLock;

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// An RSA key of 2,048 bits under an id of its own, which tokens name.
///
/// Making such a key takes a few hundred milliseconds, and each test has a server. So all servers of
/// a process sign with one key, and tell their tokens apart by the id.
pub(crate) struct TokenKey {
    pair: &'static KeyPair,
    id: String,
}

/// The key of this process.
fn pair() -> io::Result<&'static KeyPair> {
    static PAIR: OnceLock<KeyPair> = OnceLock::new();
    if let Some(pair) = PAIR.get() {
        return Ok(pair);
    }
    let made = KeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
    Ok(PAIR.get_or_init(|| made))
}

fn failed(_: Unspecified) -> io::Error {
    io::Error::other("a key for tokens cannot be made")
}

impl TokenKey {
    /// The key of this process, under a new id.
    pub(crate) fn generate() -> io::Result<Self> {
        let mut id = [0; 20];
        rand::fill(&mut id).map_err(failed)?;
        Ok(Self { pair: pair()?, id: BASE64_URL_SAFE_NO_PAD.encode(id) })
    }

    /// A token with these claims; `None` if signing fails.
    pub(crate) fn sign(&self, claims: &Value) -> Option<String> {
        let header = json!({"typ": "JWT", "alg": "RS256", "kid": self.id});
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let mut token = format!("{}.{}", part(&header), part(claims));
        let mut signature = vec![0; self.pair.public_modulus_len()];
        let random = SystemRandom::new();
        self.pair.sign(&RSA_PKCS1_SHA256, &random, token.as_bytes(), &mut signature).ok()?;
        token.push('.');
        token.push_str(&BASE64_URL_SAFE_NO_PAD.encode(signature));
        Some(token)
    }

    /// Whether this key signed the token, under its id. Only RS256 is verified, so no other algorithm
    /// is accepted.
    pub(crate) fn has_signed(&self, token: &str) -> bool {
        let Some((text, signature)) = token.rsplit_once('.') else { return false };
        let header = text.split('.').next().and_then(object);
        if header.is_none_or(|header| header["kid"] != self.id) {
            return false;
        }
        let Ok(signature) = BASE64_URL_SAFE_NO_PAD.decode(signature) else { return false };
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.pair.public_key());
        key.verify(text.as_bytes(), &signature).is_ok()
    }

    /// The claims of a token that this key signed.
    pub(crate) fn claims(&self, token: &str) -> Option<Value> {
        token.split('.').nth(1).filter(|_| self.has_signed(token)).and_then(object)
    }

    /// The public key as a JSON Web Key.
    pub(crate) fn jwk(&self) -> Value {
        let (modulus, exponent) = numbers(self.pair.public_key().as_ref()).unwrap_or_default();
        let number = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        json!({
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": self.id,
            "n": number(modulus),
            "e": number(exponent),
        })
    }
}

/// The object in a part of a token.
fn object(part: &str) -> Option<Value> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// The modulus and the exponent of a public key in DER: a sequence of two integers.
fn numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, _) = node(0x30, der)?;
    let (modulus, rest) = node(0x02, sequence)?;
    let (exponent, _) = node(0x02, rest)?;
    // A zero keeps the modulus's first bit from being a sign.
    Some((modulus.strip_prefix(&[0]).unwrap_or(modulus), exponent))
}

/// The contents of a node with this tag, and what follows it.
fn node(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = der.strip_prefix(&[tag])?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    rest.split_at_checked(length)
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_key_verifies_with_its_modulus_and_exponent() {
        use aws_lc_rs::signature::RsaPublicKeyComponents;

        let key = TokenKey::generate().unwrap();
        let token = key.sign(&json!({})).unwrap();
        let (text, signature) = token.rsplit_once('.').unwrap();
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap();
        let jwk = key.jwk();
        let number = |name: &str| decode(jwk[name].as_str().unwrap());
        let public = RsaPublicKeyComponents { n: number("n"), e: number("e") };
        let signature = decode(signature);
        public.verify(&RSA_PKCS1_2048_8192_SHA256, text.as_bytes(), &signature).unwrap();
        assert_eq!((public.n.len(), &*public.e), (256, &[1, 0, 1][..]));
    }

    #[test]
    fn a_changed_token_is_not_genuine() {
        let key = TokenKey::generate().unwrap();
        let token = key.sign(&json!({"oid": "a"})).unwrap();
        assert!(key.has_signed(&token));
        assert_eq!(key.claims(&token).unwrap()["oid"], "a");
        let (head, rest) = token.split_once('.').unwrap();
        let (claims, signature) = rest.split_once('.').unwrap();
        let other = BASE64_URL_SAFE_NO_PAD.encode(r#"{"oid":"b"}"#);
        let none = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        for wrong in [
            format!("{head}.{other}.{signature}"),
            format!("{none}.{claims}."),
            format!("{none}.{claims}.{signature}"),
            format!("{head}.{claims}"),
            TokenKey::generate().unwrap().sign(&json!({"oid": "a"})).unwrap(),
        ] {
            assert!(!key.has_signed(&wrong) && key.claims(&wrong).is_none(), "{wrong}");
        }
    }
}
