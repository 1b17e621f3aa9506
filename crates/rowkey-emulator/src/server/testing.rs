//! The methods of [`Server`] that are for tests.

use std::io;

use super::Server;
use super::snapshot::Snapshot;
use crate::account::AccountData;
use crate::control::journal::Record;
use crate::control::{Chaos, Fault, Injected, Journal, Pages};
#[cfg(feature = "durable")]
use crate::durable::Durable;

/// Methods for tests.
impl Server {
    /// Injects a fault, which is active until the result is dropped.
    ///
    /// Faults are matched in the order in which they were injected. The first match applies to the
    /// request.
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

    /// Cuts pages of entity queries and of listings, until the result is dropped.
    ///
    /// ```
    /// use rowkey_emulator::{Pages, Server};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = Server::start().await?;
    /// let chaos = server.chaos(Pages { empty: false, ..Pages::seeded(7) });
    /// // … a query that reads all pages finds all entities …
    /// assert_eq!(chaos.cuts(), 0);
    /// # Ok(()) }
    /// ```
    pub fn chaos(&self, pages: Pages) -> Chaos {
        self.state.control.pages.begin(pages)
    }

    /// The requests received so far. Empty if the server was started without a journal.
    pub fn journal(&self) -> Journal {
        self.state.control.record.as_ref().map(Record::journal).unwrap_or_default()
    }

    /// The number of open connections, in use or idle.
    pub fn connections(&self) -> usize {
        self.state.connections.count()
    }

    /// A copy of everything the server contains now.
    ///
    /// Tables cost almost nothing until one is changed: it is then copied once, while the snapshot
    /// exists. Queues are copied at once, and so are blobs, except for their content.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = rowkey_emulator::Server::start().await?;
    /// // … the code under test writes …
    /// let stored = server.snapshot();
    /// let order = stored.table("orders").and_then(|orders| orders.entity("contoso", "order_1"));
    /// assert!(order.is_none());
    /// assert_eq!(stored.blobs("invoices").count(), 0);
    /// # Ok(()) }
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let accounts = &self.state.accounts;
        Snapshot::new(
            accounts.iter().map(|account| (account.name.clone(), account.data())).collect(),
        )
    }

    /// Starts another server, on its own ports, with the same contents and the same time. From then
    /// on the two are independent.
    ///
    /// It has the options of this server; faults, chaos and the journal are not copied.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let prepared = rowkey_emulator::Server::start().await?;
    /// // … data that several tests need …
    /// let server = prepared.fork().await?;
    /// assert_ne!(server.table_endpoint(), prepared.table_endpoint());
    /// # Ok(()) }
    /// ```
    #[expect(clippy::unused_async, reason = "async in anticipation of waiting")]
    pub async fn fork(&self) -> io::Result<Self> {
        let snapshot = self.snapshot();
        let builder = self.builder.clone().apart();
        builder.serve(self.state.clock.fork(), |state| {
            for account in &state.accounts {
                if let Some(data) = snapshot.data(&account.name) {
                    account.replace(data.clone());
                }
            }
        })
    }

    /// Deletes everything: data, faults, chaos and the journal. The clock keeps its time.
    pub fn reset(&self) {
        let seed = self.state.now().ticks().cast_unsigned();
        for account in &self.state.accounts {
            account.replace(AccountData::new(self.state.rules, seed));
        }
        #[cfg(feature = "durable")]
        self.state.durable.iter().for_each(Durable::write_now);
        self.state.control.clear();
    }

    /// Restores the contents that the server had when the snapshot was taken. Nothing else changes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = rowkey_emulator::Server::start().await?;
    /// let before = server.snapshot();
    /// // … a test writes …
    /// server.restore(&before);
    /// assert_eq!(server.snapshot().tables().count(), before.tables().count());
    /// # Ok(()) }
    /// ```
    pub fn restore(&self, snapshot: &Snapshot) {
        for account in &self.state.accounts {
            if let Some(data) = snapshot.data(&account.name) {
                account.replace(data.clone());
            }
        }
        #[cfg(feature = "durable")]
        self.state.durable.iter().for_each(Durable::write_now);
    }
}
