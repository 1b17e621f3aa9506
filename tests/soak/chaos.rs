//! Faults: failed requests of every kind, killed and suspended processes, and outages.

use std::fmt;
use std::time::Duration;

use crate::Result;
use rowkey_emulator::{ErrorCode, Fault, Injected, Server, Service};
use rowkey_tests::random::Random;

use crate::clock::Advancing;
use crate::jobs::VISIBILITY;
use crate::processes::{Processes, Role};

/// How many requests are waited for by faults at a time.
const FAULTS: usize = 6;
/// An outage by the server's clock: a number of steps of one length.
const OUTAGE: (u32, Duration) = (60, Duration::from_secs(10));

/// Something that is to happen when so much has been done.
#[derive(Clone, Copy, Debug)]
enum Event {
    Kill,
    Outage,
    Stop,
}

pub(crate) struct Chaos<'s> {
    server: &'s Server,
    random: Random,
    faults: Vec<Injected>,
    /// The scheduled events, latest first.
    events: Vec<(u64, Event)>,
    outage: Option<(Injected, u32)>,
    failed: usize,
    refused: u64,
    killed: u32,
    stopped: u32,
    outages: u32,
}

impl<'s> Chaos<'s> {
    /// For this many tasks. In a run of 500,000 processes are killed 200 times and stopped 100 times, and there
    /// are 4 outages; in one of 20,000 it is 20, 10 and one.
    pub(crate) fn new(server: &'s Server, tasks: u64, seed: u64) -> Self {
        let mut random = Random(seed);
        let counts = [
            (Event::Kill, (tasks / 2_500).max((tasks / 500).clamp(2, 20))),
            (Event::Stop, (tasks / 5_000).max((tasks / 1_000).clamp(2, 10))),
            (Event::Outage, (tasks / 125_000).max(1)),
        ];
        let mut events = Vec::new();
        for (event, count) in counts {
            for at in 0..count {
                // Spread over the run, and away from its end.
                let at = (at * 90 + random.within(90)) * tasks / (100 * count);
                events.push((at, event));
            }
        }
        events.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self {
            server,
            random,
            faults: Vec::new(),
            events,
            outage: None,
            failed: 0,
            refused: 0,
            killed: 0,
            stopped: 0,
            outages: 0,
        }
    }

    /// Puts new faults in the place of those that have been met.
    fn inject(&mut self) {
        let before = self.faults.len();
        self.faults.retain(|fault| fault.hits() == 0);
        self.failed += before - self.faults.len();
        while self.faults.len() < FAULTS {
            let requests = Fault::any().nth(1 + self.random.within(500));
            let fault = match self.random.below(4) {
                0 => requests.close_before_commit(),
                1 => requests.close_after_commit(),
                2 => requests.reject(ErrorCode::SERVER_BUSY),
                _ => requests.reject(ErrorCode::INTERNAL_ERROR),
            };
            self.faults.push(self.server.inject(fault));
        }
    }

    /// Triggers the events that are due after `done` tasks have been put.
    pub(crate) fn tick(
        &mut self,
        processes: &mut Processes,
        clock: &mut Advancing,
        done: u64,
    ) -> Result {
        self.inject();
        if let Some((fault, left)) = &mut self.outage {
            clock.advance(OUTAGE.1)?;
            *left -= 1;
            if *left == 0 {
                self.refused += fault.hits();
                self.outage = None;
            }
        }
        while let Some((_, event)) = self.events.pop_if(|(at, _)| *at <= done) {
            let role = if self.random.one_in(4) { Role::Writer } else { Role::Worker };
            let victim = self.random.next();
            match event {
                Event::Kill => {
                    processes.kill(role, victim)?;
                    self.killed += 1;
                }
                Event::Stop => {
                    processes.stop(role, victim)?;
                    // Other workers receive its tasks meanwhile.
                    clock.advance(VISIBILITY + Duration::from_secs(2))?;
                    self.stopped += 1;
                }
                Event::Outage if self.outage.is_none() => {
                    let down = Fault::service(Service::Queue).reject(ErrorCode::SERVER_BUSY);
                    self.outage = Some((self.server.inject(down), OUTAGE.0));
                    self.outages += 1;
                }
                Event::Outage => {}
            }
        }
        Ok(())
    }

    /// Whether there is nothing to come.
    pub(crate) fn is_over(&self) -> bool {
        self.events.is_empty() && self.outage.is_none()
    }

    /// From here on nothing goes wrong.
    pub(crate) fn end(&mut self) {
        self.failed += self.faults.drain(..).filter(|fault| fault.hits() > 0).count();
    }
}

impl fmt::Display for Chaos<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { failed, refused, killed, stopped, outages, .. } = self;
        write!(
            f,
            "{failed} requests failed, and {refused} in {outages} outages of the queue; {killed} processes \
             killed, {stopped} stopped"
        )
    }
}
