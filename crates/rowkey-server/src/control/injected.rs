//! The list of injected faults, and the guard that keeps one in it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::fault::{Action, Fault};
use super::hub::Active;
use crate::operation::Subject;

/// A fault that is in force until this is dropped.
///
/// Dropping it lets requests go on that it holds.
#[must_use = "the fault is removed when this is dropped: keep it in a variable with a name"]
pub struct Injected {
    rule: Arc<Rule>,
    rules: Arc<Rules>,
}

/// The faults in force, in the order in which they were injected.
#[derive(Debug)]
pub(crate) struct Rules {
    list: Mutex<Vec<Arc<Rule>>>,
    active: Arc<Active>,
}

/// A fault, and what became of it.
#[derive(Debug)]
pub(crate) struct Rule {
    fault: Fault,
    matched: AtomicU64,
    hits: watch::Sender<u64>,
    /// Requests that are held now.
    held: watch::Sender<u64>,
    released: watch::Sender<bool>,
}

impl Injected {
    /// How many requests met it.
    pub fn hits(&self) -> u64 {
        *self.rule.hits.borrow()
    }

    /// Waits until at least `n` requests have met it.
    pub async fn wait_until_hit(&self, n: u64) {
        // The sender is ours, so a value is all that can come.
        let _ = self.rule.hits.subscribe().wait_for(|hits| *hits >= n).await;
    }

    /// Waits until at least one request is held by [`hold`](crate::Matching::hold).
    pub async fn wait_until_held(&self) {
        let _ = self.rule.held.subscribe().wait_for(|held| *held > 0).await;
    }

    /// Lets the requests go on that are held. Later ones pass without being held.
    pub fn release(&self) {
        self.rule.released.send_replace(true);
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        let mut list = self.rules.list();
        let before = list.len();
        list.retain(|rule| !Arc::ptr_eq(rule, &self.rule));
        // After `Server::reset` it is not in the list any more.
        for _ in list.len()..before {
            self.rules.active.leave();
        }
        drop(list);
        self.release();
    }
}

impl fmt::Debug for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injected")
            .field("fault", &self.rule.fault)
            .field("hits", &self.hits())
            .finish_non_exhaustive()
    }
}

impl Rules {
    pub(crate) fn new(active: Arc<Active>) -> Arc<Self> {
        Arc::new(Self { list: Mutex::default(), active })
    }

    /// Puts a fault behind those that are there.
    pub(crate) fn inject(self: &Arc<Self>, fault: Fault) -> Injected {
        let rule = Arc::new(Rule {
            fault,
            matched: AtomicU64::new(0),
            hits: watch::Sender::new(0),
            held: watch::Sender::new(0),
            released: watch::Sender::new(false),
        });
        self.list().push(Arc::clone(&rule));
        self.active.enter();
        Injected { rule, rules: Arc::clone(self) }
    }

    /// Removes all faults; what they hold goes on.
    pub(crate) fn clear(&self) {
        for rule in self.list().drain(..) {
            self.active.leave();
            rule.released.send_replace(true);
        }
    }

    /// The fault that this request meets: the first in the list, and it has been counted.
    pub(crate) fn meet(&self, subject: &Subject<'_>) -> Option<Arc<Rule>> {
        // The lock makes counting and deciding one step.
        let list = self.list();
        let rule = list.iter().find(|rule| {
            let Fault { matching, .. } = &rule.fault;
            if !matching.matches(subject) {
                return false;
            }
            let count = rule.matched.fetch_add(1, Ordering::Relaxed) + 1;
            let met = matching.meets(count, *rule.hits.borrow());
            if met {
                rule.hits.send_modify(|hits| *hits += 1);
            }
            met
        });
        rule.cloned()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Rule>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rule {
    pub(crate) fn action(&self) -> &Action {
        &self.fault.action
    }

    /// Waits until it is released.
    pub(crate) async fn hold(&self) {
        let _held = Held::new(&self.held);
        let _ = self.released.subscribe().wait_for(|released| *released).await;
    }
}

/// Counts a held request, also when its connection ends meanwhile.
struct Held<'a>(&'a watch::Sender<u64>);

impl<'a> Held<'a> {
    fn new(held: &'a watch::Sender<u64>) -> Self {
        held.send_modify(|held| *held += 1);
        Self(held)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}
