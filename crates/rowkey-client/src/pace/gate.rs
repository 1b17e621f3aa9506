//! The gate of one target: its limiter, and the lines of requests that wait for it.
//!
//! There is a line for each priority, in the order of arrival. Only the first of each line asks the limiter; the
//! others are woken when they become the first. The foreground goes first. While a background request waits,
//! the units of foreground requests that pass it are counted; after nine times its own, it goes before them.
//!
//! A future that is not polled cannot take its turn. So each request that waits looks once a second
//! ([`tick`](Gate::tick)) whether its line moves. If it does not, the first one goes to the end of the line; and
//! the first one that is polled no longer waits for the other line, nor, after ten seconds, for responses. One
//! request at a time does so, because each that passes is a move.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::Priority;
use super::limiter::{Limiter, Ready};

/// A background request that waits goes after this many times its units of the foreground.
const SHARE: u64 = 9;
/// Ticks without a move of its line after which the first request no longer waits for responses.
const PATIENCE: u32 = 10;

/// The limiter of a target with the requests that wait for it.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) limiter: Limiter,
    lines: [VecDeque<Waiting>; 2],
    /// How often each line moved: a request passed, left or was answered.
    moves: [u64; 2],
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

/// What the first request of a line waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Haste {
    /// The other line and the limiter.
    Orderly,
    /// The limiter: the other line had its turn and did not take it. Its futures may not be polled.
    Overtaking,
    /// Nothing but pauses: no response came for long. The futures of those in flight may not be polled.
    Forcing,
}

/// What a request that waits saw at its last tick.
#[derive(Debug, Default)]
pub(super) struct Watch {
    moves: [u64; 2],
    /// Ticks without a move.
    ticks: u32,
}

impl Gate {
    pub(super) fn new(limiter: Limiter) -> Self {
        let told = Duration::ZERO;
        let (lines, moves) = Default::default();
        Self { limiter, lines, moves, passed: 0, tickets: 0, told }
    }

    /// Lets a request pass, and returns the epoch of the limiter, or what it has to wait for.
    pub(super) fn ask(&mut self, wish: Wish, now: Duration) -> Result<u64, Ready> {
        let Wish { priority, units, ticket, haste } = wish;
        if self.first(priority) != ticket {
            return Err(Ready::Later);
        }
        let ready = match haste {
            Haste::Orderly => self.ready(priority, now),
            Haste::Overtaking | Haste::Forcing => self.limiter.ready(priority, self.owed(), now),
        };
        match ready {
            Ready::Now => {}
            Ready::Later if haste == Haste::Forcing => {}
            ready => {
                if priority == Priority::Foreground && ready == Ready::Later {
                    self.wake_first(Priority::Background);
                }
                return Err(ready);
            }
        }
        Ok(self.pass(priority, units, ticket, now))
    }

    /// Whether the first request of a line may pass, or would if it asked.
    fn ready(&self, priority: Priority, now: Duration) -> Ready {
        use Priority::{Background, Foreground};
        let owed = self.owed();
        match priority {
            Background if !owed && !self.line(Foreground).is_empty() => Ready::Later,
            Foreground if owed && self.limiter.ready(Background, true, now) == Ready::Now => {
                Ready::Later
            }
            _ => self.limiter.ready(priority, owed, now),
        }
    }

    /// Looks whether its line moves, for a request that has waited a second since it last looked. Returns what
    /// the request waits for from now on.
    pub(super) fn tick(
        &mut self,
        watch: &mut Watch,
        (priority, ticket): (Priority, u64),
        now: Duration,
    ) -> Haste {
        let line = priority as usize;
        let seen = std::mem::replace(&mut watch.moves, self.moves);
        if seen[line] != self.moves[line] {
            watch.ticks = 0;
            return Haste::Orderly;
        }
        watch.ticks = watch.ticks.saturating_add(1);
        if self.first(priority) == Some(ticket) {
            return match watch.ticks {
                PATIENCE.. => Haste::Forcing,
                // The other line moves, so this one waits in its turn.
                _ if seen != self.moves => Haste::Orderly,
                _ => Haste::Overtaking,
            };
        }
        let is_stuck = match self.ready(priority, now) {
            Ready::Now => true,
            Ready::At(_) => false,
            // Twice, so that the first one is not moved away before it loses its patience.
            Ready::Later => watch.ticks >= 2 * PATIENCE,
        };
        if is_stuck {
            self.lines[line].rotate_left(1);
            self.moved(priority);
            self.wake();
        }
        Haste::Orderly
    }

    /// Records that a line moves.
    fn moved(&mut self, priority: Priority) {
        let moves = &mut self.moves[priority as usize];
        *moves = moves.wrapping_add(1);
    }

    /// Records that a request in flight has ended, and wakes those that may pass now.
    pub(super) fn ended(&mut self, priority: Priority) {
        self.moved(priority);
        self.wake();
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
        self.moved(priority);
        self.leave(priority, ticket);
        epoch
    }

    /// Adds a request to its line, which it watches from now on.
    pub(super) fn line_up(
        &mut self,
        priority: Priority,
        units: u64,
        watch: &mut Watch,
    ) -> (u64, Arc<Notify>) {
        watch.moves = self.moves;
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
        let line = &mut self.lines[priority as usize];
        // Nearly always the first.
        let at = ticket.and_then(|ticket| line.iter().position(|waiting| waiting.ticket == ticket));
        if let Some(at) = at {
            line.remove(at);
            self.moved(priority);
        }
        self.wake();
    }

    /// Wakes the first of each line: the limiter may have changed its mind.
    pub(super) fn wake(&self) {
        self.wake_first(Priority::Foreground);
        self.wake_first(Priority::Background);
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.lines.iter().all(VecDeque::is_empty)
    }

    /// Whether the gate can be dropped without any effect.
    pub(super) fn is_idle(&self, now: Duration) -> bool {
        !self.has_waiting() && self.limiter.is_idle(now)
    }

    /// Whether the first background request goes before the foreground.
    fn owed(&self) -> bool {
        let first = self.line(Priority::Background).front();
        first.is_some_and(|first| self.passed >= first.units.saturating_mul(SHARE))
    }

    /// The ticket of the first request of a line.
    fn first(&self, priority: Priority) -> Option<u64> {
        self.line(priority).front().map(|waiting| waiting.ticket)
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
        let [one, two] = [(); 2].map(|()| line_up(&mut gate, Background, 10).0);
        let urgent = line_up(&mut gate, Foreground, 1).0;
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
            let ticket = *waiting.get_or_insert_with(|| line_up(&mut gate, Background, 5).0);
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

    fn line_up(gate: &mut Gate, priority: Priority, units: u64) -> (u64, Watch) {
        let mut watch = Watch::default();
        (gate.line_up(priority, units, &mut watch).0, watch)
    }

    /// What a request that has waited for this many ticks waits for.
    fn ticks(gate: &mut Gate, watch: &mut Watch, place: (Priority, u64), number: u32) -> Haste {
        (0..number).fold(Haste::Orderly, |_, _| gate.tick(watch, place, Duration::ZERO))
    }

    #[test]
    fn the_line_goes_on_if_its_first_request_is_not_polled() {
        use Priority::Background;
        let (mut gate, now) = (gate(), Duration::ZERO);
        let stuck = line_up(&mut gate, Background, 1).0;
        let [(second, mut watch), (third, mut other)] =
            [(); 2].map(|()| line_up(&mut gate, Background, 1));
        // Their first look finds the line as it was, and moves the first one to its end.
        assert_eq!(ticks(&mut gate, &mut watch, (Background, second), 1), Haste::Orderly);
        assert_eq!(ticks(&mut gate, &mut other, (Background, third), 1), Haste::Orderly);
        assert!(gate.line(Background).iter().map(|one| one.ticket).eq([second, third, stuck]));
        gate.ask(wish(Background, 1, Some(second)), now).unwrap();
        gate.ask(wish(Background, 1, Some(third)), Duration::from_secs(1)).unwrap();
    }

    #[test]
    fn a_line_that_moves_keeps_its_order_however_long_it_is() {
        use Priority::Background;
        let mut gate = gate();
        let (tickets, mut watches): (Vec<u64>, Vec<Watch>) =
            (0..100).map(|_| line_up(&mut gate, Background, 10)).unzip();
        for second in 0..100 {
            let now = Duration::from_secs(second);
            let first = usize::try_from(second).unwrap();
            gate.ask(wish(Background, 10, Some(tickets[first])), now).unwrap();
            for (ticket, watch) in tickets.iter().zip(&mut watches).skip(first + 1) {
                assert_eq!(gate.tick(watch, (Background, *ticket), now), Haste::Orderly);
                assert!(gate.ask(wish(Background, 10, Some(*ticket)), now).is_err());
            }
            gate.limiter.answered(Background, 10, now);
            gate.ended(Background);
        }
    }

    #[test]
    fn in_an_outage_one_request_in_ten_seconds_waits_for_no_response() {
        use Priority::Background;
        let (mut gate, mut sent) = (gate(), 0);
        for _ in 0..2 {
            gate.pass(Background, 1, None, Duration::ZERO);
        }
        let mut waiting: Vec<(u64, Watch)> =
            (0..50).map(|_| line_up(&mut gate, Background, 1)).collect();
        for second in 0..100 {
            let now = Duration::from_secs(second);
            waiting.retain_mut(|(ticket, watch)| {
                let haste = gate.tick(watch, (Background, *ticket), now);
                let wish = Wish { haste, ..wish(Background, 1, Some(*ticket)) };
                gate.ask(wish, now).is_err()
            });
            sent = 50 - waiting.len();
        }
        assert!((8..=11).contains(&sent), "{sent}");
    }

    #[test]
    fn a_foreground_that_is_not_polled_does_not_stop_the_background() {
        use Priority::{Background, Foreground};
        let mut gate = gate();
        line_up(&mut gate, Foreground, 1);
        let (ticket, mut watch) = line_up(&mut gate, Background, 1);
        let (place, now) = ((Background, ticket), Duration::ZERO);
        let ask = wish(Background, 1, Some(place.1));
        assert_eq!(gate.ask(ask, now), Err(Ready::Later));
        let haste = ticks(&mut gate, &mut watch, place, 1);
        assert_eq!(haste, Haste::Overtaking);
        gate.ask(Wish { haste, ..ask }, now).unwrap();
    }
}
