//! The contents of a server as one file.

use std::io;

use super::Server;
use crate::account::AccountData;
use crate::durable::{Durable, state_file};

impl Server {
    /// The contents of all accounts as one file, which [`import_state`](Self::import_state) of a server of this
    /// version reads. It is not encrypted. It holds all contents in memory.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::Server;
    ///
    /// let server = Server::start().await?;
    /// // … a test prepares data …
    /// let state = server.export_state();
    /// let other = Server::start().await?;
    /// other.import_state(&state)?;
    /// # Ok(()) }
    /// ```
    pub fn export_state(&self) -> Vec<u8> {
        let accounts = &self.state.accounts;
        let accounts: Vec<_> =
            accounts.iter().map(|account| (account.name.clone(), account.data())).collect();
        state_file::write(&accounts)
    }

    /// Replaces the contents of all accounts by those of a file. Accounts that the file does not have are emptied.
    ///
    /// Fails, and changes nothing, with [`InvalidData`](io::ErrorKind::InvalidData) if the file is damaged or of
    /// another version, and with [`NotFound`](io::ErrorKind::NotFound) if it has an account that the server does not
    /// have.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = rowkey_emulator::Server::start().await?;
    /// let refused = server.import_state(b"something else").unwrap_err();
    /// assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData);
    /// # Ok(()) }
    /// ```
    pub fn import_state(&self, file: &[u8]) -> io::Result<()> {
        let mut found = state_file::read(file, self.state.rules).map_err(|error| {
            io::Error::new(error.kind(), format!("the state cannot be read: {error}"))
        })?;
        let known = |name: &str| self.state.accounts.iter().any(|account| account.name == name);
        if let Some((name, _)) = found.iter().find(|(name, _)| !known(name)) {
            let message = format!(
                "the state has the account {name}, which this server does not have; start it with that account"
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let seed = self.state.now().ticks().cast_unsigned();
        for account in &self.state.accounts {
            let at = found.iter().position(|(name, _)| *name == account.name);
            // At once: no request, and no start after a kill, finds the account empty in between.
            account.replace(match at {
                Some(at) => found.swap_remove(at).1,
                None => AccountData::new(self.state.rules, seed),
            });
        }
        self.state.durable.iter().for_each(Durable::write_now);
        Ok(())
    }
}
