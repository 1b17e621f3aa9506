//! What a server made for testing can do besides serving.

use std::io;

use crate::control::journal::Record;
use crate::control::{Chaos, Fault, Injected, Journal, Pages};
#[cfg(feature = "durable")]
use crate::durable::Durable;
use crate::server::Server;
use crate::snapshot::Snapshot;
use crate::state::Holdings;

/// For tests.
impl Server {
    /// Makes something go wrong, until the result is dropped.
    ///
    /// Faults are asked in the order in which they were injected, and a request meets the first
    /// that fits.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::{Fault, Operation, Server};
    ///
    /// let server = Server::start().await?;
    /// let lost = server.inject(Fault::on(Operation::InsertEntity).times(1).close_after_commit());
    /// // … the first insert is made, and its answer is lost …
    /// assert_eq!(lost.hits(), 0);
    /// # Ok(()) }
    /// ```
    pub fn inject(&self, fault: Fault) -> Injected {
        self.state.control.rules.inject(fault)
    }

    /// Cuts pages of queries for entities and of listings of tables, until the result is dropped.
    pub fn chaos(&self, pages: Pages) -> Chaos {
        self.state.control.pages.begin(pages)
    }

    /// The requests that came so far. Empty if the server was started without a journal.
    pub fn journal(&self) -> Journal {
        self.state.control.record.as_ref().map(Record::journal).unwrap_or_default()
    }

    /// How many connections are open now, of clients that use them and of those that keep them.
    pub fn connections(&self) -> usize {
        self.state.connections.count()
    }

    /// What the server holds at this instant.
    ///
    /// Tables cost next to nothing until one is changed: then it is copied, once, while the
    /// snapshot is there. Queues are copied at once; of blobs all but their content is.
    pub fn snapshot(&self) -> Snapshot {
        let accounts = &self.state.accounts;
        Snapshot::new(
            accounts.iter().map(|account| (account.name.clone(), account.holdings())).collect(),
        )
    }

    /// Another server, on ports of its own, that holds what this one holds now and shows the same
    /// time. From here on neither knows of the other.
    ///
    /// It is started as this one was; faults, chaos and the journal are not taken over.
    #[expect(clippy::unused_async, reason = "starting may come to wait, and callers are async")]
    pub async fn fork(&self) -> io::Result<Self> {
        let snapshot = self.snapshot();
        let builder = self.builder.clone().apart();
        builder.serve(self.state.clock.fork(), |state| {
            for account in &state.accounts {
                if let Some(holdings) = snapshot.holdings(&account.name) {
                    account.replace(holdings.clone());
                }
            }
        })
    }

    /// Forgets everything: data, faults, chaos and the journal. The clock stays as it is.
    pub fn reset(&self) {
        let now = self.state.now();
        for account in &self.state.accounts {
            account.replace(Holdings::new(self.state.strict, self.state.names, now));
        }
        #[cfg(feature = "durable")]
        self.state.durable.iter().for_each(Durable::write_now);
        self.state.control.clear();
    }

    /// Puts back what the server held when the snapshot was taken. Nothing else changes.
    pub fn restore(&self, snapshot: &Snapshot) {
        for account in &self.state.accounts {
            if let Some(holdings) = snapshot.holdings(&account.name) {
                account.replace(holdings.clone());
            }
        }
        #[cfg(feature = "durable")]
        self.state.durable.iter().for_each(Durable::write_now);
    }
}
