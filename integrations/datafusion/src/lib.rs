#![doc = include_str!("../../../docs/src/sql/library.md")]
//!
//! # Rooms
//!
//! - `columns`: the types of a table's columns, and rows as Arrow arrays · `keys`: sets and ranges of keys · `pushdown`: what the service decides of a
//!   query's conditions · `scan`: reads · `sink`: writes · `requests`: what a plan requests · `accounts`: storage accounts by name
//! - `catalog`: an account's tables by name · `files`: files as tables, written whole · `objects`: files in blob containers · `session`: sessions that fit tables · `error`: what errors say
//! - `statements`: statements that create and drop tables · `cluster`: plans as messages, for a cluster

mod accounts;
mod catalog;
#[cfg(feature = "cluster")]
pub mod cluster;
mod columns;
mod error;
mod files;
mod keys;
#[cfg(feature = "objects")]
mod objects;
mod pushdown;
mod requests;
mod scan;
mod session;
mod sink;
mod statements;

pub use accounts::Accounts;
pub use catalog::Catalog;
pub use columns::{Declared, Inferred, Mismatch, of};
pub use error::service_error;
pub use requests::{TableRequests, requests, table_scans};
pub use scan::{JoinPruning, Open, Schema, TableSource};
pub use session::{SessionOptions, config, refresh, session, session_of, session_with};
pub use sink::WriteMode;
pub use statements::{plan, run_if, sql};
