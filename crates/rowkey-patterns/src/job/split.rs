//! Automatic splits: while a job has free places, a range of its walk gives the rest of its keys to a new range.
//!
//! The range looks for a partition behind its position by probes, queries for one row each. The first asks for a PartitionKey that differs
//! from its own in an early character, the next ones in later characters, so keys with a common prefix are split where they begin to
//! differ, and a position with another prefix begins early again. There are three probes for each place of the job, and one more for
//! each four pages, so a table of any size costs at most a quarter more requests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rowkey_client::internals::compare_keys;
use tokio::sync::Notify;

use crate::probe::next;

/// Probes for each place.
const FIRST_PROBES: u64 = 3;
/// Pages for each further probe.
const PAGES: u64 = 4;
/// The last character in which a PartitionKey may differ.
const DEEPEST: usize = 64;

/// What the ranges of a running walk share.
pub(super) struct Splits {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    /// Ranges that have not begun.
    added: Vec<usize>,
    /// Places without a range.
    free: usize,
    /// Whether a range probes. One at a time does, because each finds the same free places.
    is_probing: bool,
    /// Probes that may be sent, in pages.
    budget: u64,
    /// What came before the character in which keys differed at the last split. Probes found nothing behind a key with an
    /// earlier character changed.
    common: String,
}

impl Splits {
    pub(super) fn new(places: usize) -> Self {
        let budget = FIRST_PROBES * PAGES * places as u64;
        Self { state: Mutex::new(State { budget, ..State::default() }), wake: Notify::new() }
    }

    /// Records how many places are free, and returns the ranges to begin.
    pub(super) fn take(&self, free: usize) -> Vec<usize> {
        let mut state = self.state();
        let at = state.added.len().saturating_sub(free);
        let begin = state.added.split_off(at);
        state.free = free - begin.len();
        begin
    }

    /// Waits until a range was added.
    pub(super) async fn added(&self) {
        self.wake.notified().await;
    }

    /// Adds a range. `common` is what its first key was expected to share with the position of the range that was split.
    pub(super) fn add(&self, at: usize, common: String) {
        let mut state = self.state();
        state.added.push(at);
        state.common = common;
        state.free = state.free.saturating_sub(1);
        self.wake.notify_one();
    }

    /// Records a page. Returns the right to probe if a place is free.
    pub(super) fn page(&self) -> Option<Probing<'_>> {
        let mut state = self.state();
        state.budget += 1;
        let may = state.free > 0 && !state.is_probing && state.budget >= PAGES;
        may.then(|| {
            state.is_probing = true;
            Probing { splits: self, common: state.common.clone() }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one step, so a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right of one range to send probes, until it is dropped.
pub(super) struct Probing<'s> {
    splits: &'s Splits,
    common: String,
}

impl Probing<'_> {
    /// The keys to probe for behind a position and before `to`, each with what it has in common with the position.
    pub(super) fn keys(&self, position: &str, to: Option<&str>) -> Vec<(String, String)> {
        // A position elsewhere begins early again: what was learned where keys are dense would cut other ranges into slices of
        // one partition.
        let both = position.chars().zip(self.common.chars());
        let known = both.take_while(|(one, other)| one == other).count();
        let starts = position.char_indices().take(DEEPEST).skip(known);
        let keys = starts.filter_map(|(at, character)| {
            let key = format!("{}{}", &position[..at], next(character)?);
            let is_between = compare_keys(position, &key).is_lt()
                && to.is_none_or(|to| compare_keys(&key, to).is_lt());
            is_between.then(|| (position[..at].to_owned(), key))
        });
        keys.collect()
    }

    /// Whether one more probe may be sent.
    pub(super) fn spend(&self) -> bool {
        let mut state = self.splits.state();
        let left = state.budget.checked_sub(PAGES);
        state.budget = left.unwrap_or(state.budget);
        left.is_some()
    }
}

impl Drop for Probing<'_> {
    fn drop(&mut self) {
        self.splits.state().is_probing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(common: &str, position: &str, to: Option<&str>) -> Vec<String> {
        let splits = Splits::new(1);
        splits.state().common = common.to_owned();
        splits.take(1);
        let probing = splits.page().unwrap();
        probing.keys(position, to).into_iter().map(|(_, key)| key).collect()
    }

    #[test]
    fn probes_ask_for_keys_that_differ_early_and_then_late() {
        assert_eq!(keys("", "ab7", None), ["b", "ac", "ab8"]);
        assert_eq!(keys("a", "ab7", None), ["ac", "ab8"]);
        assert_eq!(keys("", "ab7", Some("abx")), ["ab8"], "the others are behind the range");
        assert_eq!(keys("", "a~", None), ["b", "a\u{a0}"], "no control characters");
        assert_eq!(keys("", "", None), [""; 0]);
        assert_eq!(keys("", &"x".repeat(100), None).len(), DEEPEST);
        assert_eq!(keys("", "\u{ffff}", None), [""; 0], "the last character in UTF-16");
    }

    #[test]
    fn what_a_split_of_near_keys_taught_is_not_used_elsewhere() {
        let common = "device-0099";
        assert_eq!(keys(common, "device-00990", None), ["device-00991"]);
        let elsewhere = ["device-4", "device-39", "device-381", "device-3801", "device-38001"];
        assert_eq!(keys(common, "device-38000", None), elsewhere);
        assert_eq!(keys(common, "user", None), ["v", "ut", "usf", "uses"]);
    }

    #[test]
    fn one_range_probes_at_a_time_and_only_for_free_places() {
        let splits = Splits::new(2);
        assert!(splits.page().is_none(), "all places are taken");
        splits.take(1);
        let probing = splits.page().unwrap();
        assert!(splits.page().is_none());
        splits.add(7, "abc".to_owned());
        drop(probing);
        assert!(splits.page().is_none(), "the place has a range");
        assert_eq!(splits.take(2), [7]);
        assert_eq!(splits.page().unwrap().common, "abc");
    }

    #[test]
    fn probes_are_bounded_by_places_and_pages() {
        let splits = Splits::new(2);
        splits.take(1);
        let probes = |splits: &Splits| {
            let probing = splits.page();
            probing
                .map_or(0, |probing| std::iter::from_fn(|| probing.spend().then_some(())).count())
        };
        assert_eq!(probes(&splits), 6);
        let more: usize = (0..40).map(|_| probes(&splits)).sum();
        assert_eq!(more, 10);
    }
}
