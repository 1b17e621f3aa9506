//! Which accounts there are, and the session over them.

use std::env;

use datafusion::prelude::SessionContext;
use rowkey_datafusion::{Accounts, SessionOptions, session_of};

use crate::args::Cli;
use crate::cluster;
use crate::error::{Error, Result};

const EMULATOR: &str = "UseDevelopmentStorage=true";

/// The accounts that the flags and the environment name. Sends nothing.
pub(crate) fn accounts(cli: &Cli) -> Result<Accounts> {
    let accounts = if let Some(name) = &cli.connection_string_env {
        let text = match env::var(name) {
            Ok(text) if !text.trim().is_empty() => text,
            // The error would quote the value.
            Err(env::VarError::NotUnicode(_)) => {
                return Err(Error::usage(format!(
                    "the environment variable {name} is not UTF-8; set it again"
                )));
            }
            _ => {
                return Err(Error::usage(format!(
                    "the environment variable {name} is not set; set it to a connection string"
                )));
            }
        };
        Accounts::with_default(&text)
    } else if cli.emulator {
        Accounts::with_default(EMULATOR)
    } else {
        Accounts::from_env()
    };
    accounts.map_err(|error| {
        let error = Error::from(error);
        Error::new(
            error.exit(),
            format!("{error}, or use --connection-string-env NAME or --emulator"),
        )
    })
}

/// The session of the flags.
pub(crate) fn session(cli: &Cli) -> Result<SessionContext> {
    let mut options = SessionOptions::default()
        .mismatch(cli.mismatch.into())
        .write(cli.write.into())
        .rejects(cli.rejects);
    if let Some(splits) = cli.splits {
        options = options.splits(usize::try_from(splits).unwrap_or(usize::MAX));
    }
    if let Some(mib) = cli.memory_limit {
        options = options
            .memory_limit(usize::try_from(mib).unwrap_or(usize::MAX).saturating_mul(1 << 20));
    }
    let session = session_of(&accounts(cli)?, options)?;
    Ok(if cli.scheduler.is_some() { cluster::upgraded(&session) } else { session })
}
