//! What the processes of a cluster log.

use std::io;

use tracing_subscriber::EnvFilter;

/// Logs to stderr what the filter says. Lines of the level `info` show plans, and with them the values in queries.
pub(super) fn start(filter: &str) {
    let filter = EnvFilter::new(filter);
    // It fails if there is a logger already, which is as good.
    let _ = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(io::stderr)
        .with_env_filter(filter)
        .try_init();
}
