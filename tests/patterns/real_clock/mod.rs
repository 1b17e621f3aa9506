//! Everything that loops, on the machine's clock.
//!
//! A loop that reads the clock in each round may end on a clock that stands and run forever on one
//! that moves. So each loop of the patterns that waits or polls runs here once with the clock that
//! programs have. The tests count requests: how fast the machine is does not matter, and the only
//! limit of time is one that ends a loop that does not end.

mod jobs;
mod log_tail;
mod waiting;

use std::future::Future;
use std::time::Duration;

use futures_util::future::{FutureExt as _, LocalBoxFuture};
use rowkey::StorageAccount;
use rowkey_emulator::{JournalEntry, Server};
use rowkey_tests::TestResult;

/// After this time a loop is taken for one that does not end.
const NEVER: Duration = Duration::from_secs(60);

/// A server and an account, both with the machine's clock.
async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    Ok((server, account))
}

/// Runs `work` to its end; returns what came out, and the requests that it sent.
fn requests_of<'a, T: 'a>(
    server: &'a Server,
    work: impl Future<Output = T> + 'a,
) -> LocalBoxFuture<'a, (T, Vec<JournalEntry>)> {
    // Boxed, because some of it is large.
    async move {
        let before = server.journal();
        let done = tokio::time::timeout(NEVER, work).await;
        let sent = server.journal().since(&before);
        let done = done.unwrap_or_else(|_| panic!("no end after {} requests", sent.len()));
        (done, sent.iter().cloned().collect())
    }
    .boxed_local()
}
