//! Eventually consistent transactions: steps that are safe to repeat, made from what was read.
//!
//! Nothing changes two partitions at once, let alone two accounts, or a table and a blob. What can
//! be had is that all of it happens in the end: a task on a queue says what is to be done, a worker
//! does it in steps, and deletes the message last. A worker that stops in between leaves a message
//! that comes back, so each step may be done twice, or by two workers at a time.
//!
//! ```
//! use rowkey::{Entity, StorageAccount};
//! use rowkey_worker::steps::{self, Steps};
//! use rowkey_worker::worker::Done;
//! use rowkey_store::Deciding;
//!
//! #[derive(Clone, Debug, PartialEq, Entity)]
//! #[entity(partition = "{department}", row = "id_{id:6}")]
//! struct Employee { department: String, id: u32, name: String }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> rowkey::Result<()> {
//! # let server = rowkey_emulator::Server::start().await.map_err(|_| rowkey::Error::refused(rowkey::ErrorKind::Unavailable, "no server"))?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! // What decides is read on the primary.
//! let current = Deciding::new(&account.table("current"));
//! let archive = Deciding::new(&account.table("archive"));
//! # current.table().create().await?;
//! # archive.table().create().await?;
//! # let ada = Employee { department: "sales".into(), id: 7, name: "Ada".into() };
//! # current.table().insert(&ada).await?;
//! // What a worker's handler does. The tables may be of two accounts.
//! let done = steps::run(&account, async || {
//!     let key = Employee::key("sales", 7);
//!     let there = archive.get(key.clone()).await?; // before the source: see `Steps::write`
//!     let Some(employee) = current.get(key).await? else { return Ok(None) };
//!     let steps = Steps::new()
//!         .write(&archive, there.as_ref(), employee.entity.clone())
//!         .delete(&current, &employee);
//!     Ok(Some(steps))
//! });
//! assert_eq!(done.await?, Done::Applied);
//! # assert!(current.get(Employee::key("sales", 7)).await?.is_none());
//! # assert!(archive.get(Employee::key("sales", 7)).await?.is_some());
//! # Ok(()) }
//! ```
//!
//! # What makes it right
//!
//! - **Read, then decide.** [`run`] is given a closure that reads and returns the [`Steps`], or
//!   `None` when nothing is left to do. So a read finds out what was done already.
//! - **What decides is read on the primary.** Entities are read and written through
//!   [`Deciding`], which does not read from a secondary that is behind.
//! - **What is read is deleted last,** and under the ETag it was read with. Until then the task can
//!   begin anew; and a change made since the reading is not deleted with it.
//! - **Lost steps begin anew.** A step that meets what another client wrote since the reading (412,
//!   409, 404) makes [`run`] read again and run new steps: up to 40 rounds, the later ones after
//!   waits of random length, half a second at most.
//! - **Overtaken workers write nothing.** Of two workers with the same task one may be late, and
//!   hold an old copy. [`Steps::write`] is conditional on what was in the target's place before the
//!   source was read, so the late one loses and reads again. An [`upsert`](Steps::upsert) is for what
//!   is right in any order of writers.
//!
//! There is no isolation: for a while readers see both entities, or what is done by half.
//!
//! See the design guide's "Eventually consistent transactions pattern". Its example deletes the
//! source if it exists, which loses a change made between the reading and the deletion.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use rowkey::blob::Put;
use rowkey::{
    Blob, DynamicEntity, ETag, Entity, Error, ErrorCode, ErrorKind, Key, Result, StorageAccount,
    Stored, Table,
};
use rowkey_patterns::rounds::Rounds;
use rowkey_store::Deciding;

use crate::inbox::Inbox;
use crate::worker::{Attempt, Done};

mod file;

/// Runs the steps that `read` returns until all are done or one fails for good.
///
/// `read` runs once for each round. It returns `None` when nothing is to be done: the source is gone,
/// so the work was done before. An error of `read` ends the run.
///
/// A step that fails with [`ErrorKind::Conflict`], or because what it is about came or went, loses
/// the round, and everything begins anew with `read`. Any other error is returned, and says which
/// step it was. The steps before it are done and stay done: run it again, as a worker does when the
/// message comes back. `account` is asked for its clock alone.
pub async fn run<R>(account: &StorageAccount, read: impl Fn() -> R) -> Result<Done>
where
    R: Future<Output = Result<Option<Steps>>>,
{
    // Two workers with the same task must not wait for the same time.
    let seed = RandomState::new().hash_one(account.name());
    let mut rounds = Rounds::of(account, seed);
    let mut done = Done::AlreadyApplied;
    loop {
        // Readings make several requests, and their futures would make those of workers large.
        let Some(steps) = Box::pin(read()).await? else { return Ok(done) };
        done = Done::Applied;
        match steps.run_once().await {
            Ok(()) => return Ok(done),
            Err(error) if is_lost(&error) => {
                tracing::debug!(%error, "a step lost, the transaction begins anew");
                if !rounds.again().await {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Runs the steps that `read` returns, and leaves a row in an [`Inbox`], so that no later delivery of the task
/// has another effect: not when the source came back meanwhile, as an employee who is hired again.
///
/// `read` is given the row. Give it to [`Steps::delete_once`], which deletes the source and inserts the row in one
/// transaction: as long as the row is not there, the source is the one of before. Steps that do without it, and
/// a reading that finds nothing to do, are followed by the row's own insertion.
///
/// `key` is that of the source, beside which the row is. Costs one read more than [`run`], and one insertion
/// where no step carries the row.
pub async fn run_once<E, R>(
    inbox: &Inbox,
    key: &Key<E>,
    attempt: &Attempt,
    read: impl Fn(DynamicEntity) -> R + Send + Sync,
) -> Result<Done>
where
    R: Future<Output = Result<Option<Steps>>> + Send,
{
    if let Some(done) = inbox.refuse(attempt) {
        return Ok(done);
    }
    let row = inbox.row(key, attempt.id())?;
    // Whether the row is there when the run has ended.
    let is_marked = AtomicBool::new(false);
    let done = run(inbox.table().table().account(), async || {
        // In each round: another worker may have been faster.
        if inbox.has(key, attempt.id()).await? {
            is_marked.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let steps = read(row.clone()).await?;
        is_marked.store(steps.as_ref().is_some_and(|steps| steps.marks), Ordering::Relaxed);
        Ok(steps)
    })
    .await?;
    if !is_marked.load(Ordering::Relaxed) {
        match inbox.table().table().insert(&row).await {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(done)
}

/// Whether reading again may help. Unlike elsewhere an unknown outcome is no reason to stop: if the
/// step was applied, the next reading finds it done.
fn is_lost(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Conflict => true,
        ErrorKind::AlreadyExists => error.code().is_some(),
        ErrorKind::NotFound => {
            let missing = [ErrorCode::TABLE_NOT_FOUND, ErrorCode::CONTAINER_NOT_FOUND];
            error.code().is_some_and(|code| !missing.contains(code))
        }
        _ => false,
    }
}

/// The steps of an eventually consistent transaction, in their order.
///
/// Copies come first, and the deletion of what was read comes last: see the
/// [module](self#what-makes-it-right). Nothing is sent before [`run`].
#[must_use = "nothing happens before `run`"]
#[derive(Default)]
pub struct Steps {
    steps: Vec<Step>,
    /// Whether one of them inserts the row of an inbox.
    marks: bool,
}

struct Step {
    /// What it does, and to what.
    name: Cow<'static, str>,
    work: Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>,
}

impl Steps {
    /// No steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes an entity in the place of what was read there: replaces `there` if it is unchanged, or
    /// inserts the entity if there was none.
    ///
    /// Read `there` *before* what the entity is made from. A worker that was overtaken by another
    /// one in between then loses here, instead of writing an old copy over a newer one.
    pub fn write<E: Entity + Send + Sync + 'static>(
        self,
        table: &Deciding,
        there: Option<&Stored<E>>,
        entity: E,
    ) -> Self {
        let (table, there) = (table.table().clone(), there.map(|stored| stored.etag.clone()));
        self.step(format!("write into {}", table.name()), async move || {
            match there {
                Some(etag) => table.replace((&entity, etag)).await,
                None => table.insert_once(&entity).await,
            }
            .map(drop)
        })
    }

    /// Writes an entity, also over an existing one: for what is right in any order of writers, because
    /// it depends on the task alone.
    pub fn upsert<E: Entity + Send + Sync + 'static>(self, table: &Table, entity: E) -> Self {
        let table = table.clone();
        self.step(format!("upsert into {}", table.name()), async move || {
            table.upsert(&entity).await.map(drop)
        })
    }

    /// Deletes what was read, if it was not changed since.
    pub fn delete<E: Entity + Send + 'static>(self, table: &Deciding, read: &Stored<E>) -> Self {
        let (table, etag) = (table.table().clone(), read.etag.clone());
        let key = Key::of(&read.entity);
        self.step(format!("delete from {}", table.name()), async move || {
            table.delete(key, etag).await
        })
    }

    /// Deletes what was read, if no writer changed it since, and inserts a row of an inbox beside it, both or
    /// neither. For [`run_once`].
    pub fn delete_once<E: Entity + Send + 'static>(
        mut self,
        table: &Deciding,
        read: &Stored<E>,
        row: DynamicEntity,
    ) -> Self {
        let (table, etag) = (table.table().clone(), read.etag.clone());
        let key = Key::of(&read.entity);
        self.marks = true;
        self.step(format!("delete from {}", table.name()), async move || {
            table.transaction().delete(key, etag).insert(&row).submit().await.map(drop)
        })
    }

    /// Writes a blob: `.put_blob(blob.put(content))`.
    ///
    /// Where its content may change, give the handle the [`Conditions`](rowkey::blob::Conditions) of
    /// what was in its place before the content was read, as for [`write`](Self::write):
    /// `blob.with_conditions(&etag)`, or `Conditions::missing()` if there was none.
    pub fn put_blob(self, put: Put) -> Self {
        self.step("put a blob", async move || put.send().await.map(drop))
    }

    /// Deletes the blob that was read under this ETag, if it was not changed since.
    pub fn delete_blob(self, blob: &Blob, read: &ETag) -> Self {
        let blob = blob.with_conditions(read);
        self.step("delete a blob", async move || blob.delete().await)
    }

    /// Moves a file on this machine's disks, across file systems, too. The folder of the target must
    /// exist.
    ///
    /// The target is complete and on the disk before it has its name, and before the source goes;
    /// what stops in between is finished by the next run. A move that was made before is
    /// done. Nothing is overwritten: when the target is another file, this fails with
    /// [`ErrorKind::AlreadyExists`], and when neither is there, with [`ErrorKind::NotFound`]; no
    /// further round is tried then.
    ///
    /// A source that is changed while it is copied to another file system loses the round. Who
    /// replaces the source at the very moment when it is to go loses the change, so files should be
    /// written before the task is put.
    pub fn move_file(self, from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        let (from, to) = (from.into(), to.into());
        self.step("move a file", async move || file::move_file(&from, &to).await)
    }

    /// Does anything else, in any other system. `name` says what, in error messages.
    ///
    /// It must be safe to repeat. [`Error::refused`] makes its errors; one of
    /// [`ErrorKind::Conflict`] begins the transaction anew.
    pub fn call<F, R>(self, name: &'static str, call: F) -> Self
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.step(name, call)
    }

    fn step<F, R>(mut self, name: impl Into<Cow<'static, str>>, work: F) -> Self
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.steps.push(Step { name: name.into(), work: Box::new(|| Box::pin(work())) });
        self
    }

    async fn run_once(self) -> Result<()> {
        let count = self.steps.len();
        for (at, Step { name, work }) in self.steps.into_iter().enumerate() {
            work()
                .await
                .map_err(|error| error.during(format!("step {} of {count} ({name})", at + 1)))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.steps.iter().map(|step| &step.name)).finish()
    }
}
