//! The patterns against servers: what they promise, what they cost in requests,
//! and the sweep over every request of each.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod compound_key;
mod dead_letters;
mod heterogeneous;
mod inbox;
mod inspect;
mod janitor;
mod kept;
mod lease_lock;
mod log_blob;
mod log_tail;
mod lookup;
mod metrics;
mod on_change;
mod outbox;
mod parallel;
mod partitions;
mod programs;
mod ranges;
mod real_clock;
mod relationships;
mod rollover;
mod series;
mod spread;
mod steps;
mod telemetry;
mod transfer;
mod vending;
mod worker;
