//! A `tracing` layer that logs events as lines.

use std::io;

use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::quiet::is_quiet;
use super::writer::LogWriter;

/// Targets that connections use in their own tasks for any request, including those of the writer.
const CONNECTIONS: [&str; 8] =
    ["h2", "hyper", "hyper_util", "mio", "reqwest", "rustls", "tokio", "want"];

impl LogWriter {
    /// A layer for a subscriber that logs events as JSON, one per line, as [`tracing_subscriber::fmt()`]
    /// formats them, with their spans.
    ///
    /// It never waits: an event that finds the buffer full is dropped and counted, as in
    /// [`log_or_drop`](Self::log_or_drop). The program must await [`run_until`](Self::run_until); events
    /// traced after it has returned are not written.
    ///
    /// Events caused by writing the log itself are not logged, including those of the HTTP library below it.
    /// Add a filter to exclude other events.
    ///
    /// ```
    /// use rowkey::patterns::log_blob::BlobLog;
    /// use tracing_subscriber::layer::SubscriberExt as _;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("logs");
    /// # container.create().await?;
    /// let log = BlobLog::new(container, "web");
    /// let writer = log.writer()?;
    /// let subscriber = tracing_subscriber::registry().with(writer.layer());
    /// # let service = || tracing::info!(guests = 3, "the table is laid");
    /// tracing::subscriber::with_default(subscriber, service);
    /// writer.close().await?;
    ///
    /// # use futures_util::TryStreamExt as _;
    /// # let now = account.clock().now();
    /// # let hour = chrono::TimeDelta::hours(1);
    /// let lines: Vec<_> = log.read(now - hour..now + hour).try_collect().await?;
    /// assert!(lines[0].text.contains(r#""message":"the table is laid","guests":3"#));
    /// # Ok(())
    /// # }
    /// ```
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let writer = self.clone();
        fmt::layer()
            .json()
            // The line has its own time.
            .without_time()
            .log_internal_errors(false)
            .with_writer(move || Line(writer.clone()))
            .with_filter(dynamic_filter_fn(|event, _| is_wanted(event)))
    }
}

fn is_wanted(event: &Metadata<'_>) -> bool {
    let library = event.target().split("::").next().unwrap_or_default();
    !is_quiet() && !CONNECTIONS.contains(&library)
}

/// Receives a formatted event, which arrives whole and with a line feed.
struct Line(LogWriter);

impl io::Write for Line {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        self.0.push_or_drop(text.trim_end_matches('\n'), notice);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The notice of dropped events, formatted like an event.
fn notice(events: u64) -> String {
    format!(
        r#"{{"level":"WARN","fields":{{"message":"events were dropped","events":{events}}},"target":"{}"}}"#,
        module_path!()
    )
}
