//! Tasks of any kind: for programs without their types.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Task;

/// The kind of [`AnyTask`], as which messages of every kind are read.
pub(crate) const ANY: &str = "*";

/// A task of any kind, as JSON: for programs that look at and move dead letters without the types of the tasks.
///
/// Its dead letters keep the kind that each message names. A message that names none is read as
/// [`Inspected::Unreadable`](crate::dead_letters::Inspected::Unreadable), and redriven unchanged. Workers name the
/// kind in every dead letter of a task that they could read. [Encrypted](crate::Tasks::encrypted_with) tasks are
/// shown as they are stored.
///
/// It cannot be put: this fails with [`ErrorKind::Invalid`](rowkey_client::ErrorKind::Invalid).
///
/// ```
/// use rowkey::worker::dead_letters::{Inspected, Selection};
/// use rowkey::worker::{AnyTask, Tasks};
/// # use rowkey::worker::{Attempt, Done, Task, Worker};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Debug, Serialize, Deserialize)]
/// # struct SendWelcome { to: String }
/// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// # let typed = Tasks::<SendWelcome>::new(account.queue("welcome"));
/// # typed.create_if_missing().await?;
/// # let id = typed.put(&SendWelcome { to: "ada".into() }).await?.to_string();
/// # let worker = Worker::new(typed.clone(), |_: SendWelcome, _: Attempt| async {
/// #     Ok(Done::Poison("that is no address".into()))
/// # });
/// # worker.step().await?;
/// let tasks = Tasks::<AnyTask>::new(account.queue("welcome"));
/// let dead = tasks.dead_letters();
/// let letter = dead.get(&id).await?.ok_or("no letter")?;
/// let Inspected::Task(task) = letter.task else { return Err("no task".into()) };
/// assert_eq!((letter.kind.as_deref(), task.json()), (Some("send-welcome"), r#"{"to":"ada"}"#));
///
/// assert_eq!(dead.redrive(&Selection::of(&id)).await?.done, 1);
/// # assert_eq!(worker.step().await?, rowkey::worker::Step::Poisoned);
/// # let letter = typed.dead_letters().get(&id).await?.ok_or("no letter")?;
/// # assert_eq!(letter.redriven, 1);
/// # assert!(matches!(letter.task, Inspected::Task(SendWelcome { to }) if to == "ada"));
/// # assert!(tasks.put(&task).await.is_err());
/// # Ok(()) }
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AnyTask(Box<RawValue>);

impl Task for AnyTask {
    const KIND: &'static str = ANY;
}

impl AnyTask {
    /// The JSON as it was written, with the order of fields and the form of numbers.
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

/// Compares the texts, not the values.
impl PartialEq for AnyTask {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl fmt::Debug for AnyTask {
    /// Shows the length, not the task.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyTask").field("length", &self.json().len()).finish_non_exhaustive()
    }
}
