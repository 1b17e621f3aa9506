//! What a type declares, as constants.
//!
//! A constant here that holds a function holds it only if the type declares something that needs the
//! function. Otherwise the function is not compiled for the type, which matters to programs with many
//! stores. An `if` is not enough: the compiler also instantiates what branches that are never taken call.

use rowkey_client::entity::{BlobField, OlderRows};
use rowkey_client::index::{Index, List, ListPlace, Scope};
use rowkey_client::{Entity, Error, ErrorKind, Result, Rows};

/// The declarations of a type, without the type.
#[derive(Clone, Copy)]
pub(crate) struct Declared {
    pub(crate) indexes: &'static [Index],
    pub(crate) lists: &'static [List],
    /// The fields in blobs.
    pub(crate) blobs: &'static [BlobField],
    /// The properties of references to blobs.
    pub(crate) references: &'static [&'static str],
    encrypted: &'static [&'static str],
    older: OlderRows,
}

/// What a store was given besides the table and the container.
#[derive(Clone, Copy)]
pub(crate) struct Given<'s> {
    pub(crate) queue: bool,
    /// The properties that are no longer encrypted, if there are keys.
    pub(crate) stopped: Option<&'s [String]>,
    /// Whether a contributor of the program names targets.
    pub(crate) settles: bool,
}

impl Declared {
    pub(crate) const fn of<E: Entity>() -> Self {
        Self {
            indexes: E::DECLARED.indexes,
            lists: E::DECLARED.lists,
            blobs: E::DECLARED.blobs,
            references: E::DECLARED.references,
            encrypted: E::DECLARED.encrypted,
            older: E::DECLARED.older,
        }
    }

    /// Whether the type has an index or a unique value of this scope.
    pub(crate) const fn has_index(&self, scope: Scope) -> bool {
        let mut at = 0;
        while at < self.indexes.len() {
            if self.indexes[at].scope as u8 == scope as u8 {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Whether the type has a list in this place.
    pub(crate) const fn has_list(&self, place: ListPlace) -> bool {
        let mut at = 0;
        while at < self.lists.len() {
            if self.lists[at].place as u8 == place as u8 {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Whether older versions of the type may have left rows.
    pub(crate) const fn has_older(&self) -> bool {
        self.older.beside > 0 || self.older.elsewhere
    }

    /// Returns the name of something that is kept in blobs.
    fn in_blobs(&self) -> Option<&'static str> {
        let in_blobs = self.lists.iter().find(|list| list.place == ListPlace::Blob);
        let field = || self.blobs.first().map(|field| field.property);
        in_blobs.map(|list| list.name).or_else(field).or(self.references.first().copied())
    }

    /// Checks that a store has the container that its type requires. `refused` makes the error.
    pub(crate) fn check_container(
        &self,
        is_given: bool,
        refused: &dyn Fn(String) -> Error,
    ) -> Result<()> {
        match self.in_blobs() {
            Some(name) if !is_given => {
                let what = format!("`{name}` is kept in blobs, which needs a container");
                Err(refused(what).advise("give one to `StoreBuilder::blobs`"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a store has the queue and the keys that its type requires. `refused` makes the error.
    pub(crate) fn check_queue_and_keys(
        &self,
        given: Given<'_>,
        refused: &dyn Fn(String) -> Error,
    ) -> Result<()> {
        let indexes = self.indexes.iter().filter(|index| index.scope != Scope::SamePartition);
        let lists = self.lists.iter().filter(|list| list.place != ListPlace::Partition);
        let elsewhere = indexes.map(|index| index.name).chain(lists.map(|list| list.name));
        let elsewhere = elsewhere.chain(self.in_blobs()).next();
        let Given { queue, stopped, settles } = given;
        if !queue && (settles || elsewhere.is_some() || self.older.elsewhere) {
            let whom =
                elsewhere.unwrap_or(if settles { "a contributor" } else { "an older version" });
            let what = format!("`{whom}` is settled after the commit, which needs a queue");
            return Err(refused(what).advise("give one to `StoreBuilder::queue`"));
        }
        let (what, advice) = match (self.encrypted, stopped) {
            ([field, ..], None) => (
                format!("`{field}` is encrypted, which needs keys"),
                "give a ring of them to `StoreBuilder::keys`",
            ),
            ([], Some([])) => (
                "it has keys, but no field of the type is encrypted".to_owned(),
                "mark encrypted fields with #[entity(encrypt)]",
            ),
            (encrypted, Some(stopped)) => {
                let both = encrypted.iter().find(|name| stopped.iter().any(|one| one == *name));
                let Some(field) = both else { return Ok(()) };
                let what = format!("`{field}` is encrypted, and its keys stop encrypting it");
                (what, "remove one of both")
            }
            ([], None) => return Ok(()),
        };
        Err(refused(what).advise(advice))
    }
}

/// Checks that no two contributors have the same name. `refused` makes the error.
pub(crate) fn check_names(names: &[&str], refused: &dyn Fn(String) -> Error) -> Result<()> {
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(refused(format!("two contributors have the name `{name}`")));
        }
    }
    Ok(())
}

/// Returns the error of a store that was refused when it was built.
pub(crate) fn refused(what: String, table: &str) -> Error {
    Error::refused(ErrorKind::Invalid, what).of("Store", table)
}

/// A type, as the prefix of its RowKeys.
pub(crate) const fn prefix<E: Entity>() -> &'static str {
    match E::ROWS {
        Rows::Head(head) | Rows::One(head) => head,
        // The derive refuses a store type without a prefix.
        Rows::All => "",
    }
}
