//! A task that is put, delivered at least once, applied once, poisoned and redriven.
//!
//! A producer puts the task, and puts it again if it has no answer. Workers receive messages, send a
//! transaction with the effect and an inbox row, and delete the message. A message may appear again at any
//! time: its worker may have been slow, or have stopped. A transaction may be answered, may land without its
//! answer, may be lost, or may land after its worker gave it up. A message that was received often enough
//! becomes a dead letter. An operator redrives dead letters. A janitor forgets inbox rows.
//!
//! Time is modelled by what has to be over: an inbox row may be forgotten when no transaction of its task can
//! land any more, and then all messages and letters of the task count as old.

use stateright::{Model, Property};

/// Workers.
pub const WORKERS: usize = 2;
/// Messages at a time: two puts and one redrive.
pub const MESSAGES: usize = 3;
/// Receptions after which a message becomes a dead letter.
pub const ATTEMPTS: u8 = 1;

/// What must be done, each with the disaster that follows without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each rule is on or off")]
pub struct Rules {
    /// The inbox row is inserted by the transaction of the effect, which is refused if there is one.
    pub inbox_joins_effect: bool,
    /// A put that is repeated carries the same id, which the caller gave.
    pub puts_keep_their_id: bool,
    /// The message is deleted after the effect is known to be applied.
    pub effect_before_deletion: bool,
    /// The letter is stored before the message is deleted.
    pub letter_before_deletion: bool,
    /// A redrive puts the message before it deletes the letter.
    pub redrive_puts_first: bool,
    /// A redrive deletes the letter that it read, and not one that was written since.
    pub redrive_deletes_what_it_read: bool,
    /// A redrive takes the letters that there were when it began.
    pub redrive_takes_a_snapshot: bool,
    /// An inbox row is kept until no transaction of its task can land.
    pub inbox_outlives_transactions: bool,
    /// A worker puts aside a message whose task is older than inbox rows are kept, also one that was redriven.
    pub old_messages_are_put_aside: bool,
}

impl Rules {
    /// All rules.
    pub const ALL: Self = Self {
        inbox_joins_effect: true,
        puts_keep_their_id: true,
        effect_before_deletion: true,
        letter_before_deletion: true,
        redrive_puts_first: true,
        redrive_deletes_what_it_read: true,
        redrive_takes_a_snapshot: true,
        inbox_outlives_transactions: true,
        old_messages_are_put_aside: true,
    };
}

/// The model.
#[derive(Clone, Debug)]
pub struct Tasks {
    /// The rules.
    pub rules: Rules,
}

/// Which of the ids that a task may have got: one, if puts keep their id.
pub type Id = usize;

/// A message in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    id: Id,
    is_visible: bool,
    /// The worker whose receipt is good.
    receipt: Option<usize>,
    received: u8,
}

/// How far the producer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Producer {
    /// It puts the task.
    Putting,
    /// It has no answer, and puts the task again.
    Unanswered,
    /// The task was put: it must not be lost.
    Done,
    /// It stopped before it had an answer.
    Stopped,
}

/// How far a worker is with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Worker {
    /// It has none.
    Idle,
    /// It is about to send the transaction.
    Received(usize),
    /// It waits for the answer.
    Sent(usize),
    /// The effect is applied: by this transaction, or by one before.
    Applied(usize),
    /// It is about to store a letter.
    Poisoning(usize),
    /// Only the deletion of the message remains.
    Stored(usize),
}

/// A dead letter. One that is stored again has another ETag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Letter {
    id: Id,
    etag: u8,
}

/// How far the operator's redrive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Redrive {
    /// It has not begun.
    Ready,
    /// It took the letters that there were, and looks for the next.
    Begun,
    /// One request for this letter was answered, and the other one is to come.
    Half(Letter),
}

/// Everything that is stored, known or on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    producer: Producer,
    messages: [Option<Message>; MESSAGES],
    workers: [Worker; WORKERS],
    /// Transactions that no worker waits for, by the id of their task.
    late: [u8; 2],
    inbox: [bool; 2],
    effects: u8,
    letter: Option<Letter>,
    letters_stored: u8,
    redrive: Redrive,
    redriven: u8,
    /// Redrives that stopped.
    runs: u8,
    /// Whether inbox rows have expired.
    is_old: bool,
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The message is stored, and the producer has the answer.
    Put,
    /// The message is stored, and its answer is lost.
    PutUnanswered,
    /// The message is lost.
    PutLost,
    /// The producer stops without an answer.
    Stop,
    /// A worker receives a message.
    Receive(usize, usize),
    /// A message appears again.
    Appear(usize),
    /// A worker sends the transaction.
    Send(usize),
    /// The transaction lands, and is answered.
    Land(usize),
    /// The transaction lands, and its answer is lost.
    LandUnanswered(usize),
    /// The transaction is lost.
    Lose(usize),
    /// The worker gives the transaction up while it is on its way.
    GiveUp(usize),
    /// A transaction that was given up lands.
    LandLate(Id),
    /// A worker takes the next step of settling its message.
    Settle(usize),
    /// A worker stops between two requests.
    Crash(usize),
    /// The redrive takes its next step.
    Redrive,
    /// The redrive stops, and another one begins later.
    RedriveStops,
    /// The inbox rows are forgotten.
    Forget,
}

impl Tasks {
    fn put(world: &mut World, id: Id) -> Option<()> {
        let place = world.messages.iter_mut().find(|message| message.is_none())?;
        *place = Some(Message { id, is_visible: true, receipt: None, received: 0 });
        Some(())
    }

    /// The id of a put: the second one of a careless producer has another.
    fn id(&self, world: &World) -> Id {
        usize::from(!self.rules.puts_keep_their_id && world.producer == Producer::Unanswered)
    }

    /// Executes the transaction of an effect.
    fn apply(&self, world: &mut World, id: Id) {
        if !world.inbox[id] || !self.rules.inbox_joins_effect {
            world.effects += 1;
        }
        world.inbox[id] = true;
    }

    fn delete(world: &mut World, slot: usize, worker: usize) {
        if world.messages[slot].is_some_and(|message| message.receipt == Some(worker)) {
            world.messages[slot] = None;
        }
    }

    /// The message that a worker is at.
    fn slot(worker: Worker) -> Option<usize> {
        match worker {
            Worker::Idle => None,
            Worker::Received(slot)
            | Worker::Sent(slot)
            | Worker::Applied(slot)
            | Worker::Poisoning(slot)
            | Worker::Stored(slot) => Some(slot),
        }
    }

    fn store_letter(world: &mut World, id: Id) {
        world.letters_stored += 1;
        world.letter = Some(Letter { id, etag: world.letters_stored });
    }

    fn settle(&self, world: &mut World, worker: usize) -> Option<()> {
        let slot = Self::slot(world.workers[worker])?;
        let id = world.messages[slot].map(|message| message.id);
        let rules = &self.rules;
        world.workers[worker] = match world.workers[worker] {
            Worker::Received(_) if !rules.effect_before_deletion => {
                Self::delete(world, slot, worker);
                // It continues with a message that the queue has deleted.
                world.late[id?] += 1;
                Worker::Idle
            }
            // A worker with an invalid receipt must not write a dead letter.
            Worker::Poisoning(_) => {
                let message = world.messages[slot].filter(|it| it.receipt == Some(worker));
                match message {
                    None => Worker::Idle,
                    Some(_) if rules.letter_before_deletion => {
                        Self::store_letter(world, id?);
                        Worker::Stored(slot)
                    }
                    Some(_) => {
                        Self::delete(world, slot, worker);
                        Worker::Stored(id?)
                    }
                }
            }
            Worker::Stored(id_or_slot) if !rules.letter_before_deletion => {
                Self::store_letter(world, id_or_slot);
                Worker::Idle
            }
            Worker::Applied(_) | Worker::Stored(_) => {
                Self::delete(world, slot, worker);
                Worker::Idle
            }
            Worker::Idle | Worker::Received(_) | Worker::Sent(_) => return None,
        };
        Some(())
    }

    fn redrive(&self, world: &mut World) -> Option<()> {
        let rules = &self.rules;
        match world.redrive {
            Redrive::Ready => world.redrive = Redrive::Begun,
            Redrive::Begun => {
                let letter = world.letter?;
                let was_taken = world.redriven > 0 && rules.redrive_takes_a_snapshot;
                if was_taken || world.redriven > 1 {
                    return None;
                }
                world.redriven += 1;
                if rules.redrive_puts_first {
                    Self::put(world, letter.id)?;
                } else {
                    world.letter = None;
                }
                world.redrive = Redrive::Half(letter);
            }
            Redrive::Half(letter) => {
                if !rules.redrive_puts_first {
                    Self::put(world, letter.id)?;
                } else if world.letter == Some(letter) || !rules.redrive_deletes_what_it_read {
                    world.letter = None;
                }
                world.redrive = Redrive::Begun;
            }
        }
        Some(())
    }
}

impl Model for Tasks {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            producer: Producer::Putting,
            messages: [None; MESSAGES],
            workers: [Worker::Idle; WORKERS],
            late: [0; 2],
            inbox: [false; 2],
            effects: 0,
            letter: None,
            letters_stored: 0,
            redrive: Redrive::Ready,
            redriven: 0,
            runs: 0,
            is_old: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        match world.producer {
            Producer::Putting => {
                actions.extend([Action::Put, Action::PutUnanswered, Action::PutLost]);
            }
            Producer::Unanswered => actions.extend([Action::Put, Action::Stop]),
            Producer::Done | Producer::Stopped => {}
        }
        for (slot, message) in world.messages.iter().enumerate() {
            let Some(message) = message else { continue };
            if !message.is_visible {
                actions.push(Action::Appear(slot));
                continue;
            }
            for (worker, state) in world.workers.iter().enumerate() {
                if *state == Worker::Idle && message.received <= ATTEMPTS {
                    actions.push(Action::Receive(worker, slot));
                }
            }
        }
        for (worker, state) in world.workers.iter().enumerate() {
            match state {
                Worker::Idle => continue,
                Worker::Received(_) if self.rules.effect_before_deletion => {
                    actions.push(Action::Send(worker));
                }
                Worker::Sent(_) => actions.extend([
                    Action::Land(worker),
                    Action::LandUnanswered(worker),
                    Action::Lose(worker),
                    Action::GiveUp(worker),
                ]),
                _ => actions.push(Action::Settle(worker)),
            }
            if !matches!(state, Worker::Sent(_)) {
                actions.push(Action::Crash(worker));
            }
        }
        for id in 0..2 {
            if world.late[id] > 0 {
                actions.push(Action::LandLate(id));
            }
        }
        actions.push(Action::Redrive);
        if world.redrive != Redrive::Ready && world.runs == 0 {
            actions.push(Action::RedriveStops);
        }
        let is_on_its_way = world.late != [0; 2]
            || world.workers.iter().any(|worker| {
                matches!(worker, Worker::Received(_) | Worker::Sent(_) | Worker::Applied(_))
            });
        let waits = self.rules.inbox_outlives_transactions && is_on_its_way;
        // The producer has long ended.
        let is_over = matches!(world.producer, Producer::Done | Producer::Stopped);
        if !world.is_old && is_over && !waits {
            actions.push(Action::Forget);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Put => {
                let id = self.id(world);
                Self::put(&mut next, id)?;
                next.producer = Producer::Done;
            }
            Action::PutUnanswered => {
                Self::put(&mut next, 0)?;
                next.producer = Producer::Unanswered;
            }
            Action::PutLost => next.producer = Producer::Unanswered,
            Action::Stop => next.producer = Producer::Stopped,
            Action::Receive(worker, slot) => {
                let message = next.messages[slot].as_mut()?;
                message.is_visible = false;
                message.receipt = Some(worker);
                message.received += 1;
                let is_old = world.is_old && self.rules.old_messages_are_put_aside;
                let is_poison = message.received > ATTEMPTS || is_old;
                next.workers[worker] =
                    if is_poison { Worker::Poisoning(slot) } else { Worker::Received(slot) };
            }
            Action::Appear(slot) => {
                let message = next.messages[slot].as_mut()?;
                message.is_visible = true;
                // The last reception has to come to its end, or the task waits for ever.
                message.received = message.received.min(ATTEMPTS);
            }
            Action::Send(worker) => {
                let slot = Self::slot(world.workers[worker])?;
                // Another worker may have deleted the message meanwhile.
                next.workers[worker] =
                    if world.messages[slot].is_some() { Worker::Sent(slot) } else { Worker::Idle };
            }
            Action::Land(worker) | Action::LandUnanswered(worker) => {
                let slot = Self::slot(world.workers[worker])?;
                let id = world.messages[slot].map_or(0, |message| message.id);
                self.apply(&mut next, id);
                let is_answered = action == Action::Land(worker);
                next.workers[worker] =
                    if is_answered { Worker::Applied(slot) } else { Worker::Idle };
            }
            Action::Lose(worker) | Action::Crash(worker) => next.workers[worker] = Worker::Idle,
            Action::GiveUp(worker) => {
                let slot = Self::slot(world.workers[worker])?;
                let id = world.messages[slot].map_or(0, |message| message.id);
                next.late[id] += 1;
                next.workers[worker] = Worker::Idle;
            }
            Action::LandLate(id) => {
                next.late[id] -= 1;
                self.apply(&mut next, id);
            }
            Action::Settle(worker) => self.settle(&mut next, worker)?,
            Action::Redrive => self.redrive(&mut next)?,
            Action::RedriveStops => {
                next.redrive = Redrive::Ready;
                next.redriven = 0;
                next.runs += 1;
            }
            Action::Forget => {
                next.is_old = true;
                next.inbox = [false; 2];
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the effect is applied once at most", |_, world: &World| {
                world.effects <= 1
            }),
            Property::always("a task that was put is done or somewhere", |_, world: &World| {
                world.producer != Producer::Done
                    || world.effects > 0
                    || world.letter.is_some()
                    || world.messages.iter().any(Option::is_some)
            }),
            Property::always("a redrive ends", |_, world: &World| world.redriven <= 1),
            Property::sometimes("the effect is applied", |_, world: &World| world.effects == 1),
            Property::sometimes("a letter is redriven and done", |_, world: &World| {
                world.redriven == 1 && world.effects == 1 && world.letter.is_none()
            }),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.letters_stored <= 2 && world.late.iter().sum::<u8>() <= 1
    }
}

#[cfg(test)]
mod tests {
    use stateright::{Checker as _, HasDiscoveries};

    use super::*;
    use crate::Extent;

    const ONCE: &str = "the effect is applied once at most";
    const KEPT: &str = "a task that was put is done or somewhere";
    const ENDS: &str = "a redrive ends";

    fn broken(rules: Rules) -> Vec<&'static str> {
        let model = Tasks { rules }.checker().threads(2);
        let checker = model.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let mut found: Vec<_> = checker.discoveries().into_keys().collect();
        found.retain(|name| [ONCE, KEPT, ENDS].contains(name));
        found.sort_unstable();
        found
    }

    #[test]
    fn a_task_takes_effect_once_and_is_never_lost() {
        let checker = Tasks { rules: Rules::ALL }.checker().threads(2);
        if let (Extent::Brief, Some(limit)) = (Extent::of_environment(), Extent::Brief.states()) {
            let checker = checker.target_state_count(limit).spawn_dfs().join();
            let found: Vec<_> = checker.discoveries().into_keys().collect();
            assert!(![ONCE, KEPT, ENDS].iter().any(|name| found.contains(name)), "{found:?}");
            return;
        }
        let checker = checker.spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.unique_state_count() > 1_000_000, "{}", checker.unique_state_count());
    }

    #[test]
    fn each_rule_is_needed() {
        let all = Rules::ALL;
        for (rules, lost) in [
            (Rules { inbox_joins_effect: false, ..all }, ONCE),
            (Rules { puts_keep_their_id: false, ..all }, ONCE),
            (Rules { effect_before_deletion: false, ..all }, KEPT),
            (Rules { letter_before_deletion: false, ..all }, KEPT),
            (Rules { redrive_puts_first: false, ..all }, KEPT),
            (Rules { redrive_deletes_what_it_read: false, ..all }, KEPT),
            (Rules { redrive_takes_a_snapshot: false, ..all }, ENDS),
            (Rules { inbox_outlives_transactions: false, ..all }, ONCE),
            (Rules { old_messages_are_put_aside: false, ..all }, ONCE),
        ] {
            let found = broken(rules);
            assert!(found.contains(&lost), "{rules:?}: {found:?}");
        }
    }
}
