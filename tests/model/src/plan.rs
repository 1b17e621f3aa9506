//! One write plan: prepare, commit, settle.
//!
//! Two entities may hold one unique value, each has a blob and a copy in an index elsewhere. Each operation
//! is done by a writer of its own: it puts a message, claims the value, uploads the blob, sends the
//! transaction that inserts its op row and writes the head, then settles what follows and forgets the
//! operation. It settles by conditional writes: it knows what it replaced. A change that concerns nothing
//! outside the transaction does none of that. A writer may stop between any two steps. A transaction may be
//! answered, may be executed with its answer lost, may be lost, or may land after its writer has given up; a
//! writer may send it again. A writer reads the claim that it will release, or its program remembers one that it made or
//! read before, which may be outdated. Messages appear at any time. Workers, claimants of a value and a sweep of blobs
//! complete or undo what others left.
//!
//! `rules` has the changes and the rules, `world` the states and the events; this file says what each event does.
//!
//! Deciding reads and the conditional write after them are one step where the ETag makes them one.

use stateright::{Model, Property};

mod rules;
#[cfg(test)]
mod tests;
mod world;

pub use rules::{Change, ENTITIES, OPS, Op, Rules};
pub use world::{Action, Claim, Copy, Head, Known, Message, OpRow, Phase, World, Writer};

/// The model: which operations there are, and which rules hold.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The operations.
    pub ops: Vec<Op>,
    /// The entities that exist from the start; with the unique value or without.
    pub stored: [Option<bool>; ENTITIES],
    /// The rules.
    pub rules: Rules,
    /// Whether inserts into the index may be unanswered.
    pub loses_inserts: bool,
    /// Whether the rows of the index are whole copies, which change with every write of the entity.
    pub is_whole: bool,
}

impl Plan {
    fn op(&self, op: usize) -> Op {
        self.ops[op]
    }

    /// Whether an operation wants the unique value.
    fn wants_value(&self, op: usize) -> bool {
        matches!(self.op(op).1, Change::Insert | Change::Take)
    }

    fn has_blob(&self, op: usize) -> bool {
        !matches!(self.op(op).1, Change::Delete | Change::Edit)
    }

    /// Whether an operation has an op row and a message.
    fn has_op_row(&self, op: usize) -> bool {
        let is_apart = self.is_whole && self.rules.copies_have_op_rows;
        self.op(op).1 != Change::Edit || is_apart
    }

    /// The head that an operation writes.
    fn written(&self, world: &World, op: usize) -> Option<Head> {
        let read = world.writers[op].read;
        let (blob, value) = match self.op(op).1 {
            Change::Delete => return None,
            Change::Edit => read.map_or((None, false), |read| (read.blob, read.value)),
            Change::Insert | Change::Keep | Change::Take => (Some(op), true),
            Change::Release => (Some(op), false),
        };
        Some(Head { by: Some(op), blob, value })
    }

    /// The row of the index that a head demands.
    fn copy(&self, head: Option<Head>) -> Option<Copy> {
        let head = head.filter(|head| head.value)?;
        Some(Copy { by: head.by.filter(|_| self.is_whole) })
    }

    /// Writes or deletes the row of the index, which ends what others know of it.
    fn write_copy(world: &mut World, ops: &[Op], entity: usize, copy: Option<Copy>) {
        world.index[entity] = copy;
        for (op, (of, _)) in ops.iter().enumerate() {
            let known = &mut world.writers[op].known;
            if *of == entity && *known == Known::Present {
                *known = Known::Changed;
            }
        }
    }

    /// Executes a transaction; whether it was committed.
    fn commit(&self, world: &mut World, op: usize) -> bool {
        let (entity, change) = self.op(op);
        let expected = if change == Change::Insert { None } else { world.writers[op].read };
        if world.rows[op] != OpRow::Absent || world.heads[entity] != expected {
            return false;
        }
        if self.has_op_row(op) {
            world.rows[op] = OpRow::Committed;
        }
        world.commits[op] += 1;
        world.heads[entity] = self.written(world, op);
        true
    }

    /// Whether a head names the blob of an operation.
    fn is_named(world: &World, op: usize) -> bool {
        world.heads.iter().flatten().any(|head| head.blob == Some(op))
    }

    /// Presumes an operation dead. Its void is removed by the worker that has its message.
    fn void(&self, world: &mut World, op: usize) {
        world.rows[op] = OpRow::Void;
        world.void_messages[op] |= self.rules.voids_are_announced;
    }

    /// Whether anything may land later that was sent for an operation, or for an earlier one that settles the
    /// same rows. Waiting for later ones, too, does no harm.
    fn may_land(&self, world: &World, op: usize) -> bool {
        let entity = self.op(op).0;
        let is_sent = world.in_flight[op] > 0 || world.writers[op].phase != Phase::Ended;
        let is_settling = |other: usize| {
            self.op(other).0 == entity && world.writers[other].phase == Phase::Committed
        };
        let is_met = (0..self.ops.len()).any(is_settling);
        let is_late = self.rules.settles_outlive_doubt && world.late_inserts[entity].is_some();
        is_sent || is_met || is_late
    }

    /// Whether settling an operation by what is stored would insert into the index.
    fn inserts(&self, world: &World, op: usize) -> bool {
        let entity = self.op(op).0;
        self.loses_inserts
            && Self::holds(world, entity)
            && world.index[entity].is_none()
            && world.late_inserts[entity].is_none()
    }

    /// Leaves the insert that was just done as one that may land later.
    fn leave_unanswered(&self, world: &mut World, op: usize) {
        let entity = self.op(op).0;
        world.late_inserts[entity] = world.index[entity];
        world.index[entity] = None;
    }

    fn holds(world: &World, entity: usize) -> bool {
        world.heads[entity].is_some_and(|head| head.value)
    }

    /// Makes everything elsewhere agree with what is, for a decided operation: the index, the claim that it
    /// made or may have left, its blob and the one that it replaced.
    ///
    /// Returns whether it is done: an operation that wrote the claim may have to be decided first.
    fn settle(&self, world: &mut World, op: usize) -> bool {
        self.settle_index(world, op, false);
        if !self.settle_claim(world, op) {
            return false;
        }
        let before = world.writers[op].read.and_then(|head| head.blob);
        for blob in [Some(op), before].into_iter().flatten() {
            if !Self::is_named(world, blob) {
                world.blobs[blob] = false;
            }
        }
        true
    }

    /// Makes the row of the index agree with the head as it is.
    fn settle_index(&self, world: &mut World, op: usize, rewrites: bool) {
        let entity = self.op(op).0;
        let demanded = self.copy(world.heads[entity]);
        if world.index[entity] != demanded || rewrites {
            Self::write_copy(world, &self.ops, entity, demanded);
        }
    }

    /// Releases the claim of a decided operation if its entity does not have the value.
    fn settle_claim(&self, world: &mut World, op: usize) -> bool {
        let entity = self.op(op).0;
        let writer = world.writers[op];
        let Some(claim) = world.claim.filter(|claim| claim.entity == entity) else { return true };
        let is_known = claim.by == Some(op) || writer.claim == Some(claim);
        // The claim that any other operation wrote is that one's to release. But after the release of a value it may be
        // the claim of an operation that has ended.
        let is_released = writer.claim.is_some() && world.rows[op] == OpRow::Committed;
        if !(is_known || is_released && self.rules.changed_claims_are_decided) {
            return true;
        }
        let wrote_head = writer.read.is_some_and(|head| head.by == claim.by);
        if let Some(by) = claim.by
            && !is_known
            && !wrote_head
            && world.rows[by] == OpRow::Absent
        {
            self.void(world, by);
            return false;
        }
        let looks = is_known || self.rules.changed_claims_look_for_heads;
        if !(looks && Self::holds(world, entity)) {
            world.claim = None;
        }
        true
    }

    /// Settles the index as the writer does: on condition that the row is as it was before the commit.
    fn settle_index_inline(&self, world: &mut World, op: usize) {
        let entity = self.op(op).0;
        let writer = world.writers[op];
        let before = self.copy(writer.read);
        let after = self.copy(self.written(world, op));
        match (before, after) {
            (None, None) => {}
            // Only whole copies change with every write.
            (Some(_), Some(_)) if !self.is_whole => {}
            (None, Some(_)) if world.index[entity].is_none() => {
                Self::write_copy(world, &self.ops, entity, after);
            }
            (None, Some(_)) => self.settle_index(world, op, self.rules.met_rows_are_rewritten),
            (Some(_), _) => match writer.known {
                Known::Present => Self::write_copy(world, &self.ops, entity, after),
                _ if !self.rules.rows_are_read_before_commits && world.index[entity].is_some() => {
                    Self::write_copy(world, &self.ops, entity, after);
                }
                Known::Changed => self.settle_index(world, op, false),
                Known::Absent | Known::Nothing => {
                    // The op rows of the partition tell.
                    let is_of = |other: usize| {
                        other != op
                            && self.op(other).0 == entity
                            && world.rows[other] == OpRow::Committed
                    };
                    world.writers[op].missed = self.rules.missing_rows_are_looked_for_later
                        && (0..self.ops.len()).any(is_of);
                    self.settle_index(world, op, false);
                }
            },
        }
    }

    /// Settles the rest as the writer does: it deletes the claim on condition that it is as it was before the
    /// commit, or as the program remembers it, and the blob that its head replaced without looking.
    fn settle_rest_inline(&self, world: &mut World, op: usize) -> bool {
        let writer = world.writers[op];
        if writer.claim.is_some() && world.claim == writer.claim {
            world.claim = None;
        } else if writer.claim.is_some() && !self.settle_claim(world, op) {
            return false;
        }
        let freed = writer.read.and_then(|head| head.blob);
        let kept = self.written(world, op).and_then(|head| head.blob);
        if let Some(freed) = freed.filter(|_| freed != kept) {
            world.blobs[freed] = false;
        }
        true
    }

    /// Takes back what an operation prepared that is presumed dead.
    fn undo(&self, world: &mut World, op: usize) {
        if self.rules.undo_reads_heads {
            self.settle(world, op);
            return;
        }
        if world.claim.is_some_and(|claim| claim.by == Some(op)) {
            world.claim = None;
        }
        world.blobs[op] = false;
    }

    /// Claims the value; returns the next phase, or none while another operation's claim is decided.
    fn claim(&self, world: &mut World, op: usize) -> Option<Phase> {
        let entity = self.op(op).0;
        let mine = Some(Claim { entity, by: Some(op) });
        let Some(claim) = world.claim else {
            world.claim = mine;
            world.have_claimed[op] = true;
            return Some(Phase::Claimed);
        };
        if claim.entity != entity && Self::holds(world, claim.entity) {
            return Some(Phase::Refused);
        }
        let is_insert = self.op(op).1 == Change::Insert;
        if self.rules.inserts_look_for_heads
            && is_insert
            && claim.entity == entity
            && world.heads[entity].is_some()
        {
            return Some(Phase::Refused);
        }
        // Rewritten even if the entity has it: the claim names the last operation that may need it.
        let wrote_head = world.writers[op].read.is_some_and(|head| head.by == claim.by);
        let is_own = claim.entity == entity;
        let is_decided = is_own && (wrote_head || !self.rules.own_claims_are_voided);
        if let Some(by) = claim.by
            && !is_decided
            && self.rules.claimant_voids
            && world.rows[by] == OpRow::Absent
        {
            self.void(world, by);
            return None;
        }
        world.claim = mine;
        world.have_claimed[op] = true;
        Some(Phase::Claimed)
    }

    fn step(&self, world: &mut World, op: usize) {
        let (entity, change) = self.op(op);
        let phase = match world.writers[op].phase {
            Phase::Start => {
                let read = world.heads[entity].filter(|_| change != Change::Insert);
                world.writers[op].read = read;
                let has_value = read.is_some_and(|head| head.value);
                let goes_on = match change {
                    Change::Insert => true,
                    Change::Keep => has_value,
                    Change::Take | Change::Release | Change::Edit | Change::Delete => {
                        read.is_some()
                    }
                };
                if goes_on && !self.has_op_row(op) {
                    world.writers[op].known = Self::known(world, entity);
                    world.in_flight[op] += 1;
                    Phase::Waiting
                } else if goes_on {
                    world.messages[op] = Message::Hidden;
                    Phase::Announced
                } else {
                    Phase::Ended
                }
            }
            Phase::Announced if self.wants_value(op) => match self.claim(world, op) {
                Some(phase) => phase,
                None => return,
            },
            Phase::Announced => {
                // What may have to be released after the commit.
                world.writers[op].claim =
                    world.claim.filter(|claim| self.gives_up(world, op) && claim.entity == entity);
                Phase::Claimed
            }
            Phase::Claimed => {
                world.writers[op].known = Self::known(world, entity);
                world.blobs[op] = self.has_blob(op);
                Phase::Uploaded
            }
            Phase::Uploaded => {
                world.in_flight[op] += 1;
                Phase::Waiting
            }
            Phase::Committed => {
                self.settle_index_inline(world, op);
                if self.has_op_row(op) { Phase::Indexed } else { Phase::Ended }
            }
            Phase::Indexed => {
                if !self.settle_rest_inline(world, op) {
                    return;
                }
                Phase::Settled
            }
            Phase::Settled => {
                if !self.leaves_op_row(world, op) {
                    world.rows[op] = OpRow::Absent;
                }
                Phase::Forgotten
            }
            Phase::Forgotten => {
                // The worker removes the op row that stays.
                if !self.leaves_op_row(world, op) {
                    Self::withdraw(world, op);
                }
                Phase::Ended
            }
            Phase::Refused if world.writers[op].has_doubt => {
                // An earlier attempt may land yet: the worker decides.
                Phase::Ended
            }
            Phase::Refused => {
                self.undo(world, op);
                Self::withdraw(world, op);
                Phase::Ended
            }
            Phase::Waiting | Phase::Ended => return,
        };
        world.writers[op].phase = phase;
    }

    /// Whether an operation gives up the value that its entity has.
    fn gives_up(&self, world: &World, op: usize) -> bool {
        let had_value = world.writers[op].read.is_some_and(|head| head.value);
        had_value && matches!(self.op(op).1, Change::Release | Change::Delete)
    }

    /// The operations whose claims of an entity a program may remember: it made or read them at any time before. `None`
    /// is the one that made the claim which was there from the start.
    fn remembered(&self, world: &World, entity: usize) -> Vec<Option<usize>> {
        let mut all = vec![None; usize::from(self.stored[entity] == Some(true))];
        let is_of = |op: &usize| self.op(*op).0 == entity && world.have_claimed[*op];
        all.extend((0..self.ops.len()).filter(is_of).map(Some));
        all
    }

    /// Whether the op row stays for a worker.
    fn leaves_op_row(&self, world: &World, op: usize) -> bool {
        let writer = world.writers[op];
        (self.rules.op_row_outlives_doubt && writer.has_doubt) || writer.missed
    }

    /// What a read of the row of the index tells.
    fn known(world: &World, entity: usize) -> Known {
        if world.index[entity].is_some() { Known::Present } else { Known::Absent }
    }

    /// A writer deletes its message. One that a worker has received has another pop receipt, and stays.
    fn withdraw(world: &mut World, op: usize) {
        if world.messages[op] == Message::Hidden {
            world.messages[op] = Message::Absent;
        }
    }

    fn work(&self, world: &mut World, op: usize) {
        match world.rows[op] {
            OpRow::Committed => {
                if !self.settle(world, op) {
                    return;
                }
            }
            OpRow::Absent if self.rules.worker_voids => {
                world.rows[op] = OpRow::Void;
                return;
            }
            OpRow::Absent | OpRow::Void => self.undo(world, op),
        }
        if self.rules.rows_outlive_requests && self.may_land(world, op) {
            // It looks again later.
            return;
        }
        world.rows[op] = OpRow::Absent;
        if world.messages[op] == Message::Visible {
            world.messages[op] = Message::Absent;
        } else {
            world.void_messages[op] = false;
        }
    }

    fn sweep(&self, world: &mut World, op: usize) {
        if self.rules.sweep_voids && world.rows[op] == OpRow::Absent {
            self.void(world, op);
        } else {
            world.blobs[op] = false;
        }
    }

    /// A slow writer may claim after a worker has given its operation up, and stop: only a sweep finds that.
    fn sweep_claim(&self, world: &mut World) {
        match world.claim.and_then(|claim| claim.by) {
            Some(by) if world.rows[by] == OpRow::Absent => self.void(world, by),
            _ => world.claim = None,
        }
    }

    /// Whether nothing more will happen.
    fn is_quiet(&self, world: &World) -> bool {
        let mut actions = Vec::new();
        self.actions(world, &mut actions);
        // No claim may depend on a sweep, which may take place at any time.
        actions.iter().all(|action| *action == Action::SweepClaim)
    }
}

impl Model for Plan {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let heads =
            self.stored.map(|stored| stored.map(|value| Head { by: None, blob: None, value }));
        let owner = self.stored.iter().position(|stored| *stored == Some(true));
        let writer = Writer {
            phase: Phase::Start,
            read: None,
            claim: None,
            known: Known::Nothing,
            has_doubt: false,
            missed: false,
        };
        vec![World {
            heads,
            index: heads.map(|head| self.copy(head)),
            claim: owner.map(|entity| Claim { entity, by: None }),
            blobs: [false; OPS],
            rows: [OpRow::Absent; OPS],
            messages: [Message::Absent; OPS],
            void_messages: [false; OPS],
            writers: [writer; OPS],
            in_flight: [0; OPS],
            late_inserts: [None; ENTITIES],
            have_claimed: [false; OPS],
            commits: [0; OPS],
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.claim.is_some_and(|claim| !Self::holds(world, claim.entity)) {
            actions.push(Action::SweepClaim);
        }
        for op in 0..self.ops.len() {
            let writer = &world.writers[op];
            match writer.phase {
                Phase::Ended => {}
                Phase::Waiting => {
                    actions.push(Action::Stop(op));
                    if world.in_flight[op] == 1 && !writer.has_doubt {
                        actions.push(Action::Repeat(op));
                    }
                }
                Phase::Start => actions.push(Action::Step(op)),
                Phase::Announced if self.gives_up(world, op) => {
                    actions.extend([Action::Step(op), Action::Stop(op)]);
                    let remembered = self.remembered(world, self.op(op).0).into_iter();
                    actions.extend(remembered.map(|by| Action::StepRemembering(op, by)));
                }
                Phase::Committed => {
                    actions.extend([Action::Step(op), Action::Stop(op)]);
                    if self.inserts(world, op) && self.has_op_row(op) {
                        actions.push(Action::StepUnanswered(op));
                    }
                }
                _ => actions.extend([Action::Step(op), Action::Stop(op)]),
            }
            if world.in_flight[op] > 0 {
                actions.extend([Action::Land(op, true), Action::Land(op, false), Action::Lose(op)]);
            }
            if world.messages[op] == Message::Hidden {
                actions.push(Action::Appear(op));
            }
            if world.messages[op] == Message::Visible || world.void_messages[op] {
                actions.push(Action::Work(op));
                if world.rows[op] != OpRow::Absent && self.inserts(world, op) {
                    actions.push(Action::WorkUnanswered(op));
                }
            }
            if world.blobs[op] && !Self::is_named(world, op) {
                actions.push(Action::Sweep(op));
            }
        }
        for entity in 0..ENTITIES {
            if world.late_inserts[entity].is_some() {
                actions.extend([Action::LandInsert(entity), Action::LoseInsert(entity)]);
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Step(op) => self.step(&mut next, op),
            Action::StepRemembering(op, by) => {
                next.writers[op].claim = Some(Claim { entity: self.op(op).0, by });
                next.writers[op].phase = Phase::Claimed;
            }
            Action::Repeat(op) => {
                next.in_flight[op] += 1;
                next.writers[op].has_doubt = true;
            }
            Action::Stop(op) => next.writers[op].phase = Phase::Ended,
            Action::Land(op, is_answered) => {
                next.in_flight[op] -= 1;
                let is_committed = self.commit(&mut next, op);
                let is_waiting = next.writers[op].phase == Phase::Waiting;
                if !self.has_op_row(op) && is_waiting && (is_answered || is_committed) {
                    // The mark in the head, or its condition, decides.
                    let is_done = is_committed
                        || next.heads[self.op(op).0].is_some_and(|head| head.by == Some(op));
                    next.writers[op].phase = if is_done { Phase::Committed } else { Phase::Ended };
                } else if is_answered && is_waiting {
                    // 409 on its own op row tells a writer that an earlier attempt was committed.
                    let is_done = is_committed || next.rows[op] == OpRow::Committed;
                    next.writers[op].phase =
                        if is_done { Phase::Committed } else { Phase::Refused };
                } else {
                    next.writers[op].has_doubt = true;
                }
            }
            Action::Lose(op) => {
                next.in_flight[op] -= 1;
                next.writers[op].has_doubt = true;
            }
            Action::Appear(op) => next.messages[op] = Message::Visible,
            Action::Work(op) => self.work(&mut next, op),
            Action::Sweep(op) => self.sweep(&mut next, op),
            Action::SweepClaim => self.sweep_claim(&mut next),
            Action::StepUnanswered(op) => {
                self.step(&mut next, op);
                if next.index[self.op(op).0].is_some() {
                    self.leave_unanswered(&mut next, op);
                    next.writers[op].has_doubt |= self.rules.settles_outlive_doubt;
                }
            }
            Action::WorkUnanswered(op) => {
                self.settle(&mut next, op);
                self.leave_unanswered(&mut next, op);
            }
            Action::LandInsert(entity) => {
                let late = next.late_inserts[entity].take();
                if next.index[entity].is_none() {
                    Self::write_copy(&mut next, &self.ops, entity, late);
                }
            }
            Action::LoseInsert(entity) => next.late_inserts[entity] = None,
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a value has one holder", |_, world: &World| {
                world.heads.iter().flatten().filter(|head| head.value).count() < 2
            }),
            Property::always("a holder has the claim", |_, world: &World| {
                (0..ENTITIES)
                    .filter(|entity| Self::holds(world, *entity))
                    .all(|entity| world.claim.is_some_and(|claim| claim.entity == entity))
            }),
            Property::always("a head's blob is there", |_, world: &World| {
                let named = world.heads.iter().flatten().filter_map(|head| head.blob);
                named.into_iter().all(|op| world.blobs[op])
            }),
            Property::always("an operation is committed once", |_, world: &World| {
                world.commits.iter().all(|commits| *commits < 2)
            }),
            Property::always("in the end the index agrees", |model: &Self, world: &World| {
                let agrees = (0..ENTITIES).all(|e| world.index[e] == model.copy(world.heads[e]));
                agrees || !model.is_quiet(world)
            }),
            Property::always("in the end nothing is left over", |model: &Self, world: &World| {
                let claim = world.claim.is_none_or(|claim| Self::holds(world, claim.entity));
                let blobs = (0..OPS).all(|op| !world.blobs[op] || Self::is_named(world, op));
                let rows = world.rows.iter().all(|row| *row == OpRow::Absent);
                claim && blobs && rows || !model.is_quiet(world)
            }),
        ]
    }
}
