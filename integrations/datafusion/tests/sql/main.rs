//! Tables in SQL, against the server of this project: which rows come back, and what was requested for them.

mod catalog;
mod columns;
mod insert;
mod interrupted;
mod requests;
mod rows;
mod statements;
mod stores;
mod support;
