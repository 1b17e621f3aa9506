//! Holds back the secondary, so that it shows the contents at an earlier instant.

use std::sync::Arc;

use super::Server;
use crate::state::State;

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
