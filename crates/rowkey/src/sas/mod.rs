//! Shared access signatures: tokens that open a part of an account for a while, made with the
//! account key and without asking the service.
//!
//! ```
//! # use std::time::Duration;
//! # use rowkey::{Credential, Entity, StorageAccount};
//! use rowkey::sas::{Sas, TablePermissions};
//!
//! # #[derive(Entity)]
//! # #[entity(partition = "{customer}", row = "{id:8}")]
//! # struct Order { customer: String, id: u32 }
//! # let account = StorageAccount::builder()
//! #     .credential(Credential::shared_key("contoso", "YmFy")?)
//! #     .build()?;
//! // Ada may read her orders and add some, for an hour, over https.
//! let token = Sas::table("orders")
//!     .permissions(TablePermissions::QUERY | TablePermissions::ADD)
//!     .partition(Order::partition("ada"))
//!     .valid_for(Duration::from_secs(3600))
//!     .sign(&account)?;
//!
//! // At Ada's: an account that may do just that.
//! let hers = StorageAccount::from_connection_string(&token.connection_string())?;
//! # assert_eq!(hers.name(), "contoso");
//! # Ok::<(), rowkey::Error>(())
//! ```
//!
//! - [`Sas::table`], [`Sas::queue`], [`Sas::container`], [`Sas::blob`]: one table, queue, container or blob;
//!   may refer to a stored access policy, which revokes them when it is removed
//! - [`Sas::account`]: services of the account, and kinds of operations on them
//! - [`SasToken`]: what is handed out
//! - [`lint()`], [`SasToken::lint`]: what is unwise about a token, as [`Warning`]s
//! - `terms`: what all of them have: time, address, protocol
//! - `range`: the keys that a table's signature opens
//!
//! Reference: [Grant limited access with shared access signatures](https://learn.microsoft.com/azure/storage/common/storage-sas-overview).

mod account;
mod blob;
mod builder;
mod lint;
mod permissions;
mod queue;
mod range;
mod table;
mod terms;
mod token;

#[cfg(test)]
mod tests;

pub use builder::Sas;
pub use lint::{Warning, lint};
pub use permissions::{
    AccountPermissions, BlobPermissions, QueuePermissions, ResourceTypes, Services,
    TablePermissions,
};
pub use token::SasToken;
