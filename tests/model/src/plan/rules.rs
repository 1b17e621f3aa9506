//! What a model of the write plan is made with: the changes of its operations, and the rules that programs follow.

/// Entities, by number.
pub const ENTITIES: usize = 2;
/// Operations at most.
pub const OPS: usize = 3;

/// What an operation does to its entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Inserts it, with the unique value. It does not read the head: the commit is refused if there is one.
    Insert,
    /// Writes it, with the unique value, over the head that was read.
    Take,
    /// Writes it, without the unique value, over the head that was read.
    Release,
    /// Writes it over the head that was read and has the value, and leaves the claim alone.
    Keep,
    /// Writes it over the head that was read, with its value and its blob. Only a whole copy elsewhere
    /// changes with it.
    Edit,
    /// Deletes the head that was read.
    Delete,
}

/// An operation: an entity and what happens to it.
pub type Op = (usize, Change);

/// What must be done, each with the disaster that follows without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each rule is on or off")]
pub struct Rules {
    /// A worker that finds no op row inserts a void before it gives up the message.
    pub worker_voids: bool,
    /// A claimant inserts a void before it takes a claim over.
    pub claimant_voids: bool,
    /// A sweep inserts a void before it deletes a blob that no head names.
    pub sweep_voids: bool,
    /// A writer deletes its op row only if all its requests were answered.
    pub op_row_outlives_doubt: bool,
    /// Op rows and voids are kept until nothing that was sent can land any more.
    pub rows_outlive_requests: bool,
    /// What undoes an operation looks at the heads, for the operation may have been committed, settled
    /// and forgotten.
    pub undo_reads_heads: bool,
    /// A writer rewrites the claim of its own entity, too, after it voided the operation that wrote it.
    pub own_claims_are_voided: bool,
    /// What voids an operation that has no message any more puts one, so that a worker removes the void.
    pub voids_are_announced: bool,
    /// A row elsewhere whose insert was not answered is settled again when the insert can land no more.
    pub settles_outlive_doubt: bool,
    /// An insert that finds a claim of its own entity looks for the head, which refuses it. Otherwise the
    /// head might be deleted with that claim before the insert lands.
    pub inserts_look_for_heads: bool,
    /// A writer replaces or deletes a row elsewhere as it was before the commit, and not as it is afterwards.
    pub rows_are_read_before_commits: bool,
    /// A writer whose insert elsewhere meets a row writes that row, even if it is right, because another
    /// writer may be about to delete it.
    pub met_rows_are_rewritten: bool,
    /// A writer that misses a row elsewhere leaves its op row, because another writer may be about to
    /// insert the row.
    pub missing_rows_are_looked_for_later: bool,
    /// A change of a whole copy elsewhere has an op row and a message.
    pub copies_have_op_rows: bool,
    /// What releases a claim and finds that another operation of the entity wrote it since it was read, or remembered,
    /// decides that operation and releases its claim, because it may have ended.
    pub changed_claims_are_decided: bool,
    /// The same looks for the head before it deletes the claim.
    pub changed_claims_look_for_heads: bool,
}

impl Rules {
    /// All rules.
    pub const ALL: Self = Self {
        worker_voids: true,
        claimant_voids: true,
        sweep_voids: true,
        op_row_outlives_doubt: true,
        rows_outlive_requests: true,
        undo_reads_heads: true,
        own_claims_are_voided: true,
        voids_are_announced: true,
        settles_outlive_doubt: true,
        inserts_look_for_heads: true,
        rows_are_read_before_commits: true,
        met_rows_are_rewritten: true,
        missing_rows_are_looked_for_later: true,
        copies_have_op_rows: true,
        changed_claims_are_decided: true,
        changed_claims_look_for_heads: true,
    };
}
