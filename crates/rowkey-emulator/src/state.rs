//! The state shared by all connections of a server: accounts, clock and settings.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use rowkey_wire::auth::Resource;
use rowkey_wire::auth::{Service, SigningKey};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::{CorsRule, SignedIdentifier};

use crate::clock::ServerClock;
use crate::connection::KeepAlive;
use crate::control::Control;
use crate::durable::{Durable, Records, StoreGuard};
use crate::hosts::Hosts;
use crate::op::entity::Strictness;
use crate::respond::RequestIds;
use crate::route::Route;
use crate::secondary::Replica;
use crate::store;
use crate::store::Names;
use crate::store::blob::Blobs;
use crate::store::queue::Queues;

/// The shared state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) accounts: Vec<Account>,
    pub(crate) clock: ServerClock,
    pub(crate) strict: Strictness,
    pub(crate) names: Names,
    pub(crate) ids: RequestIds,
    pub(crate) control: Control,
    pub(crate) connections: Connections,
    /// The server's host names.
    pub(crate) hosts: Hosts,
    /// Whether the strings to sign of rejected requests are logged.
    pub(crate) debug_signing: bool,
    pub(crate) keep_alive: KeepAlive,
    /// Whether a host may name an account.
    pub(crate) product_style: bool,
    /// The durable store, if the data is kept on disk.
    pub(crate) durable: Option<Durable>,
}

/// The number of open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections(AtomicUsize);

/// Counts a connection until dropped.
pub(crate) struct Open<'a>(&'a Connections);

impl Connections {
    pub(crate) fn enter(&self) -> Open<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Open(self)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An account: its name, credentials and contents.
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) keys: Vec<SigningKey>,
    /// Whether bearer tokens are accepted.
    pub(crate) takes_tokens: bool,
    store: Mutex<store::Account>,
    queues: Mutex<Queues>,
    blobs: Mutex<Blobs>,
    /// Receives the changes, if the data is kept on disk.
    records: Option<Records>,
    /// The contents that the secondary shows while it is held back.
    behind: Mutex<Option<Arc<Self>>>,
    /// The last sync time of a copy that the secondary shows.
    pub(crate) in_step: Option<DateTime>,
}

/// The contents of an account. Clones share data that neither has changed since.
#[derive(Clone, Debug)]
pub(crate) struct AccountData {
    pub(crate) tables: store::Account,
    pub(crate) queues: Queues,
    pub(crate) blobs: Blobs,
}

impl AccountData {
    /// The contents of a new account.
    pub(crate) fn new(strict: Strictness, names: Names, now: DateTime) -> Self {
        let queues = Queues::new(names, now.ticks().cast_unsigned());
        Self { tables: store::Account::new(strict, names), queues, blobs: Blobs::new(names) }
    }
}

impl State {
    /// The state of a server without data. `accounts` are names and base64 keys.
    pub(crate) fn new(
        accounts: &[(String, Vec<String>)],
        clock: ServerClock,
        strict: Strictness,
        names: Names,
    ) -> io::Result<Self> {
        let now = clock.now();
        let accounts = accounts
            .iter()
            .map(|(name, keys)| {
                let keys: Result<_, _> =
                    keys.iter().map(|key| SigningKey::from_base64(key)).collect();
                let keys = keys.map_err(|error| {
                    let message = format!("account {name}: {error}");
                    io::Error::new(io::ErrorKind::InvalidInput, message)
                })?;
                Ok(Account::new(name.clone(), keys, AccountData::new(strict, names, now)))
            })
            .collect::<io::Result<_>>()?;
        let ids = RequestIds::new(now.ticks().cast_unsigned());
        let (control, connections) = (Control::new(false, None), Connections::default());
        Ok(Self {
            accounts,
            clock,
            strict,
            names,
            ids,
            control,
            connections,
            hosts: Hosts::default(),
            debug_signing: false,
            keep_alive: KeepAlive::default(),
            product_style: true,
            durable: None,
        })
    }

    pub(crate) fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.name == name)
    }

    /// The account that a request is for.
    pub(crate) fn account_at(&self, route: &Route<'_>) -> Result<Replica<'_>, Rejection> {
        let account = self.account(route.account).ok_or_else(|| {
            Rejection::with_message(
                ErrorCode::RESOURCE_NOT_FOUND,
                "The specified resource does not exist: this server has no such account.",
            )
        })?;
        let behind = if route.secondary { account.behind().clone() } else { None };
        Ok(behind.map_or(Replica::Live(account), Replica::Behind))
    }

    pub(crate) fn now(&self) -> DateTime {
        self.clock.now()
    }
}

impl Account {
    fn new(name: String, keys: Vec<SigningKey>, data: AccountData) -> Self {
        let AccountData { tables, queues, blobs } = data;
        let (store, queues, blobs) = (Mutex::new(tables), Mutex::new(queues), Mutex::new(blobs));
        let (behind, in_step, records) = (Mutex::new(None), None, None);
        let takes_tokens = false;
        Self { name, keys, takes_tokens, store, queues, blobs, records, behind, in_step }
    }

    /// Freezes the secondary at the current contents.
    pub(crate) fn hold_back(&self, now: DateTime) {
        let mut copy = Self::new(self.name.clone(), self.keys.clone(), self.data());
        copy.takes_tokens = self.takes_tokens;
        copy.in_step = Some(now);
        *self.behind() = Some(Arc::new(copy));
    }

    /// Makes the secondary show the current contents again.
    pub(crate) fn catch_up(&self) {
        *self.behind() = None;
    }

    fn behind(&self) -> MutexGuard<'_, Option<Arc<Self>>> {
        lock(&self.behind)
    }

    /// Locks the tables. The lock is never held across an await.
    pub(crate) fn store(&self) -> StoreGuard<'_, store::Account> {
        StoreGuard::new(lock(&self.store), self.records.as_ref().map(|records| &*records.tables))
    }

    /// Locks the queues. The lock is never held across an await.
    pub(crate) fn queues(&self) -> StoreGuard<'_, Queues> {
        StoreGuard::new(lock(&self.queues), self.records.as_ref().map(|records| &*records.queues))
    }

    /// Locks the containers and blobs. The lock is never held across an await.
    pub(crate) fn blobs(&self) -> StoreGuard<'_, Blobs> {
        StoreGuard::new(lock(&self.blobs), self.records.as_ref().map(|records| &*records.blobs))
    }

    /// A consistent copy of everything the account contains.
    pub(crate) fn data(&self) -> AccountData {
        let (tables, queues, blobs) = (self.store(), self.queues(), self.blobs());
        AccountData { tables: tables.clone(), queues: queues.clone(), blobs: blobs.clone() }
    }

    /// Replaces everything the account contains.
    pub(crate) fn replace(&self, data: AccountData) {
        let (mut tables, mut queues, mut blobs) = (self.store(), self.queues(), self.blobs());
        tables.replace(data.tables);
        queues.replace(data.queues);
        blobs.replace(data.blobs);
    }

    /// Locks all stores at one instant, to restore data from disk.
    #[cfg(feature = "durable")]
    pub(crate) fn lock_all(&self) -> Stores<'_> {
        Stores { tables: lock(&self.store), queues: lock(&self.queues), blobs: lock(&self.blobs) }
    }

    /// Hands all later changes to `records`, which keep them on disk.
    #[cfg(feature = "durable")]
    pub(crate) fn keep(&mut self, records: Records) {
        self.store().watch(crate::durable::entity);
        self.queues().watch();
        self.blobs().watch();
        self.records = Some(records);
    }

    /// The stored access policy with this id of a table, queue or container.
    pub(crate) fn policy(&self, resource: Resource<'_>, id: &str) -> Option<SignedIdentifier> {
        let find =
            |policies: &[SignedIdentifier]| policies.iter().find(|policy| policy.id == id).cloned();
        match resource {
            Resource::Table(name) => find(self.store().table(name).ok()?.policies()),
            Resource::Queue(name) => find(self.queues().queue(name).ok()?.policies()),
            Resource::Blob { container, .. } | Resource::Container(container) => {
                find(&self.blobs().container(container).ok()?.policies)
            }
        }
    }

    /// The CORS rules.
    pub(crate) fn cors(&self, service: Service) -> Vec<CorsRule> {
        let rules = match service {
            Service::Blob => self.blobs().properties().cors.clone(),
            Service::Queue => self.queues().properties().cors.clone(),
            Service::Table => self.store().properties().cors.clone(),
        };
        rules.unwrap_or_default()
    }
}

// Leaves out the keys and the data.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All stores of an account, locked.
#[cfg(feature = "durable")]
pub(crate) struct Stores<'a> {
    tables: MutexGuard<'a, store::Account>,
    queues: MutexGuard<'a, Queues>,
    blobs: MutexGuard<'a, Blobs>,
}

#[cfg(feature = "durable")]
impl Stores<'_> {
    /// Restores data from disk, without recording it as a change.
    pub(crate) fn put_back(&mut self, data: AccountData) {
        let AccountData { mut tables, mut queues, mut blobs } = data;
        tables.watch(crate::durable::entity);
        queues.watch();
        blobs.watch();
        (*self.tables, *self.queues, *self.blobs) = (tables, queues, blobs);
    }
}

fn lock<T>(store: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock was held has been answered with 500 and logged; continue with the data
    // as it is.
    store.lock().unwrap_or_else(PoisonError::into_inner)
}
