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
//! Each test starts a server of its own: that takes about a millisecond, needs no free port to be
//! named, and ends when the [`Server`] is dropped. Authentication is on, the documented limits are
//! enforced, and time is [`Server::clock`], which a test advances instead of waiting.
//!
//! The server is *strict* where other emulators are lax, so that what passes here passes in Azure;
//! [`ServerBuilder::loose`] relaxes the limits. What it does differently from the service is listed
//! in the book, on the page "Divergences".
//!
//! The program `rowkey-server` is this server where Azurite listens, with Azurite's account.
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | what it adds |
//! |---|---|
//! | `durable` | `ServerBuilder::location`: the data is kept in a directory; needs Rust 1.90 |
//! | `tls` | `ServerBuilder::https` and `certificate`: HTTPS |
//!
//! | module | what is in it |
//! |---|---|
//! | `server` | [`Server`], [`ServerBuilder`] |
//! | `listener`, `connection`, `spelling`, `service` | sockets and threads, names whose case is kept, and what every request has |
//! | `head`, `hosts`, `route`, `auth`, `cors` | for whom a request is, from whom it comes, what scripts may do |
//! | `options`, `rejection` | query strings and paths, decoded; refusals that the services share |
//! | `request_body`, `pace`, `shown` | bodies, read when the head is accepted; addresses as the log shows them |
//! | `table`, `queue`, `blob` | the services: requests to operations on the store, and back |
//! | `documents` | properties, statistics and policies: what the services say alike in XML |
//! | `store` | tables, entities, queues and messages; knows neither HTTP nor time |
//! | `durable` | what keeps the data beyond the process, with the feature `durable` |
//! | `respond` | headers and errors |
//! | `tls` | certificates for HTTPS, with the feature `tls` |
//! | `clock` | [`ServerClock`] |
//! | `operation`, `control` | what tests ask for: [`Fault`], [`Journal`], [`Pages`], [`Targets`] |
//! | `snapshot`, `testing` | [`Snapshot`], and the methods of [`Server`] that are for tests |
//! | `sweep` | [`Sweep`]: a scenario with every fault at every request |

mod auth;
mod blob;
mod body;
mod clock;
mod connection;
mod control;
mod cors;
mod documents;
mod durable;
#[doc(hidden)]
pub mod fuzzing;
mod head;
mod hosts;
mod listener;
mod operation;
mod options;
mod pace;
mod queue;
mod rejection;
mod request_body;
mod respond;
mod route;
mod secondary;
mod server;
mod service;
mod shown;
mod snapshot;
mod spelling;
mod state;
mod store;
mod sweep;
mod table;
mod testing;
mod tls;

pub use clock::ServerClock;
pub use control::{Chaos, Fault, Injected, Journal, JournalEntry, Matching, Pages, Targets};
#[cfg(feature = "durable")]
pub use durable::{Repair, SyncPolicy, repair};
pub use operation::Operation;
pub use rowkey_wire::auth::Service;
pub use rowkey_wire::code::ErrorCode;
pub use secondary::HeldBack;
pub use server::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Server, ServerBuilder};
pub use snapshot::{Snapshot, StoredEntity, StoredMessage, StoredQueue, StoredTable};
pub use sweep::{Sweep, SweepError, SweepFailure, SweepFault, Swept};
