//! Signals that stop a client, and with it what it runs on the cluster.

use crate::error::Error;
use crate::prompt::ctrl_c;

/// Waits for Ctrl-C, or for the end of the terminal or of the session.
#[cfg(unix)]
pub(crate) async fn stopped() -> Error {
    use tokio::signal::unix::{SignalKind, signal};

    use crate::error::Exit;

    let by = |name| Error::new(Exit::Interrupted, format!("stopped by {name}"));
    let (mut terminate, mut hangup) =
        match (signal(SignalKind::terminate()), signal(SignalKind::hangup())) {
            (Ok(terminate), Ok(hangup)) => (terminate, hangup),
            (Err(error), _) | (_, Err(error)) => return error.into(),
        };
    tokio::select! {
        error = ctrl_c() => error,
        _ = terminate.recv() => by("SIGTERM"),
        _ = hangup.recv() => by("SIGHUP"),
    }
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn stopped() -> Error {
    ctrl_c().await
}
