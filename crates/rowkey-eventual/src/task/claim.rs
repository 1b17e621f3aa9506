//! Claim checks: a task that is too large for a message lies in a blob, and the message says where.
//!
//! The blob is written before the message that names it and deleted after the message was: nobody
//! ever reads a claim on nothing. What is left when a program dies in between is swept.

use std::fmt::Write as _;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::TryStreamExt as _;
use rowkey::{Blob, Container, Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};

use super::{Content, Letter, RESERVED, Task, Tasks};

/// The metadata of a blob whose task was poisoned: it stays until the task is done after all.
const POISONED: &str = "poisoned";

/// What became of a task that was to be read.
pub(crate) enum Loaded<T> {
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
        let name = format!("{}/{}", self.queue().name(), letter.id);
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
            Content::Inline(task) => Self::parse(task.get().as_bytes()),
            Content::Claim { name, sha256 } => {
                let blob = self.claim(name)?;
                let Some(content) = blob.get().await? else { return Ok(Loaded::Gone) };
                if hash(&content.bytes) != *sha256 {
                    let what = "the blob with the task is not the one that the message names";
                    let error = Error::refused(ErrorKind::Damaged, what);
                    return Err(error.of("GetTask", blob.container()));
                }
                Self::parse(&content.bytes)
            }
        })
    }

    /// Whether a blob of this name is one that holds a task of this queue. Any writer of messages can write
    /// names, and what is named is read, marked and deleted.
    pub(crate) fn is_claim(&self, name: &str) -> bool {
        let own = name.strip_prefix(self.queue().name()).and_then(|rest| rest.strip_prefix('/'));
        own.is_some_and(|id| id.split('/').all(|part| !matches!(part, "" | "." | "..")))
    }

    /// Deletes the blob of a letter whose message was deleted.
    pub(crate) async fn discard(&self, letter: &Letter) -> Result<()> {
        if let Content::Claim { name, .. } = &letter.content {
            self.claim(name)?.delete_if_exists().await?;
        }
        Ok(())
    }

    /// Says of a letter's blob whether its task is poisoned, if it is there. It is then younger, too.
    pub(super) async fn mark(&self, letter: &Letter, poisoned: bool) -> Result<()> {
        let Content::Claim { name, .. } = &letter.content else { return Ok(()) };
        let marks: &[(&str, &str)] = if poisoned { &[(POISONED, "true")] } else { &[] };
        match self.claim(name)?.set_metadata(marks).await {
            Err(error) if error.is_not_found() => Ok(()),
            result => result.map(drop),
        }
    }

    /// Deletes blobs of tasks that were done or never sent, as programs leave them that die between
    /// two requests; returns how many. Those of poisoned tasks stay.
    ///
    /// Whether a message names a blob cannot be asked of a queue, so age decides: `older_than` must
    /// be longer than any task waits and is worked on. If it is not, the task is poisoned when its
    /// turn comes, with the missing blob as the reason. A request for each 5,000 blobs and one for
    /// each that is deleted.
    pub async fn sweep_claims(&self, older_than: Duration) -> Result<u64> {
        let Some(container) = self.container() else { return Ok(0) };
        let age = TimeDelta::from_std(older_than).unwrap_or(TimeDelta::MAX);
        let now = self.queue().account().clock().now();
        let Some(before) = now.checked_sub_signed(age) else { return Ok(0) };
        let prefix = format!("{}/", self.queue().name());
        let mut blobs = container.blobs().starting_with(&prefix).with_metadata().stream();
        let mut swept = 0;
        while let Some(item) = blobs.try_next().await? {
            let metadata = &item.properties.metadata;
            let poisoned = metadata.keys().any(|name| name.eq_ignore_ascii_case(POISONED));
            if poisoned || item.properties.modified >= before {
                continue;
            }
            // Not if it was marked since it was listed.
            let blob = container.blob(&item.name).with_conditions(&item.properties.etag);
            match blob.delete_if_exists().await {
                Ok(deleted) => swept += u64::from(deleted),
                Err(error) if error.is_conflict() => {}
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

fn hash(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
