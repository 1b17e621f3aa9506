//! Copies in many rows elsewhere, settled in turns.
//!
//! Each operation changes the value of an entity, and has an op row that says how far its targets are settled. A worker
//! settles one target in a turn: it reads the target, reads the entity, writes the target on condition that it is
//! unchanged, reads the entity again, and notes its progress. It may be killed between any two steps, and another one
//! continues from the noted progress. A single target is settled by the writer in one turn. A write may be executed without
//! an answer, or may land later. When all targets are settled, the op row stays until no request of an earlier change or of a
//! killed worker can land any more, and all are settled once more.

use stateright::{Model, Property};

#[cfg(test)]
mod tests;

/// Operations at most.
pub const OPS: usize = 2;
/// Targets, each of which is a page.
const TARGETS: usize = 2;

/// What must be done, each with the disaster that follows without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each rule is on or off")]
pub struct Rules {
    /// A target is written on condition that it is as it was read.
    pub writes_are_conditional: bool,
    /// After an unanswered write the target is written again, even if it is right, so that the late write is refused.
    pub late_writes_are_refused: bool,
    /// After a write the entity is read again, and the target is settled again if it has changed.
    pub entities_are_read_again: bool,
    /// Progress is noted after the target is settled.
    pub progress_follows_settling: bool,
    /// The targets are settled once more when no request of an earlier change or of a killed worker can land.
    pub targets_are_settled_again: bool,
}

impl Rules {
    /// All rules.
    pub const ALL: Self = Self {
        writes_are_conditional: true,
        late_writes_are_refused: true,
        entities_are_read_again: true,
        progress_follows_settling: true,
        targets_are_settled_again: true,
    };
}

/// The entity, or a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    value: u8,
    version: u8,
}

/// The op row of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OpRow {
    /// The version that the change gave to the entity.
    since: u8,
    settled: usize,
    /// Whether the targets are settled once more.
    is_second: bool,
    /// Whether the writer settles it in one turn, without an interruption so far.
    is_of_writer: bool,
    /// Whether a worker was killed whose write may land later.
    is_interrupted: bool,
}

/// How far the worker of an operation is in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// It has no turn.
    Idle,
    /// It reads the target.
    Begun,
    /// It has read the target.
    Target(Row),
    /// It has read the target and then the entity.
    Both(Row, Row),
    /// It has written the target for this version of the entity, or found it right.
    Written(u8),
    /// The entity is as it was.
    Settled,
}

/// A write that may land later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Late {
    target: usize,
    /// The version that the target must have.
    on: u8,
    value: u8,
    /// The version of the entity that it was made for.
    of: u8,
}

/// The worker of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Worker {
    phase: Phase,
    /// The target of its turn.
    target: usize,
    /// The version of the target on which a write of this worker was not answered.
    doubt: Option<u8>,
    /// Whether it has had an unanswered write; one at most.
    was_unanswered: bool,
    late: Option<Late>,
}

/// Everything that is stored or on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    entity: Row,
    targets: [Row; TARGETS],
    /// `None` before the change.
    is_committed: [bool; OPS],
    rows: [Option<OpRow>; OPS],
    workers: [Worker; OPS],
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An operation changes the entity.
    Commit(usize),
    /// A worker does its next step.
    Step(usize),
    /// A worker writes a target and gets no answer; whether the write is executed at once.
    Unanswered(usize, bool),
    /// A worker is killed.
    Kill(usize),
    /// A late write lands.
    Land(usize),
    /// A late write is lost.
    Lose(usize),
}

/// The model: the value that each operation gives to the entity, and which rules hold.
#[derive(Clone, Debug)]
pub struct Turns {
    /// The values; that of the entity is 0 at first.
    pub values: Vec<u8>,
    /// The number of targets. A single one is settled by the writer, which then deletes the op row.
    pub targets: usize,
    /// The rules.
    pub rules: Rules,
}

impl Turns {
    fn note(world: &mut World, op: usize) {
        if let Some(row) = &mut world.rows[op] {
            row.settled += 1;
        }
    }

    /// Whether a write may land that was made before the change of an operation, or by a killed worker of it.
    fn may_land(world: &World, op: usize, row: OpRow) -> bool {
        let is_earlier = |late: Late| late.of < row.since;
        world.workers.iter().any(|worker| worker.late.is_some_and(is_earlier))
            || (row.is_interrupted && world.workers[op].late.is_some())
    }

    /// Whether all targets are settled, and the op row is needed no more.
    fn is_over(&self, row: OpRow) -> bool {
        let is_last = row.is_of_writer || (row.is_second && !row.is_interrupted);
        row.settled == self.targets && (is_last || !self.rules.targets_are_settled_again)
    }

    /// What the worker would write: `None` if the target may stay as it is.
    fn write(&self, world: &World, op: usize) -> Option<Late> {
        let Phase::Both(target, entity) = world.workers[op].phase else { return None };
        let is_open = world.workers[op].doubt == Some(target.version);
        let is_touched = is_open && self.rules.late_writes_are_refused;
        let write = Late {
            target: world.workers[op].target,
            on: target.version,
            value: entity.value,
            of: entity.version,
        };
        (target.value != entity.value || is_touched).then_some(write)
    }

    /// Executes a write; whether its condition was met.
    fn execute(&self, world: &mut World, write: Late) -> bool {
        let target = &mut world.targets[write.target];
        if target.version != write.on && self.rules.writes_are_conditional {
            return false;
        }
        *target = Row { value: write.value, version: target.version + 1 };
        true
    }

    fn step(&self, world: &mut World, op: usize) {
        let Some(row) = world.rows[op] else { return };
        let phase = match world.workers[op].phase {
            Phase::Idle if row.settled < self.targets => {
                world.workers[op].target = row.settled;
                if !self.rules.progress_follows_settling {
                    Self::note(world, op);
                }
                Phase::Begun
            }
            Phase::Idle => {
                if self.is_over(row) {
                    world.rows[op] = None;
                } else if !Self::may_land(world, op, row) {
                    let again = OpRow { settled: 0, is_second: true, is_interrupted: false, ..row };
                    world.rows[op] = Some(again);
                }
                return;
            }
            Phase::Begun => Phase::Target(world.targets[world.workers[op].target]),
            Phase::Target(target) => Phase::Both(target, world.entity),
            Phase::Both(_, entity) => match self.write(world, op) {
                Some(write) if !self.execute(world, write) => Phase::Begun,
                _ => Phase::Written(entity.version),
            },
            Phase::Written(of) => {
                let is_unchanged =
                    world.entity.version == of || !self.rules.entities_are_read_again;
                if is_unchanged { Phase::Settled } else { Phase::Begun }
            }
            Phase::Settled => {
                if self.rules.progress_follows_settling {
                    Self::note(world, op);
                }
                world.workers[op].doubt = None;
                Phase::Idle
            }
        };
        world.workers[op].phase = phase;
    }
}

impl Model for Turns {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let row = Row { value: 0, version: 0 };
        let worker = Worker {
            phase: Phase::Idle,
            target: 0,
            doubt: None,
            was_unanswered: false,
            late: None,
        };
        vec![World {
            entity: row,
            targets: [row; TARGETS],
            is_committed: [false; OPS],
            rows: [None; OPS],
            workers: [worker; OPS],
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for op in 0..self.values.len() {
            let worker = &world.workers[op];
            let is_next = op == 0 || world.is_committed[op - 1];
            if !world.is_committed[op] && is_next {
                actions.push(Action::Commit(op));
            }
            if let Some(row) = world.rows[op] {
                let waits = worker.phase == Phase::Idle
                    && row.settled == self.targets
                    && !self.is_over(row)
                    && Self::may_land(world, op, row);
                if !waits {
                    actions.push(Action::Step(op));
                }
                if worker.phase != Phase::Idle || row.is_of_writer {
                    actions.push(Action::Kill(op));
                }
                if !worker.was_unanswered && self.write(world, op).is_some() {
                    actions.extend([Action::Unanswered(op, true), Action::Unanswered(op, false)]);
                }
            }
            if worker.late.is_some() {
                actions.extend([Action::Land(op), Action::Lose(op)]);
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Commit(op) => {
                next.entity = Row { value: self.values[op], version: world.entity.version + 1 };
                next.is_committed[op] = true;
                let since = next.entity.version;
                let is_of_writer = self.targets == 1;
                let (settled, is_second, is_interrupted) = (0, false, false);
                next.rows[op] =
                    Some(OpRow { since, settled, is_second, is_of_writer, is_interrupted });
            }
            Action::Step(op) => self.step(&mut next, op),
            Action::Unanswered(op, is_executed) => {
                let write = self.write(world, op)?;
                next.workers[op].was_unanswered = true;
                next.workers[op].doubt = Some(write.on);
                next.workers[op].phase = Phase::Begun;
                if is_executed {
                    self.execute(&mut next, write);
                } else {
                    next.workers[op].late = Some(write);
                }
            }
            Action::Kill(op) => {
                next.workers[op].phase = Phase::Idle;
                next.workers[op].doubt = None;
                if let Some(row) = &mut next.rows[op] {
                    row.is_of_writer = false;
                    row.is_interrupted |= world.workers[op].late.is_some();
                }
            }
            Action::Land(op) => {
                if let Some(late) = next.workers[op].late.take() {
                    self.execute(&mut next, late);
                }
            }
            Action::Lose(op) => next.workers[op].late = None,
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("in the end all targets agree", |model: &Self, world: &World| {
            let mut actions = Vec::new();
            model.actions(world, &mut actions);
            let mut targets = world.targets.iter().take(model.targets);
            let agree = targets.all(|target| target.value == world.entity.value);
            agree || !actions.is_empty()
        })]
    }
}
