//! Text that no other program writes: 64 random bits.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// 16 hexadecimal digits that no other call gives, in this process or, but for a chance of one in
/// 2^64 for each pair, in any other.
pub(crate) fn name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // The standard hasher is seeded by the operating system, anew for each process.
    let random = RandomState::new().hash_one(NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{random:016x}")
}
