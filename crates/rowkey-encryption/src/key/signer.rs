//! The interface of keys that sign the records of branch keys.

use std::sync::Arc;

use async_trait::async_trait;
use rowkey_client::Result;

/// A key that signs the records of branch keys: [`MacKey`](crate::MacKey) in memory, `KeyVaultSigner` in
/// Azure Key Vault.
///
/// A ring pins its signers: a record that none of them signed is refused before its key is unwrapped. So a
/// program that has only the wrapping key, which is public with RSA, cannot create a branch key that other
/// programs accept. The signing key must differ from the wrapping key.
///
/// Create errors with [`Error::refused`](rowkey_client::Error::refused). An invalid signature is not an error.
#[async_trait]
pub trait KeySigner: Send + Sync {
    /// The name of the key: 1 to 512 characters without white space and control characters. It is stored in
    /// each record, so another key needs another name.
    fn key_id(&self) -> &str;

    /// The only algorithm of the key, as named by [JWA](https://www.rfc-editor.org/rfc/rfc7518#section-3.1):
    /// `HS256`, `ES256`. A record with another algorithm is refused.
    fn algorithm(&self) -> &str;

    /// Signs a message.
    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>>;

    /// Returns whether this key signed the message.
    async fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool>;
}

#[async_trait]
impl<S: KeySigner + ?Sized> KeySigner for Arc<S> {
    fn key_id(&self) -> &str {
        (**self).key_id()
    }

    fn algorithm(&self) -> &str {
        (**self).algorithm()
    }

    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        (**self).sign(message).await
    }

    async fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool> {
        (**self).verify(message, signature).await
    }
}
