//! Tables in SQL, against the server of this project: which rows come back, and what was requested for them.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and drive tasks of their own"
)]

mod catalog;
mod columns;
mod insert;
mod interrupted;
mod requests;
mod rows;
mod statements;
mod stores;
mod support;
