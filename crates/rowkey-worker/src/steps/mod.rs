//! Eventually consistent transactions: steps that are safe to repeat, based on the current state.
//!
//! No transaction spans two partitions, two accounts, or a table and a blob. But all changes can be made to
//! happen eventually: a message on a queue describes the task, a worker performs it in steps, and deletes the
//! message last. If a worker stops in between, the message becomes visible again, so each step may run twice,
//! or in two workers concurrently.
//!
//! ```
//! use rowkey::store::Deciding;
//! use rowkey::worker::Done;
//! use rowkey::worker::steps::{self, Steps};
//! use rowkey::{Entity, StorageAccount};
//!
//! #[derive(Clone, Debug, PartialEq, Entity)]
//! #[entity(partition = "{department}", row = "id_{id:6}")]
//! struct Employee { department: String, id: u32, name: String }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> rowkey::Result<()> {
//! # let server = rowkey_emulator::Server::start().await.map_err(|_| rowkey::Error::refused(rowkey::ErrorKind::Unavailable, "no server"))?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! // `Deciding` reads the primary.
//! let current = Deciding::new(&account.table("current"));
//! let archive = Deciding::new(&account.table("archive"));
//! # current.table().create().await?;
//! # archive.table().create().await?;
//! # let ada = Employee { department: "sales".into(), id: 7, name: "Ada".into() };
//! # current.table().insert(&ada).await?;
//! // The handler of a worker. The tables may be in two accounts.
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
//! - **Read, then decide.** [`run`] takes a closure that reads and returns the [`Steps`], or `None` if
//!   nothing is left to do. So each round detects completed steps.
//! - **Decisions read the primary.** Entities are read and written through [`Deciding`], which never reads
//!   from a secondary, because that may be behind.
//! - **The source is deleted last,** under the ETag it was read with. Until then the task can start again,
//!   and a change made after the read is not deleted with it.
//! - **A round that loses a race starts again.** If a step fails because another client changed the data
//!   after the read (412, 409, 404), [`run`] reads again and runs new steps: up to 40 rounds, the later ones
//!   after random waits of at most half a second.
//! - **A late worker overwrites nothing.** Of two workers with the same task, one may be late and hold an old
//!   copy. [`Steps::write`] is conditional on the target as it was before the source was read, so the late
//!   worker fails and reads again. Use [`upsert`](Steps::upsert) only if any order of writers is correct.
//!
//! There is no isolation: readers can temporarily see both entities, or a partly finished operation.
//!
//! See the design guide's "Eventually consistent transactions pattern". Its example deletes the
//! source if it exists, which loses a change made between the read and the deletion.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use rowkey_client::blob::Put;
use rowkey_client::rounds::Rounds;
use rowkey_client::{
    Blob, DynamicEntity, ETag, Entity, Error, ErrorCode, ErrorKind, Key, Result, StorageAccount,
    Stored, Table,
};
use rowkey_store::Deciding;

use crate::inbox::Inbox;
use crate::worker::{Attempt, Done};

mod file;

/// Runs the steps that `read` returns until all are done or one fails permanently.
///
/// `read` runs once per round. It returns `None` when nothing is left to do: the source no longer exists, so
/// the work was done before. An error of `read` ends the run.
///
/// A step that fails with [`ErrorKind::Conflict`], or because its target was created or deleted, ends the
/// round, and the next one starts with `read`. Any other error is returned and names the step. The steps
/// before it stay done, so the run can be repeated, as a worker does when the message is received again.
/// `account` is used for its clock only.
pub async fn run<R>(account: &StorageAccount, read: impl Fn() -> R) -> Result<Done>
where
    R: Future<Output = Result<Option<Steps>>>,
{
    // Two workers with the same task must not wait for the same time.
    let seed = RandomState::new().hash_one(account.name());
    let mut rounds = Rounds::of(account, seed);
    let mut done = Done::AlreadyApplied;
    loop {
        // A read makes several requests; unboxed, its future would make the futures of workers large.
        let Some(steps) = Box::pin(read()).await? else { return Ok(done) };
        done = Done::Applied;
        match steps.run_once().await {
            Ok(()) => return Ok(done),
            Err(error) if is_lost(&error) => {
                tracing::debug!(%error, "a step lost a race; the transaction starts again");
                if !rounds.again().await {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Runs the steps that `read` returns, and inserts a row of an [`Inbox`], so that a later delivery of the
/// task has no second effect, even if the source was created again in the meantime (an employee is hired
/// again).
///
/// `read` receives the row. Pass it to [`Steps::delete_once`], which deletes the source and inserts the row
/// in one transaction: while the row does not exist, the source is the original one. If no step inserts the
/// row, or the read finds nothing to do, the row is inserted at the end.
///
/// `key` is the key of the source; the row is in its partition. Costs one read more than [`run`], and one
/// insert if no step inserts the row.
///
/// ```
/// # use rowkey::store::Deciding;
/// # use rowkey::worker::inbox::Inbox;
/// # use rowkey::worker::{Attempt, Done, Step, Worker};
/// # use rowkey::{Entity, StorageAccount};
/// use rowkey::worker::steps::{self, Steps};
/// # use rowkey::worker::{Task, Tasks};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct Dismiss { id: u32 }
/// # impl Task for Dismiss { const KIND: &'static str = "dismiss"; }
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(partition = "{department}", row = "id_{id:6}")]
/// # struct Employee { department: String, id: u32 }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let staff = Deciding::new(&account.table("staff"));
/// # staff.table().create().await?;
/// # staff.table().insert(&Employee { department: "sales".into(), id: 7 }).await?;
/// # let tasks = Tasks::<Dismiss>::new(account.queue("dismiss"));
/// # tasks.create_if_missing().await?;
/// # tasks.put(&Dismiss { id: 7 }).await?;
/// # let inbox = Inbox::new(&staff);
/// # let of_handler = staff.clone();
/// let worker = Worker::new(tasks, move |task: Dismiss, attempt: Attempt| {
///     let (staff, inbox) = (of_handler.clone(), inbox.clone());
///     async move {
///         let key = Employee::key("sales", task.id);
///         steps::run_once(&inbox, &key.clone(), &attempt, |row| {
///             let (staff, key) = (staff.clone(), key.clone());
///             async move {
///                 let Some(employee) = staff.get(key).await? else { return Ok(None) };
///                 Ok(Some(Steps::new().delete_once(&staff, &employee, row)))
///             }
///         })
///         .await
///     }
/// });
/// assert_eq!(worker.step().await?, Step::Handled);
/// assert!(staff.get(Employee::key("sales", 7)).await?.is_none());
/// # Ok(()) }
/// ```
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
    // Whether the row exists when the run has ended.
    let is_marked = AtomicBool::new(false);
    let done = run(inbox.table().table().account(), async || {
        // Checked in each round, because another worker may have been faster.
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

/// Returns whether reading again may help. Unlike elsewhere, an unknown outcome also allows another round: if
/// the step was applied, the next read finds it done.
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

/// The ordered steps of an eventually consistent transaction.
///
/// Put copies first, and the deletion of the source last: see the [module](self#what-makes-it-right). Nothing
/// is sent before [`run`].
#[must_use = "nothing happens before `run`"]
#[derive(Default)]
pub struct Steps {
    steps: Vec<Step>,
    /// Whether a step inserts the row of an inbox.
    marks: bool,
}

struct Step {
    /// The operation and its target, for error messages.
    name: Cow<'static, str>,
    work: Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>,
}

impl Steps {
    /// Creates an empty list of steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes an entity to a target that was read before: replaces `there` if it is unchanged, or inserts the
    /// entity if `there` is `None`.
    ///
    /// Read `there` *before* the data from which the entity is made. Then a worker that was overtaken by
    /// another one fails here, instead of overwriting a newer copy with an old one.
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

    /// Inserts or replaces an entity unconditionally: for entities that depend on the task alone, so that any
    /// order of writers is correct.
    pub fn upsert<E: Entity + Send + Sync + 'static>(self, table: &Table, entity: E) -> Self {
        let table = table.clone();
        self.step(format!("upsert into {}", table.name()), async move || {
            table.upsert(&entity).await.map(drop)
        })
    }

    /// Deletes an entity if it is unchanged since it was read.
    pub fn delete<E: Entity + Send + 'static>(self, table: &Deciding, read: &Stored<E>) -> Self {
        let (table, etag) = (table.table().clone(), read.etag.clone());
        let key = Key::of(&read.entity);
        self.step(format!("delete from {}", table.name()), async move || {
            table.delete(key, etag).await
        })
    }

    /// Deletes an entity if it is unchanged since it was read, and inserts a row of an inbox into the same
    /// partition, in one transaction. For [`run_once`].
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
    /// If the blob's content can change, pass a handle with the [`Conditions`](rowkey_client::blob::Conditions) of
    /// the target as it was before the content was read, as for [`write`](Self::write):
    /// `blob.with_conditions(&etag)`, or `Conditions::missing()` if it did not exist.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # use rowkey::worker::Done;
    /// # use rowkey::worker::steps::{self, Steps};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let draft = files.blob("draft");
    /// # draft.put("text").send().await?;
    /// let published = files.blob("published");
    /// let done = steps::run(&account, async || {
    ///     let Some(content) = draft.get().await? else { return Ok(None) };
    ///     let put = published.put(content.bytes);
    ///     Ok(Some(Steps::new().put_blob(put).delete_blob(&draft, &content.properties.etag)))
    /// });
    /// assert_eq!(done.await?, Done::Applied);
    /// assert!(draft.get().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn put_blob(self, put: Put) -> Self {
        self.step("put a blob", async move || put.send().await.map(drop))
    }

    /// Deletes a blob if its ETag is still the one that was read.
    pub fn delete_blob(self, blob: &Blob, read: &ETag) -> Self {
        let blob = blob.with_conditions(read);
        self.step("delete a blob", async move || blob.delete().await)
    }

    /// Moves a file on this machine's disks, also across file systems. The folder of the target must exist.
    ///
    /// The target is complete and on the disk before it gets its name and before the source is removed; the
    /// next run finishes an interrupted move. A move that was made before counts as done. Nothing is
    /// overwritten: if the target is another file, this fails with [`ErrorKind::AlreadyExists`], and if
    /// neither file exists, with [`ErrorKind::NotFound`]. Neither error starts another round.
    ///
    /// If the source changes while it is copied to another file system, the round starts again. A source that
    /// is replaced at the very moment of its removal is lost, so write files before the task is put.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// use rowkey::worker::steps::{self, Steps};
    ///
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// # let folder = std::env::temp_dir().join(format!("rowkey-move-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let (new, archived) = (folder.join("new.txt"), folder.join("archived.txt"));
    /// std::fs::write(&new, "text")?;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// steps::run(&account, async || Ok(Some(Steps::new().move_file(&new, &archived)))).await?;
    /// # Ok::<_, rowkey::Error>(()) })?;
    /// assert_eq!(std::fs::read_to_string(&archived)?, "text");
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn move_file(self, from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        let (from, to) = (from.into(), to.into());
        self.step("move a file", async move || file::move_file(&from, &to).await)
    }

    /// Runs any other operation, in any other system. `name` identifies it in error messages.
    ///
    /// The operation must be safe to repeat. Create its errors with [`Error::refused`]; an error of
    /// [`ErrorKind::Conflict`] starts the transaction again.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// use rowkey::worker::steps::{self, Steps};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rowkey::Result<()> {
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// # async fn send_mail() -> rowkey::Result<()> { Ok(()) }
    /// let done = steps::run(&account, async || {
    ///     Ok(Some(Steps::new().call("send a mail", async || send_mail().await)))
    /// });
    /// assert_eq!(done.await?, rowkey::worker::Done::Applied);
    /// # Ok(()) }
    /// ```
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
