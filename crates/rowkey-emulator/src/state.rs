//! The state shared by all connections of a server: accounts, clock and settings.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

use crate::account::{self, Account, Replica, Rules};
use crate::clock::ServerClock;
use crate::control::Control;
use crate::durable::Durable;
use crate::front::hosts::Hosts;
use crate::front::keep_alive::KeepAlive;
use crate::front::respond::RequestIds;
use crate::front::route::Route;

/// The shared state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) accounts: Vec<Account>,
    pub(crate) clock: ServerClock,
    pub(crate) rules: Rules,
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
    /// Makes tokens, if the server issues them.
    #[cfg(feature = "oauth")]
    pub(crate) issuer: Option<std::sync::Arc<crate::identity::Issuer>>,
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

impl State {
    /// The state of a server without data. `accounts` are names and base64 keys.
    pub(crate) fn new(
        accounts: &[(String, Vec<String>)],
        clock: ServerClock,
        rules: Rules,
    ) -> io::Result<Self> {
        let seed = clock.now().ticks().cast_unsigned();
        let accounts = account::accounts(accounts, rules, seed)?;
        let ids = RequestIds::new(seed);
        let (control, connections) = (Control::new(false, None), Connections::default());
        Ok(Self {
            accounts,
            clock,
            rules,
            ids,
            control,
            connections,
            hosts: Hosts::default(),
            debug_signing: false,
            keep_alive: KeepAlive::default(),
            product_style: true,
            #[cfg(feature = "oauth")]
            issuer: None,
            durable: None,
        })
    }

    /// The account that a request is for.
    pub(crate) fn account_at(&self, route: &Route<'_>) -> Result<Replica<'_>, Rejection> {
        let account = account::find(&self.accounts, route.account).ok_or_else(|| {
            Rejection::with_message(
                ErrorCode::RESOURCE_NOT_FOUND,
                "The specified resource does not exist: this server has no such account.",
            )
        })?;
        Ok(account.replica(route.secondary))
    }

    pub(crate) fn now(&self) -> DateTime {
        self.clock.now()
    }
}
