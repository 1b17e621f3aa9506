//! Shared access signatures: tokens that grant access to a part of an account for a limited time.
//! They are signed with the account key, without a request to the service.
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
//! - [`Sas::table`], [`Sas::queue`], [`Sas::container`], [`Sas::blob`]: access to one table, queue, container
//!   or blob. They may refer to a stored access policy; removing the policy revokes them
//! - [`Sas::account`]: access to services of the account, limited to kinds of resources
//! - [`UserDelegationKey`]: signs instead of the account key, for programs that have a token
//! - [`SasToken`]: a signed token
//! - [`lint()`], [`SasToken::lint`]: checks a token for unwise settings, reported as [`Warning`]s
//! - [`read()`]: what a token grants, as a [`Grant`] without the signature
//! - `terms`: the common restrictions: time, IP addresses, protocol
//! - `range`: the range of keys of a table signature
//! - `url`: handles from URLs with a signature, the `from_sas_url` of account, table, queue, container and blob
//!
//! Reference: [Grant limited access with shared access signatures](https://learn.microsoft.com/azure/storage/common/storage-sas-overview).

mod account;
mod blob;
mod builder;
mod delegation;
mod grant;
mod lint;
mod permissions;
mod queue;
mod range;
mod table;
mod terms;
mod token;
mod url;

#[cfg(test)]
mod tests;

pub use builder::Sas;
pub use delegation::UserDelegationKey;
pub use grant::{Grant, Target, read};
pub use lint::{Warning, lint};
pub use permissions::{
    AccountPermissions, BlobPermissions, QueuePermissions, ResourceTypes, Services,
    TablePermissions,
};
pub use token::SasToken;
