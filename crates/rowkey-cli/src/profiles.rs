//! Connections by name, in a file that only its user can read.
//!
//! The file is JSON: `{"profiles":{"NAME":{"connection_string":"..."}}}`; a profile without a secret is
//! `{"account":"..","credential":"managed-identity"}`. It is replaced at once, so that an interrupted
//! command leaves the old file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rowkey::StorageAccount;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::accounts::{self, Token};
use crate::error::{Error, Exit, Result};

/// The file of profiles, read. It has no `Debug`, because it holds secrets.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// One connection.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Profile {
    Secret(Secret),
    Token(Token),
}

/// A connection string.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Secret {
    connection_string: String,
}

impl Profile {
    pub(crate) fn of_text(connection_string: &str) -> Self {
        Self::Secret(Secret { connection_string: connection_string.to_owned() })
    }

    /// Connects. `place` says which profile it is. Sends nothing.
    pub(crate) fn account(&self, place: &str) -> Result<StorageAccount> {
        match self {
            Self::Secret(secret) => accounts::by_text(&secret.connection_string, place),
            Self::Token(token) => accounts::by_token(token, place),
        }
    }

    /// The name of the account, if it can be read.
    pub(crate) fn account_name(&self) -> Option<String> {
        match self {
            // A file that was edited may hold text that is no connection string.
            Self::Secret(_) => self.account("").ok().map(|account| account.name().to_owned()),
            Self::Token(token) => Some(token.account.clone()),
        }
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.connection_string.zeroize();
    }
}

/// The path that was given, or the default one.
pub(crate) fn path(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let folder = |name, below: &[&str]| {
        let folder = std::env::var_os(name).filter(|value| !value.is_empty())?;
        Some(below.iter().fold(PathBuf::from(folder), |path, name| path.join(name)))
    };
    let settings = if cfg!(windows) {
        folder("APPDATA", &[])
    } else {
        folder("XDG_CONFIG_HOME", &[]).or_else(|| folder("HOME", &[".config"]))
    };
    let settings = settings.ok_or_else(|| {
        Error::usage(
            "no home directory is known for the file of profiles; name it by --profiles FILE",
        )
    })?;
    Ok(settings.join("rowkey").join("profiles.json"))
}

impl Profiles {
    /// Reads the file; one that does not exist has no profiles.
    ///
    /// Refuses a file that other users of the machine can read or change.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(path, "cannot be read", &error)),
        };
        check_mode(path, &file)?;
        let mut text = Zeroizing::new(String::new());
        file.read_to_string(&mut text).map_err(|error| failed(path, "cannot be read", &error))?;
        // The message of serde_json may quote what it read, so only the place is shown.
        serde_json::from_str(&text).map_err(|error| {
            Error::usage(format!(
                "the file of profiles {} is not as `rowkey profile add` writes it, at line {}; \
                 correct it, or remove it and add its profiles again",
                path.display(),
                error.line()
            ))
        })
    }

    /// Writes the file with mode 0600, and its folder if there is none.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let cannot = |error: &io::Error| failed(path, "cannot be written", error);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| cannot(&error))?;
        let mut text = Zeroizing::new(Vec::new());
        serde_json::to_writer_pretty(&mut *text, self).map_err(|error| cannot(&error.into()))?;
        text.push(b'\n');
        // Its mode is 0600 from the start.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| cannot(&error))?;
        file.write_all(&text).map_err(|error| cannot(&error))?;
        file.as_file().sync_all().map_err(|error| cannot(&error))?;
        file.persist(path).map_err(|error| cannot(&error.error))?;
        Ok(())
    }

    /// A profile.
    pub(crate) fn get(&self, name: &str, path: &Path) -> Result<&Profile> {
        self.profiles.get(name).ok_or_else(|| missing(name, path))
    }

    /// Adds a profile. One of the same name stays, unless it is to be replaced.
    pub(crate) fn add(&mut self, name: &str, profile: Profile, replace: bool) -> Result<()> {
        if !replace && self.profiles.contains_key(name) {
            return Err(Error::new(
                Exit::Condition,
                format!("profile {name} exists; add --replace to replace it"),
            ));
        }
        self.profiles.insert(name.to_owned(), profile);
        Ok(())
    }

    /// Removes a profile.
    pub(crate) fn remove(&mut self, name: &str, path: &Path) -> Result<()> {
        self.profiles.remove(name).map(drop).ok_or_else(|| missing(name, path))
    }

    /// The profiles, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Profile)> {
        self.profiles.iter().map(|(name, profile)| (&**name, profile))
    }
}

fn missing(name: &str, path: &Path) -> Error {
    let path = path.display();
    let text = format!("no profile {name} in {path}; `rowkey profile list` shows those that exist");
    Error::new(Exit::NotFound, text)
}

fn failed(path: &Path, what: &str, error: &io::Error) -> Error {
    Error::new(Exit::Failed, format!("the file of profiles {} {what}: {error}", path.display()))
}

#[cfg(unix)]
fn check_mode(path: &Path, file: &File) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let metadata = file.metadata().map_err(|error| failed(path, "cannot be read", &error))?;
    let mode = metadata.permissions().mode() & 0o777;
    // No bit of the group or of others, which are the lowest six.
    if mode.trailing_zeros() >= 6 {
        return Ok(());
    }
    let path = path.display();
    Err(Error::usage(format!(
        "the file of profiles {path} has mode {mode:04o}, so other users may read its secrets; \
         run `chmod 600 {path}`, and renew the keys if other users could read them"
    )))
}

/// Elsewhere the folder for settings is the user's own.
#[cfg(not(unix))]
fn check_mode(_: &Path, _: &File) -> Result<()> {
    Ok(())
}
