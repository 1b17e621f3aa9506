//! `rowkey profile`: adds, lists and removes connections by name.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::accounts;
use crate::args::Common;
use crate::confirm::Confirm;
use crate::error::{Error, Result};
use crate::output;
use crate::profiles::{self, Profile as Connection, Profiles};
use crate::secret;

const EXAMPLES: &str = "\
Examples:
  rowkey profile add production < connection-string.txt
  rowkey profile list
  rowkey --profile production tables";

const ADD: &str = "\
Examples:
  rowkey profile add production < connection-string.txt
  rowkey profile add production --from-env AZURE_STORAGE_CONNECTION_STRING
  rowkey profile add production --account shop --credential managed-identity
  rowkey profile add production --replace < connection-string.txt";

const LIST: &str = "\
Examples:
  rowkey profile list
  rowkey profile list --json";

const REMOVE: &str = "\
Examples:
  rowkey profile remove production
  rowkey profile remove production --yes";

/// Add, list or remove connections by name.
///
/// They are in a file that only its user can read (mode 0600). No command shows a secret.
#[derive(Args)]
#[command(before_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Profile {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Add(Add),
    List(List),
    Remove(Remove),
}

/// Add a profile. The connection string is read from stdin, unless --account and --credential name a token.
#[derive(Args)]
#[command(before_help = ADD)]
struct Add {
    /// The name of the profile.
    name: String,
    /// Read the connection string from this environment variable.
    #[arg(long, value_name = "VARIABLE")]
    from_env: Option<String>,
    /// Replace a profile of the same name.
    #[arg(long)]
    replace: bool,
}

/// List the names of the profiles and their accounts.
#[derive(Args)]
#[command(before_help = LIST)]
struct List {}

/// Remove a profile with its secret.
#[derive(Args)]
#[command(before_help = REMOVE)]
struct Remove {
    /// The name of the profile.
    name: String,
    #[command(flatten)]
    confirm: Confirm,
}

pub(crate) fn run(common: &Common, Profile { command }: Profile) -> Result<()> {
    match command {
        Command::Add(args) => add(common, &args),
        Command::List(List {}) => list(common),
        Command::Remove(args) => remove(common, &args),
    }
}

fn add(common: &Common, Add { name, from_env, replace }: &Add) -> Result<()> {
    if name.is_empty() || name.contains(char::is_control) {
        return Err(Error::usage("the name of a profile is empty or has a control character"));
    }
    // A wrong mode of the file is reported before the secret is read.
    let path = profiles::path(common.profiles.as_deref())?;
    let mut profiles = Profiles::read(&path)?;
    let profile = match common.identity()? {
        Some(token) if from_env.is_none() => Connection::Token(token),
        Some(_) => {
            return Err(Error::usage(
                "--account and --from-env are different connections; keep one of them",
            ));
        }
        None => {
            let (text, place) = secret::read(from_env.as_deref(), "the connection string")?;
            accounts::by_text(&text, &place)?;
            Connection::of_text(text.trim())
        }
    };
    let account = profile.account_name();
    profiles.add(name, profile, *replace)?;
    profiles.write(&path)?;
    let row = vec![Value::from(&**name), account.into(), true.into()];
    output::records(common.form(), &["profile", "account", "added"], &[row])
}

fn list(common: &Common) -> Result<()> {
    let profiles = Profiles::read(&profiles::path(common.profiles.as_deref())?)?;
    let rows: Vec<_> = profiles
        .iter()
        .map(|(name, profile)| vec![Value::from(name), profile.account_name().into()])
        .collect();
    output::records(common.form(), &["profile", "account"], &rows)
}

fn remove(common: &Common, Remove { name, confirm }: &Remove) -> Result<()> {
    let path = profiles::path(common.profiles.as_deref())?;
    let mut profiles = Profiles::read(&path)?;
    profiles.remove(name, &path)?;
    confirm.ask(&format!("remove profile {name}"), None)?;
    profiles.write(&path)?;
    output::records(common.form(), &["profile", "removed"], &[vec![(&**name).into(), true.into()]])
}
