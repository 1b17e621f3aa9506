//! What a store requires for the declarations of its type: a queue, a container, keys.

use rowkey_client::entity::Declarations;
use rowkey_client::index::{ListPlace, Scope};
use rowkey_client::{Entity, Error, ErrorKind, Result, Rows};

/// What a store was given besides the table and the container.
#[derive(Clone, Copy)]
pub(crate) struct Given<'s> {
    pub(crate) queue: bool,
    /// The properties that are no longer encrypted, if there are keys.
    pub(crate) stopped: Option<&'s [String]>,
    /// The first declaration of the program that needs a queue.
    pub(crate) settles: Option<&'s str>,
}

/// Returns the name of something that is kept in blobs.
fn in_blobs(declared: &Declarations) -> Option<&'static str> {
    let in_blobs = declared.lists.iter().find(|list| list.place == ListPlace::Blob);
    let field = || declared.blobs.first().map(|field| field.property);
    in_blobs.map(|list| list.name).or_else(field).or(declared.references.first().copied())
}

/// Checks that a store has the container that its type requires. `refused` makes the error.
pub(crate) fn check_container(
    declared: &Declarations,
    is_given: bool,
    refused: &dyn Fn(String) -> Error,
) -> Result<()> {
    match in_blobs(declared) {
        Some(name) if !is_given => {
            let what = format!("`{name}` is kept in blobs, which needs a container");
            Err(refused(what).advise("give one to `StoreBuilder::blobs`"))
        }
        _ => Ok(()),
    }
}

/// Checks that a store has the queue and the keys that its type requires. `refused` makes the error.
pub(crate) fn check_queue_and_keys(
    declared: &Declarations,
    given: Given<'_>,
    refused: &dyn Fn(String) -> Error,
) -> Result<()> {
    let indexes = declared.indexes.iter().filter(|index| index.scope != Scope::SamePartition);
    let lists = declared.lists.iter().filter(|list| list.place != ListPlace::Partition);
    let elsewhere = indexes.map(|index| index.name).chain(lists.map(|list| list.name));
    let elsewhere = elsewhere.chain(in_blobs(declared)).next();
    let Given { queue, stopped, settles } = given;
    if !queue && (settles.is_some() || elsewhere.is_some() || declared.older.elsewhere) {
        let whom = elsewhere.or(settles).unwrap_or("an older version");
        let what = format!("`{whom}` is settled after the commit, which needs a queue");
        return Err(refused(what).advise("give one to `StoreBuilder::queue`"));
    }
    let (what, advice) = match (declared.encrypted, stopped) {
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

/// Checks that no two declarations have the same name. `refused` makes the error.
pub(crate) fn check_names(names: &[&str], refused: &dyn Fn(String) -> Error) -> Result<()> {
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(refused(format!("two declarations have the name `{name}`")));
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
