//! Calls about many letters: redriving, purging, exporting, collecting, expiring.
//!
//! Each goes on after a letter that fails, and can be dropped and called again at any time.

use std::time::Duration;

use chrono::TimeDelta;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::queue::{Body, Message};
use rowkey::{DynamicEntity, ETag, Error, ErrorKind, Filter, Match, Operator, Partition, Result};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::row::{LetterRow, TASKS};
use super::{Aside, Cause, DeadLetters, Selection, is_missing_table};
use crate::task::{Letter, Task, is_missing_queue};

/// Letters that are worked on at a time.
const AT_A_TIME: usize = 8;

/// After as many letters in a row that failed for want of a service a call ends.
const GIVE_UP: u32 = 32;

/// How many failures are told one by one.
const MAX_FAILURES: usize = 100;

/// The most that one request receives.
const MAX_RECEIVED: u32 = 32;

/// How long a message is hidden while it is collected.
const MOVING: Duration = Duration::from_secs(60);

/// What a call about many letters did.
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use = "it says what failed"]
pub struct Summary {
    /// Letters (or messages) that were found.
    pub matched: u64,
    /// Those of them that were redriven, purged or collected.
    pub done: u64,
    /// Letters that another call took meanwhile, or that were replaced by newer ones.
    pub changed: u64,
    /// Letters that failed. They are where they were.
    pub failed: u64,
    /// The first 100 failures.
    pub failures: Vec<Failed>,
}

/// A letter for which a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failed {
    /// The id of its task.
    pub id: String,
    /// Why.
    pub error: Error,
}

/// What became of one letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Changed,
    Done,
    /// It was redriven by this call before.
    Seen,
}

impl<T: Task> DeadLetters<T> {
    /// Puts tasks back into their queue, where each may be tried as often as a new one; its id, its history
    /// and the time when it was first put stay with it. A message that could not be read goes back as it
    /// was.
    ///
    /// Takes the letters that there are when it is called. A task that fails again meanwhile has a newer
    /// letter, which this call leaves alone, even if the clocks of the workers are wrong; so it ends.
    ///
    /// The message is put before the letter is deleted, under the letter's ETag. So a lost answer, or two
    /// calls at a time, can put a task twice, and never lose it. Of two messages the second is suppressed
    /// if the first one became a dead letter again, or if the task lay in a claim and was done; otherwise
    /// both are done ([`Inbox`](crate::inbox::Inbox) has the effect happen once).
    ///
    /// Costs 2 requests a letter, 3 with a claim, and one for each 1,000 letters. Fails if the letters cannot
    /// be listed, and when 32 in a row failed because a service is not available; what was redriven by then
    /// is, and the call can be repeated.
    pub async fn redrive(&self, which: &Selection) -> Result<Summary> {
        let run = crate::task::new_id()?.to_string();
        let run = &*run;
        self.each(which, |row, etag| async move { self.redrive_one(&row, &etag, run).await }).await
    }

    /// Deletes letters, and the blobs of their tasks. What is left of a letter is a small row by which an
    /// old message of the task is recognised, until [`forget`](Self::forget).
    ///
    /// A blob that a redriven message may name is left to
    /// [`sweep_claims`](crate::Tasks::sweep_claims). Costs a request a letter, two more with a claim, and one
    /// for each 1,000 letters. Fails as [`redrive`](Self::redrive) does.
    pub async fn purge(&self, which: &Selection) -> Result<Summary> {
        self.each(which, |row, etag| async move { self.purge_one(&row, &etag).await }).await
    }

    /// Writes letters as lines of JSON, and returns how many: `id`, `queue`, `kind`, `cause`, `reason`,
    /// `attempts`, `firstSeen`, `putAside`, `redriven`, `history`, `traceparent`, and the `task`, also if it
    /// lies in a `claim`; or the `text` that cannot be read.
    ///
    /// Costs one request for each 1,000 letters, and one for each claim. Fails with
    /// [`ErrorKind::Unexpected`] if `out` fails, and at the first letter whose claim cannot be read for
    /// another reason than that it is gone.
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

    /// Makes letters of the messages in the queue `<queue>-poison`, into which other programs (Azure
    /// Functions) put what they could not do. Their cause is [`Cause::Foreign`].
    ///
    /// The row is written before the message is deleted. A message that comes again is recognised by its id,
    /// and one whose task is among the letters is deleted. Costs 2 requests a message and one for each 32;
    /// ends when the queue is empty, or is not there. A message whose letter could not be written is
    /// visible again after a minute.
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
                        // It took longer than a minute, and is collected elsewhere.
                        Err(error) if error.kind() == ErrorKind::Conflict => Ok(Moved::Changed),
                        deleted => deleted.map(|_| Moved::Done),
                    }
                };
                summary.add(message.id.clone(), collected.await);
            }
        }
    }

    /// [Purges](Self::purge) letters that were put aside longer ago than this. Done only if called: dead
    /// letters do not expire by themselves.
    pub async fn expire(&self, older_than: Duration) -> Result<Summary> {
        self.purge(&Selection::all().older_than(older_than)).await
    }

    /// Deletes what is left of letters that were redriven or purged longer ago than this, and returns how
    /// many: the rows by which an old message of such a task is recognised. A month is plenty. If
    /// such a message appears later nevertheless, the task is put aside once more.
    ///
    /// Reads the rows of all tasks of the queue, 1,000 a request, and costs one request each that is deleted.
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
            // Not if the task has a letter again.
            match self.table().delete(stored.entity.key(), &stored).await {
                Ok(()) => forgotten += 1,
                Err(error)
                    if error.kind() == ErrorKind::Conflict
                        || error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Does something with each letter, and tells how that went.
    async fn each<'s, F, Fut>(&'s self, which: &Selection, work: F) -> Result<Summary>
    where
        F: Fn(LetterRow, ETag) -> Fut,
        Fut: Future<Output = Result<Moved>> + 's,
    {
        let mut summary = Summary::default();
        let mut unavailable = 0;
        let mut rows = self.rows(which, self.now()).ready_chunks(AT_A_TIME);
        while let Some(chunk) = rows.next().await {
            let chunk = chunk.into_iter().collect::<Result<Vec<_>>>()?;
            let works = chunk.into_iter().map(|(row, etag)| {
                let id = row.id.clone();
                let work = if row.is_foreign { Err(foreign()) } else { Ok(work(row, etag)) };
                async move {
                    match work {
                        Ok(work) => (id, work.await),
                        Err(error) => (id, Err(error)),
                    }
                }
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
        let body = match self.tasks.open_text(&row.text, &row.id) {
            Ok(letter) => {
                let letter = letter.redriven(row, run);
                if !self.tasks.mark(&letter, true).await? {
                    let what = "the blob with the task is gone";
                    let error = Error::refused(ErrorKind::NotFound, what);
                    let advice = "purge the letter, or put the task anew";
                    return Err(error.of("RedriveTask", self.queue()).advise(advice));
                }
                self.tasks.with_history(&letter)
            }
            Err(_) => None,
        };
        // What cannot be read goes back as it was; so does what has no room for the marks of a redrive.
        let body = body.unwrap_or_else(|| Body::text(&*row.text));
        self.tasks.put_back(body).await?;
        self.without_letter(row, etag, false).await
    }

    async fn purge_one(&self, row: &LetterRow, etag: &ETag) -> Result<Moved> {
        let moved = self.without_letter(row, etag, true).await?;
        if moved == Moved::Done
            && let Ok(letter) = self.tasks.open_text(&row.text, &row.id)
        {
            self.tasks.discard_purged(&letter).await?;
        }
        Ok(moved)
    }

    /// Deletes a letter if it is still the one that was read.
    async fn without_letter(&self, row: &LetterRow, etag: &ETag, is_purged: bool) -> Result<Moved> {
        let task = row.without_letter(self.now(), is_purged);
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
        let letter = self.tasks.open(message).ok();
        let reason = format!("another program put it into the queue {}-poison", self.queue());
        let (letter, cause) = (letter.as_ref(), Cause::Foreign);
        self.put_aside(&Aside { message, letter, cause, reason: &reason }).await
    }
}

fn foreign() -> Error {
    let what = "the row is no letter: its keys and its properties differ";
    Error::refused(ErrorKind::Decode, what).advise("delete it in the table")
}

impl Letter {
    /// As it is put back: tried as often as a new one.
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
