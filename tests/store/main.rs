//! The store against servers: what each write promises, what it costs in requests, and the sweep over
//! every request of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agreement;
mod attack;
mod backlog;
mod blob_fields;
mod blob_lists;
mod bulk;
mod bulk_delete;
mod changing;
mod conditions;
mod contributors;
mod copies;
mod copies_through;
mod costs;
mod damaged_rows;
mod explained;
mod faults;
mod foreign;
mod formats;
mod grouped;
mod honest;
mod inline;
mod inputs;
mod job;
mod jobs;
mod late;
mod lists;
mod local_index;
mod lost_answers;
mod manifest;
mod meetings;
mod other_rows;
mod other_tables;
mod pairs;
mod receiver;
mod refusals;
mod remote_copies;
mod remote_index;
mod remote_index_entity;
mod rows;
mod schema;
mod tenants;
mod transactions;
mod two_versions;
mod unique;
mod unknown;
mod value_lists;
mod verify;
mod versions;
mod view;
mod view_damage;
mod wide;
mod workers;
mod writes;
