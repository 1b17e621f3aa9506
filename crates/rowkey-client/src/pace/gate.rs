//! The gate of one target: its limiter, and the lines of requests that wait for it.
//!
//! There is a line for each priority, in the order of arrival. Only the first of each line asks the limiter; the
//! others are woken when they become the first. The foreground goes first. While a background request waits,
//! the units of foreground requests that pass it are counted; after nine times its own, it goes before them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::Priority;
use super::limiter::{Limiter, Ready};

/// A background request that waits goes after this many times its units of the foreground.
const SHARE: u64 = 9;

/// The limiter of a target with the requests that wait for it.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) limiter: Limiter,
    lines: [VecDeque<Waiting>; 2],
    /// Units of foreground requests since a background request began to wait.
    passed: u64,
    tickets: u64,
    /// When the rate was last reported.
    pub(super) told: Duration,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    units: u64,
    wake: Arc<Notify>,
}

/// A request that wants to pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) priority: Priority,
    pub(super) units: u64,
    /// Its place in the line, if it has one.
    pub(super) ticket: Option<u64>,
    pub(super) haste: Haste,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Haste {
    /// The line and the limiter.
    Orderly,
    /// The limiter: the first of the line had its turn and did not take it. Its future may not be polled.
    Overtaking,
    /// Nothing but pauses: no response came for long. The futures of those in flight may not be polled.
    Forcing,
}

impl Gate {
    pub(super) fn new(limiter: Limiter) -> Self {
        let told = Duration::ZERO;
        Self { limiter, lines: Default::default(), passed: 0, tickets: 0, told }
    }

    /// Lets a request pass, and returns the epoch of the limiter, or what it has to wait for.
    pub(super) fn ask(&mut self, wish: Wish, now: Duration) -> Result<u64, Ready> {
        let Wish { priority, units, ticket, haste } = wish;
        let owed = self.owed();
        if haste == Haste::Orderly {
            let first = self.lines[priority as usize].front().map(|waiting| waiting.ticket);
            if first != ticket {
                return Err(Ready::Later);
            }
            match priority {
                Priority::Background if !owed && !self.line(Priority::Foreground).is_empty() => {
                    return Err(Ready::Later);
                }
                Priority::Foreground
                    if owed
                        && self.limiter.ready(Priority::Background, true, now) == Ready::Now =>
                {
                    self.wake_first(Priority::Background);
                    return Err(Ready::Later);
                }
                _ => {}
            }
        }
        match self.limiter.ready(priority, owed, now) {
            Ready::Now => {}
            Ready::Later if haste == Haste::Forcing => {}
            other => return Err(other),
        }
        Ok(self.pass(priority, units, ticket, now))
    }

    /// Lets a request pass that does not wait.
    pub(super) fn pass(
        &mut self,
        priority: Priority,
        units: u64,
        ticket: Option<u64>,
        now: Duration,
    ) -> u64 {
        if priority == Priority::Background {
            self.passed = 0;
        } else if !self.line(Priority::Background).is_empty() {
            self.passed = self.passed.saturating_add(units);
        }
        let epoch = self.limiter.send(priority, units, now);
        self.leave(priority, ticket);
        epoch
    }

    /// Adds a request to its line.
    pub(super) fn line_up(&mut self, priority: Priority, units: u64) -> (u64, Arc<Notify>) {
        if priority == Priority::Background && self.line(priority).is_empty() {
            self.passed = 0;
        }
        self.tickets += 1;
        let (ticket, wake) = (self.tickets, Arc::new(Notify::new()));
        let waiting = Waiting { ticket, units, wake: Arc::clone(&wake) };
        self.lines[priority as usize].push_back(waiting);
        (ticket, wake)
    }

    /// Removes a request from its line, and wakes those that are first now.
    pub(super) fn leave(&mut self, priority: Priority, ticket: Option<u64>) {
        if let Some(ticket) = ticket {
            self.lines[priority as usize].retain(|waiting| waiting.ticket != ticket);
        }
        self.wake();
    }

    /// Wakes the first of each line: the limiter may have changed its mind.
    pub(super) fn wake(&self) {
        self.wake_first(Priority::Foreground);
        self.wake_first(Priority::Background);
    }

    /// Whether the gate can be dropped without any effect.
    pub(super) fn is_idle(&self, now: Duration) -> bool {
        self.lines.iter().all(VecDeque::is_empty) && self.limiter.is_idle(now)
    }

    /// Whether the first background request goes before the foreground.
    fn owed(&self) -> bool {
        let first = self.line(Priority::Background).front();
        first.is_some_and(|first| self.passed >= first.units.saturating_mul(SHARE))
    }

    fn line(&self, priority: Priority) -> &VecDeque<Waiting> {
        &self.lines[priority as usize]
    }

    fn wake_first(&self, priority: Priority) {
        if let Some(first) = self.line(priority).front() {
            first.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(priority: Priority, units: u64, ticket: Option<u64>) -> Wish {
        Wish { priority, units, ticket, haste: Haste::Orderly }
    }

    fn gate() -> Gate {
        Gate::new(Limiter::new(2, Some(100.0), Duration::ZERO))
    }

    #[test]
    fn a_line_is_passed_in_order_and_the_foreground_first() {
        use Priority::{Background, Foreground};
        let (mut gate, now) = (gate(), Duration::ZERO);
        gate.ask(wish(Background, 100, None), now).unwrap();
        let [one, two] = [(); 2].map(|()| gate.line_up(Background, 10).0);
        let urgent = gate.line_up(Foreground, 1).0;
        let later = Duration::from_secs(2);
        assert_eq!(gate.ask(wish(Background, 10, Some(two)), later), Err(Ready::Later));
        assert_eq!(gate.ask(wish(Background, 10, Some(one)), later), Err(Ready::Later));
        assert_eq!(gate.ask(wish(Foreground, 1, None), later), Err(Ready::Later), "a newcomer");
        gate.ask(wish(Foreground, 1, Some(urgent)), later).unwrap();
        gate.ask(wish(Background, 10, Some(one)), later).unwrap();
        assert!(gate.line(Background).iter().map(|waiting| waiting.ticket).eq([two]));
    }

    #[test]
    fn the_background_gets_a_tenth_however_much_the_foreground_sends() {
        use Priority::{Background, Foreground};
        let mut gate = gate();
        let mut units = [0_u64; 2];
        let mut waiting = None;
        for millisecond in 0..60_000 {
            let now = Duration::from_millis(millisecond);
            let ticket = *waiting.get_or_insert_with(|| gate.line_up(Background, 5).0);
            if let Ok(epoch) = gate.ask(wish(Background, 5, Some(ticket)), now) {
                gate.limiter.answered(Background, 5, now);
                (waiting, units[1]) = (None, units[1] + 5);
                let _ = epoch;
            }
            if gate.ask(wish(Foreground, 1, None), now).is_ok() {
                gate.limiter.answered(Foreground, 1, now);
                units[0] += 1;
            }
        }
        let [foreground, background] = units;
        assert!((6000..=6060).contains(&(foreground + background)), "{units:?}");
        assert!(background * 10 >= foreground + background - 60, "{units:?}");
        assert!(background * 10 <= foreground + background + 60, "{units:?}");
    }

    #[test]
    fn one_that_does_not_take_its_turn_is_overtaken() {
        let (mut gate, now) = (gate(), Duration::ZERO);
        gate.line_up(Priority::Background, 1);
        let behind = gate.line_up(Priority::Background, 1).0;
        let wish = wish(Priority::Background, 1, Some(behind));
        assert_eq!(gate.ask(wish, now), Err(Ready::Later));
        gate.ask(Wish { haste: Haste::Overtaking, ..wish }, now).unwrap();
    }
}
