//! One partition that a program owns: its work, from the acquisition of the lease to its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryFutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture};
use rowkey_client::{Clock, StorageAccount};
use rowkey_patterns::Waits;
use rowkey_patterns::lease_lock::{Held, Lost};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError};
use tracing::Instrument as _;

use super::{Owned, Stage, Work};
use crate::panics::{self, spawn};
use crate::renewal_thread::{self, AbortOnDrop};

/// How long to wait for work that was dropped. At an await it ends at once.
const GRACE: Duration = Duration::from_secs(1);

/// What the program does with a partition that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    Keep,
    /// It must move to another program.
    HandOver,
    /// The program stops.
    Stop,
}

pub(super) struct Holding {
    pub(super) index: u32,
    pub(super) held: Arc<Held>,
    pub(super) work: Work,
    pub(super) account: StorageAccount,
    pub(super) deadline: Duration,
    pub(super) again: Waits,
}

/// The running work, which the renewal thread aborts when the lease is lost.
#[derive(Default)]
struct Current(Mutex<Option<AbortHandle>>);

impl Current {
    fn abort(&self) {
        if let Some(work) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            work.abort();
        }
    }

    fn set(&self, work: AbortHandle) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
    }
}

impl Holding {
    /// Does the work until the partition is lost or given up.
    pub(super) async fn run(self, mut wish: watch::Receiver<Wish>) -> rowkey_client::Result<()> {
        let stage = Arc::new(watch::Sender::new(Stage::Owned));
        let current = Arc::new(Current::default());
        // Told by the renewal thread itself, because the work may block the thread that polls this.
        let (keeping, tells, aborts) =
            (Arc::clone(&self.held), Arc::clone(&stage), Arc::clone(&current));
        let mut renewal = renewal_thread::spawn(async move {
            let lost = keeping.lost().await;
            tells.send_replace(Stage::Lost);
            aborts.abort();
            lost
        })?;
        let is_wanted = *wish.borrow() == Wish::Keep;
        let mut task = is_wanted.then(|| self.begin(&stage, &current));
        let (mut again, mut deadline): (Option<BoxFuture<'_, ()>>, Option<BoxFuture<'_, ()>>) =
            (None, None);
        let mut wished = *wish.borrow();
        let mut failures = 0;
        loop {
            if wished > Wish::Keep && task.is_none() {
                drop(renewal);
                renewal_thread::release(&self.held).await;
                return Ok(());
            }
            tokio::select! {
                biased;
                lost = &mut renewal.0 => {
                    let lost = lost.unwrap_or(Lost::Expired);
                    tracing::warn!(partition = self.index, %lost, "a partition was lost");
                    if let Some(mut dropped) = task.take() {
                        self.outlive(&mut dropped, &mut wish).await;
                    }
                    return Ok(());
                }
                // An error means that the program has dropped everything.
                Ok(more) = wish.wait_for(|wish| *wish > wished).map_ok(|wish| *wish) => {
                    (wished, again) = (more, None);
                    stage.send_if_modified(|stage| {
                        let tells = *stage == Stage::Owned;
                        if tells {
                            *stage = Stage::Stopping;
                        }
                        tells
                    });
                    deadline = Some(self.clock().sleep(self.deadline));
                }
                Some(ended) = OptionFuture::from(task.as_mut().map(|task| &mut task.0)),
                    if task.is_some() =>
                {
                    task = None;
                    failures = if self.tell(ended) { 0 } else { failures + 1 };
                    again = Some(self.clock().sleep(self.again.after(failures.max(1) - 1)));
                }
                Some(()) = OptionFuture::from(deadline.as_mut()), if deadline.is_some() => {
                    deadline = None;
                    if let Some(mut dropped) = task.take()
                        && !ends(&mut dropped).await
                    {
                        if wished == Wish::Stop {
                            renewal.0.abort();
                            let partition = self.index;
                            tracing::warn!(partition, "a partition's work blocks; its lease ends with its term");
                            return Ok(());
                        }
                        // It keeps the lease while it works.
                        task = Some(dropped);
                    }
                }
                Some(()) = OptionFuture::from(again.as_mut()), if again.is_some() => {
                    again = None;
                    task = Some(self.begin(&stage, &current));
                }
            }
        }
    }

    /// Waits until dropped work has ended, so that it does not run twice at a time. Does not wait while the
    /// program stops.
    async fn outlive(
        &self,
        work: &mut AbortOnDrop<Result<(), String>>,
        wish: &mut watch::Receiver<Wish>,
    ) {
        if ends(work).await {
            return;
        }
        tracing::error!(partition = self.index, "the work of a lost partition blocks its thread");
        tokio::select! {
            _ = &mut work.0 => {}
            // Also when everything was dropped.
            _ = wish.wait_for(|wish| *wish == Wish::Stop) => {}
        }
    }

    /// Begins the work in a task of its own.
    fn begin(
        &self,
        stage: &Arc<watch::Sender<Stage>>,
        current: &Current,
    ) -> AbortOnDrop<Result<(), String>> {
        let owned =
            Owned { index: self.index, held: Arc::clone(&self.held), stage: stage.subscribe() };
        let work = Arc::clone(&self.work);
        let task = spawn(async move { work(owned).await }.in_current_span());
        current.set(task.abort_handle());
        if *stage.borrow() == Stage::Lost {
            task.abort();
        }
        AbortOnDrop(task)
    }

    /// Reports how the work ended; returns whether it succeeded.
    fn tell(&self, ended: Result<Result<(), String>, JoinError>) -> bool {
        let error = match ended {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error,
            Err(error) => panics::of(error)
                .map_or_else(|| "it was dropped".to_owned(), |text| format!("it panicked: {text}")),
        };
        tracing::error!(partition = self.index, error, "the work of a partition failed");
        false
    }

    fn clock(&self) -> &dyn Clock {
        self.account.clock()
    }
}

/// Drops the work; returns whether it ended soon.
async fn ends(work: &mut AbortOnDrop<Result<(), String>>) -> bool {
    work.0.abort();
    tokio::time::timeout(GRACE, &mut work.0).await.is_ok()
}
