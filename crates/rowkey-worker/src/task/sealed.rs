//! Encrypted tasks: messages, claims, dead letters and op rows do not reveal their content.
//!
//! A task is encrypted as a row that is never stored. Its PartitionKey is `queue/` and the name of the queue,
//! its RowKey the kind, `/` and the id: keys that no entity can have. Its only property holds the key of the
//! content, which is the JSON of the task. Instead of the task, a message has these fields:
//!
//! | field | what |
//! |---|---|
//! | `encryption` | the value of `_RowkeyEncryption` of that row |
//! | `key` | the encrypted property, in base64 |
//! | `content` | the encrypted JSON, in base64 |

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowkey_client::edm::{Guid, Value};
use rowkey_client::{DynamicEntity, Error, ErrorKind, Result, Table};
use rowkey_store::{Op, Sealer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Content, Envelope, Task, Tasks, json_of, new_id, random};

/// The encrypted property, and the property with the encryption metadata.
const TASK: &str = "Task";
const ENCRYPTION: &str = "_RowkeyEncryption";

/// The keys that encrypt the tasks of a queue.
#[derive(Clone)]
pub(super) struct Keys {
    /// The table of branch keys.
    table: Table,
    sealer: Arc<dyn Sealer>,
}

/// The encrypted form of a task in a message.
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

/// An encrypted task for a transaction: [`Tasks::seal`].
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
    /// Encrypts tasks. Readers of the queue, its dead letters or its claims see ids, kinds, times, lengths,
    /// attempts and the texts of errors, but no task. `rowkey::encryption::KeyRing` implements such a key
    /// ring; `table` holds its branch keys, and may be the table that holds those of entities.
    ///
    /// A task can be decrypted only in a message of its queue and kind, under its id. A task that was
    /// altered, moved, or put there in plain text becomes a dead letter, unless the ring accepts plaintext. A
    /// party that can write to the queue can put a message again, or delete it.
    ///
    /// An encrypted message has room for a quarter less. A task costs no additional request: programs that put
    /// tasks send one request per minute to the table, and programs that process them one for each new branch key.
    ///
    /// ```
    /// use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
    /// use rowkey::worker::{Task, Tasks};
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
    /// tasks.put(&Discharge { patient: "Ada Lovelace".into() }).await?;
    /// assert!(!tasks.queue().peek(1).await?[0].text().contains("Ada Lovelace"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn encrypted_with(mut self, ring: impl Sealer + 'static, table: Table) -> Self {
        self.keys = Some(Keys { table, sealer: Arc::new(ring) });
        self
    }

    /// Encrypts a task for a transaction: [`Outbox::sealed_task`](crate::outbox::Outbox::sealed_task).
    ///
    /// Fails with [`ErrorKind::Invalid`] unless these tasks are [encrypted](Self::encrypted_with).
    ///
    /// ```
    /// use rowkey::worker::outbox::Outbox as _;
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// # use rowkey::Entity;
    /// # use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
    /// # use rowkey::store::Store;
    /// # #[derive(Clone, Debug, Entity)]
    /// # #[entity(store, partition = "{department}", row = "id_{id:6}")]
    /// # struct Employee { department: String, id: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// # let keys = account.table("keys");
    /// # keys.create_if_missing().await?;
    /// # let ring = KeyRing::new("tasks", AesKeyWrap::new("2026", [7; 32]), MacKey::new("records", [9; 32]));
    /// # let tasks = tasks.encrypted_with(ring, keys);
    /// # let staff = Store::<Employee>::builder(account.table("staff"))
    /// #     .queue(account.queue("staff"))
    /// #     .with(tasks.clone())
    /// #     .build()?;
    /// # staff.create_if_missing().await?;
    /// let ada = Employee { department: "sales".into(), id: 7 };
    /// let sealed = tasks.seal(&welcome("ada@contoso.com")).await?;
    /// staff.transaction().insert(&ada).sealed_task(sealed).submit().await?;
    /// assert!(!tasks.queue().peek(1).await?[0].text().contains("ada@contoso.com"));
    /// # Ok(()) }
    /// ```
    pub async fn seal(&self, task: &T) -> Result<SealedTask<T>> {
        if self.keys.is_none() {
            let what = "these tasks are not encrypted";
            let error = Error::refused(ErrorKind::Invalid, what).of("SealTask", self.queue.name());
            return Err(error.advise("set keys with `encrypted_with`, or add the task unencrypted"));
        }
        let envelope = self.envelope(new_id()?, task).await;
        let envelope = envelope.map_err(|error| error.of("SealTask", self.queue.name()))?;
        Ok(SealedTask { text: envelope.text(T::KIND), of: PhantomData })
    }

    /// Creates the message content of a new task.
    pub(super) async fn envelope(&self, id: Guid, task: &T) -> Result<Envelope> {
        let (id, json) = (id.to_string(), json_of(task)?);
        let json = match &self.keys {
            Some(keys) => keys.seal(self.row(&id), json.get()).await?,
            None => json,
        };
        Ok(Envelope::new(id, Content::Inline(json)))
    }

    /// Decrypts the JSON of a task, or returns why that failed.
    pub(super) async fn opened<'j>(
        &self,
        envelope: &Envelope,
        json: &'j [u8],
    ) -> Result<std::result::Result<Cow<'j, [u8]>, String>> {
        let Some(keys) = &self.keys else { return Ok(Ok(json.into())) };
        let opened = keys.open(self.row(&envelope.id), json).await;
        opened.map_err(|error| error.of("GetTask", self.queue.name()))
    }

    /// Refuses a plaintext task where tasks are encrypted, because a transaction would store it.
    pub(super) fn check_sealed(&self, envelope: &Envelope) -> Result<()> {
        let is_sealed = match &envelope.content {
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

    /// Refuses encrypted tasks where they would be written in plaintext.
    pub(crate) fn check_plain(&self) -> Result<()> {
        if self.keys.is_none() {
            return Ok(());
        }
        let what = "the tasks are encrypted, and those that changes require would be in plain";
        Err(Error::refused(ErrorKind::Invalid, what).advise(
            "add them to transactions: `transaction().sealed_task(tasks.seal(&task).await?)`",
        ))
    }

    /// The row as which a task is encrypted.
    fn row(&self, id: &str) -> DynamicEntity {
        DynamicEntity::new(format!("queue/{}", self.queue.name()), format!("{}/{id}", T::KIND))
    }
}

impl Keys {
    async fn seal(&self, mut row: DynamicEntity, json: &str) -> Result<Box<RawValue>> {
        let (content, key) = self.sealer.seal_content(&row, TASK, &json.into())?;
        row.set(TASK, key);
        let op = Op::new(self.table.account().clock().now(), random()?);
        self.sealer.seal(&op, &self.table, &[TASK], None, &mut row).await?;
        let refused = |what| Error::refused(ErrorKind::Unexpected, what);
        let (Some(Value::Binary(key)), Some(Value::String(encryption))) =
            (row.get(TASK), row.get(ENCRYPTION))
        else {
            return Err(refused("the key ring returned no encryption metadata for a task"));
        };
        let sealed = Sealed {
            encryption: encryption.into(),
            key: STANDARD.encode(key).into(),
            content: STANDARD.encode(content).into(),
        };
        serde_json::value::to_raw_value(&sealed)
            .map_err(|_| refused("an encrypted task is not JSON"))
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
            Ok(_) => match row.get(TASK) {
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
            // The text of a key error names the missing key, and reveals nothing of the task.
            Err(error) if error.kind() == ErrorKind::Decode => {
                Ok(Err(format!("it cannot be decrypted: {error}")))
            }
            Err(error) => Err(error),
        }
    }
}
