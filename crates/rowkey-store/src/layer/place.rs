//! Places: the tables and the keys of the rows that a store keeps outside the partition of an entity.
//!
//! An index or a list with `table = ".."` has its rows in another table, which may be in another account. Targets
//! name the table: the declaration of a target is `by_customer` for rows in the table of the entities, and
//! `by_customer@customers` for rows in the table `customers`. A program that declares another table for the index
//! does not have this declaration, and hands the write back to one that does, as for any undeclared name.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};
use rowkey_client::entity::Declarations;
use rowkey_client::{DynamicEntity, Error, ErrorCode, Result, Stored, Table};

use super::deciding::Deciding;
use crate::row::Keys;

/// Separates the name of a declaration and its table. No name of a declaration contains it.
const AT: char = '@';

/// The table of a declaration whose rows are not in the table of the entities.
pub(crate) struct OtherTable {
    declaration: &'static str,
    /// The name of the declaration and of the table, under which targets are stored.
    stored: String,
    /// The table as it was given, for reads that decide nothing.
    table: Table,
    deciding: Deciding,
}

impl OtherTable {
    fn new(declaration: &'static str, table: Table, own: &Table) -> Self {
        let deciding = Deciding::new(&table);
        // The service ignores the case of table names.
        let mut stored = format!("{declaration}{AT}{}", table.name().to_ascii_lowercase());
        if table.account().name() != own.account().name() {
            stored = format!("{stored}{AT}{}", table.account().name());
        }
        Self { declaration, stored, table, deciding }
    }

    /// The name of the declaration.
    pub(crate) fn stored(&self) -> &str {
        &self.stored
    }

    pub(crate) fn declaration(&self) -> &'static str {
        self.declaration
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn deciding(&self) -> &Deciding {
        &self.deciding
    }

    /// Adds to the error of a missing table which declaration needs the table.
    pub(crate) fn needed(&self, error: Error) -> Error {
        if error.code() == Some(&ErrorCode::TABLE_NOT_FOUND) {
            return error
                .in_index(self.declaration)
                .advise("create the table, with `Store::create_if_missing`");
        }
        error
    }

    /// Names the declaration in an error.
    pub(crate) fn named(&self, error: Error) -> Error {
        self.needed(error).during(self.stored.clone())
    }
}

/// The tables of the declarations of a store that have one of their own.
#[derive(Default)]
pub(crate) struct OtherTables(Vec<Arc<OtherTable>>);

impl OtherTables {
    /// Returns the tables of the declarations of a type: those that were given by name, and otherwise tables of the
    /// account of `own`. `refused` makes the error.
    pub(crate) fn of(
        declared: &Declarations,
        own: &Table,
        given: &[(String, Table)],
        refused: &dyn Fn(String) -> Error,
    ) -> Result<Self> {
        let indexes = declared.indexes.iter().map(|index| (index.name, index.table));
        let all = indexes.chain(declared.lists.iter().map(|list| (list.name, list.table)));
        let all: Vec<_> = all.collect();
        for (name, _) in given {
            match all.iter().find(|(declaration, _)| declaration == name) {
                Some((_, Some(_))) => {}
                Some((_, None)) => {
                    let what = format!("`{name}` is declared in the table of the entities");
                    return Err(refused(what).advise("add `table = \"..\"` to its declaration"));
                }
                None => {
                    let elsewhere = all.iter().filter(|(_, table)| table.is_some());
                    let elsewhere: Vec<_> = elsewhere.map(|(name, _)| *name).collect();
                    let what = format!(
                        "the type has no index or list `{name}`; those in other tables are: {}",
                        elsewhere.join(", ")
                    );
                    return Err(refused(what).advise("name one that has `table = \"..\"`"));
                }
            }
        }
        let mut tables = Vec::new();
        for (declaration, table) in all {
            let Some(name) = table else { continue };
            let given = given.iter().rev().find(|(given, _)| given == declaration);
            let table = given.map_or_else(|| own.account().table(name), |(_, table)| table.clone());
            if table.is_same_table(own) {
                let what =
                    format!("the rows of `{declaration}` would be in the table of the entities");
                return Err(refused(what).advise("give it another table"));
            }
            tables.push(Arc::new(OtherTable::new(declaration, table, own)));
        }
        Ok(Self(tables))
    }

    /// Returns the table of a declaration; `None` if its rows are in the table of the entities.
    pub(crate) fn get(&self, declaration: &str) -> Option<&Arc<OtherTable>> {
        self.0.iter().find(|table| table.declaration == declaration)
    }

    /// Returns the names of the declarations whose rows are in this table.
    pub(crate) fn in_table(&self, table: &Table) -> Vec<&'static str> {
        let there = self.0.iter().filter(|other| other.table.is_same_table(table));
        there.map(|other| other.declaration).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OtherTable> {
        self.0.iter().map(|table| &**table)
    }

    /// Returns each table once, however many declarations have it.
    pub(crate) fn distinct(&self) -> Vec<&Table> {
        let mut tables: Vec<&Table> = Vec::new();
        for table in self.iter().map(OtherTable::table) {
            if !tables.iter().any(|other| other.is_same_table(table)) {
                tables.push(table);
            }
        }
        tables
    }
}

/// Whether targets that are stored under `stored` belong to a declaration of this name, in any table.
pub(crate) fn is_of(stored: &str, declaration: &str) -> bool {
    let rest = stored.strip_prefix(declaration);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(AT))
}

/// The place of a row elsewhere.
#[derive(Clone)]
pub(crate) struct Place {
    /// `None` for the table of the entities.
    table: Option<Arc<OtherTable>>,
    pub(crate) keys: Keys,
}

impl Place {
    pub(crate) fn new(table: Option<&Arc<OtherTable>>, keys: Keys) -> Self {
        Self { table: table.cloned(), keys }
    }

    /// Returns the table. `own` is that of the entities.
    pub(crate) fn deciding<'p>(&'p self, own: &'p Deciding) -> &'p Deciding {
        self.table.as_ref().map_or(own, |table| table.deciding())
    }

    /// Reads the row. One request.
    pub(crate) fn row<'p>(
        &'p self,
        own: &'p Deciding,
    ) -> BoxFuture<'p, Result<Option<Stored<DynamicEntity>>>> {
        async move {
            let read = self.deciding(own).row(&self.keys).await;
            read.map_err(|error| self.named(error))
        }
        .boxed()
    }

    /// Names the declaration in an error, if its rows are in another table.
    pub(crate) fn named(&self, error: Error) -> Error {
        match &self.table {
            Some(table) => table.named(error),
            None => error,
        }
    }

    /// The name of the declaration and of its table; nothing for the table of the entities.
    pub(crate) fn table_name(&self) -> &str {
        self.table.as_ref().map_or("", |table| table.stored())
    }

    /// Whether both are in one table, as far as their declarations tell.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.table_name() == other.table_name()
    }

    /// Whether one transaction can write both.
    pub(crate) fn shares_partition(&self, other: &Self) -> bool {
        self.is_beside(other) && self.keys.0 == other.keys.0
    }

    /// Whether a failed read of the row may be left to a worker: the table is another one, which may be unavailable
    /// for a time while that of the entities is not.
    pub(crate) fn may_be_left(&self, error: &Error) -> bool {
        self.is_elsewhere() && error.is_retryable()
    }

    /// Whether the row is in another table than the entities.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.table.is_some()
    }

    fn id(&self) -> (&str, &Keys) {
        (self.table_name(), &self.keys)
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Place {}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}
