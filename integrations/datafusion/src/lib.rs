#![doc = include_str!("../../../docs/src/sql/library.md")]
//!
//! # Rooms
//!
//! - `columns`: the types of a table's columns, and rows as Arrow arrays · `keys`: sets and ranges of keys · `pushdown`: what the service decides of a
//!   query's conditions · `scan`: reads · `sink`: writes · `session`: sessions that fit tables · `error`: what errors say

mod columns;
mod error;
mod keys;
mod pushdown;
mod scan;
mod session;
mod sink;

pub use columns::{Declared, Inferred, Mismatch, of};
pub use scan::{JoinPruning, Open, Schema, TableSource};
pub use session::{config, session, session_with};
pub use sink::WriteMode;
