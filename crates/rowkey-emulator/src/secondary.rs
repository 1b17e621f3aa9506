//! The secondary: the same account, or its contents at an earlier instant.

use std::ops::Deref;
use std::sync::Arc;

use crate::server::Server;
use crate::state::{Account, State};

/// The account that serves a request: at the secondary endpoint it may be an old copy.
#[derive(Debug)]
pub(crate) enum Replica<'a> {
    /// The current contents.
    Live(&'a Account),
    /// The contents at the instant when the secondary was held back.
    Behind(Arc<Account>),
}

impl Deref for Replica<'_> {
    type Target = Account;

    fn deref(&self) -> &Account {
        match self {
            Self::Live(account) => account,
            Self::Behind(account) => account,
        }
    }
}

/// Keeps the secondary from catching up; see [`Server::hold_back_secondary`].
#[derive(Debug)]
#[must_use = "the secondary catches up when this is dropped"]
pub struct HeldBack {
    state: Arc<State>,
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        for account in &self.state.accounts {
            account.catch_up();
        }
    }
}

impl Server {
    /// Makes the secondary endpoints lag. Until the result is dropped, they return the data as it
    /// is now, regardless of later writes, and their statistics report the current instant as the
    /// last sync time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::Server;
    ///
    /// let server = Server::start().await?;
    /// let behind = server.hold_back_secondary();
    /// // … writes are not visible on the secondary …
    /// drop(behind);
    /// // … and now it can.
    /// # Ok(()) }
    /// ```
    pub fn hold_back_secondary(&self) -> HeldBack {
        let now = self.state.now();
        for account in &self.state.accounts {
            account.hold_back(now);
        }
        HeldBack { state: Arc::clone(&self.state) }
    }
}
