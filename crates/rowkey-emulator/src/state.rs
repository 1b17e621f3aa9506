//! What all connections of a server share: its accounts, its clock, its settings.

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
use crate::durable::{Durable, Held, Records};
use crate::hosts::Hosts;
use crate::respond::RequestIds;
use crate::route::Place;
use crate::secondary::Served;
use crate::store;
use crate::store::Names;
use crate::store::blob::Blobs;
use crate::store::queue::Queues;
use crate::table::wire::entity::Strictness;

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
    /// The names that the server answers to.
    pub(crate) hosts: Hosts,
    /// Whether the strings to sign of refused requests are logged.
    pub(crate) debug_signing: bool,
    pub(crate) keep_alive: KeepAlive,
    /// Whether hosts may name accounts.
    pub(crate) product_style: bool,
    /// What keeps the data, if anything does.
    pub(crate) durable: Option<Durable>,
}

/// How many connections are open.
#[derive(Debug, Default)]
pub(crate) struct Connections(AtomicUsize);

/// Counts a connection until this is dropped.
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

/// An account: what it is called, who may use it, what it holds.
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) keys: Vec<SigningKey>,
    /// Whether bearer tokens open it.
    pub(crate) takes_tokens: bool,
    store: Mutex<store::Account>,
    queues: Mutex<Queues>,
    blobs: Mutex<Blobs>,
    /// Who hands over what changes, if it is kept.
    records: Option<Records>,
    /// What the secondary shows while it is held back.
    behind: Mutex<Option<Arc<Self>>>,
    /// When a copy that the secondary shows was in step.
    pub(crate) in_step: Option<DateTime>,
}

/// What an account holds. Copies share what neither of them has changed since.
#[derive(Clone, Debug)]
pub(crate) struct Holdings {
    pub(crate) tables: store::Account,
    pub(crate) queues: Queues,
    pub(crate) blobs: Blobs,
}

impl Holdings {
    /// Those of a new account.
    pub(crate) fn new(strict: Strictness, names: Names, now: DateTime) -> Self {
        let queues = Queues::new(names, now.ticks().cast_unsigned());
        Self { tables: store::Account::new(strict, names), queues, blobs: Blobs::new(names) }
    }
}

impl State {
    /// A server without tables. `accounts` are names and base64 keys.
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
                Ok(Account::new(name.clone(), keys, Holdings::new(strict, names, now)))
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
    pub(crate) fn account_at(&self, place: &Place<'_>) -> Result<Served<'_>, Rejection> {
        let account = self.account(place.account).ok_or_else(|| {
            Rejection::with_message(
                ErrorCode::RESOURCE_NOT_FOUND,
                "The specified resource does not exist: this server has no such account.",
            )
        })?;
        let behind = if place.secondary { account.behind().clone() } else { None };
        Ok(behind.map_or(Served::Live(account), Served::Behind))
    }

    pub(crate) fn now(&self) -> DateTime {
        self.clock.now()
    }
}

impl Account {
    fn new(name: String, keys: Vec<SigningKey>, holdings: Holdings) -> Self {
        let Holdings { tables, queues, blobs } = holdings;
        let (store, queues, blobs) = (Mutex::new(tables), Mutex::new(queues), Mutex::new(blobs));
        let (behind, in_step, records) = (Mutex::new(None), None, None);
        let takes_tokens = false;
        Self { name, keys, takes_tokens, store, queues, blobs, records, behind, in_step }
    }

    /// From now on the secondary shows what there is now.
    pub(crate) fn hold_back(&self, now: DateTime) {
        let mut copy = Self::new(self.name.clone(), self.keys.clone(), self.holdings());
        copy.takes_tokens = self.takes_tokens;
        copy.in_step = Some(now);
        *self.behind() = Some(Arc::new(copy));
    }

    /// The secondary shows what there is.
    pub(crate) fn catch_up(&self) {
        *self.behind() = None;
    }

    fn behind(&self) -> MutexGuard<'_, Option<Arc<Self>>> {
        lock(&self.behind)
    }

    /// The tables. Never held while waiting for anything.
    pub(crate) fn store(&self) -> Held<'_, store::Account> {
        Held::new(lock(&self.store), self.records.as_ref().map(|records| &*records.tables))
    }

    /// The queues. Never held while waiting for anything.
    pub(crate) fn queues(&self) -> Held<'_, Queues> {
        Held::new(lock(&self.queues), self.records.as_ref().map(|records| &*records.queues))
    }

    /// The containers and blobs. Never held while waiting for anything.
    pub(crate) fn blobs(&self) -> Held<'_, Blobs> {
        Held::new(lock(&self.blobs), self.records.as_ref().map(|records| &*records.blobs))
    }

    /// All that it holds, at one instant.
    pub(crate) fn holdings(&self) -> Holdings {
        let (tables, queues, blobs) = (self.store(), self.queues(), self.blobs());
        Holdings { tables: tables.clone(), queues: queues.clone(), blobs: blobs.clone() }
    }

    /// Puts something else in the place of all that it holds.
    pub(crate) fn replace(&self, holdings: Holdings) {
        let (mut tables, mut queues, mut blobs) = (self.store(), self.queues(), self.blobs());
        tables.replace(holdings.tables);
        queues.replace(holdings.queues);
        blobs.replace(holdings.blobs);
    }

    /// All stores at one instant, to put back what is kept.
    #[cfg(feature = "durable")]
    pub(crate) fn lock_all(&self) -> Stores<'_> {
        Stores { tables: lock(&self.store), queues: lock(&self.queues), blobs: lock(&self.blobs) }
    }

    /// From now on what changes is handed over to be kept.
    #[cfg(feature = "durable")]
    pub(crate) fn keep(&mut self, records: Records) {
        self.store().touched.watch();
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

    /// The rules for scripts of other origins.
    pub(crate) fn cors(&self, service: Service) -> Vec<CorsRule> {
        let rules = match service {
            Service::Blob => self.blobs().properties().cors.clone(),
            Service::Queue => self.queues().properties().cors.clone(),
            Service::Table => self.store().properties().cors.clone(),
        };
        rules.unwrap_or_default()
    }
}

// Without its keys, and without what it holds.
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
    /// Puts back what is kept, and hands nothing over.
    pub(crate) fn put_back(&mut self, holdings: Holdings) {
        let Holdings { mut tables, mut queues, mut blobs } = holdings;
        tables.touched.watch();
        queues.watch();
        blobs.watch();
        (*self.tables, *self.queues, *self.blobs) = (tables, queues, blobs);
    }
}

fn lock<T>(store: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held has been answered with 500 and logged; go on with what is there.
    store.lock().unwrap_or_else(PoisonError::into_inner)
}
