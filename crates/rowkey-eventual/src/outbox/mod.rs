//! The outbox: a change and the intent to do more, written in one transaction.
//!
//! What follows a change (an archive, a mail, a copy elsewhere) must neither be forgotten when the
//! program stops after the change, nor happen without it. So the change writes an *intent*, a row beside
//! its own, in the same entity group transaction. A message tells a worker of the intent; if it is
//! lost, or was never sent, a [`Drain`] finds the row.
//!
//! - [`Outbox`]: writes intents, and hands them to a worker
//! - [`drain`]: [`Drain`], for intents that no message tells of
//! - `intent`: the row itself

pub mod drain;
pub(crate) mod intent;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use rowkey::{
    DynamicEntity, ETag, Error, ErrorKind, Key, Match, Outcome, Queue, Result, Table, Transaction,
};
use serde::{Deserialize, Serialize};

use crate::task::{Task, Tasks};
use crate::worker::{Attempt, Done, Handler, Worker};
pub use drain::{Checkpoint, Drain, Drained};
use intent::Intent;

/// Tasks that are written together with what they follow from.
///
/// ```
/// use std::time::Duration;
///
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_eventual::outbox::Outbox;
/// use rowkey_eventual::Task;
/// use rowkey_eventual::worker::{Attempt, Done, Step};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// struct Employee {
///     department: String,
///     id: u32,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Welcome {
///     id: u32,
/// }
///
/// impl Task for Welcome {
///     const KIND: &'static str = "welcome";
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let outbox = Outbox::<Welcome>::new(account.table("staff"), account.queue("welcome"));
/// outbox.table().create_if_missing().await?;
/// outbox.tasks().create_if_missing().await?;
///
/// // Both or neither, and a message.
/// let ada = Employee { department: "sales".into(), id: 7 };
/// outbox.submit(outbox.table().transaction().insert(&ada), [&Welcome { id: 7 }]).await?;
///
/// let welcome = |task: Welcome, _: Attempt| async move {
///     println!("welcome, number {}", task.id);
///     Ok(Done::Applied)
/// };
/// assert_eq!(outbox.worker(welcome).step().await?, Step::Handled);
/// // What no message told of. Nothing is left by now.
/// let drained = outbox.drain(Duration::from_secs(60), welcome).run().await?;
/// assert_eq!(drained.found, 0);
/// # Ok(())
/// # }
/// ```
pub struct Outbox<T> {
    table: Table,
    notices: Tasks<Notice<T>>,
    /// What the rows say of what they are.
    kind: Cow<'static, str>,
}

/// What a message says of an intent: where it is. The task itself is in the row.
///
/// ```text
/// {"kind":"welcome","id":"..","task":{"table":"staff","partitionKey":"sales","rowKey":"outbox_.."}}
/// ```
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound = "")]
pub struct Notice<T> {
    table: String,
    partition_key: String,
    row_key: String,
    #[serde(skip)]
    task: PhantomData<fn() -> T>,
}

/// Handles the intents that messages tell of; from [`Outbox::deliver_to`].
pub struct Delivery<T, H> {
    outbox: Outbox<T>,
    handler: H,
}

impl<T: Task> Task for Notice<T> {
    const KIND: &'static str = T::KIND;
}

impl<T: Task> Outbox<T> {
    /// Intents in this table, and messages about them in this queue, which has no other messages. Sends
    /// nothing.
    pub fn new(table: Table, queue: Queue) -> Self {
        Self { table, notices: Tasks::new(queue), kind: T::KIND.into() }
    }

    /// The same for rows of another kind than that of `T`.
    pub(crate) fn of_kind(mut self, kind: String) -> Self {
        self.kind = kind.into();
        self
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The messages: what a [`Worker`] takes.
    pub fn tasks(&self) -> &Tasks<Notice<T>> {
        &self.notices
    }

    /// Sends the transaction with an intent for each of these tasks, one operation more for each, and
    /// then a message for each. Returns the ETag of each operation, as
    /// [`Transaction::submit`] does.
    ///
    /// All of it happens or nothing does. That a message could not be sent is no error: a
    /// [`drain`](Self::drain) finds the intent. After an error whose outcome is
    /// [`Outcome::Unknown`], the intents are there if the changes are.
    ///
    /// Fails with [`ErrorKind::TooLarge`] if a task does not fit into a row: as JSON it may have
    /// somewhat less than 512 Ki characters.
    pub async fn submit<'t>(
        &self,
        transaction: Transaction,
        tasks: impl IntoIterator<Item = &'t T>,
    ) -> Result<Vec<Option<ETag>>> {
        let operations = transaction.len();
        let Some(partition_key) = transaction.partition_key().map(ToOwned::to_owned) else {
            let what =
                "the transaction has no operations, so there is no partition for the intents";
            return Err(Error::refused(ErrorKind::Invalid, what)
                .of("EntityGroupTransaction", self.table.name()));
        };
        let intents: Vec<_> = tasks
            .into_iter()
            .map(|task| self.intent(&partition_key, task))
            .collect::<Result<_>>()?;
        // Nothing else has their keys, and without an insert the client may try again.
        let transaction = intents.iter().fold(transaction, Transaction::upsert);
        let submitted = transaction.submit().await;
        if submitted.as_ref().err().is_none_or(|error| error.outcome() == Outcome::Unknown) {
            self.tell(&intents).await;
        }
        let mut etags = submitted?;
        etags.truncate(operations);
        Ok(etags)
    }

    /// A worker that gives the tasks to `handler`.
    ///
    /// `handler` may be given a task more than once, and by two workers at a time, so it must be one
    /// that bears that; but not after it was handled and the intent is gone.
    pub fn worker<H: Handler<T>>(&self, handler: H) -> Worker<Notice<T>, Delivery<T, H>> {
        Worker::new(self.notices.clone(), self.deliver_to(handler))
    }

    /// The part of [`worker`](Self::worker) that handles messages, for a worker of other settings.
    pub fn deliver_to<H: Handler<T>>(&self, handler: H) -> Delivery<T, H> {
        Delivery { outbox: self.clone(), handler }
    }

    /// Finds the intents that are older than this, and gives each to `handler`: those whose message
    /// was not sent, or was lost, or went to the poison queue.
    ///
    /// Run it from time to time, once a minute perhaps, with an age that messages usually do not
    /// reach. It scans the table (the service looks at every entity) unless it is told of one
    /// [`partition`](Drain::partition).
    pub fn drain<H: Handler<T>>(&self, older_than: Duration, handler: H) -> Drain<T, H> {
        Drain::new(self.deliver_to(handler), older_than)
    }

    /// The row of a task, to be written with what it follows from.
    pub(crate) fn intent(&self, partition_key: &str, task: &T) -> Result<DynamicEntity> {
        intent::write(self.table.account(), partition_key, &self.kind, task)
    }

    /// Sends a message for each intent. One that cannot be sent is found by a drain.
    pub(crate) async fn tell(&self, intents: &[DynamicEntity]) {
        for row in intents {
            let notice = Notice::new(&self.table, row.partition_key.clone(), row.row_key.clone());
            if let Err(error) = self.notices.put(&notice).await {
                tracing::debug!(%error, "no message tells of an intent: a drain will find it");
            }
        }
    }
}

impl<T: Task, H: Handler<T>> Handler<Notice<T>> for Delivery<T, H> {
    fn handle(
        &self,
        notice: Notice<T>,
        attempt: Attempt,
    ) -> impl Future<Output = Result<Done>> + Send {
        // Handlers may be large, and this one is in the future of a worker.
        Box::pin(self.deliver(notice, attempt))
    }
}

impl<T: Task, H: Handler<T>> Delivery<T, H> {
    async fn deliver(&self, notice: Notice<T>, attempt: Attempt) -> Result<Done> {
        let table = &self.outbox.table;
        if notice.table != table.name() {
            let reason = "the message tells of an intent in another table; \
                          give each outbox a queue of its own";
            return Ok(Done::Poison(reason.to_owned()));
        }
        let key = Key::<DynamicEntity>::new(notice.partition_key, notice.row_key);
        let Some(row) = table.get(key.clone()).await? else {
            // It was handled: the message is a duplicate, or a drain was faster.
            return Ok(Done::AlreadyApplied);
        };
        let Intent { id, created, task } = match intent::read(&row.entity, &self.outbox.kind) {
            Ok(intent) => intent,
            Err(reason) => return Ok(Done::Poison(reason.to_owned())),
        };
        let done = self.handler.handle(task, attempt.of(&id, created)).await?;
        if !matches!(done, Done::Poison(_)) {
            table.delete_if_exists(key, Match::Any).await?;
        }
        Ok(done)
    }
}

impl<T> Notice<T> {
    fn new(table: &Table, partition_key: String, row_key: String) -> Self {
        Self { table: table.name().to_owned(), partition_key, row_key, task: PhantomData }
    }
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), notices: self.notices.clone(), kind: self.kind.clone() }
    }
}

impl<T> fmt::Debug for Outbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("table", &self.table.name())
            .field("notices", &self.notices)
            .field("kind", &self.kind)
            .finish()
    }
}

/// Without the keys.
impl<T> fmt::Debug for Notice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notice").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<T, H> fmt::Debug for Delivery<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("outbox", &self.outbox).finish_non_exhaustive()
    }
}
