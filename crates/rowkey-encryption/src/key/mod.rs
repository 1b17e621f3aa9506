//! Keys: what encrypts properties, and what encrypts that.
//!
//! - [`data`]: [`DataKey`], what is wrapped
//! - [`wrapper`]: [`KeyWrapper`], a key-encryption key, wherever it is kept
//! - [`aes`]: [`AesKeyWrap`], one in memory
//! - [`signer`]: [`KeySigner`], a key that signs what was wrapped
//! - [`mac`]: [`MacKey`], one in memory
//! - `vault`: `KeyVault` and `KeyVaultSigner`, which stay in Azure Key Vault (feature `key-vault`)
//! - [`ring`]: [`KeyRing`], the keys of one table

pub(crate) mod aes;
pub(crate) mod data;
pub(crate) mod mac;
pub(crate) mod ring;
pub(crate) mod signer;
#[cfg(feature = "key-vault")]
pub(crate) mod vault;
pub(crate) mod wrapper;

pub use aes::AesKeyWrap;
pub use data::DataKey;
pub use mac::MacKey;
pub use ring::KeyRing;
pub use signer::KeySigner;
#[cfg(feature = "key-vault")]
pub use vault::{KeyVault, KeyVaultSigner};
pub use wrapper::KeyWrapper;
