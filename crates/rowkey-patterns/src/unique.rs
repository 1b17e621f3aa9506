//! Random names that no other program generates: 64 random bits.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns 16 hexadecimal digits that are unique in this process, and differ from those of any other process
/// except with a probability of 2^-64 per pair.
pub(crate) fn name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // The operating system seeds the standard hasher anew for each process.
    let random = RandomState::new().hash_one(NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{random:016x}")
}
