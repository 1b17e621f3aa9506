//! Claim checks: a task that is too large for a message is stored in a blob, and the message names the blob.
//!
//! The blob is written before the message that names it, and deleted after that message. So a worker never
//! reads a claim whose blob is not there yet. Blobs that remain when a program dies in between are swept.
//!
//! A task that was redriven may have several messages that name one blob. When one of them is processed, the
//! blob is emptied and swept later. No task is empty as JSON, so the other messages detect that the task is
//! done, and a missing blob is never mistaken for a finished task.

use std::collections::BTreeMap;

use rowkey_client::{Blob, Container, Error, ErrorKind, Result};
use serde_json::value::RawValue;

use super::{Content, Envelope, RESERVED, Task, Tasks, hex_digest, key_part, new_id};

/// The metadata of a blob whose task has or had a dead letter: the task's id, encoded for keys. The blob is
/// not swept while the dead letter exists.
const POISONED: &str = "poisoned";

/// The metadata of a blob whose task was redriven, so that several messages may name it.
const REDRIVEN: &str = "redriven";

/// The most characters of a blob's name.
const MAX_NAME: usize = 1024;

/// The result of loading a task.
pub(crate) enum Loaded<T> {
    /// Another message of the task was processed.
    Done,
    /// The claim's blob does not exist.
    Gone,
    /// A program with more task variants wrote it.
    Newer(String),
    Task(T),
    /// The reason why it cannot be read. Repeating does not help.
    Unreadable(String),
}

impl<T: Task> Tasks<T> {
    /// Moves the task into a blob if it does not fit in a message, and returns that blob.
    pub(super) async fn fit(&self, envelope: &mut Envelope) -> Result<Option<Blob>> {
        let Content::Inline(task) = &envelope.content else { return Ok(None) };
        let Some(container) = self.place_of(envelope)? else { return Ok(None) };
        // One blob per message: a task that is put twice under one id has two, and the worker that finishes
        // the first deletes only one of them.
        let name = format!("{}/{}", self.queue().name(), new_id()?);
        let blob = container.blob(&name);
        blob.put(task.get().to_owned()).content_type("application/json").send().await?;
        let sha256 = hex_digest("", task.get().as_bytes());
        envelope.content = Content::Claim { name, sha256 };
        Ok(Some(blob))
    }

    /// Returns the container for the task if a message cannot hold it.
    ///
    /// Fails with [`ErrorKind::TooLarge`] if a container is needed and none is configured.
    pub(super) fn place_of(&self, envelope: &Envelope) -> Result<Option<&Container>> {
        if self.fits(&envelope.text(T::KIND), RESERVED) {
            return Ok(None);
        }
        self.claims.as_ref().map(Some).ok_or_else(|| {
            let what = "the task is too large for a message, and no container is configured";
            Error::refused(ErrorKind::TooLarge, what).advise("give these tasks one with `claims`")
        })
    }

    /// Loads the task, from its blob if it has one. Calls `fetched` before the JSON is parsed.
    ///
    /// Fails with [`ErrorKind::Damaged`] if the blob's content was altered.
    pub(crate) async fn load(
        &self,
        envelope: &Envelope,
        fetched: impl FnOnce() + Send,
    ) -> Result<Loaded<T>> {
        let bytes;
        let json = match &envelope.content {
            Content::Inline(task) => task.get().as_bytes(),
            Content::Claim { name, sha256 } => match self.bytes(name, sha256).await? {
                None => return Ok(Loaded::Gone),
                Some(content) if content.is_empty() => return Ok(Loaded::Done),
                Some(content) => {
                    bytes = content;
                    &bytes
                }
            },
        };
        Ok(match self.opened(envelope, json).await? {
            Ok(json) => {
                fetched();
                Self::parse(&json)
            }
            Err(reason) => Loaded::Unreadable(reason),
        })
    }

    /// Reads the JSON of a task from its blob, if that exists.
    pub(crate) async fn raw(&self, envelope: &Envelope) -> Result<Option<Box<RawValue>>> {
        let Content::Claim { name, sha256 } = &envelope.content else { return Ok(None) };
        let bytes = self.bytes(name, sha256).await?.unwrap_or_default();
        Ok(serde_json::from_slice(&bytes).ok())
    }

    /// Reads a claim's blob; `None` if it was emptied.
    async fn bytes(&self, name: &str, sha256: &str) -> Result<Option<Vec<u8>>> {
        let blob = self.claim(name)?;
        let Some(content) = blob.get().await? else { return Ok(None) };
        if !content.bytes.is_empty() && hex_digest("", &content.bytes) != sha256 {
            let what = "the blob with the task is not the one that the message names";
            let error = Error::refused(ErrorKind::Damaged, what);
            return Err(error.of("GetTask", blob.container()));
        }
        Ok(Some(content.bytes.to_vec()))
    }

    /// Returns whether `name` is the name of a blob for tasks of this queue. Checked because anyone who can
    /// write messages can write names, and the named blob is read, marked and deleted.
    pub(crate) fn is_claim(&self, name: &str) -> bool {
        let own = name.strip_prefix(self.queue().name()).and_then(|rest| rest.strip_prefix('/'));
        let can_be_blob = name.chars().count() <= MAX_NAME && !name.contains(char::is_control);
        can_be_blob
            && own.is_some_and(|id| id.split('/').all(|part| !matches!(part, "" | "." | "..")))
    }

    /// Deletes the blob of a task after its message was deleted. Empties it instead if other messages may
    /// name it.
    pub(crate) async fn discard(&self, envelope: &Envelope) -> Result<()> {
        let Content::Claim { name, .. } = &envelope.content else { return Ok(()) };
        let blob = self.claim(name)?;
        if envelope.redriven > 0 {
            blob.put("").send().await.map(drop)
        } else {
            blob.delete_if_exists().await.map(drop)
        }
    }

    /// Deletes the blob of a purged dead letter, unless a message may name it.
    pub(crate) async fn discard_purged(&self, envelope: &Envelope) -> Result<()> {
        let Content::Claim { name, .. } = &envelope.content else { return Ok(()) };
        let blob = self.claim(name)?;
        let Some(properties) = blob.properties().await? else { return Ok(()) };
        if value(&properties.metadata, REDRIVEN).is_some() {
            return Ok(());
        }
        match blob.with_conditions(&properties.etag).delete_if_exists().await {
            // The task was redriven or put again in the meantime.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// Marks a task's blob as having a dead letter, and with `redriven` as possibly having messages; returns
    /// whether the blob exists. Returns `true` for a task that has no claim. Also resets the blob's age.
    pub(crate) async fn mark(&self, envelope: &Envelope, redriven: bool) -> Result<bool> {
        let Content::Claim { name, .. } = &envelope.content else { return Ok(true) };
        let id = key_part(&envelope.id);
        let marks = [(POISONED, &*id), (REDRIVEN, "true")];
        match self.claim(name)?.set_metadata(&marks[..=usize::from(redriven)]).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// Fails if the task is in a blob and its container is not configured.
    pub(crate) fn check_claim(&self, envelope: &Envelope) -> Result<()> {
        match &envelope.content {
            Content::Claim { name, .. } => self.claim(name).map(drop),
            Content::Inline(_) => Ok(()),
        }
    }

    fn claim(&self, name: &str) -> Result<Blob> {
        if !self.is_claim(name) {
            let what = "the message references a blob that is not a claim of its queue";
            return Err(Error::refused(ErrorKind::Invalid, what).of("GetTask", self.queue().name()));
        }
        self.claims.as_ref().map(|container| container.blob(name)).ok_or_else(|| {
            let what = "the message names a claim, and no container for claims is configured";
            let error = Error::refused(ErrorKind::Invalid, what).of("GetTask", self.queue().name());
            error.advise("set it with `Tasks::claims`")
        })
    }
}

/// The id, encoded for keys, of the task of a blob that has or had a dead letter.
pub(crate) fn poisoned(metadata: &BTreeMap<String, String>) -> Option<&str> {
    value(metadata, POISONED)
}

/// The value of a metadata entry. The service does not preserve the case of names.
fn value<'m>(metadata: &'m BTreeMap<String, String>, mark: &str) -> Option<&'m str> {
    let mut marks = metadata.iter();
    marks.find(|(name, _)| name.eq_ignore_ascii_case(mark)).map(|(_, value)| value.as_str())
}
