//! What is stored, what is on its way, what each writer knows, and what may happen next.

use super::{ENTITIES, OPS};

/// An entity's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Head {
    /// The operation that wrote it, which is its version; `None` for one that was there before.
    pub(super) by: Option<usize>,
    /// The operation that uploaded its blob.
    pub(super) blob: Option<usize>,
    /// Whether it holds the unique value.
    pub(super) value: bool,
}

/// The row that claims the unique value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    pub(super) entity: usize,
    pub(super) by: Option<usize>,
}

/// A row of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copy {
    /// The version of the head that it shows, if it is a whole copy.
    pub(super) by: Option<usize>,
}

/// What a writer knows of the row of the index before its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// It has not looked.
    Nothing,
    /// There was none.
    Absent,
    /// Its `ETag`, and the row still has it.
    Present,
    /// Its `ETag`, which the row has no more.
    Changed,
}

/// The row at an operation's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpRow {
    /// Nothing.
    Absent,
    /// It was committed.
    Committed,
    /// It never will be.
    Void,
}

/// An operation's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Not put, or deleted.
    Absent,
    /// Not received yet.
    Hidden,
    /// A worker may have it.
    Visible,
}

/// How far a writer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has not begun.
    Start,
    /// It has read the head, and put its message.
    Announced,
    /// It has claimed the value, where it needs it.
    Claimed,
    /// Its blob is there.
    Uploaded,
    /// Its transaction is on its way.
    Waiting,
    /// Its transaction was committed, and it received the response.
    Committed,
    /// It has settled the index.
    Indexed,
    /// It has settled.
    Settled,
    /// It has forgotten the operation, but for the message.
    Forgotten,
    /// It was rejected before or at the commit, and undoes its prepare phase.
    Refused,
    /// It is done, or it has stopped.
    Ended,
}

/// A writer, and its knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writer {
    pub(super) phase: Phase,
    /// The head that it read.
    pub(super) read: Option<Head>,
    /// The claim of its entity as it stood before the commit, or as its program remembers it from before.
    pub(super) claim: Option<Claim>,
    /// The row of the index as it stood before the commit.
    pub(super) known: Known,
    /// Whether a transaction of its was never answered.
    pub(super) has_doubt: bool,
    /// Whether it missed a row of the index.
    pub(super) missed: bool,
}

/// Everything that is stored or on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub(super) heads: [Option<Head>; ENTITIES],
    /// The index elsewhere: the row of each entity under the value.
    pub(super) index: [Option<Copy>; ENTITIES],
    pub(super) claim: Option<Claim>,
    pub(super) blobs: [bool; OPS],
    pub(super) rows: [OpRow; OPS],
    pub(super) messages: [Message; OPS],
    /// Messages of what voided an operation, which are visible at once.
    pub(super) void_messages: [bool; OPS],
    pub(super) writers: [Writer; OPS],
    /// Transactions that may still land, of each operation.
    pub(super) in_flight: [u8; OPS],
    /// An insert into the index that may still land, of each entity.
    pub(super) late_inserts: [Option<Copy>; ENTITIES],
    /// The operations that made a claim, which programs may remember.
    pub(super) have_claimed: [bool; OPS],
    /// How often each operation was committed.
    pub(super) commits: [u8; OPS],
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A writer does its next step.
    Step(usize),
    /// A writer goes on without reading the claim that it will release: its program remembers the claim that an
    /// operation made, or the one that was there from the start.
    StepRemembering(usize, Option<usize>),
    /// A writer settles, and its insert into the index is not answered.
    StepUnanswered(usize),
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
    /// A worker settles, and its insert into the index is not answered.
    WorkUnanswered(usize),
    /// An unanswered insert into the index lands, if there is no row.
    LandInsert(usize),
    /// An unanswered insert into the index is lost.
    LoseInsert(usize),
    /// A sweep does the next step for a blob.
    Sweep(usize),
    /// A sweep does the next step for the claim.
    SweepClaim,
}
