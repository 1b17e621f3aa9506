//! The control plane of a rowkey server: faults, clock, throttling, page cuts, journal, snapshots and more, over HTTP,
//! for programs in every language.
//!
//! What it does is what the methods of [`Server`] for tests do, with the same names and the same types as JSON. The
//! program `rowkey-server` starts it with `--control-port`. The book lists its requests on the page "Control"; as an
//! OpenAPI document they are at `/openapi.json`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use rowkey_control::{Options, Plane};
//! use rowkey_emulator::Server;
//!
//! let server = Server::start().await?;
//! let plane = Plane::start(server, Options::default()).await?;
//! assert!(plane.url().starts_with("http://127.0.0.1:"));
//! # Ok(()) }
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `problem` | errors as problem details (RFC 9457) |
//! | `body` | JSON bodies and query strings, whose errors are problems |
//! | `guard` | which requests are let in: hosts, origins, tokens |
//! | `counts` | requests by operation and status, for the metrics |
//! | `shared` | what all requests share: the server, and what was made through its control plane |
//! | `schema` | the types of the server in the OpenAPI document |
//! | `faults`, `clock`, `limits`, `journal`, `contents`, `forks`, `identities`, `queues`, `data`, `health` | the resources |
//! | `page` | the page for browsers |
//! | `routes` | which request goes where, and the OpenAPI document |
//! | `plane` | [`Plane`]: a server with its control plane |
//!
//! [`Server`]: rowkey_emulator::Server

mod body;
mod clock;
mod contents;
mod counts;
mod data;
mod faults;
mod forks;
mod guard;
mod health;
mod identities;
mod journal;
mod limits;
mod page;
mod plane;
mod problem;
mod queues;
mod routes;
mod schema;
mod shared;

pub use plane::Plane;
pub use routes::openapi;
pub use shared::Options;
