//! Which account a command uses: flags first, then environment variables.

use std::env;
use std::time::Duration;

use rowkey::{ClientOptions, StorageAccount};
use zeroize::Zeroizing;

use crate::args::Common;
use crate::error::{Error, Result};
use crate::profiles::{self, Profiles};

/// Read before those of Azure, so that a shell can have an account for this command alone.
const VARIABLE: &str = "ROWKEY_CONNECTION_STRING";
const EMULATOR: &str = "UseDevelopmentStorage=true";

/// Connects to the account that the flags or the environment name. Sends nothing.
pub(crate) fn account(common: &Common) -> Result<StorageAccount> {
    let account = named(common)?;
    let Some(seconds) = common.timeout else { return Ok(account) };
    let options = account.options().clone();
    Ok(account.with_options(ClientOptions { timeout: Duration::from_secs(seconds), ..options }))
}

fn named(common: &Common) -> Result<StorageAccount> {
    let given = [common.profile.is_some(), common.connection_string_env.is_some(), common.emulator];
    if given.into_iter().filter(|is_given| *is_given).count() > 1 {
        return Err(Error::usage(
            "--profile, --connection-string-env and --emulator name different accounts; keep one of them",
        ));
    }
    if let Some(name) = &common.profile {
        let path = profiles::path(common.profiles.as_deref())?;
        let profiles = Profiles::read(&path)?;
        return parse(profiles.get(name, &path)?, &format!("profile {name}"));
    }
    if let Some(name) = &common.connection_string_env {
        let text = required(name)?;
        return parse(&text, &format!("the environment variable {name}"));
    }
    if common.emulator {
        return parse(EMULATOR, "--emulator");
    }
    if let Some(text) = variable(VARIABLE)? {
        return parse(&text, &format!("the environment variable {VARIABLE}"));
    }
    StorageAccount::from_env().map_err(|error| {
        Error::usage(format!(
            "{error}; or set {VARIABLE}, or use --profile NAME, --connection-string-env NAME or --emulator"
        ))
    })
}

/// The value of an environment variable that a flag names.
pub(crate) fn required(name: &str) -> Result<Zeroizing<String>> {
    variable(name)?.ok_or_else(|| {
        Error::usage(format!(
            "the environment variable {name} is not set; set it to a connection string"
        ))
    })
}

/// The value of an environment variable that is set and not empty.
fn variable(name: &str) -> Result<Option<Zeroizing<String>>> {
    match env::var(name) {
        Ok(text) => Ok(Some(Zeroizing::new(text)).filter(|text| !text.trim().is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        // The error would quote the value.
        Err(env::VarError::NotUnicode(_)) => {
            Err(Error::usage(format!("the environment variable {name} is not UTF-8; set it again")))
        }
    }
}

/// Parses a connection string. `place` says where it comes from, and is in errors instead of its text.
pub(crate) fn parse(text: &str, place: &str) -> Result<StorageAccount> {
    StorageAccount::from_connection_string(text.trim())
        .map_err(|error| Error::usage(error.to_string()).during(place))
}
