//! What all connections of a server share: its accounts, its clock, its settings.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rowkey_wire::auth::{InvalidKey, SigningKey};
use rowkey_wire::edm::DateTime;
use rowkey_wire::odata::parse::Strictness;

use crate::clock::ServerClock;
use crate::respond::RequestIds;
use crate::store;

/// The shared state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) accounts: Vec<Account>,
    pub(crate) clock: ServerClock,
    pub(crate) strict: Strictness,
    pub(crate) ids: RequestIds,
}

/// An account: what it is called, who may use it, what it holds.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) keys: Vec<SigningKey>,
    store: Mutex<store::Account>,
}

impl State {
    /// A server without tables. `accounts` are names and base64 keys.
    pub(crate) fn new(
        accounts: &[(String, Vec<String>)],
        clock: ServerClock,
        strict: Strictness,
    ) -> Result<Self, InvalidKey> {
        let now = clock.now();
        let accounts = accounts
            .iter()
            .map(|(name, keys)| {
                let keys: Result<_, _> =
                    keys.iter().map(|key| SigningKey::from_base64(key)).collect();
                let store = Mutex::new(store::Account::new(strict));
                Ok(Account { name: name.clone(), keys: keys?, store })
            })
            .collect::<Result<_, _>>()?;
        let ids = RequestIds::new(now.ticks().cast_unsigned());
        Ok(Self { accounts, clock, strict, ids })
    }

    pub(crate) fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.name == name)
    }

    pub(crate) fn now(&self) -> DateTime {
        self.clock.now()
    }
}

impl Account {
    /// The tables. Never held while waiting for anything.
    pub(crate) fn store(&self) -> MutexGuard<'_, store::Account> {
        // A panic while it was held has been answered with 500 and logged; go on with what is there.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
