//! A cache for adapters: what an adapter made of a metric and its labels, so that a metric that was seen before costs no
//! allocation and no lock.

use std::fmt;
use std::sync::OnceLock;

/// How many series each level has room for. A series is in one of the first [`PROBES`] slots behind its hash, so a level is
/// given up long before it is full. Powers of 2.
const LEVELS: [usize; 3] = [512, 4_096, 32_768];
const PROBES: usize = 8;

/// A cache from a metric and its labels to a value, for adapters of [`Telemetry`](super::Telemetry).
///
/// Entries are never moved or removed, so a reader takes no lock. A program has few series, because values of labels are of
/// small sets; beyond some ten thousand, values are made and not kept.
pub struct SeriesCache<T> {
    levels: [OnceLock<Box<[Slot<T>]>>; LEVELS.len()],
}

type Slot<T> = OnceLock<Box<Series<T>>>;

struct Series<T> {
    name: &'static str,
    labels: Box<[(&'static str, Box<str>)]>,
    value: T,
}

impl<T> SeriesCache<T> {
    /// An empty cache.
    pub fn new() -> Self {
        Self { levels: [const { OnceLock::new() }; LEVELS.len()] }
    }

    /// Passes the value of a series to `run`; `make` makes it where the series is new.
    pub fn with<R>(
        &self,
        name: &'static str,
        labels: &[(&'static str, &str)],
        make: impl Fn() -> T,
        run: impl FnOnce(&T) -> R,
    ) -> R {
        let hash = hash(name, labels);
        for (level, slots) in LEVELS.into_iter().zip(&self.levels) {
            let slots = slots.get_or_init(|| (0..level).map(|_| OnceLock::new()).collect());
            for probe in 0..PROBES {
                let slot = &slots[hash.wrapping_add(probe) & (level - 1)];
                let series = slot.get_or_init(|| {
                    let labels = labels.iter().map(|(key, value)| (*key, (*value).into()));
                    Box::new(Series { name, labels: labels.collect(), value: make() })
                });
                if series.is(name, labels) {
                    return run(&series.value);
                }
            }
        }
        run(&make())
    }
}

impl<T> Default for SeriesCache<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for SeriesCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeriesCache").finish_non_exhaustive()
    }
}

impl<T> Series<T> {
    fn is(&self, name: &str, labels: &[(&'static str, &str)]) -> bool {
        self.name == name
            && self.labels.len() == labels.len()
            && self.labels.iter().zip(labels).all(|((key, value), (other, text))| {
                **value == **text && (std::ptr::eq(*key, *other) || key == other)
            })
    }
}

/// A hash of a name and of values. Keys of labels are those of the name, so they are compared and not hashed.
///
/// Multiplies and rotates a word at a time, as rustc-hash does: the general hasher of the standard library takes longer than
/// all else here. Values are of small sets that the program chooses, so no stranger can make them collide.
fn hash(name: &str, labels: &[(&'static str, &str)]) -> usize {
    const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;
    let mut hash = 0_u64;
    let mut add = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let texts = std::iter::once(name).chain(labels.iter().map(|(_, value)| *value));
    for text in texts {
        let (words, rest) = text.as_bytes().as_chunks::<8>();
        for word in words {
            add(u64::from_le_bytes(*word));
        }
        // The length keeps `a`, `b` apart from `ab`, ``.
        let mut last = text.len() as u64;
        for byte in rest {
            last = last << 8 | u64::from(*byte);
        }
        add(last);
    }
    // The high bits are the mixed ones.
    usize::try_from(hash >> 40).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_series_is_made_once() {
        let cache = SeriesCache::new();
        let made = Cell::new(0);
        let make = || {
            made.set(made.get() + 1);
            made.get()
        };
        let of =
            |name, labels: &[(&'static str, &str)]| cache.with(name, labels, make, |made| *made);
        assert_eq!(of("a", &[("k", "1")]), 1);
        assert_eq!(of("a", &[("k", "2")]), 2);
        assert_eq!(of("a", &[("l", "1")]), 3);
        assert_eq!(of("b", &[("k", "1")]), 4);
        assert_eq!(of("a", &[("k", "1"), ("l", "")]), 5);
        assert_eq!(of("a", &[]), 6);
        assert_eq!(of(&String::from("a").leak()[..], &[("k", "1")]), 1);
        assert_eq!(made.get(), 6);
    }

    #[test]
    fn series_beyond_the_capacity_are_made_and_not_kept() {
        let cache = SeriesCache::new();
        let made = AtomicUsize::new(0);
        let of = |number: usize| {
            let text = number.to_string();
            let labels = [("table", text.as_str())];
            cache.with(
                "a",
                &labels,
                || {
                    made.fetch_add(1, Ordering::Relaxed);
                    number
                },
                |made| *made,
            )
        };
        let most: usize = LEVELS.iter().sum();
        for number in 0..=most {
            assert_eq!(of(number), number);
        }
        // Those that were first are still there.
        let before = made.load(Ordering::Relaxed);
        assert_eq!((of(0), of(1)), (0, 1));
        assert_eq!(made.load(Ordering::Relaxed), before);
    }

    #[test]
    fn threads_that_meet_a_series_at_once_share_it() {
        let cache = SeriesCache::new();
        let made = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..200 {
                        let text = number.to_string();
                        let make = || made.fetch_add(1, Ordering::Relaxed);
                        cache.with("a", &[("n", &text)], make, |_| ());
                    }
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 200);
    }
}
