//! A task that becomes a dead letter, while its messages come again, and its letter is redriven and purged.
//!
//! Two workers receive messages of one task. What fails is put aside: the verdict is written into the message,
//! then the letter is stored together with a row of the task, then the message is deleted. A worker may stop
//! between any two requests, and its message appears again. A redrive puts a hidden message and then deletes the
//! letter; it may stop in between, and the message appears. Two redrives may run at once. The row of the task stays,
//! and recognizes messages.

use stateright::{Model, Property};

/// Workers.
pub const WORKERS: usize = 2;
/// Messages in all: the first one and two of redrives.
pub const MESSAGES: usize = 3;
/// Redrives at a time.
pub const REDRIVES: usize = 2;

/// What must be done, each with the disaster that follows without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each rule is on or off")]
pub struct Rules {
    /// The letter is stored before the message is deleted.
    pub letter_before_deletion: bool,
    /// The verdict is written into the message before the letter is stored.
    pub verdict_before_letter: bool,
    /// A message with a verdict is dropped only if the row of the task says so.
    pub verdict_is_checked: bool,
    /// The row of the task stays when the letter is redriven or purged.
    pub task_row_stays: bool,
    /// The row of a purged task covers the other messages of its redrives.
    pub purges_are_remembered: bool,
    /// The letter of a message that was redriven later takes the place of the one before.
    pub newer_letters_replace: bool,
    /// A message of a redrive is looked up before it is done.
    pub redriven_messages_are_checked: bool,
    /// A redrive puts the message before it deletes the letter.
    pub redrive_puts_first: bool,
    /// A redrive deletes the letter that it read, and not one that was stored since.
    pub redrive_deletes_what_it_read: bool,
    /// The row of the task names the redrive that deleted the letter, and messages of others are dropped.
    pub redrives_are_told_apart: bool,
    /// A worker that receives the message of a redrive completes that: the letter is deleted if it is still there,
    /// and the row of the task names the redrive.
    pub workers_complete_redrives: bool,
}

impl Rules {
    /// All rules.
    pub const ALL: Self = Self {
        letter_before_deletion: true,
        verdict_before_letter: true,
        verdict_is_checked: true,
        task_row_stays: true,
        purges_are_remembered: true,
        newer_letters_replace: true,
        redriven_messages_are_checked: true,
        redrive_puts_first: true,
        redrive_deletes_what_it_read: true,
        redrives_are_told_apart: true,
        workers_complete_redrives: true,
    };
}

/// The model.
#[derive(Clone, Debug)]
pub struct Letters {
    /// The rules.
    pub rules: Rules,
}

/// A message in the queue. Its place is its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// How often the task had been redriven when it was put.
    redriven: u8,
    /// The redrive that put it; 0 for the first message.
    run: u8,
    is_visible: bool,
    /// The worker whose receipt is good.
    receipt: Option<usize>,
    has_verdict: bool,
    /// Whether its letter was stored; the program does not know this.
    was_stored: bool,
}

/// What became of a message's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It was not put yet.
    Empty,
    /// It is in the queue.
    Queued(Message),
    /// It was deleted.
    Deleted,
}

/// How far a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Worker {
    /// It has no message.
    Idle,
    /// It does the task.
    Working(usize),
    /// It is about to store the letter of a message that was redriven so often.
    Storing(usize, u8),
    /// Only the deletion of the message remains.
    Deleting(usize),
}

/// The letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Letter {
    redriven: u8,
    etag: u8,
    message: usize,
}

/// The row of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskRow {
    has_letter: bool,
    redriven: u8,
    /// The redrive that deleted the letter; 0 if there is none.
    run: u8,
    message: usize,
    is_purged: bool,
}

/// A redrive between its two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Half {
    letter: Letter,
    run: u8,
    /// The message that it put.
    put: Option<usize>,
}

/// Everything that is stored, known or on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each says what happened once")]
pub struct World {
    places: [Place; MESSAGES],
    workers: [Worker; WORKERS],
    letter: Option<Letter>,
    task: Option<TaskRow>,
    stored: u8,
    /// The letters that redrives have half moved.
    redriving: [Option<Half>; REDRIVES],
    /// Redrives that have begun.
    runs: u8,
    /// For each number of redrives, the message that was worked on.
    worked: [Option<usize>; MESSAGES],
    /// Two messages of a task that was redriven once were worked on.
    was_redriven_twice: bool,
    is_done: bool,
    is_purged: bool,
    /// How often the task had been redriven when its letter was purged.
    purged: u8,
    /// A message was worked on although its letter, or a newer one, is there or was purged.
    was_done_while_dead: bool,
    /// Two dead letters were written for one message.
    was_stored_twice: bool,
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A worker receives a message, and looks the task up if it has to.
    Receive(usize, usize),
    /// The handler succeeds.
    Succeed(usize),
    /// The handler fails for good: the worker writes the verdict.
    Fail(usize),
    /// A worker takes the next step of settling.
    Settle(usize),
    /// A worker stops.
    Crash(usize),
    /// A message appears again.
    Appear(usize),
    /// A redrive takes its next step.
    Redrive(usize),
    /// A redrive stops.
    RedriveStops(usize),
    /// The letter is purged.
    Purge,
}

impl Letters {
    /// Whether the row of the task covers a message, which is then neither processed nor recorded.
    fn covers(&self, world: &World, at: usize, message: Message) -> bool {
        let Some(task) = world.task else { return false };
        let Message { redriven, run, has_verdict, .. } = message;
        if task.has_letter {
            return redriven <= task.redriven || !self.rules.newer_letters_replace;
        }
        let is_purged = task.is_purged && self.rules.purges_are_remembered;
        let by_another = redriven == task.redriven && task.run != 0 && run != task.run;
        let is_overtaken = redriven < task.redriven || by_another;
        task.message == at
            || (has_verdict && redriven < task.redriven)
            || (redriven > 0 && is_overtaken && self.rules.redrives_are_told_apart)
            || (is_purged && (1..=task.redriven).contains(&redriven))
    }

    fn receive(&self, world: &mut World, worker: usize, at: usize) -> Option<()> {
        let covered = {
            let Place::Queued(message) = world.places[at] else { return None };
            let is_checked = message.has_verdict
                || (message.redriven > 0 && self.rules.redriven_messages_are_checked);
            let covers = self.covers(world, at, message);
            let is_half = world.task.is_some_and(|task| message.redriven > task.redriven);
            if is_checked && !covers && is_half && self.rules.workers_complete_redrives {
                world.letter = None;
                let task = world.task.as_mut()?;
                (task.has_letter, task.redriven, task.run) = (false, message.redriven, message.run);
                task.is_purged = false;
            }
            is_checked && (covers || (message.has_verdict && !self.rules.verdict_is_checked))
        };
        let (letter, purged) = (world.letter, world.purged);
        let Place::Queued(message) = &mut world.places[at] else { return None };
        message.is_visible = false;
        message.receipt = Some(worker);
        let is_dead = letter.is_some_and(|letter| {
            message.was_stored || (message.redriven > 0 && message.redriven <= letter.redriven)
        });
        let is_dead = is_dead || (1..=purged).contains(&message.redriven);
        world.workers[worker] = if covered {
            Worker::Deleting(at)
        } else if message.has_verdict {
            Worker::Storing(at, message.redriven)
        } else {
            world.was_done_while_dead |= is_dead;
            let redriven = usize::from(message.redriven);
            if redriven > 0 {
                let other = world.worked[redriven].replace(at);
                world.was_redriven_twice |= other.is_some_and(|other| other != at);
            }
            Worker::Working(at)
        };
        Some(())
    }

    fn store(&self, world: &mut World, at: usize, redriven: u8) {
        // A message that was deleted first is known by what its worker remembers.
        let gone = Message {
            redriven,
            run: world.task.map_or(0, |task| task.run),
            is_visible: false,
            receipt: None,
            has_verdict: false,
            was_stored: false,
        };
        let message = match world.places[at] {
            Place::Queued(message) => message,
            Place::Empty | Place::Deleted => gone,
        };
        if self.covers(world, at, message) {
            return;
        }
        if let Place::Queued(message) = &mut world.places[at] {
            world.was_stored_twice |= message.was_stored;
            message.was_stored = true;
        }
        world.stored += 1;
        world.letter = Some(Letter { redriven, etag: world.stored, message: at });
        world.task =
            Some(TaskRow { has_letter: true, redriven, run: 0, message: at, is_purged: false });
    }

    fn settle(&self, world: &mut World, worker: usize) -> Option<()> {
        let is_ours = |world: &World, at: usize| matches!(world.places[at], Place::Queued(message) if message.receipt == Some(worker));
        match world.workers[worker] {
            Worker::Idle | Worker::Working(_) => return None,
            // A worker with an invalid receipt must not write a dead letter.
            Worker::Storing(at, _) if self.rules.letter_before_deletion && !is_ours(world, at) => {
                world.workers[worker] = Worker::Idle;
            }
            Worker::Storing(at, redriven) if self.rules.letter_before_deletion => {
                self.store(world, at, redriven);
                world.workers[worker] = Worker::Deleting(at);
            }
            Worker::Storing(at, redriven) => {
                if is_ours(world, at) {
                    world.places[at] = Place::Deleted;
                    world.workers[worker] = Worker::Storing(at, redriven);
                } else {
                    self.store(world, at, redriven);
                    world.workers[worker] = Worker::Idle;
                }
            }
            Worker::Deleting(at) => {
                if is_ours(world, at) {
                    world.places[at] = Place::Deleted;
                }
                world.workers[worker] = Worker::Idle;
            }
        }
        Some(())
    }

    /// Deletes the letter by a redrive, or purges it if `run` is 0.
    fn without_letter(&self, world: &mut World, letter: Letter, run: u8) {
        world.letter = None;
        let is_purged = run == 0;
        let redriven = letter.redriven + u8::from(!is_purged);
        let row = TaskRow { has_letter: false, redriven, run, message: letter.message, is_purged };
        world.task = Some(row).filter(|_| self.rules.task_row_stays);
    }

    fn redrive(&self, world: &mut World, at: usize) -> Option<()> {
        let put = |world: &mut World, letter: Letter, run, is_visible| {
            let at = world.places.iter().position(|place| *place == Place::Empty)?;
            let (redriven, receipt) = (letter.redriven + 1, None);
            let (has_verdict, was_stored) = (false, false);
            let message = Message { redriven, run, is_visible, receipt, has_verdict, was_stored };
            world.places[at] = Place::Queued(message);
            Some(at)
        };
        let rules = &self.rules;
        match world.redriving[at].take() {
            None => {
                let letter = world.letter?;
                world.runs += 1;
                let run = world.runs;
                let put = if rules.redrive_puts_first {
                    Some(put(world, letter, run, false)?)
                } else {
                    self.without_letter(world, letter, run);
                    None
                };
                world.redriving[at] = Some(Half { letter, run, put });
            }
            Some(Half { letter, run, put: None }) => drop(put(world, letter, run, true)?),
            Some(Half { letter, run, put: Some(place) }) => {
                let was_read = world.letter == Some(letter)
                    || (world.letter.is_some() && !rules.redrive_deletes_what_it_read);
                let is_ours = world.task.is_some_and(|task| !task.has_letter && task.run == run);
                let Place::Queued(message) = &mut world.places[place] else { return Some(()) };
                if was_read {
                    message.is_visible = true;
                    self.without_letter(world, letter, run);
                } else if !is_ours && message.receipt.is_none() {
                    world.places[place] = Place::Deleted;
                }
            }
        }
        Some(())
    }
}

impl Model for Letters {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut places = [Place::Empty; MESSAGES];
        places[0] = Place::Queued(Message {
            redriven: 0,
            run: 0,
            is_visible: true,
            receipt: None,
            has_verdict: false,
            was_stored: false,
        });
        vec![World {
            places,
            workers: [Worker::Idle; WORKERS],
            letter: None,
            task: None,
            stored: 0,
            redriving: [None; REDRIVES],
            runs: 0,
            worked: [None; MESSAGES],
            was_redriven_twice: false,
            is_done: false,
            is_purged: false,
            purged: 0,
            was_done_while_dead: false,
            was_stored_twice: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (at, place) in world.places.iter().enumerate() {
            let Place::Queued(message) = place else { continue };
            if !message.is_visible {
                actions.push(Action::Appear(at));
                continue;
            }
            let idle = |worker: &usize| world.workers[*worker] == Worker::Idle;
            actions.extend((0..WORKERS).filter(idle).map(|worker| Action::Receive(worker, at)));
        }
        for (worker, state) in world.workers.iter().enumerate() {
            match state {
                Worker::Idle => continue,
                Worker::Working(_) => {
                    actions.extend([Action::Succeed(worker), Action::Fail(worker)]);
                }
                Worker::Storing(..) | Worker::Deleting(_) => actions.push(Action::Settle(worker)),
            }
            actions.push(Action::Crash(worker));
        }
        for (at, half) in world.redriving.iter().enumerate() {
            actions.push(Action::Redrive(at));
            if half.is_some() {
                actions.push(Action::RedriveStops(at));
            }
        }
        if world.letter.is_some() && !world.is_purged {
            actions.push(Action::Purge);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Receive(worker, at) => self.receive(&mut next, worker, at)?,
            Action::Succeed(worker) => {
                let Worker::Working(at) = world.workers[worker] else { return None };
                next.is_done = true;
                next.workers[worker] = Worker::Deleting(at);
            }
            Action::Fail(worker) => {
                let Worker::Working(at) = world.workers[worker] else { return None };
                next.workers[worker] = match &mut next.places[at] {
                    // The verdict is written under the receipt: a message of another worker is left alone.
                    Place::Queued(message) if message.receipt == Some(worker) => {
                        message.has_verdict = self.rules.verdict_before_letter;
                        Worker::Storing(at, message.redriven)
                    }
                    _ => Worker::Idle,
                };
            }
            Action::Settle(worker) => self.settle(&mut next, worker)?,
            Action::Crash(worker) => next.workers[worker] = Worker::Idle,
            Action::Appear(at) => {
                let Place::Queued(message) = &mut next.places[at] else { return None };
                message.is_visible = true;
            }
            Action::Redrive(at) => self.redrive(&mut next, at)?,
            Action::RedriveStops(at) => next.redriving[at] = None,
            Action::Purge => {
                let letter = world.letter?;
                self.without_letter(&mut next, letter, 0);
                next.is_purged = true;
                next.purged = letter.redriven;
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a task is done, purged or somewhere", |_, world: &World| {
                let is_queued = |place: &Place| matches!(place, Place::Queued(_));
                world.is_done
                    || world.is_purged
                    || world.letter.is_some()
                    || world.places.iter().any(is_queued)
            }),
            Property::always("a dead letter is final", |_, world: &World| {
                !world.was_done_while_dead
            }),
            Property::always("a message is put aside once", |_, world: &World| {
                !world.was_stored_twice
            }),
            Property::always("a task is redriven by one message", |_, world: &World| {
                !world.was_redriven_twice
            }),
            Property::sometimes("a task is redriven twice and done", |_, world: &World| {
                world.is_done && world.places.iter().all(|place| *place == Place::Deleted)
            }),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.stored <= 4
    }
}

#[cfg(test)]
mod tests {
    use stateright::{Checker as _, HasDiscoveries};

    use super::*;

    const KEPT: &str = "a task is done, purged or somewhere";
    const FINAL: &str = "a dead letter is final";
    const ONCE: &str = "a message is put aside once";
    const REDRIVEN: &str = "a task is redriven by one message";

    /// Whether this is lost without a rule.
    fn is_lost(rules: Rules, what: &'static str) -> bool {
        let model = Letters { rules }.checker().threads(2);
        let checker = model.finish_when(HasDiscoveries::AnyOf([what].into())).spawn_bfs().join();
        checker.discoveries().contains_key(what)
    }

    #[test]
    fn a_dead_letter_is_kept_final_and_unique() {
        let checker = Letters { rules: Rules::ALL }.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.unique_state_count() > 10_000, "{}", checker.unique_state_count());
    }

    #[test]
    fn each_rule_is_needed() {
        let all = Rules::ALL;
        for (rules, lost) in [
            (Rules { letter_before_deletion: false, ..all }, KEPT),
            (Rules { verdict_before_letter: false, ..all }, FINAL),
            (Rules { verdict_is_checked: false, ..all }, KEPT),
            (Rules { task_row_stays: false, ..all }, ONCE),
            (Rules { purges_are_remembered: false, ..all }, FINAL),
            (Rules { newer_letters_replace: false, ..all }, KEPT),
            (Rules { redriven_messages_are_checked: false, ..all }, FINAL),
            (Rules { redrive_puts_first: false, ..all }, KEPT),
            (Rules { redrive_deletes_what_it_read: false, ..all }, KEPT),
            (Rules { redrives_are_told_apart: false, ..all }, REDRIVEN),
            (Rules { workers_complete_redrives: false, ..all }, REDRIVEN),
        ] {
            assert!(is_lost(rules, lost), "{rules:?}: {lost}");
        }
    }
}
