//! The loop of a program: looking at the leases, acquiring and handing over, and leaving.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rowkey_client::{ClientOptions, Clock, Container, Error, ErrorCode, ErrorKind, Result};
use rowkey_patterns::lease_lock::{Held, LeaseLock, Lost};
use tokio::sync::watch;

use super::hold::{Holding, Wish};
use super::view::{MEMBERS, View, member};
use super::{Partitions, Work};
use crate::renewal_thread::{self, AbortOnDrop};
use crate::task::new_id;

/// How many times more often a program looks while it owns more or less than its share.
const HURRY: u32 = 4;

/// The blobs of a set, with connections that only the renewal thread uses.
#[derive(Debug)]
struct Set {
    container: Container,
    folder: String,
    count: u32,
    partitions: Partitions,
}

/// This program among the others.
struct Member {
    name: String,
    held: Arc<Held>,
    renewal: AbortOnDrop<Lost>,
}

/// What one look at the leases found and did.
#[derive(Default)]
struct Look {
    member: Option<Member>,
    acquired: Vec<(u32, Held)>,
    gives_up: usize,
    is_settled: bool,
    failure: Option<Error>,
}

/// The partitions of this program, the one that was acquired last at the end.
#[derive(Default)]
struct Own(Vec<(u32, watch::Sender<Wish>)>);

impl Own {
    fn all(&self) -> Vec<u32> {
        self.0.iter().map(|(index, _)| *index).collect()
    }

    /// Hands over the partitions that were acquired last.
    fn hand_over(&self, count: usize) {
        let kept = self.0.iter().rev().filter(|(_, wish)| *wish.borrow() == Wish::Keep);
        for (_, wish) in kept.take(count) {
            wish.send_replace(Wish::HandOver);
        }
    }

    fn stop(&self) {
        for (_, wish) in &self.0 {
            wish.send_replace(Wish::Stop);
        }
    }

    fn is_moving(&self) -> bool {
        self.0.iter().any(|(_, wish)| *wish.borrow() != Wish::Keep)
    }
}

impl Partitions {
    /// Owns and works until `shutdown`, with the types of the work erased.
    pub(super) async fn run(
        &self,
        work: Work,
        mut shutdown: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Result<()> {
        let set = Arc::new(self.set()?);
        let mut member = None;
        let mut own = Own::default();
        let mut holdings = FuturesUnordered::<BoxFuture<'_, (u32, Result<()>)>>::new();
        let (mut looking, mut wait): (Option<AbortOnDrop<Look>>, Option<BoxFuture<'_, ()>>) =
            (None, None);
        let mut failure: Option<Error> = None;
        let mut stopping = false;
        loop {
            if stopping && looking.is_none() && own.0.is_empty() {
                break;
            }
            if !stopping && looking.is_none() && wait.is_none() {
                let (set, member) = (Arc::clone(&set), member.take());
                let (owned, is_moving) = (own.all(), own.is_moving());
                looking = Some(renewal_thread::spawn(async move {
                    set.look(member, &owned, is_moving).await
                })?);
            }
            tokio::select! {
                biased;
                () = shutdown.as_mut(), if !stopping => stopping = true,
                Some((index, end)) = holdings.next(), if !holdings.is_empty() => {
                    own.0.retain(|(other, _)| *other != index);
                    tracing::info!(partition = index, "a partition is no longer owned");
                    failure = failure.or(end.err());
                }
                Some(look) = OptionFuture::from(looking.as_mut().map(|look| &mut look.0)),
                    if looking.is_some() =>
                {
                    let look = look.unwrap_or_else(|_| {
                        let what = "a look at the leases of a set did not end";
                        let failure = Some(Error::refused(ErrorKind::Unexpected, what));
                        Look { failure, ..Look::default() }
                    });
                    (looking, member) = (None, look.member);
                    for (index, held) in look.acquired {
                        let (tells, wish) = watch::channel(Wish::Keep);
                        own.0.push((index, tells));
                        holdings.push(self.hold(index, held, Arc::clone(&work), wish));
                    }
                    own.hand_over(look.gives_up);
                    match look.failure {
                        Some(error) if passes(&error) => {
                            tracing::warn!(%error, "the leases of a set cannot be looked at yet");
                        }
                        lasting => failure = failure.or(lasting),
                    }
                    let every = self.look_every / if look.is_settled { 1 } else { HURRY };
                    wait = Some(self.clock().sleep(every));
                }
                Some(()) = OptionFuture::from(wait.as_mut()), if !stopping && wait.is_some() => {
                    wait = None;
                }
            }
            stopping |= failure.is_some();
            if stopping {
                own.stop();
            }
        }
        if let Some(member) = member {
            leave(&set, member).await;
        }
        failure.map_or(Ok(()), Err)
    }

    /// Does the work of a partition until it is lost or given up.
    fn hold(
        &self,
        index: u32,
        held: Held,
        work: Work,
        wish: watch::Receiver<Wish>,
    ) -> BoxFuture<'static, (u32, Result<()>)> {
        tracing::info!(partition = index, token = held.token(), "a partition is owned");
        let (held, account) = (Arc::new(held), self.container.account().clone());
        let (deadline, again) = (self.shutdown_deadline, self.again);
        let holding = Holding { index, held, work, account, deadline, again };
        holding.run(wish).map(move |end| (index, end)).boxed()
    }

    /// The set with connections of the renewal thread. It reads the primary.
    fn set(&self) -> Result<Set> {
        let account = self.container.account().with_own_connections()?;
        let options = self.container.account().options().clone();
        let primary = ClientOptions { read_from_secondary: false, ..options };
        let container = account.container(self.container.name()).with_options(primary);
        let (folder, count) = (self.folder(), self.count);
        Ok(Set { container, folder, count, partitions: self.clone() })
    }

    fn clock(&self) -> &dyn Clock {
        self.container.account().clock()
    }
}

impl Set {
    /// Looks at the leases and acquires the partitions that the program should own. Runs on the renewal thread.
    async fn look(&self, member: Option<Member>, owned: &[u32], is_moving: bool) -> Look {
        let mut look = Look::default();
        // A program that has lost its lease is not counted by the others, and comes anew.
        let (member, is_new) = match member.filter(|member| !member.renewal.0.is_finished()) {
            Some(member) => (member, false),
            None => match self.join().await {
                Ok(member) => (member, true),
                Err(error) => return Look { failure: Some(error), ..look },
            },
        };
        let name = member.name.clone();
        look.member = Some(member);
        let blobs = self.container.blobs().starting_with(&self.folder).all().await;
        let view = match blobs {
            Ok(blobs) => View::of(&self.folder, self.count, blobs),
            Err(error) => return Look { failure: Some(error), ..look },
        };
        if is_new && let Err(error) = view.agrees(self.count) {
            let error = error.of("Partitions", self.container.name());
            return Look { failure: Some(error), ..look };
        }
        if view.members.first() == Some(&name) {
            self.bury(&view.gone).await;
        }
        let plan = view.plan(&name, self.count, owned);
        look.is_settled = plan.is_settled;
        for index in plan.acquire {
            if look.acquired.len() >= plan.wanted {
                break;
            }
            match self.lock(&index.to_string()).try_acquire().await {
                Ok(Some(held)) => look.acquired.push((index, held)),
                // Another program was faster.
                Ok(None) => {}
                Err(error) => {
                    look.failure = Some(error);
                    break;
                }
            }
        }
        // While one of them still moves, that one is part of the excess.
        look.gives_up = if is_moving { 0 } else { plan.gives_up };
        look
    }

    /// Takes part: acquires the lease that the others count.
    async fn join(&self) -> Result<Member> {
        let name = member(self.count, new_id()?);
        let held = Arc::new(self.lock(&format!("{MEMBERS}{name}")).acquire().await?);
        let keeping = Arc::clone(&held);
        let renewal = renewal_thread::spawn(async move { keeping.lost().await })?;
        Ok(Member { name, held, renewal })
    }

    /// Deletes the blobs of programs that have ended. A lease on one of them makes that fail.
    async fn bury(&self, gone: &[String]) {
        for name in gone {
            let blob = self.container.blob(&format!("{}{MEMBERS}{name}", self.folder));
            if let Err(error) = blob.delete_if_exists().await {
                tracing::debug!(%error, "the blob of a program that has ended is not deleted yet");
            }
        }
    }

    fn lock(&self, name: &str) -> LeaseLock {
        let blob = self.container.blob(&format!("{}{name}", self.folder));
        LeaseLock::new(blob).term(self.partitions.term)
    }
}

/// Leaves, so that the others take over at their next look.
async fn leave(set: &Arc<Set>, member: Member) {
    let Member { name, held, renewal } = member;
    drop(renewal);
    let set = Arc::clone(set);
    let left = renewal_thread::run(async move {
        held.release().await?;
        set.bury(&[name]).await;
        Ok(())
    });
    if let Err(error) = left.await {
        tracing::debug!(%error, "the other programs count this one until its lease ends");
    }
}

/// Returns whether the next look may succeed.
fn passes(error: &Error) -> bool {
    // Another program took the blob of this one, which it had just created, for that of one that has ended.
    let was_buried = error.code() == Some(&ErrorCode::BLOB_NOT_FOUND);
    error.is_retryable() || error.kind() == ErrorKind::Leased || was_buried
}
