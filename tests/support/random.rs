//! Pseudo-random choices that are the same in each run.

use std::ops::Range;

use crate::sweep::is_brief;

/// A small generator (`SplitMix64`): the same seed gives the same choices.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to but excluding `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.within(end.into())).unwrap_or_default()
    }

    /// Like [`below`](Self::below), for large numbers.
    pub fn within(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns `true` once in `times` calls, on average.
    pub fn one_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    /// One of these items.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(u32::try_from(from.len()).unwrap_or(u32::MAX)) as usize]
    }
}

/// The seeds for a test of random operations: `usual` seeds, multiplied by `ROWKEY_SEEDS` if set. A tenth of
/// them where neither that nor `ROWKEY_SWEEP` is set, as [`is_brief`] says.
pub fn seeds(usual: u64) -> Range<u64> {
    let times = std::env::var("ROWKEY_SEEDS").ok().and_then(|times| times.parse::<u64>().ok());
    match times {
        Some(times) => 0..usual * times,
        None if is_brief() => 0..usual.div_ceil(10),
        None => 0..usual,
    }
}

/// Prints the seed when a test panics.
#[derive(Debug)]
pub struct Seed(pub u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with seed {}", self.0);
        }
    }
}
