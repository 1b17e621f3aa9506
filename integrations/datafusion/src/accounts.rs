//! Storage accounts by name, from the environment of this process.
//!
//! A plan names accounts and has no secrets: each process that runs a part of it finds the account in its own environment.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use rowkey::StorageAccount;

use crate::error;

/// The variable of the default account. Those of further accounts begin with it and `_`.
const VARIABLE: &str = "ROWKEY_CONNECTION_STRING";
/// The variables of other tools, of which one must be set before they are read.
const OF_OTHERS: [&str; 6] = [
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_ACCOUNT",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AzureWebJobsStorage",
    "AzureWebJobsStorage__",
];

/// The storage accounts that a session reads and writes, by name.
///
/// ```
/// use rowkey::StorageAccount;
/// use rowkey_datafusion::Accounts;
///
/// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
/// let accounts = Accounts::of([account])?;
/// assert_eq!(accounts.default_account()?.name(), "devstoreaccount1");
/// let unknown = accounts.get("contoso").unwrap_err();
/// assert!(unknown.to_string().contains("ROWKEY_CONNECTION_STRING_CONTOSO"), "{unknown}");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Accounts {
    known: Vec<Known>,
    /// Which is the default, or why there is none.
    default: std::result::Result<usize, String>,
}

#[derive(Clone)]
struct Known {
    account: StorageAccount,
    /// The connection string, if it was made from one.
    text: Option<Arc<str>>,
    /// What it was made from, for messages.
    place: String,
}

impl Accounts {
    /// The accounts that environment variables describe.
    ///
    /// | variables | account |
    /// |---|---|
    /// | `ROWKEY_CONNECTION_STRING` | the default |
    /// | those of [`StorageAccount::from_env`] | the default, if `ROWKEY_CONNECTION_STRING` is not set |
    /// | `ROWKEY_CONNECTION_STRING_…`, with any ending | others, each by the name in its connection string |
    ///
    /// A single account of the last row is the default if the others are not set. Fails if a variable is not valid, if two different
    /// connection strings have one name, and if there is no account. Nothing is sent.
    pub fn from_env() -> Result<Self> {
        Self::read(&env::vars_os().collect::<Vec<_>>(), None, StorageAccount::from_env)
    }

    /// The account of a connection string as the default, and those of [`from_env`](Self::from_env) beside it.
    ///
    /// It takes the place of an account of the same name in the environment.
    pub fn with_default(connection_string: &str) -> Result<Self> {
        let variables = env::vars_os().collect::<Vec<_>>();
        Self::read(&variables, Some(connection_string), StorageAccount::from_env)
    }

    /// These accounts. The first one is the default.
    ///
    /// Files in blob containers need a connection string: see [`from_env`](Self::from_env). Fails if there is none, or two have one name.
    pub fn of(accounts: impl IntoIterator<Item = StorageAccount>) -> Result<Self> {
        let mut all = Self { known: Vec::new(), default: Ok(0) };
        for account in accounts {
            if all.find(account.name()).is_some() {
                return Err(error::plan(format!(
                    "two accounts have the name {}; give one of them",
                    account.name()
                )));
            }
            all.known.push(Known { account, text: None, place: "the program".to_owned() });
        }
        if all.known.is_empty() {
            return Err(error::plan("a session needs at least one storage account"));
        }
        Ok(all)
    }

    /// The account with this name.
    ///
    /// Fails if it is unknown in this process: the error names the variable to set.
    pub fn get(&self, name: &str) -> Result<&StorageAccount> {
        self.find(name).map(|known| &known.account).ok_or_else(|| unknown(name))
    }

    /// The account of names that name none.
    ///
    /// Fails if there are several accounts and the environment names none of them as the default.
    pub fn default_account(&self) -> Result<&StorageAccount> {
        match &self.default {
            Ok(index) => Ok(&self.known[*index].account),
            Err(reason) => Err(error::plan(reason.clone())),
        }
    }

    /// All accounts, in the order of their variables.
    pub fn iter(&self) -> impl Iterator<Item = &StorageAccount> {
        self.known.iter().map(|known| &known.account)
    }

    /// The connection string of an account, which is a secret.
    #[cfg(feature = "objects")]
    pub(crate) fn connection_string(&self, name: &str) -> Result<Arc<str>> {
        let known = self.find(name).ok_or_else(|| unknown(name))?;
        known.text.clone().ok_or_else(|| {
            error::plan(format!(
                "blobs of the account {name} need its connection string, and it was made from {}; set {}",
                known.place,
                variable(name)
            ))
        })
    }

    fn find(&self, name: &str) -> Option<&Known> {
        self.known.iter().find(|known| known.account.name() == name)
    }

    fn read(
        variables: &[(OsString, OsString)],
        given: Option<&str>,
        from_env: impl FnOnce() -> rowkey::Result<StorageAccount>,
    ) -> Result<Self> {
        let mut all = Self { known: Vec::new(), default: Err(String::new()) };
        if let Some(text) = given {
            all.add(text, "the connection string that was given")?;
            all.default = Ok(0);
        }
        let mut ours: Vec<_> =
            variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value))).collect();
        ours.retain(|(name, _)| {
            *name == VARIABLE
                || name.strip_prefix(VARIABLE).is_some_and(|rest| rest.starts_with('_'))
        });
        // The default is the first one.
        ours.sort_unstable();
        for (name, value) in ours {
            // The value is not shown.
            let value = value.to_str().ok_or_else(|| {
                error::plan(format!("the environment variable {name} is not UTF-8; set it again"))
            })?;
            if value.trim().is_empty() {
                continue;
            }
            let place = format!("the environment variable {name}");
            let index = all.add_beside(value.trim(), &place, given.is_some())?;
            if name == VARIABLE && given.is_none() {
                all.default = Ok(index);
            }
        }
        if all.default.is_ok() {
            return Ok(all);
        }
        let is_set = |known: &str| {
            let is = |name: &str| {
                let head =
                    name.get(..known.len()).is_some_and(|head| head.eq_ignore_ascii_case(known));
                head && (name.len() == known.len() || known.ends_with('_'))
            };
            variables.iter().any(|(name, value)| name.to_str().is_some_and(is) && !value.is_empty())
        };
        if all.known.is_empty() || OF_OTHERS.iter().any(|known| is_set(known)) {
            all.default = match from_env() {
                Ok(account) => Ok(all.add_of_others(account, variables)?),
                Err(error) => Err(format!("{error}; or set {VARIABLE}")),
            };
        } else if all.known.len() == 1 {
            all.default = Ok(0);
        } else {
            all.default = Err(format!(
                "several accounts are known, and none is the default; set {VARIABLE} to its connection string"
            ));
        }
        match &all.default {
            Err(reason) if all.known.is_empty() => Err(error::plan(reason.clone())),
            _ => Ok(all),
        }
    }

    /// Adds the account of a connection string, unless it is the given one, which takes its place.
    fn add_beside(&mut self, text: &str, place: &str, is_given: bool) -> Result<usize> {
        let account = parsed(text, place)?;
        let index = self.known.iter().position(|known| known.account.name() == account.name());
        match index {
            Some(0) if is_given => Ok(0),
            Some(index) if self.known[index].text.as_deref() == Some(text) => Ok(index),
            Some(index) => Err(error::plan(format!(
                "{place} and {} are different connection strings of the account {}; unset one of them",
                self.known[index].place,
                account.name()
            ))),
            None => {
                self.known.push(Known {
                    account,
                    text: Some(text.into()),
                    place: place.to_owned(),
                });
                Ok(self.known.len() - 1)
            }
        }
    }

    fn add(&mut self, text: &str, place: &str) -> Result<usize> {
        self.add_beside(text.trim(), place, false)
    }

    /// Adds the account of the variables of other tools.
    fn add_of_others(
        &mut self,
        account: StorageAccount,
        variables: &[(OsString, OsString)],
    ) -> Result<usize> {
        let value = |wanted: &str| {
            let of = |(name, value): &(OsString, OsString)| {
                let is_named = name.eq_ignore_ascii_case(wanted);
                is_named
                    .then(|| value.to_str())
                    .flatten()
                    .map(str::trim)
                    .filter(|value| !value.is_empty())
                    .map(str::to_owned)
            };
            variables.iter().find_map(of)
        };
        let name = account.name();
        let secret = |part, names: [&str; 2]| {
            Some(format!("{part}={}", names.iter().find_map(|name| value(name))?))
        };
        let secret = secret("AccountKey", ["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"])
            .or_else(|| secret("SharedAccessSignature", ["AZURE_STORAGE_SAS_TOKEN"; 2]));
        let text = match value("AZURE_STORAGE_CONNECTION_STRING") {
            // A secret in a variable of its own completes it.
            Some(text) => match secret {
                Some(secret)
                    if !text.contains("AccountKey=")
                        && !text.contains("SharedAccessSignature=") =>
                {
                    Some(format!("{text};{secret}"))
                }
                _ => Some(text),
            },
            None => match secret {
                Some(secret) => Some(format!("AccountName={name};{secret}")),
                None => value("AzureWebJobsStorage"),
            },
        };
        let place = "the variables of other tools";
        if let Some(index) = self.known.iter().position(|known| known.account.name() == name) {
            if self.known[index].text.as_deref() == text.as_deref() {
                return Ok(index);
            }
            return Err(error::plan(format!(
                "{place} and {} are different accounts with the name {name}; unset one of them",
                self.known[index].place
            )));
        }
        self.known.push(Known { account, text: text.map(Into::into), place: place.to_owned() });
        Ok(self.known.len() - 1)
    }
}

fn parsed(text: &str, place: &str) -> Result<StorageAccount> {
    StorageAccount::from_connection_string(text)
        .map_err(|error| error::plan(format!("{place}: {error}")))
}

fn unknown(name: &str) -> DataFusionError {
    error::plan(format!(
        "the account {name} is not known on this machine; set the environment variable {} to its connection string",
        variable(name)
    ))
}

/// The variable in which an account is looked for, by convention.
fn variable(name: &str) -> String {
    let name =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    format!("{VARIABLE}_{}", name.collect::<String>())
}

impl fmt::Debug for Accounts {
    /// Shows names alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(StorageAccount::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Base64 of `account-key`.
    const KEY: &str = "YWNjb3VudC1rZXk=";

    fn read(variables: &[(&str, &str)]) -> Result<Accounts> {
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let others = variables.iter().find(|(name, _)| name == "AZURE_STORAGE_CONNECTION_STRING");
        let others = others
            .map(|(_, value): &(OsString, OsString)| value.to_str().unwrap_or_default().to_owned());
        Accounts::read(&variables, None, || match others {
            Some(text) => StorageAccount::from_connection_string(&text),
            None => StorageAccount::from_connection_string(""),
        })
    }

    fn text(name: &str) -> String {
        format!("AccountName={name};AccountKey={KEY}")
    }

    fn names(accounts: &Accounts) -> Vec<&str> {
        accounts.iter().map(StorageAccount::name).collect()
    }

    #[test]
    fn accounts_are_known_by_the_names_in_their_connection_strings() {
        let (shop, archive, other) = (text("shop"), text("archive"), text("other"));
        let accounts = read(&[
            ("ROWKEY_CONNECTION_STRING_B", &archive),
            ("ROWKEY_CONNECTION_STRING", &shop),
            ("ROWKEY_CONNECTION_STRING_C", &archive),
            ("ROWKEY_CONNECTION_STRING_EMPTY", " "),
            ("ROWKEY_CONNECTION_STRINGS", "no"),
            ("AZURE_STORAGE_CONNECTION_STRING", &other),
        ])
        .unwrap();
        assert_eq!(names(&accounts), ["shop", "archive"]);
        assert_eq!(accounts.default_account().unwrap().name(), "shop");
        assert_eq!(format!("{accounts:?}"), r#"["shop", "archive"]"#);

        let accounts = read(&[
            ("ROWKEY_CONNECTION_STRING_B", &archive),
            ("AZURE_STORAGE_CONNECTION_STRING", &other),
        ])
        .unwrap();
        assert_eq!(accounts.default_account().unwrap().name(), "other");
        assert_eq!(names(&accounts), ["archive", "other"]);

        let accounts = read(&[("ROWKEY_CONNECTION_STRING_B", &archive)]).unwrap();
        assert_eq!(accounts.default_account().unwrap().name(), "archive");
        let accounts = read(&[
            ("ROWKEY_CONNECTION_STRING_B", &archive),
            ("ROWKEY_CONNECTION_STRING_A", &shop),
        ])
        .unwrap();
        let error = accounts.default_account().unwrap_err().to_string();
        assert!(error.contains("none is the default; set ROWKEY_CONNECTION_STRING"), "{error}");
    }

    #[test]
    fn errors_name_variables_and_never_their_values() {
        let (shop, other) = (text("shop"), "AccountName=shop;AccountKey=b3RoZXI=".to_owned());
        for (variables, expected) in [
            (
                &[("ROWKEY_CONNECTION_STRING", &*shop), ("ROWKEY_CONNECTION_STRING_2", &*other)][..],
                "ROWKEY_CONNECTION_STRING_2 and",
            ),
            (
                &[("ROWKEY_CONNECTION_STRING", "AccountKey=b3RoZXI=")],
                "variable ROWKEY_CONNECTION_STRING: ",
            ),
            (&[], "or set ROWKEY_CONNECTION_STRING"),
            (
                &[
                    ("ROWKEY_CONNECTION_STRING_2", &shop),
                    ("AZURE_STORAGE_CONNECTION_STRING", &other),
                ],
                "accounts with the name shop",
            ),
        ] {
            let error = read(variables).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!format!("{error} {error:?}").contains("b3RoZXI="), "{error}");
        }
        let error = read(&[("ROWKEY_CONNECTION_STRING", &shop)])
            .unwrap()
            .get("a-rchive")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("the account a-rchive is not known")
                && error.contains("ROWKEY_CONNECTION_STRING_A_RCHIVE"),
            "{error}"
        );
    }

    #[test]
    fn a_given_connection_string_takes_the_place_of_one_in_the_environment() {
        let given = "AccountName=shop;SharedAccessSignature=sv=1&sig=x";
        let variables = [("ROWKEY_CONNECTION_STRING".into(), text("shop").into())];
        let accounts =
            Accounts::read(&variables, Some(given), || unreachable!("a default is given")).unwrap();
        assert_eq!(names(&accounts), ["shop"]);
        assert_eq!(accounts.find("shop").unwrap().text.as_deref(), Some(given));
    }
}
