//! The outbox: tasks that are part of a transaction of a store.
//!
//! The op row of the transaction carries the whole task, so it is written with the entities or not at
//! all. Settling puts its message, and the op row goes after that. A task that is too large for a message
//! goes into its blob then, under a name that is the same each time: a transaction that is refused leaves
//! no blob.

use std::sync::PoisonError;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::{ClientOptions, Entity, Error, ErrorKind, Outcome, Result, RetryOptions};
use rowkey_store::{Change, Contribution, Contributor, Settled, Settling, Transaction};

use super::{Letter, Task, Tasks, letter, new_id};

/// How long a writer waits for the queue of the tasks.
const BUDGET: Duration = Duration::from_secs(1);

/// How long the queue is left alone after it failed.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

/// Adds tasks to transactions of a [`Store`](rowkey_store::Store).
///
/// The tasks are put if the transaction is committed, and only then: also when the program stops in
/// between, when its caller goes away, and when the queue cannot be reached. Give the store the queue with
/// [`StoreBuilder::following`](rowkey_store::StoreBuilder::following), and run a worker of the store
/// ([`Store::run`](rowkey_store::Store::run)), which puts what writers left.
///
/// Costs one operation more in the transaction (the op row, which it may have anyway), the store's three
/// requests for it, and one request a task; two if the task is too large for a message.
///
/// ```
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_eventual::task::Outbox;
/// use rowkey_eventual::worker::{Attempt, Done, Step};
/// use rowkey_eventual::{Task, Tasks, Worker};
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
/// # let server = rowkey_server::Server::start().await?;
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
    /// Adds a task: its message is put after the commit, at least once, with one id.
    ///
    /// [`submit`](Transaction::submit) fails with [`ErrorKind::Invalid`] if the store has no queue of such
    /// tasks, and with [`ErrorKind::TooLarge`] if the task is too large for a message and its queue has no
    /// container, or for an op row: somewhat more than 400,000 characters as JSON. Nothing was sent then.
    #[must_use = "a transaction does nothing until `submit`"]
    fn task<T: Task>(self, task: &T) -> Self;
}

impl<E: Entity + Clone + Send + Sync + 'static> Outbox for Transaction<'_, E> {
    fn task<T: Task>(self, task: &T) -> Self {
        let text = new_id().and_then(|id| letter(id, task)).map(|letter| letter.text(T::KIND));
        self.target(T::KIND, text)
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
        // No change of an entity tells of a task.
        Ok(())
    }

    fn check(&self, address: &str) -> Result<()> {
        self.place_of(&written::<T>(address)?).map(drop)
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

impl<T: Task> Tasks<T> {
    /// Puts the message of a task that was written with a transaction.
    async fn put_written(&self, address: &str) -> Result<Settled> {
        let letter = written::<T>(address)?;
        let clock = self.queue.account().clock();
        let now = clock.now();
        if now < *self.resting_until.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Settled::Pending);
        }
        // A write that was committed must not wait long for a queue that is down.
        let retry = RetryOptions { max_attempts: 1, ..self.queue.options().retry.clone() };
        let options = ClientOptions {
            timeout: BUDGET,
            attempt_timeout: BUDGET,
            retry,
            ..self.queue.options().clone()
        };
        match self.send(&self.queue.with_options(options), letter, Duration::ZERO).await {
            Ok(()) => Ok(Settled::Done),
            Err(error) if error.is_retryable() || error.outcome() == Outcome::Unknown => {
                tracing::warn!(%error, "a task waits in its op row until the queue takes it");
                let until = clock.now().checked_add_signed(PAUSE).unwrap_or(now);
                *self.resting_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
                Ok(Settled::Pending)
            }
            Err(error) => Err(error),
        }
    }
}

fn written<T: Task>(text: &str) -> Result<Letter> {
    let refused = |what| Error::refused(ErrorKind::Decode, format!("a task of an op row: {what}"));
    Letter::read(text, "", T::KIND).map_err(refused)
}
