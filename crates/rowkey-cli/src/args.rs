//! The flags that all commands share: which account, which file of profiles, and the form of the output.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::accounts::{Token, TokenSource};
use crate::error::{Error, Result};

/// Flags that stand before or behind the name of each command.
#[derive(Args)]
pub(crate) struct Common {
    /// Use the connection with this name in the file of profiles.
    #[arg(long, global = true, value_name = "NAME", help_heading = "Connection")]
    pub(crate) profile: Option<String>,
    /// Use the connection string in this environment variable.
    #[arg(long, global = true, value_name = "NAME", help_heading = "Connection")]
    pub(crate) connection_string_env: Option<String>,
    /// Use the emulator on this machine: rowkey-server or Azurite, on port 10002.
    #[arg(long, global = true, help_heading = "Connection")]
    pub(crate) emulator: bool,
    /// Use the storage account with this name, by a token: see --credential.
    #[arg(long, global = true, value_name = "NAME", help_heading = "Connection")]
    pub(crate) account: Option<String>,
    /// Where the token for --account comes from. The program must be built with the feature `azure-identity`.
    #[arg(long, global = true, value_name = "SOURCE", help_heading = "Connection")]
    pub(crate) credential: Option<TokenSource>,
    /// The cloud of --account, such as `core.chinacloudapi.cn` or `core.usgovcloudapi.net`. Default: `core.windows.net`, the public cloud.
    #[arg(long, global = true, value_name = "SUFFIX", help_heading = "Connection")]
    pub(crate) endpoint_suffix: Option<String>,
    /// The file of profiles. Default: `rowkey/profiles.json` in the folder for settings of the user.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "ROWKEY_PROFILES",
        hide_env_values = true,
        help_heading = "Connection"
    )]
    pub(crate) profiles: Option<PathBuf>,
    /// Give up after this time, with all attempts of a request. Default: 60 seconds.
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        help_heading = "Connection"
    )]
    pub(crate) timeout: Option<u64>,
    /// The form of the output. Default: `table` on a terminal, otherwise `json-lines`.
    #[arg(long, global = true, value_name = "FORM", help_heading = "Output")]
    pub(crate) output: Option<Form>,
    /// The same as `--output json-lines`; errors are JSON on stderr, too.
    #[arg(long, global = true, conflicts_with = "output", help_heading = "Output")]
    pub(crate) json: bool,
    /// Show the keys of entities in messages and errors.
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) show_keys: bool,
}

/// The account of a second table. Without them it is that of the first one.
#[derive(Args)]
pub(crate) struct To {
    /// The other table is in the account of this profile.
    #[arg(
        id = "to_profile",
        long = "to-profile",
        value_name = "NAME",
        help_heading = "Connection"
    )]
    pub(crate) profile: Option<String>,
    /// The other table is in the account of the connection string in this environment variable.
    #[arg(
        id = "to_connection_string_env",
        long = "to-connection-string-env",
        value_name = "NAME",
        help_heading = "Connection"
    )]
    pub(crate) connection_string_env: Option<String>,
    /// The other table is in the emulator on this machine.
    #[arg(id = "to_emulator", long = "to-emulator", help_heading = "Connection")]
    pub(crate) emulator: bool,
}

impl To {
    /// Whether it names an account.
    pub(crate) const fn is_given(&self) -> bool {
        self.profile.is_some() || self.connection_string_env.is_some() || self.emulator
    }
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A table for reading.
    Table,
    /// An object a line. Entities are typed, and `rowkey set` reads them.
    JsonLines,
    /// CSV. Entities are in the form of Azure Storage Explorer, with the type of each value.
    Csv,
}

impl Common {
    /// The form of the output on this stdout.
    pub(crate) fn form(&self) -> Form {
        match self.output {
            _ if self.json => Form::JsonLines,
            Some(form) => form,
            None if io::stdout().is_terminal() => Form::Table,
            None => Form::JsonLines,
        }
    }

    /// The account and the source of its token, if both are given.
    pub(crate) fn identity(&self) -> Result<Option<Token>> {
        let endpoint_suffix = self.endpoint_suffix.clone();
        match (&self.account, self.credential) {
            (None, None) if endpoint_suffix.is_some() => Err(Error::usage(
                "--endpoint-suffix is for --account NAME; a connection string has its own EndpointSuffix",
            )),
            (None, None) => Ok(None),
            (Some(account), Some(credential)) => {
                Ok(Some(Token { account: account.clone(), credential, endpoint_suffix }))
            }
            (Some(_), None) => Err(Error::usage(
                "--account NAME is for tokens; add --credential SOURCE, or use a connection string for a key",
            )),
            (None, Some(_)) => Err(Error::usage("--credential is for --account NAME; add that")),
        }
    }

    /// The keys, if messages show them.
    pub(crate) fn shown<'k>(&self, keys: (&'k str, &'k str)) -> Option<(&'k str, &'k str)> {
        self.show_keys.then_some(keys)
    }
}
