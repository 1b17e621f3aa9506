//! Data that a server has at its start: seeds, and the data of Azurite.

use std::io;
#[cfg(feature = "durable")]
use std::path::PathBuf;
use std::sync::Arc;

use super::{Server, ServerBuilder};
use crate::load::seed::apply;
use crate::load::{Seed, SeedError, Seeded};
use crate::state::State;

#[cfg(feature = "durable")]
use crate::durable::Durable;
#[cfg(feature = "durable")]
use crate::load::azurite::{self, Imported};

impl Server {
    /// Puts tables, queues and blobs into the running server, all of the seed or, on an error, nothing of it.
    ///
    /// Tables, queues and containers are created unless they exist; entities and blobs replace those with the same keys
    /// and names; messages are added at the ends of their queues. What no request could write is refused: a blob with a
    /// lease is not replaced, and the limits on entities hold. No request is sent: faults, throttling and the journal do not
    /// affect it. While it works, requests of the account wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use rowkey_emulator::{Seed, Server};
    ///
    /// let server = Server::start().await?;
    /// let seed = Seed::from_json(
    ///     r#"{"tables": {"orders": [{"PartitionKey": "contoso", "RowKey": "1", "Price": 3.5}]}}"#,
    /// )?;
    /// assert_eq!(server.seed(&seed)?.entities, 1);
    /// assert!(server.snapshot().table("orders").unwrap().entity("contoso", "1").is_some());
    /// # Ok(()) }
    /// ```
    pub fn seed(&self, seed: &Seed) -> Result<Seeded, SeedError> {
        let state = &self.state;
        #[cfg(feature = "durable")]
        if !state.durable.as_ref().is_none_or(Durable::accepts_changes) {
            return Err(SeedError::not_written());
        }
        let seeded = apply::apply(&state.accounts, &[seed], state.rules, state.now())?;
        #[cfg(feature = "durable")]
        if let Some(durable) = &state.durable {
            // On a failure, the next request takes back what is not on disk.
            durable.write_loaded().map_err(|_| SeedError::not_written())?;
        }
        Ok(seeded)
    }

    /// What was not taken over from Azurite, a sentence with a count for each kind: see
    /// [`ServerBuilder::import_azurite`]. Empty for a server without.
    #[cfg(feature = "durable")]
    pub fn import_notes(&self) -> &[String] {
        &self.notes
    }
}

impl ServerBuilder {
    /// Puts tables, queues and blobs into the server before it answers requests. Can be called repeatedly.
    ///
    /// With a `location`, seeds are only applied if it is new: at the second start, what the first one made is there.
    /// [`start`](Self::start) fails if a seed cannot be applied, and then nothing of any seed is kept.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use rowkey_emulator::{Seed, Server};
    ///
    /// let seed = Seed::from_json(r#"{"containers": {"invoices": {"a.txt": {"text": "hello"}}}}"#)?;
    /// let server = Server::builder().seed(seed).start().await?;
    /// assert_eq!(server.snapshot().blob("invoices", "a.txt").unwrap(), b"hello");
    /// # Ok(()) }
    /// ```
    pub fn seed(mut self, seed: Seed) -> Self {
        self.seeds.push(Arc::new(seed));
        self
    }

    /// Takes over the tables, queues and blobs of Azurite 3.37 from the directory that its `--location` named, before the
    /// server answers requests. The directory is only read.
    ///
    /// Azurite must not be running: it keeps its data in memory, and writes it some seconds later and when it ends.
    ///
    /// With a `location`, that must be new: [`start`](Self::start) fails if it has data. It fails as well if a file is
    /// damaged or not of Azurite, and for data of accounts that the server does not have. What the server cannot take over,
    /// such as page blobs, is counted in [`Server::import_notes`] and logged.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let directory = std::env::temp_dir().join("rowkey-no-azurite");
    /// let server = rowkey_emulator::Server::builder().import_azurite(&directory).start().await;
    /// assert!(server.unwrap_err().to_string().contains("no data of Azurite"));
    /// # }
    /// ```
    #[cfg(feature = "durable")]
    pub fn import_azurite(mut self, directory: impl Into<PathBuf>) -> Self {
        self.azurite = Some(directory.into());
        self
    }

    /// Reads the data of Azurite before anything is written.
    #[cfg(feature = "durable")]
    pub(super) fn read_azurite(&self, state: &State) -> io::Result<Option<Imported>> {
        let Some(directory) = &self.azurite else { return Ok(None) };
        let names: Vec<_> = state.accounts.iter().map(|account| &*account.name).collect();
        azurite::read(directory, &names, state.rules, state.now()).map(Some)
    }

    /// Puts the data of Azurite into the accounts; returns what was not taken over.
    #[cfg(feature = "durable")]
    pub(super) fn put_azurite(
        &self,
        state: &State,
        imported: Option<Imported>,
    ) -> io::Result<Vec<String>> {
        let Some(imported) = imported else { return Ok(Vec::new()) };
        if let Some((location, _)) = self.location.as_ref().filter(|_| !is_new(state)) {
            let message = format!(
                "{} has data already, to which the data of Azurite is not added; nothing was changed; start without \
                 the import to use that data, or name a new location",
                location.display()
            );
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        for (account, data) in state.accounts.iter().zip(imported.accounts) {
            account.replace(data);
        }
        state.durable.iter().try_for_each(Durable::write_loaded)?;
        tracing::info!("taken over from Azurite: {}", imported.counts);
        for note in &imported.notes {
            tracing::warn!("not taken over from Azurite: {note}");
        }
        Ok(imported.notes)
    }

    pub(super) fn put_seeds(&self, state: &State) -> io::Result<()> {
        if self.seeds.is_empty() {
            return Ok(());
        }
        if !is_new(state) {
            tracing::info!(
                "seeds have no effect: they are for new locations, and this one has data"
            );
            return Ok(());
        }
        let seeds: Vec<_> = self.seeds.iter().map(|seed| &**seed).collect();
        let seeded = apply::apply(&state.accounts, &seeds, state.rules, state.now());
        let seeded = seeded.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        #[cfg(feature = "durable")]
        state.durable.iter().try_for_each(Durable::write_loaded)?;
        tracing::info!("seeded: {seeded}");
        Ok(())
    }
}

/// Whether the server has no data from an earlier start.
fn is_new(state: &State) -> bool {
    #[cfg(feature = "durable")]
    return state.durable.as_ref().is_none_or(Durable::is_new);
    #[cfg(not(feature = "durable"))]
    {
        let _ = state;
        true
    }
}
