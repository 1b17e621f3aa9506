//! Whether one partition limits what is sent at a pace.
//!
//! A partition is one lane: requests to it wait for its rate, however many others could be sent. That is so at a time when all
//! requests at the pace, in flight or waiting, are about one partition, and the last one that was sent to a partition had to wait for
//! the rate of this one.
//! A moment says little, because a job reads between two writes; so the share of such times is averaged.

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::Shared;
use super::load::{Kind, Target};
use crate::clock::Clock;

/// How far back the average reaches: what was so before counts for 37 percent.
const MEMORY: Duration = Duration::from_secs(2);
/// The share of the time from which on the partition is the limit.
const HALF: f64 = 0.5;

/// One partition that limits what is sent at a [`Pace`](super::Pace): most of the time lately, all its requests were about this
/// partition, and waited for its rate. More requests at once make it no faster.
///
/// ```
/// use rowkey::pace::Pace;
/// use rowkey::{DynamicEntity, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # account.table("events").create().await?;
/// let (events, pace) = (account.table("events"), Pace::background());
/// pace.scope(events.upsert(&DynamicEntity::new("device-7", "1"))).await?;
/// if let Some(lane) = pace.lane() {
///     println!("one partition limits it, to {} entities a second", lane.entities_per_second);
/// }
/// # assert!(pace.lane().is_none(), "one request does not wait");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lane {
    /// The rate of the partition now: that of the [`Targets`](super::Targets), or less if the service has pushed back.
    pub entities_per_second: u32,
}

/// What is in flight or waits at a pace.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The targets, each with the number of its requests. Few: a job has some requests at once.
    active: Vec<(Target, u32)>,
    /// The partition of the last request, and the rate that it had to wait for.
    limited: Option<(Target, f64)>,
    /// The share of the time lately in which `limited` alone was active.
    share: f64,
    since: Duration,
}

impl Lanes {
    /// Accounts for the time since the last change.
    fn advance(&mut self, now: Duration) {
        let is_lane = match (&*self.active, self.limited) {
            ([(only, _)], Some((limited, _))) => *only == limited,
            _ => false,
        };
        let elapsed = now.saturating_sub(self.since).as_secs_f64();
        let kept = (-elapsed / MEMORY.as_secs_f64()).exp();
        self.share = self.share * kept + if is_lane { 1.0 - kept } else { 0.0 };
        self.since = self.since.max(now);
    }

    fn begin(&mut self, target: Target, now: Duration) {
        self.advance(now);
        match self.active.iter_mut().find(|(other, _)| *other == target) {
            Some((_, count)) => *count += 1,
            None => self.active.push((target, 1)),
        }
    }

    fn end(&mut self, target: Target, now: Duration) {
        self.advance(now);
        for (other, count) in &mut self.active {
            if *other == target {
                *count -= 1;
            }
        }
        self.active.retain(|(_, count)| *count > 0);
    }

    /// Records that a request passes the gate of its partition, and the rate that it had to wait for.
    fn passes(&mut self, target: Target, rate: Option<f64>, now: Duration) {
        self.advance(now);
        self.limited = rate.map(|rate| (target, rate));
    }

    fn lane(&self) -> Option<Lane> {
        let (_, rate) = self.limited.filter(|_| self.share >= HALF)?;
        Some(Lane { entities_per_second: whole(rate) })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and a rate is positive"
)]
fn whole(rate: f64) -> u32 {
    rate.round() as u32
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // The state is consistent at every unlock, so a panic elsewhere does not damage it.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lane(&self) -> Option<Lane> {
        self.lanes().lane()
    }
}

/// A request that wants to be sent or is in flight, until this is dropped.
pub(super) struct Active<'a> {
    shared: Arc<Shared>,
    clock: &'a dyn Clock,
    target: Target,
    kind: Kind,
}

impl<'a> Active<'a> {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        clock: &'a dyn Clock,
        (target, kind): (Target, Kind),
    ) -> Self {
        shared.lanes().begin(target, clock.elapsed());
        Self { shared: Arc::clone(shared), clock, target, kind }
    }

    /// Records that it passes the gate of its target, and the rate that it had to wait for.
    pub(super) fn passes(&self, rate: Option<f64>) {
        // A scan between two writes changes nothing.
        if self.kind == Kind::Partition {
            self.shared.lanes().passes(self.target, rate, self.clock.elapsed());
        }
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.shared.lanes().end(self.target, self.clock.elapsed());
    }
}

impl fmt::Debug for Active<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Active").field("target", &self.target).finish_non_exhaustive()
    }
}
