//! A blob's lease as a lock: taken, kept by renewing it, and given up; a holder that loses it stops.
//!
//! A lease alone cannot keep a holder that was paused from writing late: the pause may begin after
//! the last look at the clock. So each time the lock is taken it hands out a **fencing token**, a
//! number larger than all before it. What is protected remembers the largest it has seen and refuses
//! smaller ones, as [`Held::admits`] says.

use std::fmt;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use rowkey::blob::{Conditions, Content, Insertion, Lease, Written};
use rowkey::{Blob, Clock, Error, ErrorKind, Result};

/// The metadata of the lock's blob that holds the last token.
const FENCE: &str = "fence";

/// A lock that programs on many machines share: the lease on a blob.
///
/// ```
/// use rowkey_large::LeaseLock;
/// use rowkey_large::lease_lock::Guarded;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// # let locks = account.container("locks");
/// # locks.create().await?;
/// let lock = LeaseLock::new(locks.blob("nightly-report"));
/// if let Some(held) = lock.try_acquire().await? {
///     match held.guard(async |held| held.token()).await {
///         Guarded::Done(token) => println!("done under token {token}"),
///         Guarded::Lost(lost) => println!("another client is at it: {lost}"),
///     }
///     held.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// The blob is made when it is missing, in a container that exists. It is the lock's own: writing
/// or deleting it takes the last token away, which is kept in its metadata.
#[derive(Clone, Debug)]
pub struct LeaseLock {
    blob: Blob,
    term: Duration,
}

/// The lock, held by this program as far as it knows.
///
/// Dropping it does not release the lock: that takes a request, [`release`](Self::release). Without
/// it the lock is free when its term is over.
pub struct Held {
    lease: Lease,
    blob: Blob,
    term: Duration,
    token: u64,
    /// In the time that [`Clock::elapsed`] counts, which no change of the date moves.
    until: Mutex<Duration>,
}

/// What became of work under the lock.
#[derive(Debug)]
#[must_use = "work whose lock was lost was cut off at an await"]
pub enum Guarded<T> {
    /// The work came to its end while the lock was held.
    Done(T),
    /// The lock was lost, and the work dropped where it waited.
    Lost(Lost),
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It could not be renewed in time; another client may hold it.
    Expired,
    /// The service says that it was broken, or that another client holds it.
    Taken,
}

impl LeaseLock {
    /// The lock that is the lease on `blob`, held for 30 seconds unless it is renewed.
    pub fn new(blob: Blob) -> Self {
        Self { blob, term: Duration::from_secs(30) }
    }

    /// How long the lock stays taken when its holder dies: 15 to 60 seconds.
    #[must_use = "the lock itself does not change"]
    pub fn term(mut self, term: Duration) -> Self {
        self.term = term;
        self
    }

    /// The same lock with connections of its own, as
    /// [`StorageAccount::with_own_connections`](rowkey::StorageAccount::with_own_connections) makes them.
    pub fn with_own_connections(&self) -> Result<Self> {
        let account = self.blob.account().with_own_connections()?;
        let blob = account.container(self.blob.container()).blob(self.blob.name());
        Ok(Self { blob: blob.with_options(self.blob.account().options().clone()), term: self.term })
    }

    /// The blob whose lease it is. Holders alone may write it: [`Held::save`].
    pub fn blob(&self) -> &Blob {
        &self.blob
    }

    /// Takes the lock, or `None` when another client holds it. Three requests, five the first time.
    ///
    /// Fails with [`ErrorKind::Leased`] when the lease was broken between two of them, and with
    /// [`ErrorKind::Invalid`] for a term that leases do not have, before anything is sent.
    /// [Lease Blob](https://learn.microsoft.com/rest/api/storageservices/lease-blob)
    pub async fn try_acquire(&self) -> Result<Option<Held>> {
        let clock = self.blob.account().clock();
        let mut asked = clock.elapsed();
        let lease = match self.blob.acquire_lease(self.term).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.create().await?;
                asked = clock.elapsed();
                self.blob.acquire_lease(self.term).await?
            }
            lease => lease?,
        };
        let Some(lease) = lease else { return Ok(None) };
        let token = match self.next_token(&lease).await {
            Ok(token) => token,
            Err(error) => {
                // No program should wait for a lock without a holder. If this fails as well, its term
                // ends it.
                drop(lease.release().await);
                return Err(error);
            }
        };
        let until = Mutex::new(asked + self.term);
        Ok(Some(Held { lease, blob: self.blob.clone(), term: self.term, token, until }))
    }

    /// Takes the lock, waiting until it is free. It looks every fifth of the term, and does not
    /// queue: among several that wait, any may be next.
    pub async fn acquire(&self) -> Result<Held> {
        loop {
            if let Some(held) = self.try_acquire().await? {
                return Ok(held);
            }
            self.blob.account().clock().sleep(self.term / 5).await;
        }
    }

    async fn create(&self) -> Result<()> {
        let missing = self.blob.with_conditions(Conditions::missing());
        match missing.put("").insert().await {
            Ok(Insertion::Inserted(_) | Insertion::Exists) => Ok(()),
            // Another program was faster, and has taken it already.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Leased) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Counts one up. No other program can: both requests need the lease.
    async fn next_token(&self, lease: &Lease) -> Result<u64> {
        let leased = self.blob.with_lease(lease);
        let metadata = leased.properties().await?.map(|properties| properties.metadata);
        let last =
            metadata.into_iter().flatten().find(|(name, _)| name.eq_ignore_ascii_case(FENCE));
        let last = last.map_or(Some(0), |(_, value)| value.parse::<u64>().ok());
        let Some(token) = last.and_then(|last| last.checked_add(1)) else {
            // Counting from one again would let holders of before write after those that follow.
            let what = "the blob's metadata `fence` is not the number that locks keep there";
            let error = Error::refused(ErrorKind::Decode, what);
            return Err(error.of("AcquireLock", self.blob.container()));
        };
        leased.set_metadata(&[(FENCE, &token.to_string())]).await?;
        Ok(token)
    }
}

impl Held {
    /// The fencing token: larger than that of everybody who held the lock before.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Whether what was last written under the token `seen` may be written under this one: a later
    /// holder has not been there.
    pub fn admits(&self, seen: u64) -> bool {
        seen <= self.token
    }

    /// How long the lock is held for certain if it is not broken; zero when it may be lost.
    ///
    /// Counted from before the request that took or renewed it was sent, so the service's count ends
    /// later; by [`Clock::elapsed`], which setting the machine's date does not move, and which counts the
    /// time for which the machine was suspended where its documentation says so.
    pub fn remaining(&self) -> Duration {
        let until = *self.until();
        until.saturating_sub(self.clock().elapsed())
    }

    /// Begins the term anew. Fails with [`ErrorKind::Leased`] when the lock is lost.
    pub async fn renew(&self) -> Result<()> {
        let asked = self.clock().elapsed();
        self.lease.renew().await?;
        *self.until() = asked + self.term;
        Ok(())
    }

    /// Does `work` and renews the lock meanwhile, every third of its term. When the lock is lost,
    /// `work` is dropped at the await it has reached.
    ///
    /// Work that has to end in an orderly way awaits [`lost`](Self::lost) beside it instead.
    /// Work that computes for long without an await cannot be stopped: let it look at
    /// [`remaining`](Self::remaining), and write under its [`token`](Self::token).
    pub async fn guard<T>(&self, work: impl AsyncFnOnce(&Self) -> T) -> Guarded<T> {
        let (work, keeper) = (pin!(work(self)), pin!(self.lost()));
        match select(work, keeper).await {
            Either::Left((done, _)) => Guarded::Done(done),
            Either::Right((lost, _)) => Guarded::Lost(lost),
        }
    }

    /// Renews the lock every third of its term until it is lost, and says how.
    ///
    /// For work that is to be told rather than dropped: await this beside it, and tell it what came
    /// out. [`guard`](Self::guard) does the same and drops the work.
    pub async fn lost(&self) -> Lost {
        let mut pause = self.term / 3;
        loop {
            self.clock().sleep(pause.min(self.remaining())).await;
            let left = self.remaining();
            if left.is_zero() {
                return Lost::Expired;
            }
            let (renewal, end) = (pin!(self.renew()), self.clock().sleep(left));
            match select(renewal, end).await {
                Either::Left((Ok(()), _)) => pause = self.term / 3,
                Either::Left((Err(error), _)) if error.kind() == ErrorKind::Leased => {
                    return Lost::Taken;
                }
                Either::Left((Err(error), _)) => {
                    tracing::warn!(%error, "the lock could not be renewed yet");
                    pause = self.term / 15;
                }
                Either::Right(((), _)) => return Lost::Expired,
            }
        }
    }

    /// Reads what a holder last [saved](Self::save); empty if none has. One request, under the lease, which an
    /// older copy on the secondary does not have.
    ///
    /// `modified` of its properties is the service's time at which this or a later save happened, or the lock
    /// was taken. Fails with [`ErrorKind::Leased`] when the lock is lost.
    pub async fn load(&self) -> Result<Content> {
        self.blob.with_lease(&self.lease).get().await?.ok_or_else(|| {
            // The lease went with it.
            Error::refused(ErrorKind::Leased, "the lock's blob was deleted")
                .of("LoadLock", self.blob.container())
        })
    }

    /// Saves what the next holder is to find, as the content of the lock's blob. One request.
    ///
    /// The service itself compares the lease: when the lock is lost, this fails with
    /// [`ErrorKind::Leased`] and nothing is written, however late it lands. Of two saves under one lease the one
    /// that lands last stays.
    pub async fn save(&self, content: impl Into<Bytes>) -> Result<Written> {
        let fence = self.token.to_string();
        self.blob.with_lease(&self.lease).put(content).metadata(&[(FENCE, &fence)]).send().await
    }

    /// Gives the lock up; says whether it was still held. It is not held any more.
    pub async fn release(&self) -> Result<bool> {
        *self.until() = Duration::ZERO;
        self.lease.clone().release().await
    }

    fn clock(&self) -> &dyn Clock {
        self.blob.account().clock()
    }

    fn until(&self) -> std::sync::MutexGuard<'_, Duration> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Guarded<T> {
    /// What the work returned, if it came to its end.
    pub fn done(self) -> Option<T> {
        match self {
            Self::Done(done) => Some(done),
            Self::Lost(_) => None,
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the lock could not be renewed in time",
            Self::Taken => "the lock was broken or taken by another client",
        })
    }
}

impl std::error::Error for Lost {}

impl fmt::Debug for Held {
    /// Does not show the lease's id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("token", &self.token).finish_non_exhaustive()
    }
}
