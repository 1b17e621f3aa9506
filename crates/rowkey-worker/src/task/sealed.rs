//! Encrypted tasks: neither the message, nor a claim, nor a dead letter, nor an op row shows them.
//!
//! A task is sealed as a row that is never stored. Its PartitionKey is `queue/` and the name of the queue, its
//! RowKey the kind, `/` and the id: keys that no entity can have. Its one property has the key of the
//! content, which is the JSON of the task. A message has in the place of its task
//!
//! | field | what |
//! |---|---|
//! | `encryption` | what `_RowkeyEncryption` of that row says |
//! | `key` | the sealed property, in base64 |
//! | `content` | the encrypted JSON, in base64 |

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowkey::edm::{Guid, Value};
use rowkey::{DynamicEntity, Error, ErrorKind, Result, Table};
use rowkey_store::{Op, Sealer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Content, Letter, Task, Tasks, json_of, new_id};

/// The property that is sealed, and the one that says how.
const TASK: &str = "Task";
const ENCRYPTION: &str = "_RowkeyEncryption";

/// What encrypts the tasks of a queue.
#[derive(Clone)]
pub(super) struct Keys {
    /// Where branch keys are.
    table: Table,
    sealer: Arc<dyn Sealer>,
}

/// What a message has in the place of a task.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed<'a> {
    #[serde(borrow)]
    encryption: Cow<'a, str>,
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    content: Cow<'a, str>,
}

/// An encrypted task that is to be part of a transaction: [`Tasks::seal`].
pub struct SealedTask<T> {
    pub(crate) text: String,
    of: PhantomData<fn(T) -> T>,
}

impl<T> fmt::Debug for SealedTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedTask").finish_non_exhaustive()
    }
}

impl<T: Task> Tasks<T> {
    /// Encrypts tasks: those who read the queue, its dead letters or its claims see ids, kinds, times, lengths,
    /// attempts and the texts of errors, and no task. `rowkey_encryption::KeyRing` is such a ring; `table` has its
    /// branch keys, as that of entities does, and may be the same one.
    ///
    /// A task opens in a message of its queue and its kind, under its id. One that was altered, moved, or put
    /// there in plain becomes a dead letter, unless the ring accepts plaintext. A party that may write to the
    /// queue can put a message again, or delete it.
    ///
    /// A message holds a quarter less of a task. Costs no request a task; one to the table a minute for those
    /// who put, and one for each branch key that is new to those who take.
    ///
    /// ```
    /// use rowkey_encryption::{AesKeyWrap, KeyRing, MacKey};
    /// use rowkey_worker::{Task, Tasks};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Discharge {
    ///     patient: String,
    /// }
    ///
    /// impl Task for Discharge {
    ///     const KIND: &'static str = "discharge";
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// let table = account.table("keys");
    /// table.create_if_missing().await?;
    /// let signer = MacKey::new("records", [9; 32]);
    /// let ring = KeyRing::new("tasks", AesKeyWrap::new("2026", [7; 32]), signer);
    /// let tasks = Tasks::<Discharge>::new(account.queue("discharge")).encrypted_with(ring, table);
    /// tasks.create_if_missing().await?;
    /// tasks.put(&Discharge { patient: "Ada".into() }).await?;
    /// assert!(!tasks.queue().peek(1).await?[0].text().contains("Ada"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn encrypted_with(mut self, ring: impl Sealer + 'static, table: Table) -> Self {
        self.keys = Some(Keys { table, sealer: Arc::new(ring) });
        self
    }

    /// Encrypts a task that is to be part of a transaction: [`Outbox::sealed_task`](crate::outbox::Outbox::sealed_task).
    ///
    /// Fails with [`ErrorKind::Invalid`] unless these tasks are [encrypted](Self::encrypted_with).
    pub async fn seal(&self, task: &T) -> Result<SealedTask<T>> {
        if self.keys.is_none() {
            let what = "these tasks are not encrypted";
            let error = Error::refused(ErrorKind::Invalid, what).of("SealTask", self.queue.name());
            return Err(
                error.advise("give them keys with `encrypted_with`, or add the task itself")
            );
        }
        let letter = self.letter(new_id()?, task).await;
        let letter = letter.map_err(|error| error.of("SealTask", self.queue.name()))?;
        Ok(SealedTask { text: letter.text(T::KIND), of: PhantomData })
    }

    /// A new task's letter.
    pub(super) async fn letter(&self, id: Guid, task: &T) -> Result<Letter> {
        let (id, json) = (id.to_string(), json_of(task)?);
        let json = match &self.keys {
            Some(keys) => keys.seal(self.row(&id), json.get()).await?,
            None => json,
        };
        Ok(Letter::new(id, Content::Inline(json)))
    }

    /// The JSON of a letter's task, or why there is none.
    pub(super) async fn opened<'j>(
        &self,
        letter: &Letter,
        json: &'j [u8],
    ) -> Result<std::result::Result<Cow<'j, [u8]>, String>> {
        let Some(keys) = &self.keys else { return Ok(Ok(json.into())) };
        let opened = keys.open(self.row(&letter.id), json).await;
        opened.map_err(|error| error.of("GetTask", self.queue.name()))
    }

    /// Refuses a task in plain where tasks are encrypted: a transaction would store it.
    pub(super) fn check_sealed(&self, letter: &Letter) -> Result<()> {
        let is_sealed = match &letter.content {
            Content::Inline(json) => serde_json::from_str::<Sealed<'_>>(json.get()).is_ok(),
            Content::Claim { .. } => true,
        };
        if self.keys.is_none() || is_sealed {
            return Ok(());
        }
        let what = "a task in plain is part of a transaction, and its queue has encrypted ones";
        Err(Error::refused(ErrorKind::Invalid, what)
            .advise("encrypt it: `sealed_task(tasks.seal(&task).await?)`"))
    }

    /// The row that a task is sealed as.
    fn row(&self, id: &str) -> DynamicEntity {
        DynamicEntity::new(format!("queue/{}", self.queue.name()), format!("{}/{id}", T::KIND))
    }
}

impl Keys {
    async fn seal(&self, mut row: DynamicEntity, json: &str) -> Result<Box<RawValue>> {
        let (content, key) = self.sealer.seal_content(&row, TASK, &json.into())?;
        row.set(TASK, key);
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| {
            let what = "the operating system gives no random bytes, so there is no key";
            Error::refused(ErrorKind::Unavailable, what).with_source(error)
        })?;
        let op = Op::new(self.table.account().clock().now(), random);
        self.sealer.seal(&op, &self.table, &[TASK], &mut row).await?;
        let refused = |what| Error::refused(ErrorKind::Unexpected, what);
        let (Some(Value::Binary(key)), Some(Value::String(encryption))) =
            (row.get(TASK), row.get(ENCRYPTION))
        else {
            return Err(refused("the keys do not say how they sealed a task"));
        };
        let sealed = Sealed {
            encryption: encryption.into(),
            key: STANDARD.encode(key).into(),
            content: STANDARD.encode(content).into(),
        };
        serde_json::value::to_raw_value(&sealed).map_err(|_| refused("a sealed task is no JSON"))
    }

    async fn open<'j>(
        &self,
        mut row: DynamicEntity,
        json: &'j [u8],
    ) -> Result<std::result::Result<Cow<'j, [u8]>, String>> {
        let Ok(sealed) = serde_json::from_slice::<Sealed<'_>>(json) else {
            if self.sealer.accepts_plaintext() {
                return Ok(Ok(json.into()));
            }
            return Ok(Err("it is not encrypted".to_owned()));
        };
        let parts = (STANDARD.decode(&*sealed.key), STANDARD.decode(&*sealed.content));
        let (Ok(key), Ok(content)) = parts else {
            return Ok(Err("its encrypted task is not base64".to_owned()));
        };
        row.set(TASK, key);
        row.set(ENCRYPTION, &*sealed.encryption);
        let opened = match self.sealer.open(&self.table, &[TASK], &mut row).await {
            Ok(()) => match row.get(TASK) {
                Some(Value::Binary(key)) => {
                    self.sealer.open_content(&row, TASK, key, &content).map(Some)
                }
                _ => Ok(None),
            },
            Err(error) => Err(error),
        };
        match opened {
            Ok(Some(Value::String(json))) => Ok(Ok(json.into_bytes().into())),
            Ok(_) => Ok(Err("it cannot be decrypted".to_owned())),
            // The words of the keys say which one is missing, and show nothing of the task.
            Err(error) if error.kind() == ErrorKind::Decode => {
                Ok(Err(format!("it cannot be decrypted: {error}")))
            }
            Err(error) => Err(error),
        }
    }
}
