//! Leases: the exclusive right to write a blob or to delete a container.

use std::fmt;
use std::time::Duration;

use rowkey_wire::blob::LeaseAction;
use uuid::Uuid;

use super::container::{Container, incomplete};
use super::handle::{Blob, check};
use crate::account::StorageAccount;
use crate::blob::wire::decode;
use crate::blob::wire::encode::{self, BlobPath, Conditions as Wire};
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::transport::{Call, Reply, Safety};

/// The possible duration of a lease that ends, in seconds.
const SECONDS: std::ops::RangeInclusive<u64> = 15..=60;
/// The longest break period, in seconds.
const MAX_BREAK_SECONDS: u64 = 60;

/// A lease that this client holds, unless it was lost.
///
/// While it lasts, only its holder can write the blob, through
/// [`Blob::with_lease`](super::Blob::with_lease). It expires unless it is [renewed](Self::renew).
/// It is not renewed automatically, and dropping this value does not release it.
///
/// A program that works under a lease must stop when an operation fails with [`ErrorKind::Leased`]: the lease
/// is lost, and another client may hold it.
///
/// ```
/// use std::time::Duration;
/// use rowkey::ErrorKind;
///
/// # use rowkey::StorageAccount;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let files = account.container("files");
/// # files.create().await?;
/// # let blob = files.blob("notes/1.txt");
/// blob.put("first").send().await?;
/// let mut lease = blob.acquire_lease(Duration::from_secs(30)).await?.ok_or("it is held")?;
/// assert!(blob.acquire_lease(Duration::from_secs(30)).await?.is_none());
/// assert_eq!(blob.put("second").send().await.unwrap_err().kind(), ErrorKind::Leased);
///
/// blob.with_lease(&lease).put("second").send().await?;
/// lease.renew().await?;
/// lease.change().await?;
/// assert!(lease.release().await?);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Lease {
    target: Target,
    id: Uuid,
}

/// The target of a lease.
#[derive(Clone)]
pub(super) struct Target {
    account: StorageAccount,
    container: Box<str>,
    blob: Option<Box<str>>,
    conditions: Wire,
}

macro_rules! leases {
    ($($handle:ident $what:literal)*) => {$(
        impl $handle {
            #[doc = concat!("Takes the lease on the ", $what, " for `duration`, 15 to 60 seconds; `None`:")]
            /// until it is released or broken.
            ///
            /// Returns `None` if another client holds it, or if it was broken and has not ended yet.
            /// [Lease Blob](https://learn.microsoft.com/rest/api/storageservices/lease-blob)
            pub async fn acquire_lease(
                &self,
                duration: impl Into<Option<Duration>> + Send,
            ) -> Result<Option<Lease>> {
                let duration = duration.into();
                self.target().acquire(duration).await
            }

            /// Returns the lease with this id, which was acquired elsewhere or earlier. Nothing is
            /// sent.
            ///
            /// Fails with [`ErrorKind::Invalid`] if the id is not a GUID.
            pub fn lease(&self, id: &str) -> Result<Lease> {
                let id = Uuid::try_parse(id);
                let id = id.map_err(|_| Error::invalid("the id of a lease must be a GUID"))?;
                Ok(Lease { target: self.target(), id })
            }

            /// Breaks the lease of any holder: it ends after `period` at the latest, at most 60 seconds;
            /// zero: at once; `None`: when it expires, or at once if it is infinite. It cannot be renewed
            /// meanwhile.
            ///
            /// Returns how long it still lasts, or `None` if there is no lease.
            ///
            /// ```
            /// use std::time::Duration;
            ///
            /// # use rowkey::StorageAccount;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let server = rowkey_emulator::Server::start().await?;
            /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
            /// # let files = account.container("files");
            /// # files.create().await?;
            /// # let blob = files.blob("notes/1.txt");
            /// # blob.put("first").send().await?;
            /// let lease = blob.acquire_lease(None).await?.ok_or("another client holds it")?;
            /// assert_eq!(blob.break_lease(Duration::ZERO).await?, Some(Duration::ZERO));
            /// assert!(lease.renew().await.is_err());
            /// blob.put("second").send().await?;
            /// # Ok(()) }
            /// ```
            pub async fn break_lease(
                &self,
                period: impl Into<Option<Duration>> + Send,
            ) -> Result<Option<Duration>> {
                let period = period.into();
                self.target().break_after(period).await
            }
        }
    )*};
}

leases! { Blob "blob" Container "container" }

impl Lease {
    /// Returns the lease's id, a GUID. Anyone who knows the id can act as the holder, so keep it
    /// secret.
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// Renews the lease: its duration starts again. Fails with [`ErrorKind::Leased`] if it was
    /// lost.
    pub async fn renew(&self) -> Result<()> {
        self.target.send("RenewLease", LeaseAction::Renew(self.id), &[]).await?;
        Ok(())
    }

    /// Changes the lease's id. The previous id is no longer valid.
    pub async fn change(&mut self) -> Result<()> {
        let proposed = self.target.account.pipeline().guid();
        let change = LeaseAction::Change { lease: self.id, proposed };
        self.target.send("ChangeLease", change, &[]).await?;
        self.id = proposed;
        Ok(())
    }

    /// Releases the lease, so that others can acquire it at once. Returns whether it was still
    /// held.
    pub async fn release(self) -> Result<bool> {
        let release = LeaseAction::Release(self.id);
        match self.target.send("ReleaseLease", release, &[409]).await {
            Ok(_) => Ok(true),
            // Another client holds it now, or an earlier attempt has released it.
            Err(error) if error.kind() == ErrorKind::Leased => {
                Ok(error.outcome() == Outcome::Unknown)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn guid(&self) -> Uuid {
        self.id
    }
}

impl Target {
    pub(super) fn container(account: StorageAccount, container: &str, conditions: Wire) -> Self {
        Self { account, container: container.into(), blob: None, conditions }
    }

    pub(super) fn blob(
        account: StorageAccount,
        container: &str,
        blob: &str,
        conditions: Wire,
    ) -> Self {
        Self { account, container: container.into(), blob: Some(blob.into()), conditions }
    }

    async fn acquire(self, duration: Option<Duration>) -> Result<Option<Lease>> {
        let seconds = match duration {
            None => None,
            Some(duration) if SECONDS.contains(&duration.as_secs()) => {
                u32::try_from(duration.as_secs()).ok()
            }
            Some(_) => {
                let error = Error::invalid("a lease lasts 15 to 60 seconds, or without an end");
                return Err(error.of("AcquireLease", &self.container));
            }
        };
        // With a proposed id, a retried attempt finds its own lease instead of a conflict.
        let id = self.account.pipeline().guid();
        let acquire = LeaseAction::Acquire { seconds, proposed: Some(id) };
        match self.send("AcquireLease", acquire, &[409]).await {
            Ok(_) => Ok(Some(Lease { target: self, id })),
            Err(error) if error.kind() == ErrorKind::Leased => match error.outcome() {
                Outcome::Unknown => Err(error),
                _ => Ok(None),
            },
            Err(error) => Err(error),
        }
    }

    async fn break_after(self, period: Option<Duration>) -> Result<Option<Duration>> {
        let period = match period.map(|period| period.as_secs()) {
            Some(seconds) if seconds > MAX_BREAK_SECONDS => {
                let error = Error::invalid("a lease is broken within 60 seconds");
                return Err(error.of("BreakLease", &self.container));
            }
            period => period.and_then(|seconds| u32::try_from(seconds).ok()),
        };
        match self.send("BreakLease", LeaseAction::Break { period }, &[409]).await {
            Ok(reply) => match decode::lease_time(&reply.headers) {
                Some(seconds) => Ok(Some(Duration::from_secs(seconds.into()))),
                None => Err(incomplete(&self.call("BreakLease"), &reply)),
            },
            Err(error) if error.kind() == ErrorKind::Leased => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn send(
        &self,
        operation: &'static str,
        lease: LeaseAction,
        expected: &'static [u16],
    ) -> Result<Reply> {
        let call = self.call(operation).expecting(expected);
        check(&call, self.blob.as_deref())?;
        let target = match &self.blob {
            Some(blob) => encode::Target::Blob(BlobPath { container: &self.container, blob }),
            None => encode::Target::Container(&self.container),
        };
        let request = encode::lease(target, lease, &self.conditions);
        self.account.pipeline().send(request, call).await
    }

    fn call(&self, operation: &'static str) -> Call<'_> {
        Call::new(operation, &self.container, Safety::Conditional)
    }
}

impl fmt::Debug for Lease {
    /// Does not show the id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("container", &self.target.container).finish_non_exhaustive()
    }
}
