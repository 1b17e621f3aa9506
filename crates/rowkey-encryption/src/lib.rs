//! Encryption of chosen properties of Azure Table storage entities, in the client.
//!
//! The service, and all that read the table, see ciphertext; keys never leave the program or the key
//! vault. A type marks its fields, `#[entity(encrypt)]`, and its [`rowkey_store::Store`] seals and opens
//! them with the keys that it is given.
//!
//! ```
//! use rowkey::{Entity, StorageAccount};
//! use rowkey_encryption::{AesKeyWrap, KeyRing};
//! use rowkey_store::Store;
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
//! # let server = rowkey_server::Server::start().await?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! let ring = KeyRing::new(AesKeyWrap::new("2026", [7; 32])); // from where secrets are kept
//! let patients = Store::<Patient>::builder(account.table("patients")).keys(ring).build()?;
//! patients.create_if_missing().await?;
//!
//! let ada = Patient { ward: "north".into(), number: 7, name: "Ada".into(), bed: 3 };
//! patients.insert(&ada).await?;
//! patients.update(Patient::key("north", 7), |ada| ada.name = "Ada L.".into()).await?;
//! let found = patients.find(Patient::by_bed("north", 3)).await?.ok_or("not there")?;
//! assert_eq!(found.entity.name, "Ada L.");
//!
//! // A new key: every entity is written again under it, then the old one may go.
//! let ring = KeyRing::new(AesKeyWrap::new("2027", [8; 32])).with(AesKeyWrap::new("2026", [7; 32]));
//! let patients = Store::<Patient>::builder(account.table("patients")).keys(ring).build()?;
//! assert!(patients.reencrypt().run().await?.is_clean());
//! # Ok(()) }
//! ```
//!
//! A [`rowkey::Table`] neither writes nor reads such a type. This does not compile:
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
//! # The nouns
//!
//! - [`KeyRing`]: the key-encryption keys. The current one wraps, older ones unwrap.
//! - [`KeyWrapper`]: such a key, wherever it is: [`AesKeyWrap`] in memory, `KeyVault` in Azure Key
//!   Vault.
//! - [`IndexKey`]: for blind indexes, by which equal values are found ([`KeyRing::equals`]).
//!
//! # What is stored
//!
//! AES-256-GCM with a data key for each write, bound to the table's name, the keys, the
//! property's name and the name of the key-encryption key. The data key, wrapped, and a seal over the
//! list of encrypted properties are in one more property, `_RowkeyEncryption`. The page
//! *Encryption* of the book gives the format to the byte.
//!
//! Not protected are the keys, the names and the number of properties, their lengths, fields without
//! the mark, and that an entity is there: a program that can write to the table can put an old version
//! of a whole entity back, or delete it.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `key-vault` | `KeyVault`: key-encryption keys in Azure Key Vault |
//! | `test-util` | `KeyRing::with_random`: random bytes that tests choose |

mod cache;
mod cipher;
mod format;
mod index;
mod key;
mod legacy;
mod random;

pub use index::IndexKey;
#[cfg(feature = "key-vault")]
pub use key::KeyVault;
pub use key::{AesKeyWrap, DataKey, KeyRing, KeyWrapper};
