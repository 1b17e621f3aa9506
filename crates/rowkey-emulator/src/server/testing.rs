//! The methods of [`Server`] that are for tests.

use std::io;

use rowkey_wire::auth::Service;

use super::Server;
use super::snapshot::Snapshot;
use crate::account::AccountData;
use crate::control::journal::Record;
use crate::control::{
    Chaos, Fault, Injected, Journal, JournalFollower, Pages, RequestKind, Targets,
};
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
        self.state.control.record.as_deref().map(Record::journal).unwrap_or_default()
    }

    /// The number of requests received since the server was started, whether or not the journal still has them.
    /// 0 if it was started without a journal.
    pub fn received(&self) -> u64 {
        self.state.control.record.as_deref().map(Record::received).unwrap_or_default()
    }

    /// How many requests of each kind have ended since the server was started, whether or not the journal still has
    /// them. Empty if it was started without a journal.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = rowkey_emulator::Server::start().await?;
    /// // … the code under test …
    /// let refused = server.totals().into_iter().filter(|(kind, _)| kind.status >= Some(400));
    /// assert_eq!(refused.map(|(_, count)| count).sum::<u64>(), 0);
    /// # Ok(()) }
    /// ```
    pub fn totals(&self) -> Vec<(RequestKind, u64)> {
        self.state.control.record.as_deref().map(Record::totals).unwrap_or_default()
    }

    /// Follows the requests as they end: those from now on, or all that ended after a
    /// [position](JournalFollower::position) of an earlier follower and are still kept.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = rowkey_emulator::Server::start().await?;
    /// let mut requests = server.follow_journal(None);
    /// let later = tokio::spawn(async move { requests.next().await });
    /// // … the code under test …
    /// # later.abort();
    /// # Ok(()) }
    /// ```
    pub fn follow_journal(&self, after: Option<u64>) -> JournalFollower {
        Record::follow(self.state.control.record.as_ref(), after)
    }

    /// Removes all requests from the journal. Their numbering continues.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = rowkey_emulator::Server::start().await?;
    /// server.clear_journal();
    /// assert!(server.journal().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn clear_journal(&self) {
        if let Some(record) = &self.state.control.record {
            record.clear();
        }
    }

    /// Sets the request rates above which the server answers 503 `ServerBusy`, from now on; `None` ends throttling.
    /// What was used until now is forgotten.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::{Server, Targets};
    ///
    /// let server = Server::start().await?;
    /// let slow = Targets { entities_per_partition: 10, ..Targets::default() };
    /// server.set_targets(Some(slow));
    /// assert_eq!(server.targets(), Some(slow));
    /// server.set_targets(None);
    /// # Ok(()) }
    /// ```
    pub fn set_targets(&self, targets: Option<Targets>) {
        self.state.control.throttle.set(targets);
    }

    /// The request rates above which the server answers 503 `ServerBusy`; `None` if it does not throttle.
    pub fn targets(&self) -> Option<Targets> {
        self.state.control.throttle.targets()
    }

    /// The names of the accounts.
    pub fn accounts(&self) -> impl Iterator<Item = &str> {
        self.state.accounts.iter().map(|account| account.name.as_str())
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
        #[cfg(feature = "oauth")]
        let builder = self.with_identities(builder);
        builder.serve(self.state.clock.fork(), |state| {
            for account in &state.accounts {
                if let Some(data) = snapshot.data(&account.name) {
                    account.replace(data.clone());
                }
            }
        })
    }

    /// Deletes everything: data, faults, chaos and the journal. The clock keeps its time. The connections of requests
    /// that faults hold are closed, and the requests are not executed.
    pub fn reset(&self) {
        // First, so that no request writes after it that a fault has held.
        self.state.control.rules.discard();
        self.reset_data(None, None);
        self.state.control.clear();
    }

    /// Deletes the data of one account or of all, of one service or of all three. Faults, chaos and the journal
    /// stay. Returns whether the server has the account.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::{Server, Service};
    ///
    /// let server = Server::start().await?;
    /// assert!(server.reset_data(None, Some(Service::Queue)));
    /// assert!(!server.reset_data(Some("unknown"), None));
    /// # Ok(()) }
    /// ```
    pub fn reset_data(&self, account: Option<&str>, service: Option<Service>) -> bool {
        let seed = self.state.now().ticks().cast_unsigned();
        let mut found = false;
        for known in &self.state.accounts {
            if account.is_some_and(|name| name != known.name) {
                continue;
            }
            found = true;
            let empty = AccountData::new(self.state.rules, seed);
            match service {
                None => known.replace(empty),
                Some(service) => known.empty(service, empty),
            }
        }
        #[cfg(feature = "durable")]
        self.state.durable.iter().for_each(Durable::write_now);
        found
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
