//! The state of an account that all its clones share: who may send now.
//!
//! A request passes three stages: the maximum rates of its [`Pace`], the gate of its target, and the gate of the
//! account. Nothing is created before a first paced request, and a request without a pace looks at one flag.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::{Either, select};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::gate::{Gate, Haste, Watch, Wish};
use super::lane::Active;
use super::limiter::{Failure, Limiter, Ready, Sent};
use super::load::{Kind, Load, Target};
use super::patience::{Patience, late};
use super::permit::{Asking, Failed, Permit, Turn, Unsent};
use super::{Pace, Priority, Targets};
use crate::clock::Clock;
use crate::telemetry::metrics::{PACE_PUSHBACKS, PACE_RATE, PACE_WAIT_DURATION, PACE_WAITING};
use crate::telemetry::{Hook, Telemetry as _};

/// Background requests in flight to a new target.
const FIRST_WINDOW: u32 = 2;
/// Background requests in flight to a new account.
const FIRST_ACCOUNT_WINDOW: u32 = 4;
/// If this many targets push back within a second, the account is taken to be the limit, as when the
/// service names it.
const SUSPECTS: usize = 4;
/// When more targets than this are remembered, idle ones are forgotten.
const SWEEP_AT: usize = 4096;
/// How long requests without a pace are counted after the last one with a pace.
const ACTIVE: Duration = Duration::from_secs(60);
/// How long a request may wait for a target if its work may be left undone: longer than the pause after four lost
/// responses in a row, which the retries of one call may be.
const IMPATIENCE: Duration = Duration::from_secs(3);
/// Real time after which a request looks whether its line moves.
const TICK: Duration = Duration::from_secs(1);
/// How often the rate of a target is reported.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Who may send now.
#[derive(Debug)]
pub(crate) struct Governor {
    clock: Arc<dyn Clock>,
    telemetry: Hook,
    targets: Targets,
    /// Whether a paced request was sent lately.
    active: AtomicBool,
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    account: Gate,
    targets: HashMap<Target, Gate>,
    /// When there are this many, idle ones are forgotten.
    sweep_at: usize,
    /// Targets whose rate was reduced within the last second.
    suspects: Vec<(Target, Duration)>,
    /// When the last paced request was sent.
    last: Duration,
}

impl State {
    /// Whether a request waits at a gate.
    fn has_waiting(&self) -> bool {
        std::iter::once(&self.account).chain(self.targets.values()).any(Gate::has_waiting)
    }
}

/// A request was not admitted in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// The deadline of its pace comes first.
    Deadline,
    /// No request at its pace was answered for too long.
    Patience,
    /// The time of its operation ends first.
    Timeout,
}

/// How long a request may wait.
struct Limit {
    /// The time that is left of its operation, if that is limited.
    left: Option<Duration>,
    /// The deadline of its pace.
    until: Option<DateTime<Utc>>,
    patience: Option<Arc<Patience>>,
}

impl Limit {
    fn spend(&mut self, time: Duration) {
        self.left = self.left.map(|left| left.saturating_sub(time));
    }
}

/// Where a request passes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Target(Target, Kind),
    Account,
}

impl Governor {
    pub(crate) fn new(clock: Arc<dyn Clock>, telemetry: Hook, targets: Targets) -> Self {
        let (active, state) = (AtomicBool::new(false), Mutex::new(None));
        Self { clock, telemetry, targets, active, state }
    }

    /// Whether requests without a pace are counted.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// Waits until a request may be sent. `left` is the time that is left of its operation.
    pub(crate) async fn admit<'a>(
        &'a self,
        pace: &Pace,
        asking: Asking<'a>,
        left: Duration,
    ) -> Result<Permit<'a>, Late> {
        let mut begun = self.clock.elapsed();
        let left = (pace.priority == Priority::Foreground).then_some(left);
        let left_now = left.filter(|_| !pace.is_impatient);
        let mut limit = Limit { left: left_now, until: pace.until, patience: None };
        self.check(&limit, Duration::ZERO)?;
        self.active.store(true, Ordering::Relaxed);
        // Given back unless the request passes all stages.
        let unsent = self.reserve(pace, asking.load.entities(), &mut limit).await?;
        if let Some(patience) = &pace.patience {
            patience.begins(self.clock.elapsed());
            limit.patience = Some(Arc::clone(patience));
            self.check(&limit, Duration::ZERO)?;
        }
        if pace.is_impatient {
            // Its own maximum rates are no reason to fail.
            begun = self.clock.elapsed();
            limit.left = left.map(|left| left.min(IMPATIENCE));
        }
        let (target, kind) = (asking.target(), asking.load.kind());
        let active = Active::begin(&pace.shared, &*self.clock, (target, kind));
        let mut permit = Permit {
            governor: self,
            asking,
            pace: Some(pace.clone()),
            active: None,
            target,
            priority: pace.priority,
            at_target: None,
            at_account: None,
            waited: Duration::ZERO,
        };
        let stage = Stage::Target(target, kind);
        let (epoch, rate) = self.pass(stage, pace.priority, asking.units(), &mut limit).await?;
        permit.at_target = Some(epoch);
        active.passes(rate);
        permit.active = Some(active);
        let (epoch, _) = self.pass(Stage::Account, pace.priority, 1, &mut limit).await?;
        permit.at_account = Some(epoch);
        std::mem::forget(unsent);
        permit.waited = self.clock.elapsed().saturating_sub(begun);
        pace.shared.sent.fetch_add(1, Ordering::Relaxed);
        if let Some(state) = self.state().as_mut() {
            state.last = self.clock.elapsed();
        }
        // A request without a pace may have ended the counting while this one waited.
        self.active.store(true, Ordering::Relaxed);
        if permit.waited > Duration::ZERO {
            let labels = [asking.label(), ("rowkey.priority", permit.priority.name())];
            self.telemetry.record(PACE_WAIT_DURATION.name, &labels, permit.waited.as_secs_f64());
        }
        Ok(permit)
    }

    /// Counts a request that does not wait: it has no pace, or it is one more for a read that has a permit.
    /// `None` if no paced request was sent lately.
    pub(crate) fn note<'a>(&'a self, asking: Asking<'a>) -> Option<Permit<'a>> {
        let now = self.clock.elapsed();
        let (target, priority) = (asking.target(), Priority::Foreground);
        let mut state = self.state();
        let known = state.as_ref()?;
        if known.last + ACTIVE < now && !known.has_waiting() {
            self.active.store(false, Ordering::Relaxed);
            return None;
        }
        let mut pass =
            |stage, units| self.gate(&mut state, stage, now).pass(priority, units, None, now);
        let at_target = Some(pass(Stage::Target(target, asking.load.kind()), asking.units()));
        let at_account = Some(pass(Stage::Account, 1));
        let (pace, active, waited) = (None, None, Duration::ZERO);
        Some(Permit {
            governor: self,
            asking,
            pace,
            active,
            target,
            priority,
            at_target,
            at_account,
            waited,
        })
    }

    /// Counts entities that were read, which are known only after the response.
    pub(crate) fn count(&self, pace: Option<&Pace>, asking: Asking<'_>, entities: u64) {
        let now = self.clock.elapsed();
        if let Some(pace) = pace {
            pace.count(entities, now);
        }
        if let Load::Partition { .. } = asking.load
            && let Some(gate) =
                self.state().as_mut().and_then(|s| s.targets.get_mut(&asking.target()))
        {
            gate.limiter.read(entities, now);
        }
    }

    /// Waits until the program's own maximum rates allow the request.
    async fn reserve<'p>(
        &self,
        pace: &'p Pace,
        entities: u64,
        limit: &mut Limit,
    ) -> Result<Unsent<'p>, Late> {
        let now = self.clock.elapsed();
        let at = pace.reserve(entities, now);
        let unsent = Unsent { pace, entities };
        if at > now {
            self.sleep(at.saturating_sub(now), None, limit).await?;
        }
        Ok(unsent)
    }

    /// Waits until a gate lets the request pass. Returns the epoch of its limiter, and the rate that the request had to wait for.
    async fn pass(
        &self,
        stage: Stage,
        priority: Priority,
        units: u64,
        limit: &mut Limit,
    ) -> Result<(u64, Option<f64>), Late> {
        let mut rate = None;
        let mut turn: Option<Turn<'_>> = None;
        let (mut watch, mut haste) = (Watch::default(), Haste::Orderly);
        // If the clock stands still during a wait, the wait is over all the same.
        let mut at_least = Duration::ZERO;
        loop {
            let now = self.clock.elapsed().max(at_least);
            let ticket = turn.as_ref().map(|turn| turn.ticket);
            let asked = {
                let mut state = self.state();
                let gate = self.gate(&mut state, stage, now);
                gate.ask(Wish { priority, units, ticket, haste }, now).map_err(|ready| {
                    if let Ready::At(_) = ready {
                        rate = gate.limiter.unpaid(now).or(rate);
                    }
                    let place = turn.is_none().then(|| gate.line_up(priority, units, &mut watch));
                    (ready, place)
                })
            };
            let (ready, place) = match asked {
                Ok(epoch) => return Ok((epoch, rate)),
                Err(waits) => waits,
            };
            if let Some((ticket, wake)) = place {
                turn = Some(Turn { governor: self, stage, priority, ticket, wake });
                self.tell_waiting(priority, true);
            }
            let Some(Turn { wake, ticket, .. }) = &turn else { continue };
            match ready {
                Ready::At(time) => {
                    if self.sleep(time.saturating_sub(now), Some(wake), limit).await? {
                        at_least = time;
                    }
                }
                Ready::Later | Ready::Now => {
                    let begun = Instant::now();
                    let tick = limit.left.map_or(TICK, |left| TICK.min(left));
                    // Real time, because responses take real time even if the clock is a test's.
                    if tokio::time::timeout(tick, wake.notified()).await.is_err() {
                        let now = self.clock.elapsed().max(at_least);
                        let mut state = self.state();
                        let gate = self.gate(&mut state, stage, now);
                        haste = gate.tick(&mut watch, (priority, *ticket), now);
                    }
                    limit.spend(begun.elapsed());
                    self.check(limit, Duration::ZERO)?;
                }
            }
        }
    }

    /// Sleeps, or fails at once if the limit comes first. Returns `false` if it was woken before.
    async fn sleep(
        &self,
        duration: Duration,
        wake: Option<&Notify>,
        limit: &mut Limit,
    ) -> Result<bool, Late> {
        self.check(limit, duration)?;
        let begun = self.clock.elapsed();
        let slept = self.clock.sleep(duration);
        let slept = if let Some(wake) = wake {
            matches!(select(slept, pin!(wake.notified())).await, Either::Left(_))
        } else {
            slept.await;
            true
        };
        limit.spend(self.clock.elapsed().saturating_sub(begun));
        Ok(slept)
    }

    /// Fails if a wait of this time ends after the limit.
    fn check(&self, limit: &Limit, wait: Duration) -> Result<(), Late> {
        let is_over = limit.left.is_some_and(|left| wait >= left);
        let late = late(&*self.clock, wait, limit.until, limit.patience.as_deref());
        match late.or(is_over.then_some(Late::Timeout)) {
            Some(late) => Err(late),
            None => Ok(()),
        }
    }

    fn gate<'s>(&self, state: &'s mut Option<State>, stage: Stage, now: Duration) -> &'s mut Gate {
        let ceiling = |per_second: u32| (per_second < u32::MAX).then(|| per_second.max(1).into());
        let targets = self.targets;
        let state = state.get_or_insert_with(|| {
            let ceiling = ceiling(targets.requests_per_account);
            State {
                account: Gate::new(Limiter::new(FIRST_ACCOUNT_WINDOW, ceiling, now)),
                targets: HashMap::new(),
                sweep_at: SWEEP_AT,
                suspects: Vec::new(),
                last: now,
            }
        });
        let Stage::Target(target, kind) = stage else { return &mut state.account };
        if state.targets.len() >= state.sweep_at && !state.targets.contains_key(&target) {
            state.targets.retain(|_, gate| !gate.is_idle(now));
            // If most are in use, the next sweep is as far away as this one was.
            state.sweep_at = SWEEP_AT.max(2 * state.targets.len());
        }
        state.targets.entry(target).or_insert_with(|| {
            let ceiling = match kind {
                Kind::Partition => ceiling(targets.entities_per_partition),
                Kind::Queue => ceiling(targets.messages_per_queue),
                Kind::Other => None,
            };
            Gate::new(Limiter::new(FIRST_WINDOW, ceiling, now))
        })
    }

    /// Reports that one more request waits, or one less.
    fn tell_waiting(&self, priority: Priority, is_more: bool) {
        let labels = [("rowkey.priority", priority.name())];
        self.telemetry.adjust(PACE_WAITING.name, &labels, if is_more { 1 } else { -1 });
    }

    /// Ends a wait, and wakes those that are first now.
    pub(super) fn leave(&self, turn: &Turn<'_>) {
        {
            let mut state = self.state();
            let now = self.clock.elapsed();
            self.gate(&mut state, turn.stage, now).leave(turn.priority, Some(turn.ticket));
        }
        self.tell_waiting(turn.priority, false);
    }

    /// Releases the places of a request that was not answered.
    pub(super) fn abandon(&self, permit: &Permit<'_>) {
        let mut state = self.state();
        let Some(state) = state.as_mut() else { return };
        if permit.at_account.is_some() {
            state.account.limiter.abandoned(permit.priority);
            state.account.ended(permit.priority);
        }
        if let Some(gate) = state.targets.get_mut(&permit.target)
            && permit.at_target.is_some()
        {
            gate.limiter.abandoned(permit.priority);
            gate.ended(permit.priority);
        }
    }

    /// Records a response.
    pub(super) fn answered(&self, permit: &Permit<'_>) {
        let now = self.clock.elapsed();
        if let Some(patience) = permit.pace.as_ref().and_then(|pace| pace.patience.as_ref()) {
            patience.is_answered();
        }
        let mut rate = None;
        {
            let mut state = self.state();
            let Some(state) = state.as_mut() else { return };
            state.account.limiter.answered(permit.priority, 1, now);
            state.account.ended(permit.priority);
            if let Some(gate) = state.targets.get_mut(&permit.target) {
                gate.limiter.answered(permit.priority, permit.asking.units(), now);
                gate.ended(permit.priority);
                if now.saturating_sub(gate.told) >= TOLD_EVERY {
                    rate = gate.limiter.learned(now);
                    gate.told = now;
                }
            }
        }
        if let Some(rate) = rate {
            self.tell_rate(&[permit.asking.label()], rate);
        }
    }

    /// Records a refusal for being too many, or a lost response. `asked` is the wait that the service asked
    /// for, and `fraction` is random, from 0 to 1.
    pub(super) fn failed(&self, permit: &Permit<'_>, failed: Failed) {
        let Failed { failure, asked, names_account, fraction } = failed;
        let now = self.clock.elapsed();
        let mut rates = [None; 2];
        {
            let mut state = self.state();
            let Some(state) = state.as_mut() else { return };
            let (priority, units) = (permit.priority, permit.asking.units());
            let sent = Sent { priority, units, epoch: permit.at_target.unwrap_or_default() };
            // A target of which nothing is answered says nothing about the others.
            let mut is_suspect = false;
            if let Some(gate) = state.targets.get_mut(&permit.target) {
                is_suspect = gate.limiter.failed(failure, sent, asked, fraction, now)
                    && gate.limiter.is_first_miss();
                rates[0] = gate.limiter.learned(now);
                gate.told = now;
                gate.ended(priority);
            }
            let second = Duration::from_secs(1);
            state.suspects.retain(|(target, at)| {
                *target != permit.target && now.saturating_sub(*at) < second
            });
            if is_suspect {
                state.suspects.push((permit.target, now));
            }
            let throttled = failure == Failure::Throttled;
            if throttled && (names_account || state.suspects.len() >= SUSPECTS) {
                state.suspects.clear();
                let epoch = permit.at_account.unwrap_or_default();
                let sent = Sent { priority, units: 1, epoch };
                state.account.limiter.failed(failure, sent, asked, fraction, now);
                rates[1] = state.account.limiter.learned(now);
            } else {
                state.account.limiter.abandoned(priority);
            }
            state.account.ended(priority);
        }
        let labels = [permit.asking.label(), ("rowkey.priority", permit.priority.name())];
        self.telemetry.count(PACE_PUSHBACKS.name, &labels, 1);
        let [target, account] = rates;
        if let Some(rate) = target {
            self.tell_rate(&[permit.asking.label()], rate);
        }
        if let Some(rate) = account {
            self.tell_rate(&[], rate);
        }
    }

    /// Reports the rate of the target of a resource that was changed last, or, without a label, of the account.
    fn tell_rate(&self, labels: &[(&'static str, &str)], rate: f64) {
        self.telemetry.gauge(PACE_RATE.name, labels, rate);
    }

    /// The number of targets that are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.state().as_ref().map_or(0, |state| state.targets.len())
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        // The state is consistent at every unlock, so a panic elsewhere does not damage it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
