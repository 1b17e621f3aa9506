//! The accounts: names, credentials and locked contents.
//!
//! - [`guard`]: how the contents are read and changed, and how changes are recorded
//! - [`replica`]: [`Replica`], the contents that a request reads

pub(crate) mod guard;
pub(crate) mod replica;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use guard::Reading;
pub(crate) use guard::{Receipt, Receipts, Records};
pub(crate) use replica::Replica;
use rowkey_wire::auth::Resource;
use rowkey_wire::auth::{Service, SigningKey};
use rowkey_wire::edm::DateTime;
use rowkey_wire::shown;
use rowkey_wire::xml::{CorsRule, ServiceProperties, SignedIdentifier};

use crate::op::entity::Strictness;
use crate::store;
use crate::store::Names;
use crate::store::blob::Blobs;
use crate::store::queue::Queues;

/// The name of the development account, which emulators share.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

/// The published key of [`DEVELOPMENT_ACCOUNT`]. It is not a secret.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The rules for the contents of accounts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) strict: Strictness,
    pub(crate) names: Names,
}

/// Empty accounts with these names and base64 keys.
pub(crate) fn accounts(
    named: &[(String, Vec<String>)],
    rules: Rules,
    seed: u64,
) -> io::Result<Vec<Account>> {
    let account = |(name, keys): &(String, Vec<String>)| {
        let keys: Result<_, _> = keys.iter().map(|key| SigningKey::from_base64(key)).collect();
        let keys = keys.map_err(|error| {
            let message = format!("account {name}: {error}");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        Ok(Account::new(name.clone(), keys, AccountData::new(rules, seed)))
    };
    named.iter().map(account).collect()
}

/// The account with this name.
pub(crate) fn find<'a>(accounts: &'a [Account], name: &str) -> Option<&'a Account> {
    accounts.iter().find(|account| account.name == name)
}

/// An account: its name, credentials and contents.
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) keys: Vec<SigningKey>,
    /// Which bearer tokens are accepted.
    pub(crate) tokens: Tokens,
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

/// Which bearer tokens an account accepts.
#[derive(Clone, Debug, Default)]
pub(crate) enum Tokens {
    #[default]
    Refused,
    /// Those of any issuer, whose signatures are not verified.
    Unsigned,
    /// Those that the server issues.
    #[cfg(feature = "oauth")]
    Issued(Arc<crate::identity::Issuer>),
}

/// The contents of an account. Clones share data that neither has changed since.
#[derive(Clone, Debug)]
pub(crate) struct AccountData {
    pub(crate) tables: store::Account,
    pub(crate) queues: Queues,
    pub(crate) blobs: Blobs,
}

/// The stores of an account while all of them are changed.
#[derive(Debug)]
pub(crate) struct Changing<'a> {
    pub(crate) tables: &'a mut store::Account,
    pub(crate) queues: &'a mut Queues,
    pub(crate) blobs: &'a mut Blobs,
}

impl AccountData {
    /// The contents of a new account. The ids of messages follow from `seed`.
    pub(crate) fn new(rules: Rules, seed: u64) -> Self {
        let Rules { strict, names } = rules;
        let queues = Queues::new(names, seed);
        Self { tables: store::Account::new(strict, names), queues, blobs: Blobs::new(names) }
    }
}

impl Account {
    fn new(name: String, keys: Vec<SigningKey>, data: AccountData) -> Self {
        let AccountData { tables, queues, blobs } = data;
        let (store, queues, blobs) = (Mutex::new(tables), Mutex::new(queues), Mutex::new(blobs));
        let (behind, in_step, records) = (Mutex::new(None), None, None);
        let tokens = Tokens::Refused;
        Self { name, keys, tokens, store, queues, blobs, records, behind, in_step }
    }

    /// Freezes the secondary at the current contents.
    pub(crate) fn hold_back(&self, now: DateTime) {
        let mut copy = Self::new(self.name.clone(), self.keys.clone(), self.data());
        copy.tokens = self.tokens.clone();
        copy.in_step = Some(now);
        *self.behind() = Some(Arc::new(copy));
    }

    /// Makes the secondary show the current contents again.
    pub(crate) fn catch_up(&self) {
        *self.behind() = None;
    }

    /// The contents that a request reads: those of the secondary may be held back.
    pub(crate) fn replica(&self, secondary: bool) -> Replica<'_> {
        let behind = if secondary { self.behind().clone() } else { None };
        behind.map_or(Replica::Live(self), Replica::Behind)
    }

    fn behind(&self) -> MutexGuard<'_, Option<Arc<Self>>> {
        lock(&self.behind)
    }

    /// Locks the tables to read them. The lock is never held across an await.
    pub(crate) fn store(&self) -> Reading<'_, store::Account> {
        Reading(lock(&self.store))
    }

    /// Changes the tables. The receipt says which unit is to be written before a response.
    #[must_use = "a response waits for the receipt"]
    pub(crate) fn change_store<R>(
        &self,
        change: impl FnOnce(&mut store::Account) -> R,
    ) -> (R, Receipt) {
        let recorder = self.records.as_ref().map(|records| &*records.tables);
        guard::change(lock(&self.store), recorder, change)
    }

    /// Locks the queues to read them. The lock is never held across an await.
    pub(crate) fn queues(&self) -> Reading<'_, Queues> {
        Reading(lock(&self.queues))
    }

    /// Changes the queues. The receipt says which unit is to be written before a response.
    #[must_use = "a response waits for the receipt"]
    pub(crate) fn change_queues<R>(&self, change: impl FnOnce(&mut Queues) -> R) -> (R, Receipt) {
        let recorder = self.records.as_ref().map(|records| &*records.queues);
        guard::change(lock(&self.queues), recorder, change)
    }

    /// Locks the containers and blobs to read them. The lock is never held across an await.
    pub(crate) fn blobs(&self) -> Reading<'_, Blobs> {
        Reading(lock(&self.blobs))
    }

    /// Changes the containers and blobs. The receipt says which unit is to be written before a response.
    #[must_use = "a response waits for the receipt"]
    pub(crate) fn change_blobs<R>(&self, change: impl FnOnce(&mut Blobs) -> R) -> (R, Receipt) {
        let recorder = self.records.as_ref().map(|records| &*records.blobs);
        guard::change(lock(&self.blobs), recorder, change)
    }

    /// A consistent copy of everything the account contains.
    pub(crate) fn data(&self) -> AccountData {
        let (tables, queues, blobs) = (self.store(), self.queues(), self.blobs());
        AccountData { tables: tables.clone(), queues: queues.clone(), blobs: blobs.clone() }
    }

    /// Replaces everything the account contains.
    pub(crate) fn replace(&self, data: AccountData) {
        let (mut tables, mut queues, mut blobs) =
            (lock(&self.store), lock(&self.queues), lock(&self.blobs));
        (*tables, *queues, *blobs) = (data.tables, data.queues, data.blobs);
        if let Some(records) = &self.records {
            records.tables.replace(&mut tables);
            records.queues.replace(&mut queues);
            records.blobs.replace(&mut blobs);
        }
    }

    /// Changes a copy of the stores, which is then dropped.
    pub(crate) fn try_change<R, E>(
        &self,
        change: impl FnOnce(&mut Changing<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let AccountData { mut tables, mut queues, mut blobs } = self.data();
        change(&mut Changing { tables: &mut tables, queues: &mut queues, blobs: &mut blobs })
    }

    /// Changes all stores at one instant, or none of them. `change` is called with copies first, and with the stores
    /// only if that succeeded, so it must do the same when it is called again.
    pub(crate) fn change_all<R, E>(
        &self,
        mut change: impl FnMut(&mut Changing<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let (mut tables, mut queues, mut blobs) =
            (lock(&self.store), lock(&self.queues), lock(&self.blobs));
        {
            let (mut tables, mut queues, mut blobs) =
                (tables.clone(), queues.clone(), blobs.clone());
            change(&mut Changing { tables: &mut tables, queues: &mut queues, blobs: &mut blobs })?;
        }
        let mut stores = Changing { tables: &mut tables, queues: &mut queues, blobs: &mut blobs };
        let changed = change(&mut stores);
        if let Some(records) = &self.records {
            records.tables.record(&mut tables);
            records.queues.record(&mut queues);
            records.blobs.record(&mut blobs);
        }
        changed
    }

    /// Empties one service. The others are not read, so that no change to them is lost.
    pub(crate) fn empty(&self, service: Service, empty: AccountData) {
        match service {
            Service::Blob => {
                let mut blobs = lock(&self.blobs);
                *blobs = empty.blobs;
                self.records.iter().for_each(|records| records.blobs.replace(&mut blobs));
            }
            Service::Queue => {
                let mut queues = lock(&self.queues);
                *queues = empty.queues;
                self.records.iter().for_each(|records| records.queues.replace(&mut queues));
            }
            Service::Table => {
                let mut tables = lock(&self.store);
                *tables = empty.tables;
                self.records.iter().for_each(|records| records.tables.replace(&mut tables));
            }
        }
    }

    /// Locks all stores at one instant, to restore data from disk.
    #[cfg(feature = "durable")]
    pub(crate) fn lock_all(&self) -> Stores<'_> {
        Stores {
            tables: lock(&self.store),
            queues: lock(&self.queues),
            blobs: lock(&self.blobs),
            records: self.records.as_ref(),
        }
    }

    /// Hands all later changes to `records`, which keep them on disk.
    #[cfg(feature = "durable")]
    pub(crate) fn keep(&mut self, records: Records) {
        records.tables.watch(&mut lock(&self.store));
        records.queues.watch(&mut lock(&self.queues));
        records.blobs.watch(&mut lock(&self.blobs));
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

    /// Reads the properties of a service.
    pub(crate) fn read_properties<R>(
        &self,
        service: Service,
        read: impl FnOnce(&ServiceProperties) -> R,
    ) -> R {
        match service {
            Service::Blob => read(self.blobs().properties()),
            Service::Queue => read(self.queues().properties()),
            Service::Table => read(self.store().properties()),
        }
    }

    /// Sets the properties of a service that are `Some`.
    #[must_use = "a response waits for the receipt"]
    pub(crate) fn update_properties(&self, service: Service, sent: ServiceProperties) -> Receipt {
        let update = |kept: &mut ServiceProperties| store::properties::update(kept, sent);
        match service {
            Service::Blob => self.change_blobs(|blobs| update(blobs.properties_mut())).1,
            Service::Queue => self.change_queues(|queues| update(queues.properties_mut())).1,
            Service::Table => self.change_store(|tables| update(tables.properties_mut())).1,
        }
    }

    /// The CORS rules.
    pub(crate) fn cors(&self, service: Service) -> Vec<CorsRule> {
        self.read_properties(service, |properties| properties.cors.clone()).unwrap_or_default()
    }
}

// Leaves out the keys and the data.
shown!(Account: name);

/// All stores of an account, locked.
#[cfg(feature = "durable")]
pub(crate) struct Stores<'a> {
    tables: MutexGuard<'a, store::Account>,
    queues: MutexGuard<'a, Queues>,
    blobs: MutexGuard<'a, Blobs>,
    records: Option<&'a Records>,
}

#[cfg(feature = "durable")]
impl Stores<'_> {
    /// Restores data from disk, without recording it as a change.
    pub(crate) fn put_back(&mut self, data: AccountData) {
        let AccountData { mut tables, mut queues, mut blobs } = data;
        if let Some(records) = self.records {
            records.tables.watch(&mut tables);
            records.queues.watch(&mut queues);
            records.blobs.watch(&mut blobs);
        }
        (*self.tables, *self.queues, *self.blobs) = (tables, queues, blobs);
    }
}

fn lock<T>(store: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock was held has been answered with 500 and logged; continue with the data
    // as it is.
    store.lock().unwrap_or_else(PoisonError::into_inner)
}
