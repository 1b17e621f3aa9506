//! Deletes blobs of tasks that no message and no dead letter needs any more.

use std::time::Duration;

use chrono::TimeDelta;
use futures_util::TryStreamExt as _;
use rowkey_client::{ErrorKind, Result};

use crate::task::{Task, Tasks, poisoned};

impl<T: Task> Tasks<T> {
    /// Deletes blobs of tasks that were processed or never sent, which remain when a program dies between two
    /// requests; returns their number. Blobs of dead letters are kept.
    ///
    /// A queue cannot be searched for messages that name a blob, so age decides: `older_than` must be longer
    /// than any task waits and takes to process, and by a quarter of an hour more, because the clock of this
    /// program may be ahead of the service's. Otherwise the task becomes a dead letter when it is
    /// received, with the missing blob as the reason. Costs a request for each 5,000 blobs, one for each
    /// deleted blob, and one for each whose task has or had a dead letter.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// # let tasks = tasks.claims(account.container("claims"));
    /// # tasks.create_if_missing().await?;
    /// tasks.put(&welcome(&"long ".repeat(100_000))).await?;
    /// tasks.queue().clear().await?; // the blob remains
    /// assert_eq!(tasks.sweep_claims(Duration::from_secs(7 * 86_400)).await?, 0);
    /// assert_eq!(tasks.sweep_claims(Duration::ZERO).await?, 1);
    /// # Ok(()) }
    /// ```
    pub async fn sweep_claims(&self, older_than: Duration) -> Result<u64> {
        let Some(container) = &self.claims else { return Ok(0) };
        let age = TimeDelta::from_std(older_than).unwrap_or(TimeDelta::MAX);
        let now = self.queue().account().clock().now();
        let Some(before) = now.checked_sub_signed(age) else { return Ok(0) };
        let prefix = format!("{}/", self.queue().name());
        let mut blobs = container.blobs().starting_with(&prefix).with_metadata().stream();
        let mut swept = 0;
        while let Some(item) = blobs.try_next().await? {
            if item.properties.modified >= before {
                continue;
            }
            if let Some(id) = poisoned(&item.properties.metadata)
                && self.dead_letters().has(id).await?
            {
                continue;
            }
            // Fails if it was marked since it was listed.
            let blob = container.blob(&item.name).with_conditions(&item.properties.etag);
            match blob.delete_if_exists().await {
                Ok(deleted) => swept += u64::from(deleted),
                Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Leased) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(swept)
    }
}
