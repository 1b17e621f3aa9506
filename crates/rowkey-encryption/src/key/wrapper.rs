//! What wraps data keys.

use std::sync::Arc;

use async_trait::async_trait;
use rowkey::Result;

use super::data::DataKey;

/// A key-encryption key: it wraps the [`DataKey`] of each entity, and unwraps it.
///
/// [`AesKeyWrap`](crate::AesKeyWrap) keeps one in memory, `KeyVault` uses one in Azure Key Vault.
/// Implement this for one that is kept elsewhere. Errors are made with
/// [`Error::refused`](rowkey::Error::refused): [`ErrorKind::Decode`](rowkey::ErrorKind::Decode) says
/// that what is to be unwrapped was not wrapped with this key, or was altered; any other kind that it
/// may succeed another time.
#[async_trait]
pub trait KeyWrapper: Send + Sync {
    /// The name of the key. It is stored with every entity, and the key to unwrap with is found by
    /// it, so it is the key's for ever: another key has another name. 1 to 512 characters without
    /// white space and control characters.
    fn key_id(&self) -> &str;

    /// How it wraps, as [JWA](https://www.rfc-editor.org/rfc/rfc7518#section-4.1) names it: `A256KW`.
    fn algorithm(&self) -> &str;

    /// Wraps a key.
    async fn wrap_key(&self, key: &DataKey) -> Result<Vec<u8>>;

    /// Unwraps what `algorithm` wrapped with the key of this name. It may be another algorithm than
    /// this one's own for entities that other programs wrote.
    async fn unwrap_key(&self, algorithm: &str, wrapped: &[u8]) -> Result<DataKey>;
}

#[async_trait]
impl<W: KeyWrapper + ?Sized> KeyWrapper for Arc<W> {
    fn key_id(&self) -> &str {
        (**self).key_id()
    }

    fn algorithm(&self) -> &str {
        (**self).algorithm()
    }

    async fn wrap_key(&self, key: &DataKey) -> Result<Vec<u8>> {
        (**self).wrap_key(key).await
    }

    async fn unwrap_key(&self, algorithm: &str, wrapped: &[u8]) -> Result<DataKey> {
        (**self).unwrap_key(algorithm, wrapped).await
    }
}
