//! The job that brings entities under the current key.

use std::fmt;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use rowkey::table::Transaction;
use rowkey::{
    Column, Continuation, DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Match, Outcome,
    Partition, Result, Stored, Table,
};

use crate::AT_ONCE;
use crate::encrypted::Encrypted;
use crate::format::{Envelope, METADATA};

/// How often an entity is written against other writers before the job stops.
const MAX_ROUNDS: usize = 16;

/// A job that writes entities anew that are not under the current key of the ring, from
/// [`Encrypted::reencryption`].
///
/// It finds them by their metadata, decrypts each, and replaces it under its ETag with a new data key,
/// wrapped by the current key; up to 100 of a partition in one transaction. What another program writes in the meantime is kept: the entity is read
/// again. What the retired SDKs encrypted and what is not encrypted at all is found as well, and
/// brought into this form if [`Encrypted::accept_legacy`] and [`Encrypted::accept_plaintext`] let it
/// be read. A property that is encrypted stays so, whether or not it is still chosen.
///
/// Each page is a step, and after each the [`Progress`] says where to go on, in another process if
/// need be. Failing anywhere loses nothing, and what was written is not written again.
///
/// ```
/// # use rowkey::{DynamicEntity, StorageAccount};
/// use rowkey_encryption::{AesKeyWrap, Encrypted, KeyRing};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let table = account.table("notes");
/// # table.create().await?;
/// # let secret = |_: &str, _: &str, name: &str| name == "Text";
/// # let before = KeyRing::new(AesKeyWrap::new("2026", [1; 32]));
/// # let mut note = DynamicEntity::new("p", "r");
/// # note.set("Text", "hush");
/// # Encrypted::new(table.clone(), before).resolver(secret).insert(&note).await?;
/// let ring = KeyRing::new(AesKeyWrap::new("2027", [2; 32])).with(AesKeyWrap::new("2026", [1; 32]));
/// let notes = Encrypted::<DynamicEntity>::new(table, ring).resolver(secret);
///
/// let mut job = notes.reencryption();
/// while let Some(progress) = job.step().await? {
///     assert!(progress.refused.is_empty(), "these need a look before the old key goes");
///     let _to_be_stored = progress.continuation.map(|place| place.to_string());
/// }
/// # let only = KeyRing::new(AesKeyWrap::new("2027", [2; 32]));
/// # let note = Encrypted::new(notes.table().clone(), only).get(note.key()).await?;
/// # assert_eq!(note.unwrap().entity.get("Text"), Some(&"hush".into()));
/// # Ok(())
/// # }
/// ```
#[must_use = "the job does nothing until `step` or `run`"]
pub struct Reencryption<E> {
    encrypted: Encrypted<E>,
    partition: Option<Partition<E>>,
    everything: bool,
    page_size: Option<u32>,
    next: Option<Continuation>,
    done: bool,
}

/// What a step did, or all of them.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Progress {
    /// How many entities were written anew.
    pub rewritten: u64,
    /// Those that stay as they are because they cannot be decrypted, or not be written.
    pub refused: Vec<Refused>,
    /// Where the next step begins: text to store, and to give to
    /// [`resume`](Reencryption::resume). `None` at the end.
    pub continuation: Option<Continuation>,
}

/// An entity that the job left as it is.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refused {
    /// Its PartitionKey.
    pub partition_key: String,
    /// Its RowKey.
    pub row_key: String,
    /// Why.
    pub error: Error,
}

/// An entity as it is to be written, and the ETag of the one that it replaces.
struct Resealed {
    sealed: DynamicEntity,
    etag: ETag,
}

/// Entities that are written by one transaction.
struct Batch {
    entities: Vec<Resealed>,
    transaction: Transaction,
}

enum Rewritten {
    Gone,
    No,
    Yes,
}

impl<E: Entity + Send + 'static> Reencryption<E> {
    pub(crate) fn new(encrypted: Encrypted<E>) -> Self {
        Self {
            encrypted,
            partition: None,
            everything: false,
            page_size: None,
            next: None,
            done: false,
        }
    }

    /// Only entities of this partition. Without it the job scans the table.
    pub fn partition(self, partition: Partition<E>) -> Self {
        Self { partition: Some(partition), ..self }
    }

    /// Writes every entity anew, those under the current key as well: after other properties were
    /// chosen, or for blind indexes that are new or have a new key.
    pub fn everything(self) -> Self {
        Self { everything: true, ..self }
    }

    /// How many entities a step reads at most, 1 to 1000.
    pub fn page_size(self, entities: u32) -> Self {
        Self { page_size: Some(entities), ..self }
    }

    /// Goes on where an earlier job under the same current key stopped.
    pub fn resume(self, continuation: Continuation) -> Self {
        Self { next: Some(continuation), ..self }
    }

    /// Reads a page and writes what has to be written of it; `None` when there is nothing left.
    /// After an error the next step does the same page again.
    pub async fn step(&mut self) -> Result<Option<Progress>> {
        if self.done {
            return Ok(None);
        }
        let Some(page) = self.query()?.pages().try_next().await? else {
            self.done = true;
            return Ok(None);
        };
        let mut progress = Progress::default();
        let (job, entities) = (&*self, stream::iter(page.entities));
        let sealed = entities.map(|stored| async move {
            let key = stored.entity.key();
            (key, job.reseal(stored).await)
        });
        let mut sealed = sealed.buffered(AT_ONCE);
        let mut batch = Batch::new(job.encrypted.table());
        while let Some((key, resealed)) = sealed.next().await {
            let resealed = match resealed {
                Ok(Some(resealed)) => resealed,
                Ok(None) => continue,
                Err(error) => {
                    progress.add(&key, Err(error))?;
                    continue;
                }
            };
            if let Some(full) = batch.add(job.encrypted.table(), resealed) {
                job.send(full, &mut progress).await?;
            }
        }
        job.send(batch, &mut progress).await?;
        drop(sealed);
        progress.continuation.clone_from(&page.continuation);
        self.done = page.continuation.is_none();
        self.next = page.continuation;
        Ok(Some(progress))
    }

    /// Takes all steps that are left and adds up what they did.
    pub async fn run(mut self) -> Result<Progress> {
        let mut all = Progress::default();
        while let Some(progress) = self.step().await? {
            all.rewritten += progress.rewritten;
            all.refused.extend(progress.refused);
        }
        Ok(all)
    }

    fn query(&self) -> Result<rowkey::Query<DynamicEntity>> {
        let table = self.encrypted.table();
        let mut query = match &self.partition {
            Some(partition) => table.query(partition.clone()),
            None => table.scan::<E>(),
        }
        .project::<DynamicEntity>();
        if !self.everything {
            let current = self.encrypted.cipher.ring.current()?.key_id();
            let metadata = Column::<String>::named(METADATA);
            // Also true of entities without metadata.
            query = query.filter(!metadata.starts_with(&Envelope::prefix(current)));
        }
        if let Some(entities) = self.page_size {
            query = query.page_size(entities);
        }
        Ok(match &self.next {
            Some(continuation) => query.resume(continuation.clone()),
            None => query,
        })
    }

    /// Writes the entities of a batch in one transaction. Those that somebody else has changed are
    /// written one by one, and all are if nobody knows what became of the transaction.
    async fn send(&self, mut batch: Batch, progress: &mut Progress) -> Result<()> {
        let table = self.encrypted.table();
        while !batch.entities.is_empty() {
            let Err(error) = batch.transaction.submit().await else {
                progress.rewritten += batch.entities.len() as u64;
                return Ok(());
            };
            let of_some =
                error.is_conflict() || error.is_not_found() || is_about_the_entity(&error);
            if !of_some {
                return Err(error);
            }
            let index = error.operation_index().filter(|i| *i < batch.entities.len());
            let (apart, rest) = match index.filter(|_| error.outcome() == Outcome::Rejected) {
                Some(index) => {
                    let one = batch.entities.remove(index);
                    (vec![one], batch.entities)
                }
                None => (batch.entities, Vec::new()),
            };
            for one in apart {
                let key = one.sealed.key();
                progress.add(&key, self.send_alone(one).await)?;
            }
            batch = Batch::new(table);
            for one in rest {
                // They fitted together before.
                batch.add(table, one);
            }
        }
        Ok(())
    }

    /// Writes an entity anew after its part of a transaction failed, unless that was done after all.
    async fn send_alone(&self, sent: Resealed) -> Result<Rewritten> {
        match self.encrypted.table().get(sent.sealed.key()).await? {
            // The data key is new each time, so only this job's own write has this metadata.
            Some(now) if now.entity.get(METADATA) == sent.sealed.get(METADATA) => {
                Ok(Rewritten::Yes)
            }
            Some(now) => self.rewrite(now).await,
            None => Ok(Rewritten::Gone),
        }
    }

    /// The entity as it is to be written, or `None` if it is already.
    async fn reseal(&self, stored: Stored<DynamicEntity>) -> Result<Option<Resealed>> {
        let cipher = &self.encrypted.cipher;
        let of = |error: Error| error.of("Reencrypt", self.encrypted.table().name());
        let opened = cipher.decrypt(stored.entity).await.map_err(of)?;
        let current = cipher.ring.current()?.key_id();
        if !self.everything && opened.key_id.as_deref() == Some(current) {
            return Ok(None);
        }
        let chosen = opened.entity.iter().map(|(name, _)| name);
        let chosen = chosen.filter(|name| cipher.chooses(&opened.entity, name));
        let mut names = opened.names.clone();
        names.extend(chosen.filter(|c| !opened.names.iter().any(|n| n == c)).map(str::to_owned));
        let sealed = cipher.seal(opened.entity, names, opened.indexes).await.map_err(of)?;
        Ok(Some(Resealed { sealed, etag: stored.etag }))
    }

    /// Writes one entity anew, whoever else writes it meanwhile.
    async fn rewrite(&self, mut stored: Stored<DynamicEntity>) -> Result<Rewritten> {
        let table = self.encrypted.table();
        let mut in_doubt: Option<DynamicEntity> = None;
        for _ in 0..MAX_ROUNDS {
            let same = |sent: &DynamicEntity| sent.get(METADATA) == stored.entity.get(METADATA);
            if in_doubt.as_ref().is_some_and(same) {
                return Ok(Rewritten::Yes);
            }
            let Some(Resealed { sealed, etag }) = self.reseal(stored).await? else {
                return Ok(Rewritten::No);
            };
            let key = sealed.key();
            match table.replace((&sealed, Match::ETag(etag))).await {
                Ok(_) => return Ok(Rewritten::Yes),
                Err(error) if error.is_conflict() => {
                    in_doubt = (error.outcome() == Outcome::Unknown).then_some(sealed);
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
            match table.get(key).await? {
                Some(now) => stored = now,
                None => return Ok(Rewritten::Gone),
            }
        }
        let what = "other writers were faster every time an entity was to be written anew";
        let error = Error::refused(ErrorKind::Conflict, what).advise("take the step again");
        Err(error.of("Reencrypt", table.name()))
    }
}

impl Batch {
    fn new(table: &Table) -> Self {
        Self { entities: Vec::new(), transaction: table.transaction() }
    }

    /// Adds an entity; returns what was there before if they do not fit together.
    fn add(&mut self, table: &Table, one: Resealed) -> Option<Self> {
        let alone = table.transaction().replace((&one.sealed, Match::ETag(one.etag.clone())));
        let full =
            (!self.transaction.fits(&alone)).then(|| std::mem::replace(self, Self::new(table)));
        let before = std::mem::replace(&mut self.transaction, table.transaction());
        self.transaction = before.append(alone);
        self.entities.push(one);
        full
    }
}

impl Progress {
    /// Counts what became of an entity.
    fn add(&mut self, key: &Key<DynamicEntity>, result: Result<Rewritten>) -> Result<()> {
        match (result, key.parts()) {
            (Ok(Rewritten::Yes), _) => self.rewritten += 1,
            (Ok(Rewritten::Gone | Rewritten::No), _) => {}
            (Err(error), Ok((partition_key, row_key))) if is_about_the_entity(&error) => {
                let (partition_key, row_key) = (partition_key.to_owned(), row_key.to_owned());
                self.refused.push(Refused { partition_key, row_key, error });
            }
            (Err(error), _) => return Err(error),
        }
        Ok(())
    }
}

/// Whether the next entity may do better: otherwise it is the keys, the table or the connection.
fn is_about_the_entity(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Decode | ErrorKind::Invalid | ErrorKind::TooLarge)
}

impl<E> fmt::Debug for Reencryption<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reencryption")
            .field("encrypted", &self.encrypted)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
