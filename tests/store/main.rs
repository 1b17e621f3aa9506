//! The store against servers: what each write promises, what it costs in requests, and the sweep over
//! every request of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agreement;
mod blob_lists;
mod bulk;
mod bulk_delete;
mod contributors;
mod copies;
mod faults;
mod foreign;
mod honest;
mod job;
mod jobs;
mod late;
mod lists;
mod lists_elsewhere;
mod meetings;
mod pairs;
mod refusals;
mod rows;
mod tasks;
mod transactions;
mod value_lists;
mod versions;
mod views;
mod workers;
mod writes;
