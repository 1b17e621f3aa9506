//! The plans of the model of groups, and the rules that programs follow.

/// Entities, by number. Those of an even number have the first value, the others the second one.
pub const ENTITIES: usize = 4;
/// Unique values.
pub const VALUES: usize = 2;

/// What a plan does to its entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Inserts all of them.
    Insert,
    /// Deletes all of them as they were read.
    Delete,
}

/// A plan, with its entities.
pub type Op = (Change, &'static [usize]);

/// What must be done, each with the disaster that follows without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each rule is on or off")]
pub struct Rules {
    /// A worker that finds no op row inserts a void before it gives up the message.
    pub worker_voids: bool,
    /// A claimant inserts a void before it takes a claim over.
    pub claimant_voids: bool,
    /// What voids an operation puts a message, so that a worker removes the void.
    pub voids_are_announced: bool,
    /// What undoes a plan looks at the head of each claim.
    pub undo_reads_heads: bool,
    /// What undoes a plan looks at every claim of it, not only at the one that was refused.
    pub undo_releases_all: bool,
    /// A writer deletes its op row only if all its transactions were answered.
    pub op_row_outlives_doubt: bool,
    /// A writer keeps its message if a transaction of claims was not answered.
    pub messages_outlive_late_claims: bool,
    /// If a transaction of claims is refused, the claim in its way is made alone.
    pub refused_groups_go_alone: bool,
    /// Each claim that is released is as it was before the commit.
    pub releases_are_conditional: bool,
    /// An insert that finds a claim of its own entity looks for the head, which refuses it.
    pub inserts_look_for_heads: bool,
    /// All heads are written with the op row, or none is.
    pub plans_commit_whole: bool,
}

impl Rules {
    /// All rules.
    pub const ALL: Self = Self {
        worker_voids: true,
        claimant_voids: true,
        voids_are_announced: true,
        undo_reads_heads: true,
        undo_releases_all: true,
        op_row_outlives_doubt: true,
        messages_outlive_late_claims: true,
        refused_groups_go_alone: true,
        releases_are_conditional: true,
        inserts_look_for_heads: true,
        plans_commit_whole: true,
    };
}
