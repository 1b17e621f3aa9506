//! Claim checks: a task that is too large for a message lies in a blob, and the message says where.
//!
//! The blob is written before the message that names it and deleted after the message was: no worker
//! ever reads a claim on nothing. What is left when a program dies in between is swept.
//!
//! A task that was redriven may have several messages that name one blob.
//! When one of them is done the blob is emptied and swept later. No task is empty as JSON, so the others find
//! that it was done, and a blob that is gone is never taken for a task that is done.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::TryStreamExt as _;
use rowkey::{Blob, Container, Error, ErrorKind, Result};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::{Content, Letter, RESERVED, Task, Tasks, key_part, new_id};

/// The metadata of a blob whose task has or had a dead letter, with the task's id as keys hold it: it is not
/// swept while the letter is there.
const POISONED: &str = "poisoned";

/// The metadata of a blob whose task was redriven: there may be several messages.
const REDRIVEN: &str = "redriven";

/// What became of a task that was to be read.
pub(crate) enum Loaded<T> {
    /// Another message of the task was done.
    Done,
    /// The claim's blob is not there.
    Gone,
    /// A program that knows more tasks wrote it.
    Newer(String),
    Task(T),
    /// Why it cannot be read; repeating does not help.
    Unreadable(String),
}

impl<T: Task> Tasks<T> {
    /// Moves the letter's task into a blob if a message cannot hold it, and returns that blob.
    pub(super) async fn fit(&self, letter: &mut Letter) -> Result<Option<Blob>> {
        let Content::Inline(task) = &letter.content else { return Ok(None) };
        let Some(container) = self.place_of(letter)? else { return Ok(None) };
        // A blob for each message: a task that is put twice under one id has two, and the worker that is done
        // with the first deletes one of them.
        let name = format!("{}/{}", self.queue().name(), new_id()?);
        let blob = container.blob(&name);
        blob.put(task.get().to_owned()).content_type("application/json").send().await?;
        let sha256 = hash(task.get().as_bytes());
        letter.content = Content::Claim { name, sha256 };
        Ok(Some(blob))
    }

    /// The container for a letter's task, if a message cannot hold it.
    ///
    /// Fails with [`ErrorKind::TooLarge`] if it needs one and there is none.
    pub(super) fn place_of(&self, letter: &Letter) -> Result<Option<&Container>> {
        if self.fits(&letter.text(T::KIND), RESERVED) {
            return Ok(None);
        }
        self.container().map(Some).ok_or_else(|| {
            let what = "the task is too large for a message, and there is no container for it";
            Error::refused(ErrorKind::TooLarge, what).advise("give these tasks one with `claims`")
        })
    }

    /// Reads the letter's task, from its blob if it has one.
    ///
    /// Fails with [`ErrorKind::Damaged`] when the blob does not hold what was put there.
    pub(crate) async fn load(&self, letter: &Letter) -> Result<Loaded<T>> {
        Ok(match &letter.content {
            Content::Inline(task) => self.read(letter, task.get().as_bytes()).await?,
            Content::Claim { name, sha256 } => match self.bytes(name, sha256).await? {
                None => Loaded::Gone,
                Some(bytes) if bytes.is_empty() => Loaded::Done,
                Some(bytes) => self.read(letter, &bytes).await?,
            },
        })
    }

    /// Decrypts and reads a task.
    async fn read(&self, letter: &Letter, json: &[u8]) -> Result<Loaded<T>> {
        Ok(match self.opened(letter, json).await? {
            Ok(json) => Self::parse(&json),
            Err(reason) => Loaded::Unreadable(reason),
        })
    }

    /// The JSON of a letter's task in a blob, if it is there.
    pub(crate) async fn raw(&self, letter: &Letter) -> Result<Option<Box<RawValue>>> {
        let Content::Claim { name, sha256 } = &letter.content else { return Ok(None) };
        let bytes = self.bytes(name, sha256).await?.unwrap_or_default();
        Ok(serde_json::from_slice(&bytes).ok())
    }

    /// What a claim's blob holds; nothing if it was emptied.
    async fn bytes(&self, name: &str, sha256: &str) -> Result<Option<Vec<u8>>> {
        let blob = self.claim(name)?;
        let Some(content) = blob.get().await? else { return Ok(None) };
        if !content.bytes.is_empty() && hash(&content.bytes) != sha256 {
            let what = "the blob with the task is not the one that the message names";
            let error = Error::refused(ErrorKind::Damaged, what);
            return Err(error.of("GetTask", blob.container()));
        }
        Ok(Some(content.bytes.to_vec()))
    }

    /// Whether a blob of this name is one that holds a task of this queue. Any writer of messages can write
    /// names, and what is named is read, marked and deleted.
    pub(crate) fn is_claim(&self, name: &str) -> bool {
        let own = name.strip_prefix(self.queue().name()).and_then(|rest| rest.strip_prefix('/'));
        own.is_some_and(|id| id.split('/').all(|part| !matches!(part, "" | "." | "..")))
    }

    /// Deletes the blob of a letter whose task is done and whose message was deleted; empties it if there may be
    /// other messages.
    pub(crate) async fn discard(&self, letter: &Letter) -> Result<()> {
        let Content::Claim { name, .. } = &letter.content else { return Ok(()) };
        let blob = self.claim(name)?;
        if letter.redriven > 0 {
            blob.put("").send().await.map(drop)
        } else {
            blob.delete_if_exists().await.map(drop)
        }
    }

    /// Deletes the blob of a letter that was purged, unless a message may name it.
    pub(crate) async fn discard_purged(&self, letter: &Letter) -> Result<()> {
        let Content::Claim { name, .. } = &letter.content else { return Ok(()) };
        let blob = self.claim(name)?;
        let Some(properties) = blob.properties().await? else { return Ok(()) };
        if value(&properties.metadata, REDRIVEN).is_some() {
            return Ok(());
        }
        match blob.with_conditions(&properties.etag).delete_if_exists().await {
            // It was redriven or put again meanwhile.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// Notes of a letter's blob that the task has a dead letter, and whether there may be messages; says
    /// whether it is there, as what is no claim is. It is then younger, too.
    pub(crate) async fn mark(&self, letter: &Letter, redriven: bool) -> Result<bool> {
        let Content::Claim { name, .. } = &letter.content else { return Ok(true) };
        let id = key_part(&letter.id);
        let marks = [(POISONED, &*id), (REDRIVEN, "true")];
        match self.claim(name)?.set_metadata(&marks[..=usize::from(redriven)]).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// Deletes blobs of tasks that were done or never sent, as programs leave them that die between
    /// two requests; returns how many. Those of dead letters stay.
    ///
    /// Whether a message names a blob cannot be asked of a queue, so age decides: `older_than` must
    /// be longer than any task waits and is worked on. If it is not, the task is poisoned when its
    /// turn comes, with the missing blob as the reason. A request for each 5,000 blobs, one for each that is
    /// deleted, and one for each whose task has or had a dead letter.
    pub async fn sweep_claims(&self, older_than: Duration) -> Result<u64> {
        let Some(container) = self.container() else { return Ok(0) };
        let age = TimeDelta::from_std(older_than).unwrap_or(TimeDelta::MAX);
        let now = self.queue().account().clock().now();
        let Some(before) = now.checked_sub_signed(age) else { return Ok(0) };
        let prefix = format!("{}/", self.queue().name());
        let mut blobs = container.blobs().starting_with(&prefix).with_metadata().stream();
        let mut swept = 0;
        while let Some(item) = blobs.try_next().await? {
            if item.properties.modified >= before {
                continue;
            }
            if let Some(id) = value(&item.properties.metadata, POISONED)
                && self.dead_letters().has(id).await?
            {
                continue;
            }
            // Not if it was marked since it was listed.
            let blob = container.blob(&item.name).with_conditions(&item.properties.etag);
            match blob.delete_if_exists().await {
                Ok(deleted) => swept += u64::from(deleted),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        Ok(swept)
    }

    fn claim(&self, name: &str) -> Result<Blob> {
        if !self.is_claim(name) {
            let what = "the message names a blob that is not one of its queue's claims";
            return Err(Error::refused(ErrorKind::Invalid, what).of("GetTask", self.queue().name()));
        }
        self.container().map(|container| container.blob(name)).ok_or_else(|| {
            let what = "the message names a claim, and these tasks have no container for claims";
            let error = Error::refused(ErrorKind::Invalid, what).of("GetTask", self.queue().name());
            error.advise("give these tasks theirs with `claims`")
        })
    }

    fn container(&self) -> Option<&Container> {
        self.claims.as_ref()
    }
}

/// The value of a mark. The service does not keep the case of names.
fn value<'m>(metadata: &'m BTreeMap<String, String>, mark: &str) -> Option<&'m str> {
    let mut marks = metadata.iter();
    marks.find(|(name, _)| name.eq_ignore_ascii_case(mark)).map(|(_, value)| value.as_str())
}

fn hash(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
