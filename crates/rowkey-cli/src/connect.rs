//! Which account a command uses: flags first, then environment variables.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey::{ClientOptions, StorageAccount};

use crate::accounts;
use crate::args::{Common, To};
use crate::error::{Error, Result};
use crate::profiles::{self, Profiles};
use crate::secret;

/// Read before those of Azure, so that a shell can have an account for this command alone.
const VARIABLE: &str = "ROWKEY_CONNECTION_STRING";
const EMULATOR: &str = "UseDevelopmentStorage=true";

/// Connects to the account that the flags or the environment name. Sends nothing.
pub(crate) fn account(common: &Common) -> Result<StorageAccount> {
    let identity = common.identity()?;
    let flags = Flags {
        prefix: "",
        profile: common.profile.as_deref(),
        variable: common.connection_string_env.as_deref(),
        emulator: common.emulator,
    };
    let given = flags.given() + usize::from(identity.is_some());
    if given > 1 {
        return Err(Error::usage(
            "--profile, --connection-string-env, --emulator and --account name different accounts; keep one of them",
        ));
    }
    let account = if let Some(token) = identity {
        accounts::by_token(&token, "--credential")?
    } else if let Some(account) = flags.account(common)? {
        account
    } else if let Some(text) = secret::variable(VARIABLE)? {
        accounts::by_text(&text, &format!("the environment variable {VARIABLE}"))?
    } else {
        StorageAccount::from_env().map_err(|error| {
            Error::usage(format!(
                "{error}; or set {VARIABLE}, or use --profile NAME, --connection-string-env NAME, --account NAME or --emulator"
            ))
        })?
    };
    Ok(within(common, account))
}

/// Connects to the account of a second table, if flags name one. Sends nothing.
pub(crate) fn destination(common: &Common, to: &To) -> Result<Option<StorageAccount>> {
    let flags = Flags {
        prefix: "to-",
        profile: to.profile.as_deref(),
        variable: to.connection_string_env.as_deref(),
        emulator: to.emulator,
    };
    if flags.given() > 1 {
        return Err(Error::usage(
            "--to-profile, --to-connection-string-env and --to-emulator name different accounts; keep one of them",
        ));
    }
    Ok(flags.account(common)?.map(|account| within(common, account)))
}

/// Connects to the account of a second table: that which the flags name, or the same as that of the first one.
pub(crate) fn other(common: &Common, to: &To, first: &StorageAccount) -> Result<StorageAccount> {
    Ok(destination(common, to)?.unwrap_or_else(|| first.clone()))
}

/// The names of all tables of an account.
pub(crate) async fn tables(account: &StorageAccount) -> Result<Vec<String>> {
    Ok(account.tables().stream().try_collect().await?)
}

/// Flags that name an account.
struct Flags<'a> {
    /// What their names begin with.
    prefix: &'static str,
    profile: Option<&'a str>,
    variable: Option<&'a str>,
    emulator: bool,
}

impl Flags<'_> {
    fn given(&self) -> usize {
        let given = [self.profile.is_some(), self.variable.is_some(), self.emulator];
        given.into_iter().filter(|is_given| *is_given).count()
    }

    /// The account that the first of them names.
    fn account(&self, common: &Common) -> Result<Option<StorageAccount>> {
        let account = if let Some(name) = self.profile {
            let path = profiles::path(common.profiles.as_deref())?;
            let profiles = Profiles::read(&path)?;
            profiles.get(name, &path)?.account(&format!("profile {name}"))?
        } else if let Some(name) = self.variable {
            let text = secret::required(name, "a connection string")?;
            accounts::by_text(&text, &format!("the environment variable {name}"))?
        } else if self.emulator {
            accounts::by_text(EMULATOR, &format!("--{}emulator", self.prefix))?
        } else {
            return Ok(None);
        };
        Ok(Some(account))
    }
}

/// The account with the time limit of the flags.
fn within(common: &Common, account: StorageAccount) -> StorageAccount {
    let Some(seconds) = common.timeout else { return account };
    let options = account.options().clone();
    account.with_options(ClientOptions { timeout: Duration::from_secs(seconds), ..options })
}
