//! Lists: one row per value, with the keys of all entities that have the value.
//!
//! A list in the entity's partition is edited in the transaction of the entity, on condition that it is
//! unchanged since it was read. An entity's RowKey is added and removed only together with a write of its
//! head, so two writes of one entity never lose each other's edits. A list in another partition is a target
//! and is settled after the commit: see `remote_list`.
//!
//! | property | contents |
//! |---|---|
//! | `RowFormat` | 1 |
//! | `IndexName` | the name of the list |
//! | `Full` | true, in another partition only, while an entity with the value does not fit |
//! | `Count` | the number of RowKeys |
//! | `Keys`, `Keys2`, .. | the RowKeys without the prefix of their type, in order, with `/` between them; in another partition each after its PartitionKey and `#` |

use std::collections::BTreeSet;

use rowkey_client::entity::Older;
use rowkey_client::index::{List, ListPlace};
use rowkey_client::key::{KeyError, KeyWriter};
use rowkey_client::{DynamicEntity, Entity, Error, ErrorKind, Result};

use crate::declaring::{Change, Contribution, Declaration};
use crate::row::long_text::{set_text, whole_text};
use crate::row::{FORMAT, FORMAT_VERSION, INDEX, Keys, check_format, text};

/// The most properties of 32,768 UTF-16 units for the keys of a list. A change of 8 values writes
/// up to 16 lists; 16 full lists of ASCII keys fit into the 4 MiB of a transaction.
const MAX_PROPERTIES: usize = 8;
/// The most properties that a list in another partition may have for another entity to join. The last property is
/// for writers that found room at the same time: a list is read before the commit and written after it.
const MAX_JOINED: usize = MAX_PROPERTIES - 1;
/// Separates entries. No key contains it.
const SEPARATOR: &str = "/";
const COUNT: &str = "Count";
const KEYS: &str = "Keys";
const FULL: &str = "Full";

/// Separates the two keys of an entity in a list in another partition. No key contains it.
const BETWEEN: char = '#';

/// The name of the declaration.
pub(crate) const NAME: &str = "lists of the partition";

/// The declared lists of `E` in its own partition.
pub(crate) struct Lists;

impl<E: Entity + Send + Sync> Declaration<E> for Lists {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operations(&self) -> usize {
        in_partition(E::DECLARED.lists).iter().map(|(_, list)| 2 * list.max).sum()
    }

    fn reads(&self, change: Change<'_, E>) -> Result<Vec<String>> {
        let mut reads = Vec::new();
        for (position, _) in in_partition(E::DECLARED.lists) {
            for (keys, _) in edits(change, position)? {
                reads.push(keys.1);
            }
        }
        Ok(reads)
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        for (position, list) in in_partition(E::DECLARED.lists) {
            let listed = listed(list, change.keys, plan.of);
            for (at, is_new) in edits(change, position)? {
                plan.edit(&at.1, |row| edit(row, &at, list, &listed, is_new))?;
            }
        }
        Ok(())
    }
}

/// Returns the lists in the entity's partition, with their positions.
fn in_partition(lists: &'static [List]) -> Vec<(usize, &'static List)> {
    let lists = lists.iter().enumerate();
    lists.filter(|(_, list)| list.place == ListPlace::Partition).collect()
}

/// Adds an entity to the list at `at`, or removes it.
pub(crate) fn edit(
    row: &mut Option<DynamicEntity>,
    at: &Keys,
    list: &'static List,
    listed: &str,
    is_on: bool,
) -> Result<()> {
    let mut keys = match row {
        Some(row) => read(row, list)?,
        None => BTreeSet::new(),
    };
    let changes = if is_on { keys.insert(listed.to_owned()) } else { keys.remove(listed) };
    if !changes {
        return Ok(());
    }
    if keys.is_empty() {
        *row = None;
        return Ok(());
    }
    write(row.get_or_insert_with(|| DynamicEntity::new(&*at.0, &*at.1)), list, &keys)
}

/// Returns the entry for the entity at `keys` in a list. `of` is the RowKey prefix of its type.
pub(crate) fn listed(list: &List, keys: &Keys, of: &str) -> String {
    let row_key = keys.1.strip_prefix(of).unwrap_or(&keys.1);
    match list.place {
        ListPlace::Elsewhere => format!("{}{BETWEEN}{row_key}", keys.0),
        ListPlace::Partition | ListPlace::Blob => row_key.to_owned(),
    }
}

/// Returns the keys of the entity of an entry in the list in the partition `partition_key`.
pub(crate) fn owner(list: &List, partition_key: &str, listed: &str, of: &str) -> Keys {
    let (partition_key, row_key) = match list.place {
        ListPlace::Elsewhere => listed.split_once(BETWEEN).unwrap_or((partition_key, listed)),
        ListPlace::Partition | ListPlace::Blob => (partition_key, listed),
    };
    (partition_key.to_owned(), format!("{of}{row_key}"))
}

/// Returns the keys of the lists that the entity joins (`true`) and leaves, the joined lists first.
/// Lists in blobs have no PartitionKey: ignore that of their keys.
pub(crate) fn edits<E: Entity>(
    change: Change<'_, E>,
    position: usize,
) -> Result<Vec<(Keys, bool)>> {
    let list = &E::DECLARED.lists[position];
    let new = match change.after {
        Some(entity) => keys_to_write(written(entity, position), list)?,
        None => BTreeSet::new(),
    };
    let old = match change.older {
        Some(older) => old_list_keys(older, list),
        None => change.before.map(|entity| list_keys(entity, position)).unwrap_or_default(),
    };
    Ok(joined_and_left(&old, &new, change.rewrites))
}

fn joined_and_left(
    old: &BTreeSet<Keys>,
    new: &BTreeSet<Keys>,
    rewrites: bool,
) -> Vec<(Keys, bool)> {
    let joins = new.iter().filter(|keys| rewrites || !old.contains(*keys));
    let joins = joins.map(|keys| (keys.clone(), true));
    let leaves = old.difference(new).map(|keys| (keys.clone(), false));
    joins.chain(leaves).collect()
}

/// Returns the keys of the rows that an older version of the type wrote for a list of this name and
/// place.
pub(crate) fn old_list_keys(older: &Older, own: &List) -> BTreeSet<Keys> {
    let place = |list: &List| (list.name, list.place, list.table);
    let is_it = |list: &List| place(list) == place(own);
    let listed = older.listed.iter().filter(|(list, _)| is_it(list));
    listed.map(|(_, keys)| keys.clone()).collect()
}

/// Returns the keys of the rows of the list at `position` that a stored entity is in. Skips values
/// that are invalid in a list, and does not check their number, because another program may allow
/// more.
pub(crate) fn list_keys<E: Entity>(entity: &E, position: usize) -> BTreeSet<Keys> {
    valid(written(entity, position))
}

fn valid(written: Vec<Result<Keys, KeyError>>) -> BTreeSet<Keys> {
    written.into_iter().filter_map(Result::ok).collect()
}

/// Like `list_keys`, for an entity that will be written: invalid or too many values are errors.
fn keys_to_write(written: Vec<Result<Keys, KeyError>>, list: &List) -> Result<BTreeSet<Keys>> {
    let keys = written.into_iter().map(|keys| {
        keys.map_err(|error| {
            Error::no_such_key(&error)
                .advise(format!("it is the key of its row in the list `{}`", list.name))
        })
    });
    let keys: BTreeSet<_> = keys.collect::<Result<_>>()?;
    if keys.len() > list.max {
        let what = format!(
            "the entity has {} different values in the list `{}`, and {} are allowed",
            keys.len(),
            list.name,
            list.max
        );
        return Err(Error::refused(ErrorKind::TooLarge, what)
            .advise("give the entity fewer values, or raise `max` of the list")
            .in_index(list.name));
    }
    Ok(keys)
}

fn written<E: Entity>(entity: &E, position: usize) -> Vec<Result<Keys, KeyError>> {
    let mut keys = Vec::new();
    entity.list_keys(position, &mut |partition_key, row_key| {
        keys.push(finish(partition_key, row_key));
    });
    keys
}

fn finish(partition_key: KeyWriter, row_key: KeyWriter) -> Result<Keys, KeyError> {
    Ok((partition_key.finish()?, row_key.finish()?))
}

/// Returns the keys in a stored list, without the prefix of the type. Fails if the row is not this
/// list or if keys are missing.
pub(crate) fn read(row: &DynamicEntity, list: &'static List) -> Result<BTreeSet<String>> {
    check_format(row, "a list").map_err(|error| error.in_index(list.name))?;
    let damaged = |what: &str| {
        let what = format!("the row of the list `{}` {what}", list.name);
        Err(Error::refused(ErrorKind::Decode, what).in_index(list.name))
    };
    if text(row, INDEX) != Some(list.name) {
        return damaged("belongs to something else");
    }
    let keys: BTreeSet<_> = whole_text(row, KEYS).split(SEPARATOR).map(str::to_owned).collect();
    // A row without the property has no keys, rather than one empty key.
    let is_whole = text(row, KEYS).is_some() && row.get(COUNT) == Some(&count_of(&keys).into());
    if is_whole { Ok(keys) } else { damaged("does not contain the declared number of keys") }
}

/// Writes a list into its row. Fails if the list is too long.
pub(crate) fn write(
    row: &mut DynamicEntity,
    list: &'static List,
    keys: &BTreeSet<String>,
) -> Result<()> {
    let text = keys.iter().map(String::as_str).collect::<Vec<_>>().join(SEPARATOR);
    row.set(FORMAT, FORMAT_VERSION);
    row.set(INDEX, list.name);
    row.set(COUNT, count_of(keys));
    row.remove(FULL);
    if set_text(row, KEYS, &text) <= MAX_PROPERTIES {
        return Ok(());
    }
    Err(full(list, keys.len(), MAX_PROPERTIES))
}

fn full(list: &'static List, keys: usize, properties: usize) -> Error {
    let what = format!(
        "a list `{}` is full: with this entity it has {keys} keys, which take more than {properties} \
         properties of 64 KiB",
        list.name
    );
    Error::refused(ErrorKind::TooLarge, what)
        .advise(
            "add a field to the template of the list to split it, or declare an index with `many` \
             instead, which has no limit",
        )
        .in_index(list.name)
}

/// Refuses entities that join a list in another partition if it has no room for them. `row` is the list.
pub(crate) fn check_join(
    row: &DynamicEntity,
    list: &'static List,
    listed: &[String],
) -> Result<()> {
    let mut keys = read(row, list)?;
    let before = keys.len();
    keys.extend(listed.iter().cloned());
    let text = keys.iter().map(String::as_str).collect::<Vec<_>>().join(SEPARATOR);
    if keys.len() == before || set_text(&mut row.clone(), KEYS, &text) <= MAX_JOINED {
        return Ok(());
    }
    Err(full(list, keys.len(), MAX_JOINED))
}

/// Marks a list in another partition as lacking an entity that does not fit; returns whether that
/// is new.
pub(crate) fn note_full(row: &mut DynamicEntity) -> bool {
    row.set(FULL, true) != Some(true.into())
}

/// Refuses a lookup in a list that is full and lacks an entity.
pub(crate) fn check_room(row: &DynamicEntity, list: &'static List) -> Result<()> {
    if row.get(FULL).is_none() {
        return Ok(());
    }
    let what = format!("a list `{}` is full, and lacks entities that have the value", list.name);
    Err(Error::refused(ErrorKind::TooLarge, what)
        .advise("add a field to a template of the list that divides its entities, and run `repair`")
        .in_index(list.name))
}

fn count_of(keys: &BTreeSet<String>) -> i32 {
    i32::try_from(keys.len()).unwrap_or(i32::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const LIST: List = List {
        name: "by_tag",
        row_head: "list_order_by_tag_",
        max: 8,
        place: ListPlace::Partition,
        table: None,
    };

    fn stored(keys: &BTreeSet<String>) -> Result<DynamicEntity> {
        let mut row = DynamicEntity::new("p", "list_order_by_tag_x");
        write(&mut row, &LIST, keys).map(|()| row)
    }

    fn numbers(count: u32) -> BTreeSet<String> {
        (0..count).map(|number| format!("{number:06}")).collect()
    }

    #[test]
    fn lists_of_any_number_of_properties_round_trip() {
        for keys in [numbers(1), numbers(10_000), [String::new(), "\u{1F600}".repeat(250)].into()] {
            let mut row = stored(&keys).unwrap();
            assert_eq!(read(&row, &LIST).unwrap(), keys);
            write(&mut row, &LIST, &numbers(2)).unwrap();
            assert_eq!(row, stored(&numbers(2)).unwrap(), "nothing is left of a longer list");
        }
    }

    #[test]
    fn a_list_holds_at_most_37449_keys_of_six_characters() {
        assert!(stored(&numbers(37_449)).is_ok());
        let error = stored(&numbers(37_450)).unwrap_err();
        assert_eq!((error.kind(), error.details().index), (ErrorKind::TooLarge, Some("by_tag")));
        assert!(error.to_string().contains("`many`"), "{error}");
    }

    #[test]
    fn an_incomplete_list_is_an_error() {
        let mut row = stored(&numbers(10_000)).unwrap();
        row.remove("Keys2");
        let error = read(&row, &LIST).unwrap_err();
        assert_eq!((error.kind(), error.details().index), (ErrorKind::Decode, Some("by_tag")));
    }

    #[test]
    fn foreign_and_newer_rows_are_rejected() {
        let other = List { name: "by_name", ..LIST };
        let row = stored(&numbers(1)).unwrap();
        assert_eq!(read(&row, &LIST).unwrap(), numbers(1));
        assert!(read(&row, Box::leak(Box::new(other))).is_err());
        for format in [None, Some(2)] {
            let mut row = row.clone();
            match format {
                None => row.remove(FORMAT),
                Some(format) => row.set(FORMAT, format),
            };
            assert_eq!(read(&row, &LIST).unwrap_err().kind(), ErrorKind::Decode, "{format:?}");
        }
    }
}
