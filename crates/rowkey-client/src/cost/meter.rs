//! Meters: counters of usage that are attached to handles or to futures.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderValue;

use super::class::{Class, is_billed};
use super::usage::Usage;
use crate::telemetry::tally::{self, Tally};
use crate::telemetry::{Hook, Telemetry as _, metrics};

/// Counts what requests use: all requests of an account or a handle that it is [attached](crate::StorageAccount::with_meter)
/// to, and all requests of a future in its [`scope`](Self::scope).
///
/// Clones count together. A request is counted once by each meter, when its response was read, and also if its future
/// is dropped or panics meanwhile: the service may have carried it out. Each attempt of a call is a request. Requests of
/// tokens, which are not sent to the storage account, are not counted.
///
/// Without a meter, a request costs a few instructions more; with one, it takes a lock for the addition.
///
/// ```
/// use rowkey::cost::{Class, Meter};
/// use rowkey::{DynamicEntity, Key, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let (all, reads) = (Meter::new(), Meter::new());
/// let orders = account.table("orders").with_meter(&all);
/// orders.create().await?;
/// reads.scope(orders.get(Key::<DynamicEntity>::new("contoso", "1"))).await?;
/// assert_eq!(reads.usage().transactions(Class::TableRead), 1);
/// assert_eq!(all.usage().requests(), 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Meter(Arc<Mutex<Counted>>);

#[derive(Default)]
struct Counted {
    all: Usage,
    by_declaration: BTreeMap<Arc<str>, Usage>,
}

tokio::task_local! {
    static SCOPES: Meters;
    static DECLARATION: Arc<str>;
}

impl Meter {
    /// Returns a meter at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was used since the meter was created, or since the last [`take`](Self::take).
    pub fn usage(&self) -> Usage {
        self.counted().all
    }

    /// What the declarations of stores used, by their names: requests that are sent because a type has an index elsewhere,
    /// a unique value, a view, a field in a blob or another declaration.
    ///
    /// Rows that a declaration adds to the transaction of the entity cost no request and are not listed. A request that
    /// several declarations share is listed under their names joined by `+`, and one for a declaration that the program does
    /// not have, but whose rows it met, under [`OTHER`](crate::telemetry::OTHER). The rest of [`usage`](Self::usage) are the
    /// transactions of the entities, reads, and the announcements of writes.
    ///
    /// ```
    /// use rowkey::cost::{Class, Meter};
    /// use rowkey::store::Store;
    /// use rowkey::{Entity, StorageAccount};
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
    /// #[entity(unique(name = by_email, value = "{email:lower}"))]
    /// struct User { tenant: String, id: u32, email: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let meter = Meter::new();
    /// let account = account.with_meter(&meter);
    /// let users = Store::<User>::builder(account.table("users")).queue(account.queue("users")).build()?;
    /// users.create_if_missing().await?;
    /// users.insert(&User { tenant: "contoso".into(), id: 1, email: "ada@contoso.com".into() }).await?;
    /// assert_eq!(meter.by_declaration()["by_email"].transactions(Class::TableWrite), 1);
    /// # Ok(()) }
    /// ```
    pub fn by_declaration(&self) -> BTreeMap<String, Usage> {
        let counted = self.counted();
        counted.by_declaration.iter().map(|(name, usage)| (name.to_string(), *usage)).collect()
    }

    /// Returns what was used, and sets the meter to zero.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let meter = rowkey::cost::Meter::new();
    /// account.with_meter(&meter).table("orders").create().await?;
    /// assert_eq!(meter.take().requests(), 1);
    /// assert!(meter.usage().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn take(&self) -> Usage {
        std::mem::take(&mut *self.counted()).all
    }

    /// Runs a future and counts all requests that are sent while it is polled.
    ///
    /// A scope in a scope adds to both meters. Tasks that the future spawns do not inherit the scope, and workers of
    /// `rowkey::worker` run handlers in tasks of their own: attach a meter to the account for those.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// use rowkey::cost::Meter;
    ///
    /// let (request, call) = (Meter::new(), Meter::new());
    /// request
    ///     .scope(async {
    ///         account.table("orders").create().await?;
    ///         call.scope(account.table("customers").create()).await
    ///     })
    ///     .await?;
    /// assert_eq!((request.usage().requests(), call.usage().requests()), (2, 1));
    /// # Ok(()) }
    /// ```
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        let future = Box::pin(future);
        async {
            let outer = SCOPES.try_with(Clone::clone).unwrap_or_default();
            SCOPES.scope(outer.with(self), future).await
        }
    }

    fn add(&self, usage: Usage, declaration: Option<&Arc<str>>) {
        let mut counted = self.counted();
        counted.all += usage;
        if let Some(name) = declaration {
            *counted.by_declaration.entry(Arc::clone(name)).or_default() += usage;
        }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meter").field(&self.usage()).finish()
    }
}

/// Runs a future whose requests are sent because of the declaration `name`.
pub(crate) fn declared<F: Future>(name: Arc<str>, future: F) -> impl Future<Output = F::Output> {
    // Boxed, so that futures that contain this one do not grow with each layer.
    DECLARATION.scope(name, Box::pin(future))
}

/// The meters of a handle or of a scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meters(Option<Arc<[Meter]>>);

impl Meters {
    /// These and one more. A meter that is among them already is not added again.
    pub(crate) fn with(&self, meter: &Meter) -> Self {
        if self.has(meter) {
            return self.clone();
        }
        let all = self.iter().chain([meter]);
        Self(Some(all.cloned().collect()))
    }

    fn has(&self, meter: &Meter) -> bool {
        self.iter().any(|other| Arc::ptr_eq(&other.0, &meter.0))
    }

    fn iter(&self) -> impl Iterator<Item = &Meter> {
        self.0.as_deref().unwrap_or_default().iter()
    }
}

/// What counts one request: the meters of its handle, those of the scopes it is sent in, and the receipt of the call.
#[derive(Clone, Debug)]
struct Counters {
    attached: Meters,
    scopes: Meters,
    declaration: Option<Arc<str>>,
    tally: Option<Arc<Tally>>,
}

impl Counters {
    fn add(&self, usage: Usage) {
        let scopes = self.scopes.iter().filter(|meter| !self.attached.has(meter));
        for meter in self.attached.iter().chain(scopes) {
            meter.add(usage, self.declaration.as_ref());
        }
    }
}

/// A request that is being sent, which is counted when this is dropped.
#[derive(Debug)]
pub(crate) struct Counting<'a> {
    counters: Counters,
    telemetry: &'a Hook,
    request: Request,
    /// The ids of the client, for receipts, and of the service.
    ids: (Option<HeaderValue>, Option<Box<str>>),
    response: Response,
    end: End,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its future was dropped: the service may have carried it out.
    Dropped,
    /// The service could not be reached.
    NotSent,
    Over,
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) operation: &'static str,
    /// The number of deletions in a batch of blobs.
    pub(crate) parts: Option<usize>,
    /// The bytes of its body.
    pub(crate) sent: u64,
}

/// What a response tells about the bill. The default is that of a request without one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: Option<u16>,
    /// Whether the signature or the token was refused.
    pub(crate) is_unauthenticated: bool,
    /// Whether it returns messages of a queue.
    pub(crate) returns_messages: bool,
    /// The bytes of the body that were read.
    pub(crate) received: u64,
}

impl<'a> Counting<'a> {
    /// Begins to count a request; `None` if nothing counts it.
    pub(crate) fn begin(
        attached: &Meters,
        telemetry: &'a Hook,
        request: Request,
        id: &HeaderValue,
    ) -> Option<Self> {
        let scopes = SCOPES.try_with(Clone::clone).ok();
        let tally = tally::current();
        let is_metered = attached.0.is_some() || scopes.is_some() || tally.is_some();
        if !is_metered && !telemetry.is_attached() {
            return None;
        }
        let ids = (tally.is_some().then(|| id.clone()), None);
        let counters = Counters {
            attached: attached.clone(),
            scopes: scopes.unwrap_or_default(),
            declaration: DECLARATION.try_with(Arc::clone).ok(),
            tally,
        };
        let response = Response::default();
        Some(Self { counters, telemetry, request, ids, response, end: End::Dropped })
    }

    /// Counts the request with its response, and the id that the service gave to it.
    pub(crate) fn end(mut self, response: Response, id: Option<&str>) {
        (self.response, self.end) = (response, End::Over);
        if self.counters.tally.is_some() {
            self.ids.1 = id.map(Into::into);
        }
    }

    /// Counts nothing: the service could not be reached.
    pub(crate) fn was_not_sent(mut self) {
        self.end = End::NotSent;
    }

    /// Returns what counts the rest of the response.
    pub(crate) fn received(&self) -> Received {
        Received(self.counters.clone())
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let Response { status, is_unauthenticated, returns_messages, received } = self.response;
        if self.end == End::NotSent {
            return;
        }
        let Request { operation, parts, sent } = self.request;
        if let Some(tally) = &self.counters.tally {
            let (client_id, id) = &self.ids;
            // Of two requests for a slow read, the one that is dropped is not the one that was answered.
            let client_id = client_id.as_ref().filter(|_| self.end == End::Over);
            let client_id = client_id.and_then(|id| id.to_str().ok());
            tally.change(|sum| {
                sum.sent(1, sent);
                sum.answered(id.as_deref(), client_id, received);
            });
        }
        let Some(class) = Class::of(operation, returns_messages) else { return };
        let is_carried_out = status.is_none_or(|status| (200..300).contains(&status));
        let parts = parts.filter(|_| is_carried_out).map(|parts| (Class::BlobDelete, parts as u64));
        let usage = Usage::of_request(class, parts, is_billed(status, is_unauthenticated));
        self.counters.add(usage.with_bytes(sent, received));
        for (class, count) in usage.iter() {
            let (service, class) = (class.service(), class.name());
            let labels = [("rowkey.billing.service", service), ("rowkey.billing.class", class)];
            self.telemetry.count(metrics::TRANSACTIONS.name, &labels, count);
        }
    }
}

/// Counts the bytes of a body that is read piece by piece.
#[derive(Debug)]
pub(crate) struct Received(Counters);

impl Received {
    pub(crate) fn add(&self, bytes: u64) {
        self.0.add(Usage::default().with_bytes(0, bytes));
        if let Some(tally) = &self.0.tally {
            tally.change(|sum| sum.answered(None, None, bytes));
        }
    }
}
