//! Encryption of chosen properties of Azure Table storage entities, in the client.
//!
//! The service, and whoever can read the table, sees ciphertext; keys never leave the program or the
//! key vault. [`Encrypted`] is a [`rowkey::Table`] seen through a cipher, with a program on its page.
//!
//! # The nouns
//!
//! - [`Encrypted`]: insert, get, replace, upsert, merge, update and query entities, alone or in
//!   transactions, whose fields are marked
//!   `#[entity(encrypt)]`, or chosen by a resolver.
//! - [`KeyRing`]: the key-encryption keys. The current one wraps, older ones unwrap.
//! - [`KeyWrapper`]: such a key, wherever it is: [`AesKeyWrap`] in memory, `KeyVault` in Azure Key
//!   Vault.
//! - [`Reencryption`]: the job that brings entities under the current key, a page a step.
//! - [`IndexKey`]: for blind indexes, by which equal values are found ([`Encrypted::equals`]).
//!
//! # What is stored
//!
//! AES-256-GCM with a data key for each write of an entity, bound to the table's name, the keys, the
//! property's name and the name of the key-encryption key. The data key, wrapped, and a seal over the
//! list of encrypted properties are in one more property, `_RowkeyEncryption`. The page
//! *Encryption* of the book gives the format to the byte.
//!
//! Not protected are the keys, the names and the number of properties, their lengths, what is not
//! chosen, and that an entity is there: whoever can write to the table can put an old version of a
//! whole entity back, or delete it.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `key-vault` | `KeyVault`: key-encryption keys in Azure Key Vault |
//! | `test-util` | `Encrypted::with_random`: random bytes that tests choose |

mod cipher;
mod encrypted;
mod format;
mod index;
mod key;
mod legacy;
mod query;
mod random;
mod reencryption;
mod transaction;
mod update;

pub use encrypted::Encrypted;
pub use index::IndexKey;
#[cfg(feature = "key-vault")]
pub use key::KeyVault;
pub use key::{AesKeyWrap, DataKey, KeyRing, KeyWrapper};
pub use query::EncryptedQuery;
pub use reencryption::{Progress, Reencryption, Refused};
pub use transaction::EncryptedTransaction;

/// How many data keys are wrapped or unwrapped at a time: with a key vault each is a request.
const AT_ONCE: usize = 16;
