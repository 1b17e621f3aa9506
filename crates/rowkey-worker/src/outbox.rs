//! The outbox: tasks that are written as part of a store's transaction.
//!
//! The op row of the transaction holds the whole task, so the task is written with the entities or not at
//! all. Settling puts its message and then deletes the op row. A task that is too large for a message is
//! written to its blob while settling, so a refused transaction leaves no blob.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::{Entity, Result};
use rowkey_store::{Change, Contribution, Contributor, Settled, Settling, Transaction};

use crate::task::{SealedTask, Task, Tasks, written};

/// Adds tasks to transactions of a [`Store`](rowkey_store::Store).
///
/// The tasks are put if and only if the transaction is committed, even if the program stops in between, its
/// caller drops the future, or the queue is unavailable. Pass the queue to the store with
/// [`StoreBuilder::following`](rowkey_store::StoreBuilder::following), and run a worker of the store
/// ([`Store::run`](rowkey_store::Store::run)), which puts the tasks that interrupted writers left.
///
/// Costs one more operation in the transaction (the op row, which it may have anyway), the store's three
/// requests for the op row, and one request per task; two if the task is too large for a message.
///
/// ```
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_worker::outbox::Outbox;
/// use rowkey_worker::worker::{Attempt, Done, Step, Worker};
/// use rowkey_worker::{Task, Tasks};
/// use rowkey_store::Store;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(store, partition = "{department}", row = "id_{id:6}")]
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
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let mails = Tasks::<Welcome>::new(account.queue("welcome"));
/// let staff = Store::<Employee>::builder(account.table("staff"))
///     .queue(account.queue("staff"))
///     .following(mails.clone())
///     .build()?;
/// staff.create_if_missing().await?;
/// mails.create_if_missing().await?;
///
/// // Both or neither.
/// let ada = Employee { department: "sales".into(), id: 7 };
/// staff.transaction().insert(&ada).task(&Welcome { id: 7 }).submit().await?;
///
/// let worker = Worker::new(mails, |task: Welcome, _: Attempt| async move {
///     println!("welcome, number {}", task.id);
///     Ok(Done::Applied)
/// });
/// assert_eq!(worker.step().await?, Step::Handled);
/// # Ok(()) }
/// ```
pub trait Outbox: Sized {
    /// Adds a task. Its message is put after the commit, at least once, always with the same id.
    ///
    /// [`submit`](Transaction::submit) fails with [`ErrorKind::Invalid`](rowkey::ErrorKind::Invalid) if the
    /// store has no queue for such tasks, and with [`ErrorKind::TooLarge`](rowkey::ErrorKind::TooLarge) if
    /// the task is too large for a message and its queue has no container, or too large for an op row:
    /// somewhat more than 400,000 characters as JSON. Then nothing was sent.
    #[must_use = "a transaction does nothing until `submit`"]
    fn task<T: Task>(self, task: &T) -> Self;

    /// Adds a task that [`Tasks::seal`] has encrypted, so that the op row does not reveal it. Otherwise like
    /// [`task`](Self::task), which is refused where tasks are encrypted.
    #[must_use = "a transaction does nothing until `submit`"]
    fn sealed_task<T: Task>(self, task: SealedTask<T>) -> Self;
}

impl<E, R> Outbox for Transaction<'_, E, R>
where
    E: Entity + Clone + Send + Sync + 'static,
    R: Send + Sync,
{
    fn task<T: Task>(self, task: &T) -> Self {
        self.target(T::KIND, written::text(task))
    }

    fn sealed_task<T: Task>(self, task: SealedTask<T>) -> Self {
        self.target(T::KIND, Ok(task.text))
    }
}

/// The contributor that puts the tasks of transactions.
impl<E: Entity + Send + Sync + 'static, T: Task> Contributor<E> for Tasks<T> {
    fn name(&self) -> &str {
        T::KIND
    }

    fn operations(&self) -> usize {
        0
    }

    fn contribute(&self, _: Change<'_, E>, _: &mut Contribution<'_>) -> Result<()> {
        // No change of an entity requires a task.
        Ok(())
    }

    fn check(&self, address: &str) -> Result<()> {
        self.check_written(address)
    }

    fn settles_once(&self) -> bool {
        true
    }

    fn settle<'a>(
        &'a self,
        _: &'a Settling<E>,
        address: &'a str,
    ) -> BoxFuture<'a, Result<Settled>> {
        self.put_written(address).boxed()
    }
}
