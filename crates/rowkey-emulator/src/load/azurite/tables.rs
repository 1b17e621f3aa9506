//! Tables and entities.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rowkey_wire::edm::{DateTime, Guid, Type, ValueRef};
use rowkey_wire::odata::{Field, FieldError, Fields, Scalar};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::import::{Import, SERVICES};
use super::loki::{Database, File, Meta};
use super::values::{Policy, from_milliseconds, policies};
use crate::op::entity::{self, Entity, Strictness};
use crate::op::names::check_table_name;
use crate::store::{Account, Key};

pub(super) const FILE: &str = "__azurite_db_table__.json";
const TABLES: &str = "$TABLES_COLLECTION$";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableRow {
    account: String,
    table: String,
    table_acl: Option<Vec<Policy>>,
    #[serde(default)]
    meta: Meta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntityRow<'a> {
    #[serde(rename = "PartitionKey")]
    partition_key: String,
    #[serde(rename = "RowKey")]
    row_key: String,
    #[serde(borrow)]
    properties: &'a RawValue,
    last_modified_time: DateTime,
}

/// Reads the tables; returns whether there is a database of tables.
pub(super) fn read(directory: &Path, import: &mut Import<'_>) -> io::Result<bool> {
    let Some(file) = File::read(directory, FILE)? else { return Ok(false) };
    let database = file.database(TABLES)?;
    import.services(&database, |account| account.tables.properties_mut())?;
    let mut read = HashSet::from([TABLES.to_owned(), SERVICES.to_owned()]);
    for row in database.rows::<TableRow>(TABLES) {
        read.insert(read_table(&database, row?, import)?);
    }
    for collection in database.collections().filter(|found| !read.contains(&found.name)) {
        let count = collection.data.len() as u64;
        import.note_several("entities of tables that were deleted", count);
    }
    Ok(true)
}

/// Reads a table; returns the name of its collection.
fn read_table(
    database: &Database<'_>,
    row: TableRow,
    import: &mut Import<'_>,
) -> io::Result<String> {
    let TableRow { account, table, table_acl, meta } = row;
    let names = [format!("{account}${}", table.to_lowercase()), format!("{account}${table}")];
    let collection = names.iter().find_map(|name| database.collection(name));
    let collection = collection.ok_or_else(|| {
        database.damaged(&format!("the entities of the table {table} are missing"))
    })?;
    let (name, count) = (collection.name.clone(), collection.data.len() as u64);
    if check_table_name(&table).is_err() {
        import.note("tables whose names Azure does not allow");
        import.note_several("entities of tables whose names Azure does not allow", count);
        return Ok(name);
    }
    let (policies, unread) = policies(table_acl);
    import.note_several(
        "stored access policies of tables with instants that are not of Azure",
        unread,
    );
    let now = import.now;
    let Some(data) = import.account(&account) else { return Ok(name) };
    let created = meta.created.and_then(from_milliseconds).unwrap_or(now);
    data.tables.restore_table(&table, created, policies);
    let (mut taken, mut refused) = (0_u64, 0_u64);
    for row in database.rows::<EntityRow<'_>>(&name) {
        match read_entity(&mut data.tables, &table, &row?) {
            Some(()) => taken += 1,
            None => refused += 1,
        }
    }
    import.counts.tables += 1;
    import.counts.entities += taken;
    let what = "entities with a key, a name or a value that Azure does not allow";
    import.note_several(what, refused);
    Ok(name)
}

/// Reads an entity; `None` if it cannot be one.
fn read_entity(store: &mut Account, table: &str, row: &EntityRow<'_>) -> Option<()> {
    let fields = entity::fields(row.properties.get().as_bytes()).ok()?;
    let properties = read_properties(&fields)?;
    let entity =
        Entity { partition_key: Some(&row.partition_key), row_key: Some(&row.row_key), properties };
    // Azurite has other limits than Azure, and what it has is taken over.
    entity::check(&entity, Strictness::Loose).ok()?;
    let at = row.last_modified_time;
    let folded = Key::from(&*table.to_ascii_lowercase());
    let keys = (&*row.partition_key, &*row.row_key);
    store.restoring(&folded)?.restore(keys, &entity.properties, at);
    store.resume_after(at);
    Some(())
}

/// The properties of an entity without nulls; `None` if a value is not of its type.
fn read_properties<'a>(fields: &'a Fields<'_>) -> Option<Vec<(&'a str, ValueRef<'a>)>> {
    let mut properties = Vec::new();
    for field in fields {
        if ["PartitionKey", "RowKey", "Timestamp"].contains(&&*field.name) {
            continue;
        }
        match field.value() {
            Ok(None) => {}
            Ok(Some(value)) => properties.push((&*field.name, value)),
            Err(FieldError::Malformed(Type::Guid)) => {
                properties.push((&*field.name, ValueRef::Guid(guid(field)?)));
            }
            Err(_) => return None,
        }
    }
    Some(properties)
}

/// A Guid: Azurite stores its text in base64, and did not in earlier versions.
fn guid(field: &Field<'_>) -> Option<Guid> {
    let Scalar::Text(text) = &field.scalar else { return None };
    let text = String::from_utf8(BASE64_STANDARD.decode(&**text).ok()?).ok()?;
    text.parse().ok()
}
