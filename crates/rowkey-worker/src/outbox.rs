//! The outbox: tasks that are written as part of a store's transaction.
//!
//! The op row of the transaction holds the whole task, so the task is written with the entities or not at
//! all. Settling puts its message and then deletes the op row. A task that is too large for a message is
//! written to its blob while settling, so a refused transaction leaves no blob.

use rowkey_client::cost::Usage;
use rowkey_client::{Entity, Result, async_trait};
use rowkey_store::{Change, Contribution, Declaration, Settled, Settling, StoredType, Transaction};

use crate::task::{SealedTask, Task, Tasks, written};

/// Adds tasks to transactions of a [`Store`](rowkey_store::Store).
///
/// The tasks are put if and only if the transaction is committed, even if the program stops in between, its
/// caller drops the future, or the queue is unavailable. Pass the queue to the store with
/// [`StoreBuilder::with`](rowkey_store::StoreBuilder::with), and run a worker of the store
/// ([`Store::run`](rowkey_store::Store::run)), which puts the tasks that interrupted writers left.
///
/// Costs one more operation in the transaction (the op row, which it may have anyway), the store's three
/// requests for the op row, and one request per task; two if the task is too large for a message.
///
/// ```
/// use rowkey::store::Store;
/// use rowkey::worker::outbox::Outbox;
/// use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
/// use rowkey::{Entity, StorageAccount};
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
///     .with(mails.clone())
///     .build()?;
/// // Creates the queue and the dead letters of the mails, too.
/// staff.create_if_missing().await?;
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
    /// [`submit`](Transaction::submit) fails with [`ErrorKind::Invalid`](rowkey_client::ErrorKind::Invalid) if the
    /// store has no queue for such tasks, and with [`ErrorKind::TooLarge`](rowkey_client::ErrorKind::TooLarge) if
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

impl<T: Task> Tasks<T> {
    /// Returns a declaration that puts a task with each change of an `E` for which `of` returns one, by any write of
    /// the store, jobs included. Give it to [`StoreBuilder::with`](rowkey_store::StoreBuilder::with) instead
    /// of the tasks themselves; transactions may add others by [`Outbox::task`].
    ///
    /// `of` must depend on the change alone, and compare both of its states: repairs and migrations write an entity
    /// without changing it. An entity that replaces an expired one has no state before. The guarantees are those of
    /// [`Outbox::task`], and so is the cost, for each change with a task. A task that its queue could never accept
    /// refuses the write, before anything is sent.
    ///
    /// Tasks that are encrypted are refused by [`build`](rowkey_store::StoreBuilder::build), because a declaration
    /// cannot ask for keys: add them by [`Outbox::sealed_task`].
    ///
    /// ```
    /// # use rowkey::worker::{Task, Tasks};
    /// # use rowkey::{Entity, StorageAccount};
    /// # use serde::{Deserialize, Serialize};
    /// use rowkey::store::{Change, Store};
    ///
    /// #[derive(Clone, Debug, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "parcel_{id:9}")]
    /// struct Parcel {
    ///     tenant: String,
    ///     id: u32,
    ///     is_delivered: bool,
    /// }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Delivered {
    ///     tenant: String,
    ///     parcel: u32,
    /// }
    /// # impl Task for Delivered { const KIND: &'static str = "delivered"; }
    ///
    /// impl Delivered {
    ///     fn of(change: Change<'_, Parcel>) -> Option<Self> {
    ///         let was_delivered = change.before.is_some_and(|before| before.is_delivered);
    ///         let parcel = change.after.filter(|after| after.is_delivered && !was_delivered)?;
    ///         Some(Self { tenant: parcel.tenant.clone(), parcel: parcel.id })
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let mails = Tasks::<Delivered>::new(account.queue("mails"));
    /// let parcels = Store::builder(account.table("parcels"))
    ///     .queue(account.queue("parcels"))
    ///     .with(mails.on_change(Delivered::of))
    ///     .build()?;
    /// parcels.create_if_missing().await?;
    ///
    /// parcels.insert(&Parcel { tenant: "contoso".into(), id: 1, is_delivered: false }).await?;
    /// assert!(mails.queue().peek(1).await?.is_empty());
    /// parcels.update(Parcel::key("contoso", 1), |parcel| parcel.is_delivered = true).await?;
    /// assert!(mails.queue().peek(1).await?[0].text().contains("contoso"));
    /// # Ok(()) }
    /// ```
    pub fn on_change<E, F>(&self, of: F) -> impl Declaration<E> + use<E, F, T>
    where
        E: Entity + Send + Sync + 'static,
        F: Fn(Change<'_, E>) -> Option<T> + Send + Sync + 'static,
    {
        OnChange { tasks: self.clone(), of }
    }
}

/// The declaration that puts the tasks of transactions.
#[async_trait]
impl<E: Entity + Send + Sync + 'static, T: Task> Declaration<E> for Tasks<T> {
    fn name(&self) -> &str {
        T::KIND
    }

    fn operations(&self) -> usize {
        0
    }

    fn needs_queue(&self) -> bool {
        true
    }

    async fn create_if_missing(&self) -> Result<()> {
        self.create_if_missing().await
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

    fn settling_usage(&self, address: &str) -> Usage {
        self.usage_of_written(address)
    }

    async fn settle(&self, _: &Settling<E>, address: &str) -> Result<Settled> {
        self.put_written(address).await
    }
}

/// The declaration that puts a task with each change that requires one.
struct OnChange<T, F> {
    tasks: Tasks<T>,
    of: F,
}

#[async_trait]
impl<E, T, F> Declaration<E> for OnChange<T, F>
where
    E: Entity + Send + Sync + 'static,
    T: Task,
    F: Fn(Change<'_, E>) -> Option<T> + Send + Sync,
{
    fn name(&self) -> &str {
        T::KIND
    }

    fn operations(&self) -> usize {
        0
    }

    fn needs_queue(&self) -> bool {
        true
    }

    async fn create_if_missing(&self) -> Result<()> {
        self.tasks.create_if_missing().await
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        let Some(task) = (self.of)(change.to_readers()) else { return Ok(()) };
        let text = written::text(&task)?;
        self.tasks.check_written(&text)?;
        plan.target(text);
        Ok(())
    }

    fn check(&self, address: &str) -> Result<()> {
        self.tasks.check_written(address)
    }

    fn writes(&self) -> Result<Vec<StoredType>> {
        self.tasks.check_plain().map(|()| Vec::new())
    }

    fn settles_once(&self) -> bool {
        true
    }

    fn settling_usage(&self, address: &str) -> Usage {
        self.tasks.usage_of_written(address)
    }

    async fn settle(&self, _: &Settling<E>, address: &str) -> Result<Settled> {
        self.tasks.put_written(address).await
    }
}
