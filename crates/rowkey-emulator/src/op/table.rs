//! The operations of the Table service, as a closed set.
//!
//! A request is parsed in two steps, because it is authenticated in between: its [`Target`] from
//! the address alone, then the [`Op`] from everything.

use std::borrow::Cow;

use rowkey_wire::edm::DateTime;
use rowkey_wire::filter::Filter;

use super::entity::Entity;

/// The resource that an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// `/name?comp=acl`
    Acl(&'a str),
    /// `/$batch`
    Batch,
    /// `/?restype=service&comp=userdelegationkey`
    DelegationKey,
    /// `/name` and `/name()`
    Entities(&'a str),
    /// `/name(PartitionKey='…',RowKey='…')`
    Entity(Address<'a>),
    /// `/?restype=service&comp=properties`
    Properties,
    /// `/?restype=service&comp=stats`
    Stats,
    /// `/Tables('name')`
    Table(Cow<'a, str>),
    /// `/Tables`
    Tables,
}

/// The address of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address<'a> {
    /// The table's name as the client wrote it.
    pub(crate) table: &'a str,
    /// The PartitionKey.
    pub(crate) partition_key: Cow<'a, str>,
    /// The RowKey.
    pub(crate) row_key: Cow<'a, str>,
}

/// An operation with all its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op<'a> {
    /// [Perform Entity Group
    /// Transaction](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions);
    /// each part is an operation.
    Batch,
    /// A write or deletion of one entity.
    Change(Change<'a>),
    /// [Create Table](https://learn.microsoft.com/rest/api/storageservices/create-table)
    CreateTable {
        /// The name, not checked yet.
        name: &'a str,
        /// Whether the client wants the table returned.
        prefer: Option<Prefer>,
    },
    /// [Delete Table](https://learn.microsoft.com/rest/api/storageservices/delete-table)
    DeleteTable(Cow<'a, str>),
    /// [Get Table ACL](https://learn.microsoft.com/rest/api/storageservices/get-table-acl)
    GetAcl(&'a str),
    /// One entity by its keys.
    GetEntity(Address<'a>, Option<Select>),
    /// [Get Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-table-service-properties)
    GetProperties,
    /// [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats)
    GetStats,
    /// One table by its name.
    GetTable(Cow<'a, str>),
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key);
    /// the body is a document.
    GetUserDelegationKey,
    /// [Query Entities](https://learn.microsoft.com/rest/api/storageservices/query-entities)
    QueryEntities(&'a str, EntityQuery),
    /// [Query Tables](https://learn.microsoft.com/rest/api/storageservices/query-tables)
    QueryTables(TableQuery),
    /// [Set Table ACL](https://learn.microsoft.com/rest/api/storageservices/set-table-acl);
    /// the body is a document.
    SetAcl(&'a str),
    /// [Set Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties);
    /// the body is a document.
    SetProperties,
}

/// A write to one entity, alone or as a part of an entity group transaction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change<'a> {
    /// The entity's address: keys from the address, or for an insert from the body.
    pub(crate) address: Address<'a>,
    /// The kind of change.
    pub(crate) kind: ChangeKind<'a>,
}

/// A kind of change to an entity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChangeKind<'a> {
    /// [Delete Entity](https://learn.microsoft.com/rest/api/storageservices/delete-entity1)
    Delete(Condition),
    /// [Insert Entity](https://learn.microsoft.com/rest/api/storageservices/insert-entity)
    Insert(Entity<'a>, Option<Prefer>),
    /// Overwrites the given properties and keeps the others. Without a condition the entity is
    /// created if it does not exist (Insert Or Merge).
    Merge(Entity<'a>, Option<Condition>),
    /// Replaces all properties. Without a condition the entity is created if it does not exist
    /// (Insert Or Replace).
    Replace(Entity<'a>, Option<Condition>),
}

/// The condition on the stored entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It exists.
    Any,
    /// It has the ETag of this instant.
    Tag(DateTime),
    /// It has an ETag that the service never issues, so this is never met.
    Unknown,
}

/// The `Prefer` header of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefer {
    /// `return-content`
    Content,
    /// `return-no-content`
    NoContent,
}

impl Prefer {
    /// The value of the header.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Content => "return-content",
            Self::NoContent => "return-no-content",
        }
    }
}

/// The selected properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Select {
    /// The value of the option, which responses repeat.
    pub(crate) text: String,
    /// The names, sorted. If empty, all properties are selected.
    pub(crate) names: Vec<String>,
}

/// The options of a query for entities.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EntityQuery {
    /// `$filter`, if there is one.
    pub(crate) filter: Option<Filter>,
    /// The start of the page: the keys in `NextPartitionKey` and `NextRowKey`.
    pub(crate) next: Option<(String, String)>,
    /// `$select`.
    pub(crate) select: Option<Select>,
    /// `$top`, 1 to 1000.
    pub(crate) top: Option<u32>,
}

/// The options of a query for tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TableQuery {
    /// `$filter`, on `TableName`.
    pub(crate) filter: Option<Filter>,
    /// The start of the page: the name in `NextTableName`.
    pub(crate) next: Option<String>,
    /// `$top`, 1 to 1000.
    pub(crate) top: Option<u32>,
}
