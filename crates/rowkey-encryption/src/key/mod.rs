//! Keys: what encrypts properties, and what encrypts that.
//!
//! - [`data`]: [`DataKey`], made for one write of one entity
//! - [`wrapper`]: [`KeyWrapper`], a key-encryption key, wherever it is kept
//! - [`aes`]: [`AesKeyWrap`], one in memory
//! - `vault`: `KeyVault`, one that stays in Azure Key Vault (feature `key-vault`)
//! - [`ring`]: [`KeyRing`], the one that wraps and those that only unwrap

pub(crate) mod aes;
pub(crate) mod data;
pub(crate) mod ring;
#[cfg(feature = "key-vault")]
pub(crate) mod vault;
pub(crate) mod wrapper;

pub use aes::AesKeyWrap;
pub use data::DataKey;
pub use ring::KeyRing;
#[cfg(feature = "key-vault")]
pub use vault::KeyVault;
pub use wrapper::KeyWrapper;
