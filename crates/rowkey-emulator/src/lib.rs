//! An in-memory server that speaks the real Azure Table storage protocol, for tests.
//!
//! ```
//! # use std::io;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> io::Result<()> {
//! use rowkey_emulator::Server;
//!
//! let server = Server::start().await?; // 127.0.0.1, free ports, all in memory
//! assert!(server.connection_string().contains(server.table_endpoint()));
//! // Any client of Azure Table storage works with that connection string.
//! # Ok(()) }
//! ```
//!
//! Each test starts its own server: that takes about a millisecond, needs no fixed port, and the
//! server ends when the [`Server`] is dropped. Authentication is on, the documented limits are
//! enforced, and time is [`Server::clock`], which a test advances instead of waiting.
//!
//! The server is *strict* where other emulators are lax, so that what passes here passes in Azure;
//! [`ServerBuilder::loose`] relaxes the limits. The differences from the service are listed in the
//! book, on the page "Divergences".
//!
//! The program `rowkey-server` is this server on Azurite's ports and with Azurite's account.
//!
//! # Features
//!
//! No feature is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `durable` | `ServerBuilder::location`: keeps the data in a directory; `ServerBuilder::import_azurite`; needs Rust 1.90 |
//! | `oauth` | `ServerBuilder::issue_tokens`: a token endpoint, managed identities, and the data roles of Azure |
//! | `tls` | `ServerBuilder::https` and `certificate`: HTTPS |
//! | `control` | `Server::connect_as_owner`: what the control plane of the program needs |
//!
//! # Modules
//!
//! Each uses only modules of the rows above it; `cargo xtask structure` checks that.
//!
//! | module | contents |
//! |---|---|
//! | `clock` | [`ServerClock`] |
//! | `tls` | certificates for HTTPS, with the feature `tls` |
//! | `identity` | identities, their roles and their tokens, with the feature `oauth` |
//! | `op` | what requests ask, as values: operations, entities, conditions, metadata |
//! | `store` | tables, entities, queues, messages and blobs, independent of HTTP and the clock |
//! | `wire` | the formats: requests to operations, results to parts of responses |
//! | `account` | accounts: names, credentials and locked contents |
//! | `front` | what precedes the services: the account that a request is for, its authentication, CORS, bodies and response headers |
//! | `durable` | keeps the data on disk, with the feature `durable` |
//! | `load` | data that does not come by requests: [`Seed`], and the data of Azurite |
//! | `control` | features for tests: [`Fault`], [`Journal`], [`Pages`], [`Targets`] |
//! | `state` | the accounts and settings of a server |
//! | `services` | the services: they turn requests into operations on the store, and results into responses |
//! | `authority` | the token endpoint and managed identities, with the feature `oauth` |
//! | `http` | sockets, threads, connections, and the steps common to all requests |
//! | `server` | [`Server`], [`ServerBuilder`], [`Snapshot`], [`Sweep`], [`assert_requests`] |

mod account;
#[cfg(feature = "oauth")]
mod authority;
mod clock;
mod control;
mod durable;
mod front;
#[doc(hidden)]
pub mod fuzzing;
mod http;
#[cfg(feature = "oauth")]
mod identity;
mod load;
mod op;
mod server;
mod services;
mod state;
mod store;
mod tls;
mod wire;

pub use account::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
pub use clock::ServerClock;
pub use control::{
    Chaos, Fault, Injected, Journal, JournalEntry, JournalFollower, Matching, Pages, RequestKind,
    Targets,
};
#[cfg(feature = "durable")]
pub use durable::{SyncPolicy, is_data_file};
pub use front::operation::Operation;
#[cfg(feature = "oauth")]
pub use identity::{
    DEVELOPMENT_CLIENT_ID, DEVELOPMENT_CLIENT_SECRET, DEVELOPMENT_MANAGED_IDENTITY,
    DEVELOPMENT_TENANT_ID, Identity, IdentityKind, Role, RoleAssignment, Scope,
};
pub use load::{Seed, SeedError, Seeded};
pub use rowkey_wire::auth::Service;
pub use rowkey_wire::code::ErrorCode;
#[doc(hidden)]
pub use server::{Counted, Expected, RequestCount};
pub use server::{
    HeldBack, Server, ServerBuilder, Snapshot, StoredEntity, StoredMessage, StoredQueue,
    StoredTable, Sweep, SweepError, SweepFailure, SweepFault, Swept,
};
