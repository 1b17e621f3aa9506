//! The interface of key-encryption keys.

use std::sync::Arc;

use async_trait::async_trait;
use rowkey_client::Result;

use super::data::DataKey;

/// A key-encryption key: it wraps and unwraps [`DataKey`]s.
///
/// [`AesKeyWrap`](crate::AesKeyWrap) keeps one in memory, `KeyVault` uses one in Azure Key Vault. Implement
/// this for a key in another location. Create errors with [`Error::refused`](rowkey_client::Error::refused): use
/// [`ErrorKind::Decode`](rowkey_client::ErrorKind::Decode) if the input was not wrapped with this key or was
/// altered, and any other kind if the operation may succeed later.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use rowkey::encryption::{AesKeyWrap, DataKey, KeyWrapper};
/// use rowkey::{Result, async_trait};
///
/// /// Counts how often a key is used.
/// struct Counted { key: AesKeyWrap, uses: AtomicU64 }
///
/// #[async_trait]
/// impl KeyWrapper for Counted {
///     fn key_id(&self) -> &str {
///         self.key.key_id()
///     }
///
///     fn algorithm(&self) -> &str {
///         self.key.algorithm()
///     }
///
///     async fn wrap_key(&self, key: &DataKey) -> Result<Vec<u8>> {
///         self.uses.fetch_add(1, Ordering::Relaxed);
///         self.key.wrap_key(key).await
///     }
///
///     async fn unwrap_key(&self, algorithm: &str, wrapped: &[u8]) -> Result<DataKey> {
///         self.uses.fetch_add(1, Ordering::Relaxed);
///         self.key.unwrap_key(algorithm, wrapped).await
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let counted = Counted { key: AesKeyWrap::new("2026", [7; 32]), uses: AtomicU64::new(0) };
/// let key = DataKey::new(&[1; 32])?;
/// let wrapped = counted.wrap_key(&key).await?;
/// assert_eq!(counted.unwrap_key("A256KW", &wrapped).await?.as_bytes(), key.as_bytes());
/// assert_eq!(counted.uses.into_inner(), 2);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait KeyWrapper: Send + Sync {
    /// The name of the key. It is stored with everything the key wraps, and the key for unwrapping is found
    /// by it, so it must never change, and another key needs another name. 1 to 512 characters without white
    /// space and control characters.
    fn key_id(&self) -> &str;

    /// The wrapping algorithm, as named by [JWA](https://www.rfc-editor.org/rfc/rfc7518#section-4.1):
    /// `A256KW`.
    fn algorithm(&self) -> &str;

    /// Wraps a key.
    async fn wrap_key(&self, key: &DataKey) -> Result<Vec<u8>>;

    /// Unwraps a key that `algorithm` wrapped with this key. For entities that other programs wrote, it may
    /// differ from [`algorithm`](Self::algorithm).
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
