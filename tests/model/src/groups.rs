//! Plans of several entities: one transaction with one op row for all heads, and one for all claims.
//!
//! Each entity has one of two unique values. A plan inserts or deletes one or two entities of a partition. Its claims
//! are in one partition of claims: one transaction makes all of them. If that is refused, the claim in its way is made
//! alone, which takes it over or refuses the plan, and the others are sent together again. If it is not answered, it may
//! land later, and each claim is made alone. Releases are likewise one transaction, or one by one. The rest is as in
//! [`plan`](crate::plan), without blobs and copies.

use stateright::{Model, Property};

mod rules;
#[cfg(test)]
mod tests;

pub use rules::{Change, ENTITIES, Op, Rules, VALUES};

/// Operations at most.
pub const OPS: usize = 2;

/// The row that claims a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    entity: usize,
    by: Option<usize>,
}

/// The row at an operation's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OpRow {
    Absent,
    Committed,
    Void,
}

/// An operation's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Message {
    Absent,
    Hidden,
    Visible,
}

/// How far a writer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Start,
    /// It has put its message, and makes its claims.
    Announced,
    /// It has all of them.
    Claimed,
    /// Its transaction is on its way.
    Waiting,
    /// Its transaction was committed, and it releases claims.
    Committed,
    Settled,
    /// It has forgotten the operation, but for the message.
    Forgotten,
    /// It was refused, and undoes its claims.
    Refused,
    Ended,
}

/// A writer, and its knowledge. Values by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Writer {
    phase: Phase,
    /// The versions of the heads that it read.
    read: [Option<usize>; ENTITIES],
    /// The claims that it made or may have made.
    claimed: [bool; VALUES],
    /// The claim that is in the way of the others.
    alone: Option<usize>,
    /// The claims as they stood before the commit, as long as they are not released.
    before: [Option<Claim>; VALUES],
    /// Whether its claims, or its transaction, were not answered.
    claims_in_doubt: bool,
    in_doubt: bool,
    /// Whether it gave up although all of its values were free.
    gave_up: bool,
}

/// Everything that is stored or on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The operation that wrote each head; `OPS` for one that was there before.
    heads: [Option<usize>; ENTITIES],
    claims: [Option<Claim>; VALUES],
    rows: [OpRow; OPS],
    messages: [Message; OPS],
    void_messages: [bool; OPS],
    writers: [Writer; OPS],
    in_flight: [u8; OPS],
    /// A transaction of claims that may still land, with the values of it.
    late_claims: [Option<[bool; VALUES]>; OPS],
    commits: [u8; OPS],
    /// Whether a plan was committed without one of its heads.
    is_torn: bool,
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A writer does its next step.
    Step(usize),
    /// A writer sends its claims in one transaction, which is not answered: it is executed, or may land later.
    ClaimUnanswered(usize, bool),
    /// A late transaction of claims lands.
    LandClaims(usize),
    /// A late transaction of claims is lost.
    LoseClaims(usize),
    /// A writer sends its unanswered transaction again.
    Repeat(usize),
    /// A writer stops for good.
    Stop(usize),
    /// A transaction lands; whether its answer comes back.
    Land(usize, bool),
    /// A transaction is lost.
    Lose(usize),
    /// A message appears.
    Appear(usize),
    /// A worker does the next step for a message.
    Work(usize),
}

/// The model: which plans there are, and which rules hold.
#[derive(Clone, Debug)]
pub struct Groups {
    /// The operations.
    pub ops: Vec<Op>,
    /// The entities that exist from the start.
    pub stored: Vec<usize>,
    /// The rules.
    pub rules: Rules,
}

/// The value of an entity.
fn value_of(entity: usize) -> usize {
    entity % VALUES
}

impl Groups {
    fn entities(&self, op: usize) -> &'static [usize] {
        self.ops[op].1
    }

    /// The entity of a plan that wants a value.
    fn wanting(&self, op: usize, value: usize) -> Option<usize> {
        self.entities(op).iter().copied().find(|entity| value_of(*entity) == value)
    }

    fn holds(world: &World, claim: Claim) -> bool {
        world.heads[claim.entity].is_some()
    }

    fn void(&self, world: &mut World, op: usize) {
        world.rows[op] = OpRow::Void;
        world.void_messages[op] |= self.rules.voids_are_announced;
    }

    /// The claims that a plan has yet to make.
    fn left(&self, world: &World, op: usize) -> Vec<usize> {
        let values = self.entities(op).iter().map(|entity| value_of(*entity));
        let mut left: Vec<_> = values
            .filter(|value| {
                let claim = world.claims[*value];
                let is_own = claim.is_some_and(|claim| claim.by == Some(op));
                // After an unanswered transaction it looks at each.
                !world.writers[op].claimed[*value] || (world.writers[op].claims_in_doubt && !is_own)
            })
            .collect();
        left.sort_unstable();
        left
    }

    /// Makes the claims of a plan that are left, or some of them.
    fn claim(&self, world: &mut World, op: usize) {
        let left = self.left(world, op);
        let Some(first) = left.first().copied() else {
            world.writers[op].phase = Phase::Claimed;
            return;
        };
        let writer = world.writers[op];
        if left.len() > 1 && writer.alone.is_none() && !writer.claims_in_doubt {
            match left.iter().find(|value| world.claims[**value].is_some()) {
                None => self.insert(world, op, &left),
                Some(_) if !self.rules.refused_groups_go_alone => Self::give_up(world, op, &left),
                Some(taken) => world.writers[op].alone = Some(*taken),
            }
            return;
        }
        let value = writer.alone.filter(|value| left.contains(value)).unwrap_or(first);
        self.claim_alone(world, op, value);
    }

    fn insert(&self, world: &mut World, op: usize, values: &[usize]) {
        for value in values {
            let Some(entity) = self.wanting(op, *value) else { continue };
            world.claims[*value] = Some(Claim { entity, by: Some(op) });
            world.writers[op].claimed[*value] = true;
        }
    }

    fn give_up(world: &mut World, op: usize, left: &[usize]) {
        let is_held = |value: &usize| world.claims[*value].is_some_and(|c| Self::holds(world, c));
        world.writers[op].gave_up = !left.iter().any(is_held);
        world.writers[op].phase = Phase::Refused;
    }

    fn claim_alone(&self, world: &mut World, op: usize, value: usize) {
        let Some(entity) = self.wanting(op, value) else { return };
        if let Some(claim) = world.claims[value]
            && claim.by != Some(op)
        {
            let is_own = claim.entity == entity;
            // An insert that finds the head of its own entity is refused as well.
            if Self::holds(world, claim) && (!is_own || self.rules.inserts_look_for_heads) {
                Self::give_up(world, op, &[value]);
                return;
            }
            if let Some(by) = claim.by
                && self.rules.claimant_voids
                && world.rows[by] == OpRow::Absent
            {
                self.void(world, by);
                return;
            }
        }
        self.insert(world, op, &[value]);
        world.writers[op].alone = None;
    }

    /// Executes a transaction; whether it was committed.
    fn commit(&self, world: &mut World, op: usize) -> bool {
        let is_insert = self.ops[op].0 == Change::Insert;
        let expected = |world: &World, entity: usize| {
            if is_insert { None } else { world.writers[op].read[entity] }
        };
        if world.rows[op] != OpRow::Absent {
            return false;
        }
        let is_met = |entity: &usize| world.heads[*entity] == expected(world, *entity);
        let met: Vec<_> = self.entities(op).iter().copied().filter(is_met).collect();
        if met.is_empty() || (self.rules.plans_commit_whole && met.len() < self.entities(op).len())
        {
            return false;
        }
        world.is_torn |= met.len() < self.entities(op).len();
        world.rows[op] = OpRow::Committed;
        world.commits[op] += 1;
        for entity in met {
            world.heads[entity] = Some(op).filter(|_| is_insert);
        }
        true
    }

    /// Releases the claims of a deletion, which are as they were before it: all in one transaction, or the next one.
    fn release(&self, world: &mut World, op: usize) {
        let before = world.writers[op].before;
        let open: Vec<_> = (0..VALUES).filter(|value| before[*value].is_some()).collect();
        let is_unchanged = |world: &World, value: usize| {
            world.claims[value] == before[value] || !self.rules.releases_are_conditional
        };
        let together = open.iter().all(|value| is_unchanged(world, *value));
        let done = if together { open.len() } else { 1 };
        for value in open.into_iter().take(done) {
            if is_unchanged(world, value) {
                world.claims[value] = None;
            } else {
                self.settle(world, op, value);
            }
            world.writers[op].before[value] = None;
        }
    }

    /// Releases the claim of an operation by what is stored.
    fn settle(&self, world: &mut World, op: usize, value: usize) {
        let Some(entity) = self.wanting(op, value) else { return };
        let before = world.writers[op].before[value];
        let is_released = world.claims[value].is_some_and(|claim| {
            let is_of_op = claim.by == Some(op) || before == Some(claim);
            claim.entity == entity && is_of_op && !Self::holds(world, claim)
        });
        if is_released {
            world.claims[value] = None;
        }
    }

    /// Takes back the claims of an operation that will never be committed.
    fn undo(&self, world: &mut World, op: usize) {
        let all: Vec<_> = (0..VALUES).filter(|value| self.wanting(op, *value).is_some()).collect();
        let count = if self.rules.undo_releases_all { all.len() } else { 1 };
        for value in all.into_iter().take(count) {
            let is_released = world.claims[value].is_some_and(|claim| {
                let is_held = self.rules.undo_reads_heads && Self::holds(world, claim);
                claim.by == Some(op) && !is_held
            });
            if is_released {
                world.claims[value] = None;
            }
        }
    }

    fn step(&self, world: &mut World, op: usize) {
        let phase = match world.writers[op].phase {
            Phase::Start => {
                world.messages[op] = Message::Hidden;
                if self.ops[op].0 == Change::Insert {
                    Phase::Announced
                } else {
                    for entity in self.entities(op) {
                        world.writers[op].read[*entity] = world.heads[*entity];
                        let value = value_of(*entity);
                        let own = world.claims[value].filter(|claim| claim.entity == *entity);
                        world.writers[op].before[value] = own;
                    }
                    let is_there = |entity: &usize| world.heads[*entity].is_some();
                    let are_there = self.entities(op).iter().all(is_there);
                    if are_there { Phase::Claimed } else { Phase::Refused }
                }
            }
            Phase::Announced => return self.claim(world, op),
            Phase::Claimed => {
                world.in_flight[op] += 1;
                Phase::Waiting
            }
            Phase::Committed if world.writers[op].before.iter().any(Option::is_some) => {
                return self.release(world, op);
            }
            Phase::Committed => Phase::Settled,
            Phase::Settled => {
                if !self.leaves_op_row(world, op) {
                    world.rows[op] = OpRow::Absent;
                }
                Phase::Forgotten
            }
            Phase::Forgotten => {
                if !self.leaves_op_row(world, op) {
                    Self::withdraw(world, op);
                }
                Phase::Ended
            }
            // An earlier attempt may land yet: the worker decides.
            Phase::Refused if world.writers[op].in_doubt => Phase::Ended,
            Phase::Refused => {
                self.undo(world, op);
                let is_late =
                    self.rules.messages_outlive_late_claims && world.writers[op].claims_in_doubt;
                if !is_late {
                    Self::withdraw(world, op);
                }
                Phase::Ended
            }
            Phase::Waiting | Phase::Ended => return,
        };
        world.writers[op].phase = phase;
    }

    fn leaves_op_row(&self, world: &World, op: usize) -> bool {
        let writer = world.writers[op];
        let claims = self.rules.messages_outlive_late_claims && writer.claims_in_doubt;
        claims || (self.rules.op_row_outlives_doubt && writer.in_doubt)
    }

    fn withdraw(world: &mut World, op: usize) {
        if world.messages[op] == Message::Hidden {
            world.messages[op] = Message::Absent;
        }
    }

    /// Whether anything may land later that was sent for an operation.
    fn may_land(world: &World, op: usize) -> bool {
        world.in_flight[op] > 0
            || world.late_claims[op].is_some()
            || world.writers[op].phase != Phase::Ended
    }

    fn work(&self, world: &mut World, op: usize) {
        match world.rows[op] {
            OpRow::Committed => {
                for value in 0..VALUES {
                    self.settle(world, op, value);
                }
            }
            OpRow::Absent if self.rules.worker_voids => {
                world.rows[op] = OpRow::Void;
                return;
            }
            OpRow::Absent | OpRow::Void => self.undo(world, op),
        }
        if Self::may_land(world, op) {
            // It looks again later.
            return;
        }
        world.rows[op] = OpRow::Absent;
        world.messages[op] = Message::Absent;
        world.void_messages[op] = false;
    }

    fn is_quiet(&self, world: &World) -> bool {
        let mut actions = Vec::new();
        self.actions(world, &mut actions);
        actions.is_empty()
    }
}

impl Model for Groups {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut heads = [None; ENTITIES];
        let mut claims = [None; VALUES];
        for entity in &self.stored {
            heads[*entity] = Some(OPS);
            claims[value_of(*entity)] = Some(Claim { entity: *entity, by: None });
        }
        let writer = Writer {
            phase: Phase::Start,
            read: [None; ENTITIES],
            claimed: [false; VALUES],
            alone: None,
            before: [None; VALUES],
            claims_in_doubt: false,
            in_doubt: false,
            gave_up: false,
        };
        vec![World {
            heads,
            claims,
            rows: [OpRow::Absent; OPS],
            messages: [Message::Absent; OPS],
            void_messages: [false; OPS],
            writers: [writer; OPS],
            in_flight: [0; OPS],
            late_claims: [None; OPS],
            commits: [0; OPS],
            is_torn: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for op in 0..self.ops.len() {
            let writer = &world.writers[op];
            match writer.phase {
                Phase::Ended => {}
                Phase::Start => actions.push(Action::Step(op)),
                Phase::Waiting => {
                    actions.push(Action::Stop(op));
                    if world.in_flight[op] == 1 && !writer.in_doubt {
                        actions.push(Action::Repeat(op));
                    }
                }
                Phase::Announced => {
                    actions.extend([Action::Step(op), Action::Stop(op)]);
                    let is_group = self.left(world, op).len() > 1 && writer.alone.is_none();
                    if is_group && !writer.claims_in_doubt {
                        actions.push(Action::ClaimUnanswered(op, true));
                        actions.push(Action::ClaimUnanswered(op, false));
                    }
                }
                _ => actions.extend([Action::Step(op), Action::Stop(op)]),
            }
            if world.in_flight[op] > 0 {
                actions.extend([Action::Land(op, true), Action::Land(op, false), Action::Lose(op)]);
            }
            if world.late_claims[op].is_some() {
                actions.extend([Action::LandClaims(op), Action::LoseClaims(op)]);
            }
            if world.messages[op] == Message::Hidden {
                actions.push(Action::Appear(op));
            }
            if world.messages[op] == Message::Visible || world.void_messages[op] {
                actions.push(Action::Work(op));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Step(op) => self.step(&mut next, op),
            Action::ClaimUnanswered(op, is_executed) => {
                let left = self.left(world, op);
                next.writers[op].claims_in_doubt = true;
                let is_free = |world: &World| left.iter().all(|v| world.claims[*v].is_none());
                if is_executed && is_free(&next) {
                    self.insert(&mut next, op, &left);
                } else if !is_executed {
                    let mut late = [false; VALUES];
                    for value in &left {
                        late[*value] = true;
                    }
                    next.late_claims[op] = Some(late);
                }
            }
            Action::LandClaims(op) => {
                let late = next.late_claims[op].take().unwrap_or_default();
                let values: Vec<_> = (0..VALUES).filter(|value| late[*value]).collect();
                if values.iter().all(|value| next.claims[*value].is_none()) {
                    let claimed = next.writers[op].claimed;
                    self.insert(&mut next, op, &values);
                    // Its writer knows nothing of it.
                    next.writers[op].claimed = claimed;
                }
            }
            Action::LoseClaims(op) => next.late_claims[op] = None,
            Action::Repeat(op) => {
                next.in_flight[op] += 1;
                next.writers[op].in_doubt = true;
            }
            Action::Stop(op) => next.writers[op].phase = Phase::Ended,
            Action::Land(op, is_answered) => {
                next.in_flight[op] -= 1;
                let is_committed = self.commit(&mut next, op);
                if is_answered && next.writers[op].phase == Phase::Waiting {
                    // 409 on its own op row tells a writer that an earlier attempt was committed.
                    let is_done = is_committed || next.rows[op] == OpRow::Committed;
                    next.writers[op].phase =
                        if is_done { Phase::Committed } else { Phase::Refused };
                } else {
                    next.writers[op].in_doubt = true;
                }
            }
            Action::Lose(op) => {
                next.in_flight[op] -= 1;
                next.writers[op].in_doubt = true;
            }
            Action::Appear(op) => next.messages[op] = Message::Visible,
            Action::Work(op) => self.work(&mut next, op),
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a value has one holder", |_, world: &World| {
                (0..VALUES).all(|value| {
                    let holders = (0..ENTITIES).filter(|entity| value_of(*entity) == value);
                    holders.filter(|entity| world.heads[*entity].is_some()).count() < 2
                })
            }),
            Property::always("a holder has the claim", |_, world: &World| {
                (0..ENTITIES).filter(|entity| world.heads[*entity].is_some()).all(|entity| {
                    world.claims[value_of(entity)].is_some_and(|claim| claim.entity == entity)
                })
            }),
            Property::always("a plan is committed as a whole, once", |_, world: &World| {
                !world.is_torn && world.commits.iter().all(|commits| *commits < 2)
            }),
            Property::always("a plan is refused for a value that is taken", |_, world: &World| {
                !world.writers.iter().any(|writer| writer.gave_up)
            }),
            Property::always("in the end nothing is left over", |model: &Self, world: &World| {
                let claims = world.claims.iter().flatten().all(|claim| Self::holds(world, *claim));
                let rows = world.rows.iter().all(|row| *row == OpRow::Absent);
                claims && rows || !model.is_quiet(world)
            }),
        ]
    }
}
