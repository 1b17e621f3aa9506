//! Which account a command uses: flags first, then environment variables.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey::{ClientOptions, StorageAccount};

use crate::args::{Common, To};
use crate::error::{Error, Result};
use crate::profiles::{self, Profiles};
use crate::secret;

/// Read before those of Azure, so that a shell can have an account for this command alone.
const VARIABLE: &str = "ROWKEY_CONNECTION_STRING";
const EMULATOR: &str = "UseDevelopmentStorage=true";

/// Connects to the account that the flags or the environment name. Sends nothing.
pub(crate) fn account(common: &Common) -> Result<StorageAccount> {
    let named =
        named(common, "", (&common.profile, &common.connection_string_env, common.emulator))?;
    if let Some(account) = named {
        return Ok(account);
    }
    if let Some(text) = secret::variable(VARIABLE)? {
        return Ok(within(common, parse(&text, &format!("the environment variable {VARIABLE}"))?));
    }
    let account = StorageAccount::from_env().map_err(|error| {
        Error::usage(format!(
            "{error}; or set {VARIABLE}, or use --profile NAME, --connection-string-env NAME or --emulator"
        ))
    })?;
    Ok(within(common, account))
}

/// Connects to the account of a second table, if flags name one. Sends nothing.
pub(crate) fn destination(common: &Common, to: &To) -> Result<Option<StorageAccount>> {
    named(common, "to-", (&to.to_profile, &to.to_connection_string_env, to.to_emulator))
}

/// Connects to the account of a second table: that which the flags name, or the same as that of the first one.
pub(crate) fn other(common: &Common, to: &To, first: &StorageAccount) -> Result<StorageAccount> {
    Ok(destination(common, to)?.unwrap_or_else(|| first.clone()))
}

/// The names of all tables of an account.
pub(crate) async fn tables(account: &StorageAccount) -> Result<Vec<String>> {
    Ok(account.tables().stream().try_collect().await?)
}

fn named(
    common: &Common,
    prefix: &str,
    (profile, variable, emulator): (&Option<String>, &Option<String>, bool),
) -> Result<Option<StorageAccount>> {
    let given = [profile.is_some(), variable.is_some(), emulator];
    if given.into_iter().filter(|is_given| *is_given).count() > 1 {
        return Err(Error::usage(format!(
            "--{prefix}profile, --{prefix}connection-string-env and --{prefix}emulator name different accounts; keep one of them"
        )));
    }
    let account = if let Some(name) = profile {
        let path = profiles::path(common.profiles.as_deref())?;
        let profiles = Profiles::read(&path)?;
        parse(profiles.get(name, &path)?, &format!("profile {name}"))?
    } else if let Some(name) = variable {
        let text = secret::required(name, "a connection string")?;
        parse(&text, &format!("the environment variable {name}"))?
    } else if emulator {
        parse(EMULATOR, &format!("--{prefix}emulator"))?
    } else {
        return Ok(None);
    };
    Ok(Some(within(common, account)))
}

/// The account with the time limit of the flags.
fn within(common: &Common, account: StorageAccount) -> StorageAccount {
    let Some(seconds) = common.timeout else { return account };
    let options = account.options().clone();
    account.with_options(ClientOptions { timeout: Duration::from_secs(seconds), ..options })
}

/// Parses a connection string. `place` says where it comes from, and is in errors instead of its text.
pub(crate) fn parse(text: &str, place: &str) -> Result<StorageAccount> {
    StorageAccount::from_connection_string(text.trim())
        .map_err(|error| Error::usage(error.to_string()).during(place))
}
