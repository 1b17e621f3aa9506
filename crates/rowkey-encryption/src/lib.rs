//! Encryption of chosen properties of Azure Table storage entities, in the client.
//!
//! The service, and everyone who reads the table, sees ciphertext; keys never leave the program or the key
//! vault. A type marks its fields with `#[entity(encrypt)]`, and its [`rowkey::store::Store`](rowkey_store::Store) encrypts and
//! decrypts them with the given keys.
//!
//! ```
//! use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
//! use rowkey::store::Store;
//! use rowkey::{Entity, StorageAccount};
//!
//! #[derive(Clone, Debug, PartialEq, Entity)]
//! #[entity(store, partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
//! #[entity(index(name = by_bed, row = "bed_{bed}"))]
//! struct Patient {
//!     ward: String,
//!     number: u32,
//!     #[entity(encrypt)]
//!     name: String,
//!     bed: u32,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_emulator::Server::start().await?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! // From a secret store: a wrapping key, and another key that signs the wrapped keys.
//! let signer = || MacKey::new("records", [9; 32]);
//! let ring = KeyRing::new("patients", AesKeyWrap::new("2026", [7; 32]), signer());
//! let patients = Store::<Patient>::builder(account.table("patients")).keys(ring).build()?;
//! patients.create_if_missing().await?;
//!
//! let ada = Patient { ward: "north".into(), number: 7, name: "Ada".into(), bed: 3 };
//! patients.insert(&ada).await?;
//! patients.update(Patient::key("north", 7), |ada| ada.name = "Ada L.".into()).await?;
//! let found = patients.find(Patient::by_bed("north", 3)).await?.ok_or("not there")?;
//! assert_eq!(found.entity.name, "Ada L.");
//!
//! // A new key: every entity is written again under it. `verify_keys` tells when the old one may go.
//! let ring = KeyRing::new("patients", AesKeyWrap::new("2027", [8; 32]), signer())
//!     .with(AesKeyWrap::new("2026", [7; 32]));
//! let patients = Store::<Patient>::builder(account.table("patients")).keys(ring).build()?;
//! assert!(patients.reencrypt().run().await?.is_clean());
//! # Ok(()) }
//! ```
//!
//! A [`rowkey::Table`](rowkey_client::Table) neither writes nor reads such a type. This does not compile:
//!
//! ```compile_fail
//! # use rowkey::{Entity, StorageAccount};
//! # #[derive(Clone, Debug, PartialEq, Entity)]
//! # #[entity(store, partition = "{ward}", row = "patient_{number:6}")]
//! # struct Patient { ward: String, number: u32, #[entity(encrypt)] name: String }
//! # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
//! let _past_the_store = account.table("patients").get(Patient::key("north", 7));
//! ```
//!
//! # The main types
//!
//! - [`KeyRing`]: the keys of one table. The current one wraps, older ones unwrap, a signer signs the wrapped
//!   keys.
//! - [`KeyWrapper`]: a key-encryption key in any location: [`AesKeyWrap`] in memory, `KeyVault` in Azure Key
//!   Vault or a managed HSM.
//! - [`KeySigner`]: a key that signs records of branch keys: [`MacKey`] in memory, `KeyVaultSigner` in a vault.
//! - [`IndexKey`]: the key of blind indexes, by which equal values are found ([`KeyRing::equals`]).
//!
//! # Stored rows
//!
//! The table has records of branch keys, each wrapped and signed. The key of a row is derived (HKDF-SHA-256)
//! from the newest branch key and the id of the operation that writes the row. Properties are encrypted with
//! AES-256-GCM, bound to the logical name of the table, the keys of the entity, the property's name and type,
//! the branch key and the operation. One more property, `_RowkeyEncryption`, has a seal over the list of
//! encrypted properties, their values and their blind indexes, and over all other properties if
//! [`KeyRing::sign_plaintext`] is set. The book's page *The stored format of encryption* specifies every byte
//! of the format.
//!
//! Not protected are the keys, the names and the number of properties, their lengths, unmarked fields unless
//! they are signed, and the existence of an entity: a program that can write to the table can restore an old
//! version of a whole entity, or delete it. Fields in blobs are encrypted if they are marked
//! `#[entity(encrypt, blob)]`, and tasks if their queue has keys
//! (`rowkey::worker::Tasks::encrypted_with`).
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `key-vault` | `KeyVault`: key-encryption keys in Azure Key Vault |
//! | `test-util` | `KeyRing::with_random`: random bytes chosen by tests |

mod branch;
mod cache;
mod cipher;
mod format;
mod index;
mod key;
mod legacy;
mod random;
mod records;
mod ring;
#[cfg(test)]
mod tests;

pub use index::IndexKey;
pub use key::{AesKeyWrap, DataKey, KeySigner, KeyWrapper, MacKey};
#[cfg(feature = "key-vault")]
pub use key::{KeyVault, KeyVaultSigner};
pub use ring::KeyRing;
