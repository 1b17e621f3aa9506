//! Keys: those that encrypt properties, and those that wrap or sign these keys.
//!
//! - [`data`]: [`DataKey`], a key that is stored wrapped
//! - [`wrapper`]: [`KeyWrapper`], a key-encryption key in any location
//! - [`aes`]: [`AesKeyWrap`], a key-encryption key in memory
//! - [`signer`]: [`KeySigner`], a key that signs wrapped keys
//! - [`mac`]: [`MacKey`], a signing key in memory
//! - `vault`: `KeyVault` and `KeyVaultSigner`, whose keys stay in Azure Key Vault (feature `key-vault`)

pub(crate) mod aes;
pub(crate) mod data;
pub(crate) mod mac;
pub(crate) mod signer;
#[cfg(feature = "key-vault")]
pub(crate) mod vault;
pub(crate) mod wrapper;

pub use aes::AesKeyWrap;
pub use data::DataKey;
pub use mac::MacKey;
pub use signer::KeySigner;
#[cfg(feature = "key-vault")]
pub use vault::{KeyVault, KeyVaultSigner};
pub use wrapper::KeyWrapper;
