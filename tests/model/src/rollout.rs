//! A declaration that a new program adds to a table which an old one still writes.
//!
//! An index is *announced*: programs that know it write it, old ones do not, and no program reads it. It is
//! *required*: a writer whose program does not know it refuses. It is *readable* after every head has got its
//! copy and copies without a head were removed. A writer acts on the manifest that it read last, for a
//! limited time, and what it sends may land later still.

use stateright::{Model, Property};

/// Entities.
pub const ENTITIES: usize = 2;
/// Writers: the first runs the old program, the second the new one.
pub const WRITERS: usize = 2;

/// How far the declaration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// New programs write the index.
    Announced,
    /// Programs that do not know the index are refused.
    Required,
    /// Every head has its copy.
    Readable,
}

/// What must be done, each with the disaster that follows without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// After a step of the manifest, the build waits until no writer may act on an older one.
    pub build_waits_for_holders: bool,
    /// It also waits until their requests are applied or lost.
    pub build_waits_for_requests: bool,
    /// A writer reads the manifest again when it has held it for the time that is allowed.
    pub manifest_is_reread: bool,
}

impl Rules {
    /// All rules.
    pub const ALL: Self = Self {
        build_waits_for_holders: true,
        build_waits_for_requests: true,
        manifest_is_reread: true,
    };
}

/// The model.
#[derive(Clone, Debug)]
pub struct Rollout {
    /// The rules.
    pub rules: Rules,
    /// How many writes each writer does.
    pub writes: u8,
}

/// A transaction on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    entity: usize,
    /// Whether the entity is there afterwards.
    exists: bool,
    /// Whether the copy is written along with it.
    has_copy: bool,
}

/// A writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writer {
    /// The manifest that it holds.
    held: Option<Stage>,
    writes: u8,
    in_flight: Option<Request>,
}

/// Everything that is stored or on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    stage: Stage,
    heads: [bool; ENTITIES],
    copies: [bool; ENTITIES],
    writers: [Writer; WRITERS],
    /// The entity that the build looks at next; none before it has begun.
    build: Option<usize>,
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A writer reads the manifest.
    Read(usize),
    /// A writer forgets the manifest, as it has held it long enough.
    Forget(usize),
    /// A writer sends a write of an entity, or its deletion.
    Send(usize, usize, bool),
    /// A request of a writer is applied.
    Land(usize),
    /// A request of a writer is lost.
    Lose(usize),
    /// The manifest steps from announced to required.
    Require,
    /// The build makes the copy of the next entity agree with its head.
    Build,
}

impl Rollout {
    /// Whether a writer may hold a manifest that lets it write without the index.
    fn may_write_plainly(writer: &Writer) -> bool {
        writer.held == Some(Stage::Announced)
    }
}

impl Model for Rollout {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let writer = Writer { held: None, writes: 0, in_flight: None };
        vec![World {
            stage: Stage::Announced,
            heads: [true, false],
            copies: [false; ENTITIES],
            writers: [writer; WRITERS],
            build: None,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (number, writer) in world.writers.iter().enumerate() {
            let is_old = number == 0;
            match writer.held {
                None if writer.writes < self.writes => actions.push(Action::Read(number)),
                None => {}
                Some(stage) => {
                    if self.rules.manifest_is_reread {
                        actions.push(Action::Forget(number));
                    }
                    let is_refused = is_old && stage >= Stage::Required;
                    if !is_refused && writer.writes < self.writes && writer.in_flight.is_none() {
                        for entity in 0..ENTITIES {
                            actions.push(Action::Send(number, entity, true));
                            actions.push(Action::Send(number, entity, false));
                        }
                    }
                }
            }
            if writer.in_flight.is_some() {
                actions.extend([Action::Land(number), Action::Lose(number)]);
            }
        }
        match world.stage {
            Stage::Announced => actions.push(Action::Require),
            Stage::Required => {
                let holds = world.writers.iter().any(Self::may_write_plainly);
                let sent = world
                    .writers
                    .iter()
                    .any(|writer| writer.in_flight.is_some_and(|r| !r.has_copy));
                // Time models both: two times that a manifest may be cached, and the maximum delay of a request.
                let waits =
                    self.rules.build_waits_for_holders && self.rules.manifest_is_reread && holds
                        || self.rules.build_waits_for_requests && sent;
                if !waits {
                    actions.push(Action::Build);
                }
            }
            Stage::Readable => {}
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Read(writer) => next.writers[writer].held = Some(world.stage),
            Action::Forget(writer) => next.writers[writer].held = None,
            Action::Send(writer, entity, exists) => {
                let has_copy = writer != 0;
                next.writers[writer].in_flight = Some(Request { entity, exists, has_copy });
                next.writers[writer].writes += 1;
            }
            Action::Land(writer) => {
                let request = next.writers[writer].in_flight.take()?;
                next.heads[request.entity] = request.exists;
                if request.has_copy {
                    next.copies[request.entity] = request.exists;
                }
            }
            Action::Lose(writer) => next.writers[writer].in_flight = None,
            Action::Require => next.stage = Stage::Required,
            Action::Build => {
                let entity = world.build.unwrap_or(0);
                next.copies[entity] = world.heads[entity];
                next.build = Some(entity + 1);
                if entity + 1 == ENTITIES {
                    next.stage = Stage::Readable;
                }
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a readable index agrees", |_, world: &World| {
                world.stage != Stage::Readable || world.heads == world.copies
            }),
            Property::sometimes("the index becomes readable", |_, world: &World| {
                world.stage == Stage::Readable
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use stateright::Checker as _;

    use super::*;

    fn broken(rules: Rules) -> Vec<&'static str> {
        let checker = Rollout { rules, writes: 2 }.checker().spawn_bfs().join();
        assert!(checker.discovery("the index becomes readable").is_some());
        let mut found: Vec<_> = checker.discoveries().into_keys().collect();
        found.retain(|name| *name != "the index becomes readable");
        found
    }

    #[test]
    fn two_versions_of_a_program_keep_a_readable_index_consistent() {
        assert_eq!(broken(Rules::ALL), Vec::<&str>::new());
    }

    #[test]
    fn each_rule_is_needed() {
        for rules in [
            Rules { build_waits_for_holders: false, ..Rules::ALL },
            Rules { build_waits_for_requests: false, ..Rules::ALL },
            Rules { manifest_is_reread: false, ..Rules::ALL },
        ] {
            assert_eq!(broken(rules), ["a readable index agrees"], "{rules:?}");
        }
    }
}
