//! Bulk operations on dead letters: redrive, purge, export, collect, expire.
//!
//! Each continues after a dead letter that fails, and can be dropped and called again at any time.

use std::time::Duration;

use chrono::TimeDelta;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use rowkey_client::queue::{Body, Message};
use rowkey_client::{
    DynamicEntity, ETag, Error, ErrorKind, Filter, Match, Operator, Outcome, Partition, Result,
};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::row::{LetterRow, TASKS};
use super::{Cause, DeadLetters, NewDeadLetter, Selection};
use crate::errors::{is_missing_queue, is_missing_table};
use crate::task::{Envelope, Task, Tasks};

/// How many dead letters are processed concurrently.
const AT_A_TIME: usize = 8;

/// A call ends after this many consecutive dead letters failed because a service was unavailable.
const GIVE_UP: u32 = 32;

/// How many failures are reported individually.
const MAX_FAILURES: usize = 100;

/// The maximum number of messages that one request receives.
const MAX_RECEIVED: u32 = 32;

/// How long a message is hidden while it is collected or redriven.
const MOVING: Duration = Duration::from_secs(60);

/// The result of a bulk operation on dead letters.
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use = "it reports what failed"]
pub struct Summary {
    /// Dead letters (or messages) that were found.
    pub matched: u64,
    /// How many of them were redriven, purged or collected.
    pub done: u64,
    /// Dead letters that another call removed in the meantime, or that newer ones replaced.
    pub changed: u64,
    /// Dead letters that failed. They are unchanged.
    pub failed: u64,
    /// The first 100 failures.
    pub failures: Vec<Failed>,
}

/// A dead letter for which a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failed {
    /// The id of the task.
    pub id: String,
    /// The error.
    pub error: Error,
}

/// What happened to one dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Changed,
    Done,
    /// This call has already redriven it.
    Seen,
}

impl<T: Task> DeadLetters<T> {
    /// Puts tasks back into their queue, with the full number of attempts of a new task. The id, the history
    /// and the time of the first put are kept. A message that could not be read is put back unchanged.
    ///
    /// Redrives the dead letters that exist when it is called. A task that fails again in the meantime has a
    /// newer dead letter, which this call leaves alone even if the clocks of the workers are wrong. So the
    /// call always ends.
    ///
    /// The message is put, hidden for a minute, before the dead letter is deleted under its ETag. So no task is
    /// lost, and of calls at the same time, in one program or in several, one redrives a dead letter; the others
    /// delete their message and count the dead letter as [`changed`](Summary::changed). If a call ends in
    /// between, its message appears after a minute, and the worker that receives it deletes the dead letter, or
    /// drops the message if another call has redriven it meanwhile. A message that cannot be read is put twice
    /// then, because it has no room for the id of the call.
    ///
    /// Costs 3 requests per dead letter, 4 with a claim, and one for each 1,000 dead letters. Fails if the
    /// dead letters cannot be listed, and after 32 consecutive failures because a service is not available;
    /// what was redriven before stays redriven, and the call can be repeated.
    pub async fn redrive(&self, which: &Selection) -> Result<Summary> {
        let run = crate::task::new_id()?.to_string();
        let run = &*run;
        self.each(which, |row, etag| async move { self.redrive_one(&row, &etag, run).await }).await
    }

    /// Deletes dead letters and the blobs of their tasks. A small row remains for each, by which an old
    /// message of the task is recognized, until [`forget`](Self::forget) deletes it.
    ///
    /// A blob that a redriven message may name is left to [`sweep_claims`](crate::Tasks::sweep_claims). Costs
    /// one request per dead letter, two more with a claim, and one for each 1,000 dead letters. Fails like
    /// [`redrive`](Self::redrive).
    ///
    /// ```
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// use rowkey::worker::dead_letters::Selection;
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// # let poison = account.queue("welcome-poison");
    /// # poison.create().await?;
    /// # for to in ["ada", "kim"] {
    /// #     poison.put(rowkey::queue::Body::text(format!(r#"{{"to":"{to}"}}"#))).send().await?;
    /// # }
    /// # let _ = tasks.dead_letters().collect().await?;
    /// let dead = tasks.dead_letters();
    /// let purged = dead.purge(&Selection::all().redriven_less_than(1)).await?;
    /// assert_eq!((purged.matched, purged.done), (2, 2));
    /// assert_eq!(dead.count(&Selection::all()).await?, 0);
    ///
    /// let month = Duration::from_secs(30 * 86_400);
    /// assert_eq!(dead.expire(month).await?.matched, 0);
    /// assert_eq!(dead.forget(month).await?, 0);
    /// # Ok(()) }
    /// ```
    pub async fn purge(&self, which: &Selection) -> Result<Summary> {
        self.each(which, |row, etag| async move { self.purge_one(&row, &etag).await }).await
    }

    /// Writes dead letters as lines of JSON, and returns their number. The fields are `id`, `queue`, `kind`,
    /// `cause`, `reason`, `attempts`, `firstSeen`, `putAside`, `redriven`, `history`, `traceparent`, and
    /// either the `task` (also if it is stored in a `claim`) or the `text` that cannot be read.
    ///
    /// Costs one request for each 1,000 dead letters, and one for each claim. Fails with
    /// [`ErrorKind::Unexpected`] if `out` fails, and at the first dead letter whose claim cannot be read,
    /// unless the claim no longer exists.
    pub async fn export<W>(&self, which: &Selection, out: &mut W) -> Result<u64>
    where
        W: AsyncWrite + Unpin + Send,
    {
        let cannot_write = |error: std::io::Error| {
            let what = "the export cannot be written";
            Error::refused(ErrorKind::Unexpected, what).with_source(error)
        };
        let mut rows = self.rows(which, self.now());
        let mut written = 0;
        while let Some((row, _)) = rows.try_next().await? {
            let mut line = self.line(row).await?;
            line.push('\n');
            out.write_all(line.as_bytes()).await.map_err(cannot_write)?;
            written += 1;
        }
        out.flush().await.map_err(cannot_write)?;
        Ok(written)
    }

    /// Creates dead letters from the messages in the queue `<queue>-poison`, into which other programs (Azure
    /// Functions) put messages that they could not process. Their cause is [`Cause::Foreign`].
    ///
    /// The row is written before the message is deleted. A message that is received again is recognized by
    /// its id, and a message whose task already is a dead letter is deleted. Costs 2 requests per message and
    /// one for each 32. Ends when the queue is empty or does not exist. A message whose dead letter could not
    /// be written is visible again after a minute.
    ///
    /// ```
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// use rowkey::worker::dead_letters::{Cause, Selection};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// // As Azure Functions does after its last attempt.
    /// let poison = account.queue("welcome-poison");
    /// poison.create().await?;
    /// poison.put(rowkey::queue::Body::text(r#"{"to":"ada"}"#)).send().await?;
    ///
    /// let dead = tasks.dead_letters();
    /// assert_eq!(dead.collect().await?.done, 1);
    /// assert_eq!(dead.count(&Selection::all().cause(Cause::Foreign)).await?, 1);
    /// # Ok(()) }
    /// ```
    pub async fn collect(&self) -> Result<Summary> {
        let name = format!("{}-poison", self.queue());
        let options = self.tasks.queue().account().options().clone();
        let queue = self.tasks.queue().account().queue(&name).with_options(options);
        let mut summary = Summary::default();
        loop {
            let messages = match queue.receive(MAX_RECEIVED, MOVING).await {
                Err(error) if is_missing_queue(&error) => return Ok(summary),
                messages => messages?,
            };
            if messages.is_empty() {
                return Ok(summary);
            }
            for message in &messages {
                let collected = async {
                    self.collect_one(message).await?;
                    match queue.delete_if_exists(message).await {
                        // It took longer than a minute, and another call collects the message.
                        Err(error) if error.kind() == ErrorKind::Conflict => Ok(Moved::Changed),
                        deleted => deleted.map(|_| Moved::Done),
                    }
                };
                summary.add(message.id.clone(), collected.await);
            }
        }
    }

    /// [Purges](Self::purge) dead letters that are older than `older_than`. Runs only when
    /// called: dead letters do not expire by themselves.
    pub async fn expire(&self, older_than: Duration) -> Result<Summary> {
        self.purge(&Selection::all().older_than(older_than)).await
    }

    /// Deletes the rows that remain of dead letters redriven or purged longer ago than `older_than`, and
    /// returns their number. An old message of such a task is recognized by this row; without it, the task is
    /// put aside once more. A month is plenty.
    ///
    /// Reads the rows of all tasks of the queue, 1,000 per request, and costs one request for each row that
    /// is deleted.
    pub async fn forget(&self, older_than: Duration) -> Result<u64> {
        let age = TimeDelta::from_std(older_than).unwrap_or(TimeDelta::MAX);
        let Some(before) = self.now().checked_sub_signed(age) else { return Ok(0) };
        let partition = Partition::<DynamicEntity>::new(self.queue()).row_keys(TASKS);
        let has_none = Filter::dynamic("Letter", Operator::Equal, "");
        let is_old = Filter::dynamic("At", Operator::Less, before.timestamp_millis());
        let query = self.table.query(partition).filter(has_none).filter(is_old);
        let mut rows = query.stream();
        let mut forgotten = 0;
        loop {
            let stored = match rows.try_next().await {
                Err(error) if is_missing_table(&error) => return Ok(0),
                stored => stored?,
            };
            let Some(stored) = stored else { return Ok(forgotten) };
            // Fails if the task has a dead letter again.
            match self.table().delete(stored.entity.key(), &stored).await {
                Ok(()) => forgotten += 1,
                Err(error)
                    if error.kind() == ErrorKind::Conflict
                        || error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs `work` for each dead letter and summarizes the results.
    async fn each<'s, F, Fut>(&'s self, which: &Selection, work: F) -> Result<Summary>
    where
        F: Fn(LetterRow, ETag) -> Fut,
        Fut: Future<Output = Result<Moved>> + Send + 's,
    {
        let mut summary = Summary::default();
        let mut unavailable = 0;
        let mut rows = self.rows(which, self.now()).ready_chunks(AT_A_TIME);
        while let Some(chunk) = rows.next().await {
            let chunk = chunk.into_iter().collect::<Result<Vec<_>>>()?;
            let works = chunk.into_iter().map(|(row, etag)| {
                let id = row.id.clone();
                let work = if row.is_foreign { Err(foreign()) } else { Ok(work(row, etag)) };
                // Boxed, so that what runs them is compiled once for all tasks.
                async move {
                    match work {
                        Ok(work) => (id, work.await),
                        Err(error) => (id, Err(error)),
                    }
                }
                .boxed()
            });
            let mut works = stream::iter(works.collect::<Vec<_>>()).buffer_unordered(AT_A_TIME);
            while let Some((id, moved)) = works.next().await {
                match moved {
                    Err(error) if error.is_retryable() && unavailable + 1 >= GIVE_UP => {
                        return Err(error);
                    }
                    Err(error) if error.is_retryable() => {
                        unavailable += 1;
                        summary.add(id, Err(error));
                    }
                    moved => {
                        unavailable = 0;
                        summary.add(id, moved);
                    }
                }
            }
        }
        Ok(summary)
    }

    async fn redrive_one(&self, row: &LetterRow, etag: &ETag, run: &str) -> Result<Moved> {
        if row.redrive.as_deref() == Some(run) {
            return Ok(Moved::Seen);
        }
        let named = |error: Error| error.of("RedriveTask", self.queue());
        let body = match self.tasks.open_text(&row.text, &row.id) {
            Ok(envelope) => {
                let envelope = envelope.redriven(row, run);
                if !self.tasks.mark(&envelope, true).await? {
                    let what = "the blob with the task is gone";
                    let error = Error::refused(ErrorKind::NotFound, what);
                    let advice = "purge the dead letter, or put the task again";
                    return Err(named(error).advise(advice));
                }
                // Without room for the redrive fields, the task is put as other programs put it.
                let body =
                    self.tasks.with_history(&envelope).or_else(|| Tasks::<T>::bare(&envelope));
                body.ok_or_else(|| {
                    let what = "the message has no room for what a redrive adds";
                    named(Error::refused(ErrorKind::TooLarge, what)).advise("put the task again")
                })?
            }
            // A message that cannot be read is put back unchanged.
            Err(_) => Body::text(&*row.text),
        };
        let message = self.tasks.put_back(body, MOVING).await?;
        match self.without_letter(row, etag, Some(run)).await {
            Ok(Moved::Changed) if self.is_redriven_by(&row.id, run).await? => Ok(Moved::Done),
            Ok(Moved::Done) => {
                self.tasks.show(&message).await;
                Ok(Moved::Done)
            }
            Err(error) if error.outcome() == Outcome::Unknown => Err(error),
            // Another call redrives or purges the task, or the dead letter stays.
            moved => {
                if let Err(error) = self.tasks.queue().delete_if_exists(&message).await {
                    tracing::debug!(%error, "the message of a redrive is left to the workers");
                }
                moved
            }
        }
    }

    /// Returns whether this call has redriven the task: its response was lost, or a worker completed it.
    async fn is_redriven_by(&self, id: &str, run: &str) -> Result<bool> {
        let task = self.task_row(id).await?;
        Ok(task
            .is_some_and(|(task, _)| task.letter.is_none() && task.redrive.as_deref() == Some(run)))
    }

    async fn purge_one(&self, row: &LetterRow, etag: &ETag) -> Result<Moved> {
        let envelope = self.tasks.open_text(&row.text, &row.id).ok();
        // Before the dead letter is deleted, because nothing else names the blob.
        if let Some(envelope) = &envelope {
            self.tasks.check_claim(envelope)?;
        }
        let moved = self.without_letter(row, etag, None).await?;
        if moved == Moved::Done
            && let Some(envelope) = &envelope
        {
            self.tasks.discard_purged(envelope).await?;
        }
        Ok(moved)
    }

    /// Deletes a dead letter if it is unchanged since it was read.
    async fn without_letter(
        &self,
        row: &LetterRow,
        etag: &ETag,
        redrive: Option<&str>,
    ) -> Result<Moved> {
        let task = row.without_letter(self.now(), redrive);
        let delete = self.table().transaction().delete(row.key(), Match::ETag(etag.clone()));
        match delete.upsert(&task.entity()).submit().await {
            Ok(_) => Ok(Moved::Done),
            Err(error)
                if error.kind() == ErrorKind::Conflict || error.kind() == ErrorKind::NotFound =>
            {
                Ok(Moved::Changed)
            }
            Err(error) => Err(error),
        }
    }

    async fn collect_one(&self, message: &Message) -> Result<()> {
        let envelope = self.tasks.open(message).ok();
        let reason = format!("another program put it into the queue {}-poison", self.queue());
        let (envelope, cause) = (envelope.as_ref(), Cause::Foreign);
        self.put_aside(&NewDeadLetter { message, envelope, cause, reason: &reason }).await
    }
}

fn foreign() -> Error {
    let what = "the row is not a dead letter: its keys and its properties disagree";
    Error::refused(ErrorKind::Decode, what).advise("delete it from the table")
}

impl Envelope {
    /// The task as it is put back, with the full number of attempts.
    fn redriven(mut self, row: &LetterRow, run: &str) -> Self {
        (self.attempts, self.receptions, self.alone, self.given_up) = (0, 0, false, None);
        self.redriven = row.redriven.saturating_add(1);
        self.redrive = Some(run.to_owned());
        self.first_seen = self.first_seen.or_else(|| row.first_seen.map(crate::task::time));
        self
    }
}

impl Summary {
    fn add(&mut self, id: String, moved: Result<Moved>) {
        self.matched += u64::from(!matches!(moved, Ok(Moved::Seen)));
        match moved {
            Ok(Moved::Changed) => self.changed += 1,
            Ok(Moved::Done) => self.done += 1,
            Ok(Moved::Seen) => {}
            Err(error) => {
                self.failed += 1;
                tracing::warn!(id, %error, "a dead letter could not be moved");
                if self.failures.len() < MAX_FAILURES {
                    self.failures.push(Failed { id, error });
                }
            }
        }
    }
}
