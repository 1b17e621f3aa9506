//! The list of injected faults, and the guard that keeps one in it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::active::Active;
use super::fault::{Action, Fault};
use crate::front::operation::Operation;
use crate::front::subject::Subject;

/// A fault that is active until this is dropped.
///
/// Dropping it releases the requests that it holds. If no request matched and [`hits`](Self::hits)
/// was never called, dropping it prints the fault, and the requests that came instead, to standard
/// error: a test whose fault names the wrong operation would otherwise pass for the wrong reason.
#[must_use = "the fault is removed when this is dropped: keep it in a variable with a name"]
pub struct Injected {
    rule: Arc<Rule>,
    rules: Arc<Rules>,
}

/// The active faults, in the order in which they were injected.
#[derive(Debug)]
pub(crate) struct Rules {
    list: Mutex<Vec<Arc<Rule>>>,
    injected: AtomicU64,
    active: Arc<Active>,
}

/// A fault, and the requests it has matched.
#[derive(Debug)]
pub(crate) struct Rule {
    id: u64,
    fault: Fault,
    matched: AtomicU64,
    /// The requests that did not match, by operation.
    others: Mutex<BTreeMap<Operation, u64>>,
    /// Whether the test has asked for the number of matches.
    is_observed: AtomicBool,
    hits: watch::Sender<u64>,
    /// The number of requests held now.
    held: watch::Sender<u64>,
    released: watch::Sender<Release>,
}

/// What becomes of the held requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    Held,
    Executed,
    Discarded,
}

impl Injected {
    /// Its number among the faults of the server, from 1.
    pub fn id(&self) -> u64 {
        self.rule.id
    }

    /// The fault.
    pub fn fault(&self) -> &Fault {
        &self.rule.fault
    }

    /// The number of requests that it holds now.
    pub fn held(&self) -> u64 {
        *self.rule.held.borrow()
    }

    /// The number of requests that matched.
    pub fn hits(&self) -> u64 {
        self.rule.is_observed.store(true, Ordering::Relaxed);
        *self.rule.hits.borrow()
    }

    /// Waits until at least `n` requests have matched.
    pub async fn wait_until_hit(&self, n: u64) {
        self.rule.is_observed.store(true, Ordering::Relaxed);
        // The sender is alive, so waiting cannot fail.
        let _ = self.rule.hits.subscribe().wait_for(|hits| *hits >= n).await;
    }

    /// Waits until at least one request is held by [`hold`](crate::Matching::hold).
    pub async fn wait_until_held(&self) {
        self.rule.is_observed.store(true, Ordering::Relaxed);
        let _ = self.rule.held.subscribe().wait_for(|held| *held > 0).await;
    }

    /// Lets the held requests continue. Later ones are not held.
    pub fn release(&self) {
        self.rule.end(Release::Executed);
    }

    /// Removes the fault, and closes the connections of the held requests without executing them.
    ///
    /// Use it after you drop the call that sent such a request, as a program does that is killed.
    /// Dropping the fault instead executes the request, unless the server already knows that its
    /// client is gone, which depends on the scheduler.
    pub fn discard(&self) {
        self.rule.end(Release::Discarded);
        self.remove();
    }

    /// Removes the fault, as dropping it does: the requests that it holds are executed.
    pub fn remove(&self) {
        let mut list = self.rules.list();
        let before = list.len();
        list.retain(|rule| !Arc::ptr_eq(rule, &self.rule));
        // After `Server::reset` the fault is no longer in the list.
        for _ in list.len()..before {
            self.rules.active.leave();
        }
        drop(list);
        self.release();
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        self.remove();
        if let Some(warning) = self.rule.missed()
            && !std::thread::panicking()
        {
            eprintln!("rowkey-server: {warning}");
        }
    }
}

impl fmt::Debug for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injected")
            .field("fault", &self.rule.fault)
            .field("hits", &*self.rule.hits.borrow())
            .finish_non_exhaustive()
    }
}

impl Rules {
    pub(crate) fn new(active: Arc<Active>) -> Arc<Self> {
        Arc::new(Self { list: Mutex::default(), injected: AtomicU64::new(0), active })
    }

    /// Appends a fault to the list.
    pub(crate) fn inject(self: &Arc<Self>, fault: Fault) -> Injected {
        let rule = Arc::new(Rule {
            id: self.injected.fetch_add(1, Ordering::Relaxed) + 1,
            fault,
            matched: AtomicU64::new(0),
            others: Mutex::default(),
            is_observed: AtomicBool::new(false),
            hits: watch::Sender::new(0),
            held: watch::Sender::new(0),
            released: watch::Sender::new(Release::Held),
        });
        self.list().push(Arc::clone(&rule));
        self.active.enter();
        Injected { rule, rules: Arc::clone(self) }
    }

    /// Removes all faults, and closes the connections of the requests that they hold.
    pub(crate) fn discard(&self) {
        for rule in self.list().drain(..) {
            self.active.leave();
            rule.end(Release::Discarded);
        }
    }

    /// The fault that applies to this request: the first match in the list. It counts the match.
    pub(crate) fn meet(&self, subject: &Subject<'_>) -> Option<Arc<Rule>> {
        // The lock makes counting and deciding one step.
        let list = self.list();
        let rule = list.iter().find(|rule| {
            let Fault { matching, .. } = &rule.fault;
            if !matching.matches(subject) {
                *rule.others().entry(subject.operation).or_default() += 1;
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
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn action(&self) -> &Action {
        &self.fault.action
    }

    /// The warning for a fault that no request matched, if the test did not look.
    fn missed(&self) -> Option<String> {
        if *self.hits.borrow() > 0 || self.is_observed.load(Ordering::Relaxed) {
            return None;
        }
        let matching = &self.fault.matching;
        let matched = self.matched.load(Ordering::Relaxed);
        let mut warning = format!("the fault on {matching} met no request");
        if matched > 0 {
            let _ = write!(warning, "; matching requests: {matched}, too few for its nth");
        }
        for (at, (operation, count)) in self.others().iter().enumerate() {
            let before = if at == 0 { "; other requests: " } else { ", " };
            let _ = write!(warning, "{before}{operation:?} ({count})");
        }
        Some(warning)
    }

    fn others(&self) -> MutexGuard<'_, BTreeMap<Operation, u64>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is released or discarded; returns whether the request is executed.
    pub(crate) async fn hold(&self) -> bool {
        let _held = HeldRequest::new(&self.held);
        let mut released = self.released.subscribe();
        let released = released.wait_for(|release| *release != Release::Held).await;
        // The sender is alive, so waiting cannot fail.
        released.is_ok_and(|release| *release == Release::Executed)
    }

    /// Decides about the held requests. The first decision stands.
    fn end(&self, release: Release) {
        self.released.send_if_modified(|now| {
            let is_first = *now == Release::Held;
            if is_first {
                *now = release;
            }
            is_first
        });
    }
}

/// Counts a held request, and also uncounts it if its connection ends.
struct HeldRequest<'a>(&'a watch::Sender<u64>);

impl<'a> HeldRequest<'a> {
    fn new(held: &'a watch::Sender<u64>) -> Self {
        held.send_modify(|held| *held += 1);
        Self(held)
    }
}

impl Drop for HeldRequest<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use rowkey_wire::code::ErrorCode;

    use super::*;

    fn subject(operation: Operation) -> Subject<'static> {
        Subject { operation, account: "a", resource: Cow::Borrowed("staff") }
    }

    #[test]
    fn an_unused_fault_reports_the_requests_that_arrived_instead() {
        let rules = Rules::new(Arc::default());
        let fault = Fault::on(Operation::QueryEntities).resource("staff").nth(2);
        let injected = rules.inject(fault.reject(ErrorCode::SERVER_BUSY));
        rules.meet(&subject(Operation::GetEntity));
        rules.meet(&subject(Operation::GetEntity));
        rules.meet(&subject(Operation::QueryEntities));
        assert_eq!(
            injected.rule.missed().unwrap(),
            "the fault on QueryEntities about staff (number 2) met no request; matching requests: \
             1, too few for its nth; other requests: GetEntity (2)"
        );
        assert_eq!(injected.hits(), 0);
        assert_eq!(injected.rule.missed(), None, "who asks for hits knows");
    }

    #[test]
    fn a_used_fault_reports_nothing() {
        let rules = Rules::new(Arc::default());
        let injected = rules.inject(Fault::any().reject(ErrorCode::SERVER_BUSY));
        rules.meet(&subject(Operation::GetEntity));
        assert_eq!(injected.rule.missed(), None);
    }
}
