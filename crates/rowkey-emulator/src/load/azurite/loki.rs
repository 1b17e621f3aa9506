//! The databases of `LokiJS`, read one row at a time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

/// The version of the format of `LokiJS` that Azurite 3.37 writes. Azurite's own version is not in its files.
const VERSION: f64 = 1.5;

/// A database in memory.
pub(super) struct File {
    path: PathBuf,
    text: String,
}

/// The collections of a database.
pub(super) struct Database<'a> {
    path: &'a Path,
    collections: Vec<Collection<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    database_version: Option<f64>,
    engine_version: Option<f64>,
    #[serde(borrow)]
    collections: Option<Vec<Collection<'a>>>,
}

/// A collection: its rows are not parsed yet.
#[derive(Deserialize)]
pub(super) struct Collection<'a> {
    pub(super) name: String,
    #[serde(borrow)]
    pub(super) data: Vec<&'a RawValue>,
}

/// What `LokiJS` adds to each row.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Meta {
    /// In milliseconds since 1970.
    pub(super) created: Option<f64>,
}

impl File {
    /// Reads a database; `None` if there is none with this name.
    pub(super) fn read(directory: &Path, name: &str) -> io::Result<Option<Self>> {
        let path = directory.join(name);
        match fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes);
                let text = text.map_err(|_| damaged(&path, "it is not text in UTF-8"))?;
                Ok(Some(Self { path, text }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                Err(io::Error::new(error.kind(), message))
            }
        }
    }

    /// The database, which must have a collection with this name.
    pub(super) fn database(&self, required: &str) -> io::Result<Database<'_>> {
        let written: Written<'_> = serde_json::from_str(&self.text).map_err(|error| {
            damaged(&self.path, &format!("it is not a database of LokiJS: {error}"))
        })?;
        for version in [written.database_version, written.engine_version] {
            if version.is_some_and(|version| (version - VERSION).abs() > f64::EPSILON) {
                let what = format!(
                    "it has version {} of the format of LokiJS, and this server reads {VERSION}, which Azurite 3.37 writes",
                    version.unwrap_or_default()
                );
                return Err(damaged(&self.path, &what));
            }
        }
        let collections = written.collections.unwrap_or_default();
        let database = Database { path: &self.path, collections };
        if database.collection(required).is_none() {
            let what = format!("it is not of Azurite: it has no collection {required}");
            return Err(damaged(&self.path, &what));
        }
        Ok(database)
    }
}

impl<'a> Database<'a> {
    pub(super) fn collection(&self, name: &str) -> Option<&Collection<'a>> {
        self.collections.iter().find(|collection| collection.name == name)
    }

    pub(super) fn collections(&self) -> impl Iterator<Item = &Collection<'a>> {
        self.collections.iter()
    }

    /// The rows of a collection; none if it is missing.
    pub(super) fn rows<T: Deserialize<'a>>(
        &self,
        name: &str,
    ) -> impl Iterator<Item = io::Result<T>> {
        let rows = self.collection(name).into_iter().flat_map(|collection| &collection.data);
        let name = name.to_owned();
        rows.enumerate().map(move |(at, row)| {
            // The text of the error can have values of the row.
            serde_json::from_str(row.get()).map_err(|_| {
                self.damaged(&format!("row {at} of {name} has another form than Azurite writes"))
            })
        })
    }

    /// The error for a row that cannot be what Azurite wrote.
    pub(super) fn damaged(&self, what: &str) -> io::Error {
        damaged(self.path, what)
    }
}

/// The error for a file that is damaged, or not of Azurite.
pub(super) fn damaged(path: &Path, what: &str) -> io::Error {
    let message = format!(
        "cannot take over {}: {what}; nothing was changed; stop Azurite, which writes its data when it ends, or use a \
         backup of its directory",
        path.display()
    );
    io::Error::new(io::ErrorKind::InvalidData, message)
}
