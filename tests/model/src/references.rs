//! References to blobs that are uploaded before the write of their entity.
//!
//! Two writers give one entity the references to two blobs, change, drop and delete it; requests land late, and
//! writers stop. A blob that the entity drops is deleted after the commit, by its writer, which does not look at
//! the head, or by settling. One that no entity names is deleted after a while. Settling and the sweep read the head
//! first, and delete some time later.

use stateright::{Model, Property};

/// Uploaded blobs.
pub const BLOBS: usize = 2;
/// Writers.
pub const WRITERS: usize = 2;

/// What must be done, each with the disaster that follows without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each rule is on or off")]
pub struct Rules {
    /// A write over an entity is on condition that it has not changed since it was read.
    pub writes_compare_versions: bool,
    /// A reference that was committed is given to no entity again.
    pub given_once: bool,
    /// One of a write with an unknown outcome is not, either.
    pub unknown_spends: bool,
    /// A writer refuses a reference whose upload is old.
    pub old_is_refused: bool,
    /// A blob is swept only when no request with its reference can land any more.
    pub sweep_waits: bool,
}

impl Rules {
    /// All rules.
    pub const ALL: Self = Self {
        writes_compare_versions: true,
        given_once: true,
        unknown_spends: true,
        old_is_refused: true,
        sweep_waits: true,
    };
}

/// The model.
#[derive(Clone, Debug)]
pub struct References {
    /// The rules.
    pub rules: Rules,
    /// How many writes each writer does.
    pub writes: u8,
}

/// The entity: whether it exists, and the blob that it refers to.
type Head = Option<Option<usize>>;

/// A write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The version that it replaces; none for an insert.
    over: Option<u8>,
    after: Head,
    /// The blob that the entity gets.
    new: Option<usize>,
    /// The blob that the entity drops.
    frees: Option<usize>,
}

/// The state of a reference, which its clones share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// It may be given to the entity.
    Unused,
    /// A write has it.
    Held,
    /// It was or may be committed.
    Spent,
}

/// How old an upload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Age {
    /// Writers accept its reference.
    Usable,
    /// Writers refuse it, and the sweep leaves it.
    Left,
    /// The sweep deletes it.
    Old,
}

/// A blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blob {
    is_stored: bool,
    usage: Use,
    age: Age,
    /// A commit dropped it.
    is_freed: bool,
    /// The head was read and does not name it, so it will be deleted.
    is_condemned: bool,
}

/// Everything that is stored or on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    head: Head,
    version: u8,
    blobs: [Blob; BLOBS],
    writes: [u8; WRITERS],
    in_flight: [Option<Request>; WRITERS],
    /// Requests of writers that do not wait for them any more.
    late: [Option<Request>; WRITERS],
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A writer reads the head and sends a write.
    Send(usize, Head),
    /// A request is applied or refused, and answered.
    Land(usize),
    /// A writer stops, or gets no answer.
    Stop(usize),
    /// A late request is applied or refused.
    LandLate(usize),
    /// A late request is lost.
    LoseLate(usize),
    /// Time passes for an upload.
    Grow(usize),
    /// Settling or the sweep reads the head and finds that it does not name the blob.
    Condemn(usize),
    /// Settling or the sweep deletes the blob.
    Delete(usize),
    /// The writer that dropped the blob deletes it.
    Free(usize),
}

impl World {
    fn names(&self, blob: usize) -> bool {
        self.head == Some(Some(blob))
    }

    /// Whether a request that gives the entity this blob may still be applied.
    fn may_get(&self, blob: usize) -> bool {
        let requests = self.in_flight.iter().chain(&self.late).flatten();
        requests.into_iter().any(|request| request.new == Some(blob))
    }

    /// Applies a request if its condition holds.
    fn apply(&mut self, request: Request, rules: Rules) -> bool {
        let holds = match request.over {
            None => self.head.is_none(),
            Some(version) => {
                self.head.is_some() && (self.version == version || !rules.writes_compare_versions)
            }
        };
        if holds {
            self.head = request.after;
            self.version += 1;
            if let Some(blob) = request.frees {
                self.blobs[blob].is_freed = true;
            }
        }
        holds
    }
}

impl References {
    /// The request of a writer that wants this entity; none if it refuses.
    fn plan(&self, world: &World, after: Head) -> Option<Request> {
        let over = world.head.is_some().then_some(world.version);
        if over.is_none() && after.is_none() {
            return None;
        }
        let (before, named) = (world.head.flatten(), after.flatten());
        let new = named.filter(|_| before != named);
        if let Some(blob) = new {
            let Blob { usage, age, .. } = world.blobs[blob];
            if usage != Use::Unused || (self.rules.old_is_refused && age > Age::Usable) {
                return None;
            }
        }
        Some(Request { over, after, new, frees: before.filter(|_| before != named) })
    }
}

impl Model for References {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let blob = Blob {
            is_stored: true,
            usage: Use::Unused,
            age: Age::Usable,
            is_freed: false,
            is_condemned: false,
        };
        vec![World {
            head: None,
            version: 0,
            blobs: [blob; BLOBS],
            writes: [0; WRITERS],
            in_flight: [None; WRITERS],
            late: [None; WRITERS],
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for writer in 0..WRITERS {
            if world.in_flight[writer].is_some() {
                actions.push(Action::Land(writer));
                if world.late[writer].is_none() {
                    actions.push(Action::Stop(writer));
                }
            } else if world.writes[writer] < self.writes {
                let with_a_blob = (0..BLOBS).map(|blob| Some(Some(blob)));
                let wanted = with_a_blob.chain([None, Some(None)]);
                actions.extend(wanted.map(|after| Action::Send(writer, after)));
            }
            if world.late[writer].is_some() {
                actions.extend([Action::LandLate(writer), Action::LoseLate(writer)]);
            }
        }
        for (number, blob) in world.blobs.iter().enumerate() {
            let waits = self.rules.sweep_waits && world.may_get(number);
            if blob.age == Age::Usable || (blob.age == Age::Left && !waits) {
                actions.push(Action::Grow(number));
            }
            let is_due = blob.is_freed || blob.age == Age::Old;
            if blob.is_stored && is_due && !blob.is_condemned && !world.names(number) {
                actions.push(Action::Condemn(number));
            }
            if blob.is_stored && blob.is_condemned {
                actions.push(Action::Delete(number));
            }
            if blob.is_stored && blob.is_freed {
                actions.push(Action::Free(number));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Send(writer, after) => {
                let request = self.plan(world, after)?;
                if let Some(blob) = request.new {
                    next.blobs[blob].usage = Use::Held;
                }
                next.in_flight[writer] = Some(request);
                next.writes[writer] += 1;
            }
            Action::Land(writer) => {
                let request = next.in_flight[writer].take()?;
                let is_committed = next.apply(request, self.rules);
                if let Some(blob) = request.new {
                    let is_spent = is_committed && self.rules.given_once;
                    next.blobs[blob].usage = if is_spent { Use::Spent } else { Use::Unused };
                }
            }
            Action::Stop(writer) => {
                let request = next.in_flight[writer].take()?;
                if let Some(blob) = request.new {
                    let is_spent = self.rules.unknown_spends;
                    next.blobs[blob].usage = if is_spent { Use::Spent } else { Use::Unused };
                }
                next.late[writer] = Some(request);
            }
            Action::LandLate(writer) => {
                let request = next.late[writer].take()?;
                next.apply(request, self.rules);
            }
            Action::LoseLate(writer) => next.late[writer] = None,
            Action::Grow(blob) => {
                let age = &mut next.blobs[blob].age;
                *age = if *age == Age::Usable { Age::Left } else { Age::Old };
            }
            Action::Condemn(blob) => next.blobs[blob].is_condemned = true,
            Action::Delete(blob) | Action::Free(blob) => next.blobs[blob].is_stored = false,
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no head names a missing blob", |_, world: &World| {
                let mut blobs = world.blobs.iter().enumerate();
                blobs.all(|(number, blob)| blob.is_stored || !world.names(number))
            }),
            Property::sometimes("a blob takes the place of another", |_, world: &World| {
                world.blobs[0].is_freed && !world.blobs[0].is_stored && world.names(1)
            }),
            Property::sometimes("an upload without an entity is swept", |_, world: &World| {
                world.blobs.iter().any(|blob| !blob.is_stored && blob.usage == Use::Unused)
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use stateright::Checker as _;

    use super::*;

    /// Whether a head may name a blob that is not there.
    fn loses(rules: Rules) -> bool {
        let checker = References { rules, writes: 2 }.checker().spawn_bfs().join();
        for possible in
            ["a blob takes the place of another", "an upload without an entity is swept"]
        {
            assert!(checker.discovery(possible).is_some(), "{possible}: {rules:?}");
        }
        checker.discovery("no head names a missing blob").is_some()
    }

    #[test]
    fn no_head_names_a_missing_blob_in_any_order_of_events() {
        assert!(!loses(Rules::ALL));
    }

    #[test]
    fn each_rule_is_needed() {
        for rules in [
            Rules { writes_compare_versions: false, ..Rules::ALL },
            Rules { given_once: false, ..Rules::ALL },
            Rules { unknown_spends: false, ..Rules::ALL },
            Rules { old_is_refused: false, ..Rules::ALL },
            Rules { sweep_waits: false, ..Rules::ALL },
        ] {
            assert!(loses(rules), "{rules:?}");
        }
    }
}
