//! The wait that doubles with each failure. What is random in it, and what a round is, differs by the caller.

use std::time::Duration;

/// Returns `first` doubled this number of times, up to `longest`.
pub fn doubled(first: Duration, doublings: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(doublings)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_do_not_overflow() {
        let wait = |doublings| {
            doubled(Duration::from_millis(8), doublings, Duration::from_millis(500)).as_millis()
        };
        assert_eq!([0, 1, 2, 5, 6, 7].map(wait), [8, 16, 32, 256, 500, 500]);
        assert_eq!([31, 32, u32::MAX].map(wait), [500; 3]);
        assert_eq!(doubled(Duration::MAX, 1, Duration::MAX), Duration::MAX);
    }
}
