//! A wide entity in parts: patches of single parts, writes of all rows, deletions and reads.
//!
//! The entity has two properties. The layout of a program gives each of them one of two parts; two programs may have
//! different layouts, and give them the other way round. A patch is one transaction that merges the head, without reading
//! it, and a part, which must exist. A whole write reads the head and then the parts, and writes all rows on condition
//! that the head is as it was read. A patch whose part does not exist becomes a whole write. Every transaction may be
//! executed without an answer, or may land when its writer has stopped.

use stateright::{Model, Property};

#[cfg(test)]
mod tests;

/// Operations at most.
pub const OPS: usize = 3;
/// Properties, and parts of a layout.
const PROPERTIES: usize = 2;
const LAYOUTS: usize = 2;

/// What an operation does, and the layout of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Inserts the entity, with its first property alone.
    Insert(usize),
    /// Writes the entity as it was read, in this layout.
    Update(usize),
    /// Sets a property, in this layout.
    Patch(usize, usize),
    /// Deletes the entity that was read.
    Delete,
    /// Reads it.
    Read,
}

/// What must be done, each with the disaster that follows without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each rule is on or off")]
pub struct Rules {
    /// A patch gives the head another version.
    pub patches_change_the_head: bool,
    /// A patch requires the part that it merges into.
    pub patches_require_their_part: bool,
    /// The RowKey of a part names its layout.
    pub row_keys_name_the_layout: bool,
    /// A whole write and a deletion require the head as it was read.
    pub whole_writes_are_conditional: bool,
    /// A whole write deletes the parts that it read and does not write.
    pub whole_writes_delete_other_parts: bool,
    /// A reader compares the marks of the parts with that of the head.
    pub readers_compare_marks: bool,
}

impl Rules {
    /// All rules.
    pub const ALL: Self = Self {
        patches_change_the_head: true,
        patches_require_their_part: true,
        row_keys_name_the_layout: true,
        whole_writes_are_conditional: true,
        whole_writes_delete_other_parts: true,
        readers_compare_marks: true,
    };
}

/// The head of the entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Head {
    /// Its `ETag`: another one after each write.
    version: u8,
    layout: usize,
    /// The whole write of its parts.
    mark: u8,
    /// The parts that exist, and maybe some that patches could not be made of.
    parts: [bool; PROPERTIES],
}

/// Each property is what the operation of this number wrote.
type Values = [Option<u8>; PROPERTIES];

/// A part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Part {
    mark: u8,
    values: Values,
}

/// How far a writer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Start,
    /// It has read the head, and reads this part next.
    Reading(usize),
    /// It has read all, or patches without reading.
    Ready,
    /// Its transaction is on its way.
    Waiting,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Writer {
    phase: Phase,
    head: Option<Head>,
    parts: [Option<Part>; PROPERTIES],
    /// Whether a patch became a whole write.
    is_whole: bool,
    in_flight: bool,
}

/// Everything that is stored or on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    head: Option<Head>,
    /// The parts by the layout and the number in their RowKeys.
    parts: [[Option<Part>; PROPERTIES]; LAYOUTS],
    writers: [Writer; OPS],
    /// What the entity has, by all committed writes in their order.
    truth: Option<Values>,
    versions: u8,
    /// Whether a whole write took back a patch, or a read returned parts of two whole writes.
    has_lost: bool,
    has_torn: bool,
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A writer does its next step.
    Step(usize),
    /// A writer stops for good.
    Stop(usize),
    /// A transaction lands; whether its answer comes back.
    Land(usize, bool),
    /// A transaction is lost.
    Lose(usize),
}

/// The model: which operations there are, and which rules hold.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The operations.
    pub ops: Vec<Op>,
    /// The properties of the entity that exists from the start.
    pub stored: Option<[bool; PROPERTIES]>,
    /// The rules.
    pub rules: Rules,
}

/// The number of the part that a property has in a layout.
const fn part_of(property: usize, layout: usize) -> usize {
    (property + layout) % PROPERTIES
}

fn number(op: usize) -> u8 {
    u8::try_from(op).unwrap_or(u8::MAX)
}

/// What was there before all operations.
const BEFORE: u8 = 100;

impl Parts {
    fn at(&self, layout: usize) -> usize {
        if self.rules.row_keys_name_the_layout { layout } else { 0 }
    }

    /// The layout and the property of a patch that has not become a whole write.
    fn patch(&self, world: &World, op: usize) -> Option<(usize, usize)> {
        match self.ops[op] {
            Op::Patch(property, layout) if !world.writers[op].is_whole => Some((property, layout)),
            _ => None,
        }
    }

    /// Reads the next part, or begins again if it is of another whole write.
    fn read(&self, world: &mut World, op: usize, number: usize) {
        let writer = &mut world.writers[op];
        let Some(head) = writer.head else { return };
        let layout = if self.rules.row_keys_name_the_layout { head.layout } else { 0 };
        let part = world.parts[layout][number].filter(|_| head.parts[number]);
        let is_of_head =
            part.map(|part| part.mark) == Some(head.mark).filter(|_| head.parts[number]);
        if !is_of_head && self.rules.readers_compare_marks {
            writer.phase = Phase::Start;
            return;
        }
        writer.parts[number] = part;
        if number + 1 < PROPERTIES {
            writer.phase = Phase::Reading(number + 1);
            return;
        }
        let marks = || writer.parts.iter().flatten().map(|part| part.mark);
        let is_torn = marks().any(|mark| mark != head.mark)
            || marks().count() < head.parts.iter().filter(|is| **is).count();
        world.has_torn |= is_torn;
        writer.phase = if self.ops[op] == Op::Read { Phase::Ended } else { Phase::Ready };
    }

    fn step(&self, world: &mut World, op: usize) {
        let is_insert = matches!(self.ops[op], Op::Insert(_));
        match world.writers[op].phase {
            Phase::Start if is_insert || self.patch(world, op).is_some() => {
                world.writers[op].phase = Phase::Ready;
            }
            Phase::Start => {
                world.writers[op].head = world.head;
                world.writers[op].phase =
                    if world.head.is_some() { Phase::Reading(0) } else { Phase::Ended };
            }
            Phase::Reading(number) => self.read(world, op, number),
            Phase::Ready => {
                world.writers[op].in_flight = true;
                world.writers[op].phase = Phase::Waiting;
            }
            Phase::Waiting | Phase::Ended => {}
        }
    }

    /// Executes a transaction; whether it was committed.
    fn commit(&self, world: &mut World, op: usize) -> bool {
        if let Some((property, layout)) = self.patch(world, op) {
            return self.commit_patch(world, (op, property, layout));
        }
        let read = world.writers[op].head;
        let version = |head: Option<Head>| head.map(|head| head.version);
        let is_met = match self.ops[op] {
            Op::Insert(_) => world.head.is_none(),
            _ if self.rules.whole_writes_are_conditional => version(world.head) == version(read),
            _ => world.head.is_some(),
        };
        if !is_met {
            return false;
        }
        let mut values = [None; PROPERTIES];
        for part in world.writers[op].parts.iter().flatten() {
            for (value, own) in values.iter_mut().zip(part.values) {
                *value = own.or(*value);
            }
        }
        if let Some(truth) = world.truth
            && values != truth
        {
            world.has_lost = true;
        }
        let layout = match self.ops[op] {
            Op::Insert(layout) => {
                values = [Some(number(op)), None];
                layout
            }
            Op::Patch(property, layout) => {
                values[property] = Some(number(op));
                layout
            }
            Op::Update(layout) => layout,
            Op::Delete | Op::Read => {
                self.delete_parts(world, read);
                world.head = None;
                world.truth = None;
                return true;
            }
        };
        if self.rules.whole_writes_delete_other_parts {
            self.delete_parts(world, read);
        }
        let mark = number(op);
        let mut parts = [false; PROPERTIES];
        for (property, value) in values.iter().enumerate().filter(|(_, value)| value.is_some()) {
            let at = part_of(property, layout);
            let mut of_part = [None; PROPERTIES];
            of_part[property] = *value;
            world.parts[self.at(layout)][at] = Some(Part { mark, values: of_part });
            parts[at] = true;
        }
        world.versions += 1;
        world.head = Some(Head { version: world.versions, layout, mark, parts });
        world.truth = Some(values);
        true
    }

    fn delete_parts(&self, world: &mut World, read: Option<Head>) {
        let Some(read) = read else { return };
        for at in (0..PROPERTIES).filter(|at| read.parts[*at]) {
            world.parts[self.at(read.layout)][at] = None;
        }
    }

    fn commit_patch(
        &self,
        world: &mut World,
        (op, property, layout): (usize, usize, usize),
    ) -> bool {
        let at = part_of(property, layout);
        let row = &mut world.parts[self.at(layout)][at];
        let (Some(head), true) =
            (&mut world.head, row.is_some() || !self.rules.patches_require_their_part)
        else {
            return false;
        };
        let part = row.get_or_insert(Part { mark: head.mark, values: [None; PROPERTIES] });
        part.values[property] = Some(number(op));
        if self.rules.patches_change_the_head {
            world.versions += 1;
            head.version = world.versions;
        }
        if let Some(truth) = &mut world.truth {
            truth[property] = Some(number(op));
        }
        true
    }

    /// Whether the rows hold what was written, and no others.
    fn is_right(&self, world: &World) -> bool {
        let mut expected = [[[None; PROPERTIES]; PROPERTIES]; LAYOUTS];
        if let (Some(head), Some(truth)) = (world.head, world.truth) {
            for (property, value) in truth.iter().enumerate() {
                expected[self.at(head.layout)][part_of(property, head.layout)][property] = *value;
            }
        }
        let found = world
            .parts
            .map(|parts| parts.map(|part| part.map_or([None; PROPERTIES], |part| part.values)));
        found == expected
    }
}

impl Model for Parts {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut parts = [[None; PROPERTIES]; LAYOUTS];
        let truth = self.stored.map(|has| has.map(|has| has.then_some(BEFORE)));
        for (property, value) in truth.unwrap_or_default().into_iter().enumerate() {
            let mut values = [None; PROPERTIES];
            values[property] = value;
            parts[0][property] = value.map(|_| Part { mark: BEFORE, values });
        }
        let head = |parts| Head { version: 0, layout: 0, mark: BEFORE, parts };
        let writer = Writer {
            phase: Phase::Start,
            head: None,
            parts: [None; PROPERTIES],
            is_whole: false,
            in_flight: false,
        };
        vec![World {
            head: self.stored.map(head),
            parts,
            writers: [writer; OPS],
            truth,
            versions: 0,
            has_lost: false,
            has_torn: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for op in 0..self.ops.len() {
            let writer = &world.writers[op];
            match writer.phase {
                Phase::Ended => {}
                Phase::Waiting => actions.push(Action::Stop(op)),
                _ => actions.push(Action::Step(op)),
            }
            if writer.in_flight {
                actions.extend([Action::Land(op, true), Action::Land(op, false), Action::Lose(op)]);
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Step(op) => self.step(&mut next, op),
            Action::Stop(op) => next.writers[op].phase = Phase::Ended,
            Action::Land(op, is_answered) => {
                next.writers[op].in_flight = false;
                let is_committed = self.commit(&mut next, op);
                let writer = &mut next.writers[op];
                if is_answered && writer.phase == Phase::Waiting {
                    // A patch whose part does not exist becomes a whole write. One that is refused begins again.
                    let begins = !is_committed && !matches!(self.ops[op], Op::Insert(_));
                    writer.phase = if begins { Phase::Start } else { Phase::Ended };
                    writer.is_whole = begins && matches!(self.ops[op], Op::Patch(..));
                    (writer.head, writer.parts) = (None, [None; PROPERTIES]);
                }
            }
            Action::Lose(op) => next.writers[op].in_flight = false,
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a whole write keeps all patches", |_, world: &World| !world.has_lost),
            Property::always("a read has the parts of one whole write", |_, world: &World| {
                !world.has_torn
            }),
            Property::always("the rows hold what was written", |model: &Self, world: &World| {
                model.is_right(world)
            }),
        ]
    }
}
