//! A blob's lease as a lock: acquire, renew and release it; a holder that loses it stops.
//!
//! A lease alone cannot prevent a late write by a holder that was paused, because the pause may begin after
//! its last look at the clock. So each acquisition issues a **fencing token**, a number larger than all
//! before it. The protected resource stores the largest token it has seen and refuses smaller ones, as
//! [`Held::admits`] does.

use std::fmt;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use rowkey_client::blob::{Conditions, Content, Insertion, Lease, Written};
use rowkey_client::internals::shown;
use rowkey_client::{Blob, Clock, Error, ErrorKind, Result};

/// The metadata entry of the lock's blob that holds the last token.
const FENCE: &str = "fence";

/// A lock that programs on many machines share: the lease on a blob.
///
/// ```
/// use rowkey::patterns::lease_lock::{Guarded, LeaseLock};
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
/// The blob is created if it is missing; its container must exist. Use it only for the lock: writing or
/// deleting it removes the last token, which is stored in its metadata.
#[derive(Clone, Debug)]
pub struct LeaseLock {
    blob: Blob,
    term: Duration,
}

/// An acquired lock. It may have been lost in the meantime.
///
/// Dropping it does not release the lock, because that takes a request: call [`release`](Self::release).
/// Otherwise the lock is free when its term ends.
pub struct Held {
    lease: Lease,
    blob: Blob,
    term: Duration,
    token: u64,
    /// By [`Clock::elapsed`], which is not affected by changes of the date.
    until: Mutex<Duration>,
}

/// The result of work under the lock.
#[derive(Debug)]
#[must_use = "the lock was lost, and its work was dropped at an await"]
pub enum Guarded<T> {
    /// The work finished while the lock was held.
    Done(T),
    /// The lock was lost, and the work was dropped at its current await.
    Lost(Lost),
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It could not be renewed in time; another client may hold it.
    Expired,
    /// The service reports that the lease was broken, or that another client holds it.
    Taken,
}

impl LeaseLock {
    /// A lock that is the lease on `blob`, held for 30 seconds unless it is renewed.
    pub fn new(blob: Blob) -> Self {
        Self { blob, term: Duration::from_secs(30) }
    }

    /// Sets how long the lock stays taken when its holder dies: 15 to 60 seconds.
    #[must_use = "use the returned lock"]
    pub fn term(mut self, term: Duration) -> Self {
        self.term = term;
        self
    }

    /// The same lock with its own connections, as created by
    /// [`StorageAccount::with_own_connections`](rowkey_client::StorageAccount::with_own_connections).
    pub fn with_own_connections(&self) -> Result<Self> {
        let account = self.blob.account().with_own_connections()?;
        let blob = account.container(self.blob.container()).blob(self.blob.name());
        Ok(Self { blob: blob.with_options(self.blob.account().options().clone()), term: self.term })
    }

    /// The leased blob. Only holders may write it: [`Held::save`].
    pub fn blob(&self) -> &Blob {
        &self.blob
    }

    /// Acquires the lock, or returns `None` if another client holds it. Three requests, five the first time.
    ///
    /// Fails with [`ErrorKind::Leased`] if the lease was broken between two of them, and with
    /// [`ErrorKind::Invalid`] before anything is sent if the term is invalid for leases. [Lease
    /// Blob](https://learn.microsoft.com/rest/api/storageservices/lease-blob)
    ///
    /// ```
    /// # use rowkey::patterns::lease_lock::LeaseLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let locks = account.container("locks");
    /// # locks.create().await?;
    /// # let lock = LeaseLock::new(locks.blob("nightly-report"));
    /// let held = lock.try_acquire().await?.ok_or("another program holds it")?;
    /// assert!(lock.try_acquire().await?.is_none());
    /// assert!(held.release().await?);
    /// # Ok(()) }
    /// ```
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
                // No program should wait for a lock without a holder. If the release fails too, the lock is
                // free after its term.
                drop(lease.release().await);
                return Err(error);
            }
        };
        let until = Mutex::new(asked + self.term);
        Ok(Some(Held { lease, blob: self.blob.clone(), term: self.term, token, until }))
    }

    /// Acquires the lock, waiting until it is free. It tries again every fifth of the term. There is no
    /// queue: any of several waiting programs may be next.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use rowkey::patterns::lease_lock::LeaseLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let locks = account.container("locks");
    /// # locks.create().await?;
    /// # let lock = LeaseLock::new(locks.blob("nightly-report"));
    /// let lock = lock.term(Duration::from_secs(15));
    /// let held = lock.acquire().await?;
    /// held.renew().await?;
    /// assert!(held.remaining() > Duration::from_secs(10));
    /// # Ok(()) }
    /// ```
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
            // Another program was faster, and has already acquired it.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Leased) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Increments the token. No other program can, because both requests need the lease.
    async fn next_token(&self, lease: &Lease) -> Result<u64> {
        let leased = self.blob.with_lease(lease);
        let metadata = leased.properties().await?.map(|properties| properties.metadata);
        let last =
            metadata.into_iter().flatten().find(|(name, _)| name.eq_ignore_ascii_case(FENCE));
        let last = last.map_or(Some(0), |(_, value)| value.parse::<u64>().ok());
        let Some(token) = last.and_then(|last| last.checked_add(1)) else {
            // Restarting at one would let former holders write after later ones.
            let what = "the blob's metadata `fence` is not a number written by a lock";
            let error = Error::refused(ErrorKind::Decode, what);
            return Err(error.of("AcquireLock", self.blob.container()));
        };
        leased.set_metadata(&[(FENCE, &token.to_string())]).await?;
        Ok(token)
    }
}

impl Held {
    /// The fencing token: larger than that of every earlier holder.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns whether data last written under the token `seen` may be written under this one: no later
    /// holder has written it.
    ///
    /// ```
    /// # use rowkey::patterns::lease_lock::LeaseLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let locks = account.container("locks");
    /// # locks.create().await?;
    /// # let lock = LeaseLock::new(locks.blob("nightly-report"));
    /// let first = lock.acquire().await?;
    /// let seen = first.token(); // stored with what the holder writes
    /// first.release().await?;
    ///
    /// let second = lock.acquire().await?;
    /// assert!(second.admits(seen));
    /// assert!(!first.admits(second.token()), "a later holder has written");
    /// # Ok(()) }
    /// ```
    pub fn admits(&self, seen: u64) -> bool {
        seen <= self.token
    }

    /// How long the lock is certainly held unless it is broken; zero if it may be lost.
    ///
    /// Measured from before the request that acquired or renewed it was sent, so the lease ends later at the
    /// service. Measured by [`Clock::elapsed`], which is not affected by setting the machine's date, and
    /// which includes time for which the machine was suspended where its documentation says so.
    pub fn remaining(&self) -> Duration {
        let until = *self.until();
        until.saturating_sub(self.clock().elapsed())
    }

    /// Renews the term. Fails with [`ErrorKind::Leased`] if the lock is lost.
    pub async fn renew(&self) -> Result<()> {
        let asked = self.clock().elapsed();
        self.lease.renew().await?;
        *self.until() = asked + self.term;
        Ok(())
    }

    /// Runs `work` and renews the lock every third of its term. If the lock is lost, `work` is dropped at its
    /// current await.
    ///
    /// If the work must end in an orderly way, await [`lost`](Self::lost) beside it instead. Work that
    /// computes for long without an await cannot be stopped: it should check [`remaining`](Self::remaining),
    /// and write under its [`token`](Self::token).
    pub async fn guard<T>(&self, work: impl AsyncFnOnce(&Self) -> T) -> Guarded<T> {
        let (work, keeper) = (pin!(work(self)), pin!(self.lost()));
        match select(work, keeper).await {
            Either::Left((done, _)) => Guarded::Done(done),
            Either::Right((lost, _)) => Guarded::Lost(lost),
        }
    }

    /// Renews the lock every third of its term until it is lost, and returns how.
    ///
    /// For work that must be notified rather than dropped: await this beside it, and notify it of the result.
    /// [`guard`](Self::guard) does the same and drops the work.
    ///
    /// ```
    /// use futures_util::future::{Either, select};
    ///
    /// # use rowkey::patterns::lease_lock::LeaseLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let locks = account.container("locks");
    /// # locks.create().await?;
    /// # let lock = LeaseLock::new(locks.blob("nightly-report"));
    /// let held = lock.acquire().await?;
    /// let work = async { "a report" };
    /// match select(Box::pin(work), Box::pin(held.lost())).await {
    ///     Either::Left((report, _)) => assert_eq!(report, "a report"),
    ///     Either::Right((lost, _)) => return Err(lost.into()),
    /// }
    /// # Ok(()) }
    /// ```
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

    /// Reads the content that a holder last [saved](Self::save); empty if none has. One request under the
    /// lease, so never an older copy from the secondary.
    ///
    /// `modified` of its properties is the service's time of this or a later save, or of the acquisition.
    /// Fails with [`ErrorKind::Leased`] if the lock is lost.
    pub async fn load(&self) -> Result<Content> {
        self.blob.with_lease(&self.lease).get().await?.ok_or_else(|| {
            // The lease was deleted with it.
            Error::refused(ErrorKind::Leased, "the lock's blob was deleted")
                .of("LoadLock", self.blob.container())
        })
    }

    /// Saves data for the next holder, as the content of the lock's blob. One request.
    ///
    /// The service itself checks the lease: if the lock is lost, this fails with [`ErrorKind::Leased`] and
    /// nothing is written, however late the request arrives. Of two saves under one lease the one that
    /// arrives last wins.
    ///
    /// ```
    /// # use rowkey::patterns::lease_lock::LeaseLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let locks = account.container("locks");
    /// # locks.create().await?;
    /// # let lock = LeaseLock::new(locks.blob("nightly-report"));
    /// let held = lock.acquire().await?;
    /// held.save("done up to 2026-11-21").await?;
    /// held.release().await?;
    ///
    /// let next = lock.acquire().await?;
    /// assert_eq!(next.load().await?.bytes, "done up to 2026-11-21");
    /// # Ok(()) }
    /// ```
    pub async fn save(&self, content: impl Into<Bytes>) -> Result<Written> {
        let fence = self.token.to_string();
        self.blob.with_lease(&self.lease).put(content).metadata(&[(FENCE, &fence)]).send().await
    }

    /// Releases the lock; returns whether it was still held.
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
    /// The result of the work, if it finished.
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

shown! {
    /// Omits the lease's id.
    Held: token
}
