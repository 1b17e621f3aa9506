//! `#[derive(Entity, EntitySet, Flatten, Projection, Property, KeyPart)]` for the `rowkey` crate, which
//! re-exports them.
//!
//! - `entity_set`: an enum of entities
//! - `attrs`: what the attributes say · `names`: names made of names, and "did you mean"
//! - `template`: `"id_{id:6}"` · `notation`: what stands behind the colon · `model`: a struct and what becomes of each field
//! - `shape`: a newtype or an enum · `entity`, `keys`, `index`, `property`, `key_part`: the code
//!   that is written
//! - `serde`: attributes of serde's that would do nothing · `stub`: what is written when a derive fails
//!
//! All paths in that code are absolute (`::core::..`, `::rowkey::..`) and calls of trait methods
//! name the trait, because it is compiled where the user's names are in scope: a type called
//! `Result` or a trait with a method `into_arg` must not change what it means. Its local variables
//! have names of their own for the same reason.

mod attrs;
mod entity;
mod entity_set;
mod index;
mod key_part;
mod keys;
mod list;
mod model;
mod names;
mod notation;
mod property;
mod role;
mod serde;
mod shape;
mod store;
mod stub;
mod template;
mod types;

use proc_macro::TokenStream;
use syn::DeriveInput;

/// Makes a struct an entity: how its keys are written and read, and its properties.
///
/// ```
/// use rowkey::{Column, Entity};
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(partition = "{department}", row = "{employee:6}_{year}", rename_all = "PascalCase")]
/// struct Review {
///     department: String,
///     employee: u32,
///     year: u16,
///     rating: f64,
///     comment: Option<String>,
/// }
///
/// let key = Review::key("sales", 223, 2012);
/// assert_eq!(key.parts(), Ok(("sales", "000223_02012")));
/// assert_eq!(Review::parse_key("sales", "000223_02012")?, ("sales".to_owned(), 223, 2012));
/// let all_in_the_department = Review::partition("sales");
/// let all_of_one_employee = Review::under_employee("sales", 223);
/// let well_rated = Review::RATING.ge(4.5).and(Review::COMMENT.ne(""));
/// # Ok::<(), rowkey::DecodeError>(())
/// ```
///
/// It implements `Entity` and `Projection`, and writes these, with the visibility of the struct:
///
/// | item | what it is |
/// |---|---|
/// | `key(..) -> Key<Self>` | the address of one entity; takes the fields in the templates, PartitionKey first, each once |
/// | `partition(..) -> Partition<Self>` | all entities of the type in a partition |
/// | `under_employee(..) -> Partition<Self>` | those whose RowKey begins with the parts up to this one; one for each part but the last |
/// | `parse_key(&str, &str)` | the fields of a stored PartitionKey and RowKey, as a tuple if there are several |
/// | `RATING: Column<f64>` | a constant for each property, to make filters of; the column of an `Option<T>` is a `Column<T>` |
///
/// Arguments may be values, references, and `&str` for a `String`.
///
/// # Templates
///
/// A template is text with fields in braces; `{{` and `}}` are braces that are meant. Fields in a
/// template are what the keys say, and are not stored again as properties. A field may stand in
/// both templates. Its type is a `KeyPart`.
///
/// | part | of | how the value is written | order |
/// |---|---|---|---|
/// | `{id}` | all | so that text order is value order; a number with all the digits of its type | holds |
/// | `{id:6}` | numbers | 6 digits, 1 to 20; larger ones are an error when the key is made | holds |
/// | `{at:desc}`, `{id:6,desc}` | numbers, bools, instants | largest first | reversed |
/// | `{id:unpadded}` | numbers | `7`, `-5` | **not**: `10` before `9` |
/// | `{id:x8}`, `{id:X8}` | unsigned numbers | 8 hexadecimal digits, 1 to 16, in lower or upper case | holds |
/// | `{at:18}` | instants | .NET's ticks in 18 digits, until the year 3169; `{at}` has 19 | holds |
/// | `{at:iso}`, `{at:iso3}` | instants | `2026-11-23T04:45:06Z`, with up to 9 digits of fraction | holds |
/// | `{at:iso6,naive}` | instants | the same without the `Z` | holds |
/// | `{at:unix}`, `{at:unix_ms}` | instants | seconds since 1970 in 10 digits, milliseconds in 13, until 2286 | holds |
/// | `{at:unix,unpadded}` | instants | as many digits as there are, `-` before 1970 | **not** |
/// | `{day:date}`, `{day:yyyyMMdd}` | days, instants | `2026-11-23`, `20261123` | holds |
/// | `{id:D}`, `{id:N}`, `{id:B}` | GUIDs | with hyphens, digits alone, in braces; in lower case | holds |
/// | `{id:N,upper}`, `{id:upper}` | GUIDs | the same in upper case | holds |
/// | `{open:True}`, `{open:true}` | bools | `True` and `False`, `true` and `false` | holds |
/// | `{email:lower}` | text | in lower case, in indexes only | of the lower case |
/// | `{device:bucket(8)}` | all | which of 8 buckets a hash of the value chooses, in PartitionKeys only | no |
///
/// Instants are `chrono::DateTime<Utc>` and `edm::DateTime`, days are `chrono::NaiveDate`. What is finer than the
/// format is cut off: with `{at:unix}` two entities of one second have one key. A field that stands in both keys is
/// read where it is kept more finely, so `partition = "{at:date}", row = "{at:desc}"` reads back all of `at`.
///
/// A key reads back only if the template makes the same key of the values. The book says which format reads the keys of
/// which library.
///
/// `unpadded` stands in the last part; in front of others it asks for `{id:unpadded,unordered}`. Ranges of such keys are
/// right, but read all rows that have the parts before.
///
/// A bucket says nothing of the value, so its field is a property as well, or a part of the RowKey. `key`
/// and `partition` take the value and compute the bucket; `partitions` are those of all buckets.
///
/// The text after a part ends it, so it begins with a character that the part never has: `{a}-{b}` with unsigned
/// numbers, `{day}T{hour:2}`. A signed number and a GUID contain `-`, and do not compile there. Text contains any
/// character; it is followed by one of `_ : | , ; - = + !`, and escaped where it contains that.
///
/// The text before the first part of the row template tells the entity types of a partition apart.
/// A query for `id_{id}` never meets a row `email_{email}`. Rows of types whose templates begin
/// with a part are told apart by a `kind`.
///
/// # On the struct
///
/// - `partition = "..", row = ".."`: the templates of the keys, always given.
/// - `rename_all = ".."`: how the names of fields become those of properties: `"PascalCase"`, as
///   .NET writes them, `"camelCase"`, `"snake_case"`, `"SCREAMING_SNAKE_CASE"`, `"lowercase"` or
///   `"UPPERCASE"`. Without it they stay.
/// - `kind = ".."`: every entity gets a property `EntityType` of this value, and one that has
///   another is not read.
/// - `kind = "..", discriminator = ".."`: the property has this name and not `EntityType`, as another program wrote
///   it. An `EntitySet` of such types says the same `discriminator`.
/// - `index(..)`, `list(..)`: see below. They may be given several times.
/// - `version = 2`: every entity gets a property `EntityVersion` of this value, and one of another
///   version is not read. From 2 on: an entity without the property is of version 1.
/// - `version = 2, from = OrderV1`, with `store`: entities of the older version are read as that type,
///   converted by `From<OrderV1>`, and stored as they are now when they are next written, or by
///   `Store::migrate`. `OrderV1` is an entity of the same keys; it may have a `from` of its own.
/// - `wide = 40`, with `store`: an entity has up to this number of rows, 2 to 98, for which one transaction has
///   room beside the indexes and lists of the partition. Such a type has no whole copies, and a `Table` neither
///   writes nor reads it.
/// - `compat = ".."`: what fields without an `as` are stored as, so that another library reads them and finds them
///   by its filters: `"azure_data_tables-0.21"`, `"dotnet"`, `"javascript"` or `"python"`. The book has the
///   table.
/// - `exact`: every row has the types that the fields are stored as, so each comparison of a number is sent as one.
/// - `ignore_serde`: the attributes `#[serde(..)]` of the struct and its fields are for serde alone.
///   Without it they are errors, because they change nothing of how the entity is stored.
/// - `crate = ".."`: where `rowkey` is, if not at `::rowkey`.
///
/// # Indexes
///
/// An index is a copy of each entity under another key. What is declared here says where the copies
/// are and what they hold; to keep them, add `store` and write through `Store` of the crate `rowkey-store`.
///
/// ```
/// use rowkey::Entity;
///
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// #[entity(index(name = by_email, row = "email_{email:lower}"))]
/// #[entity(index(name = by_last_name, row = "last_{last_name}", many))]
/// #[entity(index(name = by_manager, row = "mgr_{manager:6}", many, copy(last_name)))]
/// #[entity(index(name = by_pay, row = "pay_{cents:desc}", many, when = "Self::is_active"))]
/// #[entity(index(name = by_city, partition = "city_{city}", row = "{department}_{id:6}"))]
/// struct Employee {
///     department: String,
///     id: u32,
///     last_name: String,
///     email: String,
///     manager: Option<u32>,
///     cents: i64,
///     city: String,
///     active: bool,
/// }
///
/// impl Employee {
///     fn is_active(&self) -> bool {
///         self.active
///     }
/// }
///
/// let ada = Employee::by_email("sales", "Ada@contoso.com");
/// assert_eq!(ada.parts(), Ok(("sales", "email_ada@contoso.com")));
/// let joneses = Employee::by_last_name("sales", "Jones");
/// let jo = Employee::by_last_name_all("sales").prefix("Jo");
/// let best_paid = Employee::by_pay_all("sales");
/// let in_leeds = Employee::by_city_all("Leeds");
/// ```
///
/// - `name = ..`: the name of its constructor.
/// - `row = ".."`: the template of the RowKey, of at least one field. `{email:lower}` is text in lower
///   case, in the rows and in what is looked up.
/// - `partition = ".."`: the template of the PartitionKey, if its rows are in other partitions than the
///   entities (or another table). Its rows cannot be written in one transaction with them.
/// - `many`: several entities may have the value. The RowKey of the entity follows it in the copy's,
///   `last_Jones_id_000007`. Without it the index is unique.
/// - `copy(..)`: the fields whose properties copies have, all if it is not given. Fields in the keys
///   of the entity are known from every copy.
/// - `when = ".."`: the path of a `fn(&Self) -> bool` that says which entities are in the index. Those
///   that have `None` in an `Option` of the templates are not, either.
///
/// | item | what it is |
/// |---|---|
/// | `by_email(..) -> IndexKey<Self, SamePartition>` | the row of one entity; takes the partition and the values |
/// | `by_last_name(..) -> IndexRange<Self, SamePartition>` | those of all entities with the value, if there may be many |
/// | `by_email_all(..) -> IndexRange<..>` | the whole index of a partition |
/// | `by_name_under_last(..) -> IndexRange<..>` | of several parts, those that begin with the values up to this one |
///
/// An index with a `partition` makes `IndexKey<Self, OtherPartition>` and `IndexRange<Self,
/// OtherPartition>`, which what keeps copies in one transaction does not take.
///
/// The text before the first part tells the rows of a partition apart, so the entity and its
/// indexes there all begin with some, and none with that of another. There are at most 49 indexes in the
/// partition: a change may move all of them, in the 100 operations of one transaction.
///
/// # Lists
///
/// A list is a row for each value, in the partition of the entities or in one of its own, that holds the
/// keys of all that have the value. The type is one of a store, which keeps it: `#[entity(store, ..)]`.
///
/// ```
/// use rowkey::Entity;
///
/// #[derive(Entity)]
/// #[entity(store, partition = "{tenant}", row = "order_{id:4}")]
/// #[entity(list(name = by_tag, value = "{tags:lower}", max = 8))]
/// #[entity(list(name = by_courier, value = "{courier}", when = "Self::is_open"))]
/// struct Order {
///     tenant: String,
///     id: u32,
///     courier: Option<String>,
///     open: bool,
///     #[entity(json)]
///     tags: Vec<String>,
/// }
///
/// impl Order {
///     fn is_open(&self) -> bool {
///         self.open
///     }
/// }
///
/// let urgent = Order::by_tag("contoso", "Urgent");
/// assert_eq!(urgent.parts(), Ok(("contoso", "list_order_by_tag_urgent")));
/// ```
///
/// - `name = ..`: the name of its constructor, `by_tag(..) -> ListKey<Self>`, which takes the partition and
///   the values.
/// - `partition = ".."`: the partition of the list, if it is not that of the entities. Such a list has the
///   entities of all partitions, and follows them after their commits: `by_tag(..)` takes the fields of
///   this template.
/// - `value = ".."`: the template of the value, of at least one field. An entity that has `None` in one of
///   them is in no list. At most one is a `Vec<T>` or an `Option<Vec<T>>` that is stored with `json`: the
///   entity is in the list of each item.
/// - `max = 8`: with a `Vec`, how many different items an entity may have; a write of more is refused. A
///   change may take the entity off as many lists and put it on others, in the 100 operations of one
///   transaction, which all indexes of the partition and all lists share.
/// - `blob`: the list of a value is a blob and no row, and holds the keys of entities of all partitions. Its
///   constructor takes the values alone.
/// - `when = ".."`: as for an index.
///
/// The rows begin with `list_`, the text that the entities begin with, and the name. Fields that are
/// encrypted or skipped do not compile in a template, nor does `json` on another type than a `Vec`.
///
/// # On a field
///
/// - `rename = ".."`: the name of the property.
/// - `default`, `default = "path::to::function"`: what an entity without the property means; not
///   needed on an `Option`, which is `None`.
/// - `json`: a value of any type that serde knows, as JSON in a String property. It cannot be
///   filtered on, so there is no column. An `Option` that is `None` is not stored.
/// - `as = ".."`: the type that it is stored as, if not its own: `"Int32"`, `"Int64"` or `"Double"` for numbers,
///   `"String"` for integers, dates (RFC 3339) and GUIDs; `"DateTime"` and `"Guid"` where `compat` says otherwise.
///   A value that the type does not have is refused when it is written. The field reads this type and
///   all that it reads without. Not with `json`, `blob` or `encrypt`.
/// - `exact`: every row has the type that the field is stored as, so its comparisons are sent as one.
/// - `blob`: stored in a blob, by a store: a value of any size that becomes a String or Binary property, or
///   with `json` any type. Its type has a `Default`, which stands in where the blob is not read. Such a field
///   has no column and can be in no key, index, list or unique value.
/// - `encrypt`: stored encrypted, by the store and the keys of the crate `rowkey-encryption`; a String
///   or Binary property, or one with `json`. The type needs `store`, a `Table` neither writes nor reads
///   it, and a store refuses a filter that compares it. With `blob` the content of the blob is encrypted.
/// - `rest`: on one field of type `Properties`, which takes the properties that no other field names, each
///   with its stored type, and writes them back. Where all have one type, and for names that are data, a
///   `BTreeMap<String, V>` with `V` any type of a property does the same. An entry
///   with the name of another field, or with one that the service or a store writes (`Timestamp`,
///   `EntityType`, `EntityOp` and such), is refused when the entity is written.
/// - `flatten`, `flatten, prefix = ".."`: the fields of a struct that derives `Flatten` are properties of
///   the entity, with the prefix in front of their names. Such an entity is read with all columns. No key, index or
///   list names a field of the struct. (`Option` of the struct is not taken: make its fields `Option`s.)
/// - `with = "path"`: the module's functions convert the field, for types of other crates: `to_value(&T) ->
///   Result<Option<ValueRef<'_>>, PropertyError>` and `from_value(ValueRef<'_>) -> Result<T, PropertyError>`, as
///   of the trait `Property`. On an `Option<T>` they convert the `T`, and `None` is not stored. There is no
///   column.
/// - `skip`: not stored; `Default::default()` when it is read, or what `default = ".."` says.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use rowkey::Entity;
///
/// #[derive(Entity)]
/// #[entity(partition = "{customer}", row = "order_{number:8,desc}")]
/// struct Order {
///     customer: String,
///     number: u32,
///     #[entity(rename = "Total")]
///     cents: i64,
///     #[entity(default = "one")]
///     version: i32,
///     #[entity(json)]
///     items: BTreeMap<String, u32>,
///     #[entity(skip)]
///     changed: bool,
/// }
///
/// fn one() -> i32 {
///     1
/// }
///
/// assert_eq!(Order::key("c7", 41).parts(), Ok(("c7", "order_99999958")));
/// assert_eq!(Order::CENTS.name(), "Total");
/// ```
///
/// # Errors
///
/// What the service would refuse does not compile: characters that keys must not contain, names
/// that are not letters, digits and `_`, the names of the system properties, a name for two
/// properties, more than 252 properties of an entity of one row
/// ([Understanding the Table service data model](https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model)).
/// The struct has named fields and no lifetimes. It may have type parameters, for fields that are in no
/// template; the implementations ask of a field's type what its attributes need (`T: Property`, or that serde
/// knows it for `json`):
///
/// ```
/// use rowkey::{DynamicEntity, Entity};
///
/// mod decimal {
///     use rowkey::edm::{Type, ValueRef};
///     use rowkey::entity::PropertyError;
///
///     /// In a program, the type of another crate.
///     #[derive(Clone, Debug, PartialEq)]
///     pub struct Decimal(pub String);
///
///     pub fn to_value(value: &Decimal) -> Result<Option<ValueRef<'_>>, PropertyError> {
///         Ok(Some(ValueRef::String(value.0.as_str().into())))
///     }
///
///     pub fn from_value(value: ValueRef<'_>) -> Result<Decimal, PropertyError> {
///         match value {
///             ValueRef::String(text) => Ok(Decimal(text.into_owned())),
///             other => Err(PropertyError::wrong_type(Type::String, other.edm_type())),
///         }
///     }
/// }
/// use decimal::Decimal;
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{cache}", row = "{name}")]
/// struct Priced<T> {
///     cache: String,
///     name: String,
///     value: T,
///     #[entity(with = "decimal")]
///     price: Decimal,
/// }
///
/// let price = Decimal("19.99".into());
/// let priced = Priced { cache: "c".into(), name: "n".into(), value: 7_i64, price };
/// let stored = DynamicEntity::of(&priced)?;
/// assert_eq!(stored.get("price"), Some(&"19.99".into()));
/// assert_eq!(stored.read_as::<Priced<i64>>()?, priced);
/// # Ok::<(), rowkey::Error>(())
/// ```
#[proc_macro_derive(Entity, attributes(entity))]
pub fn derive_entity(input: TokenStream) -> TokenStream {
    expand(input, entity::entity, stub::entity)
}

/// Makes an enum of entity types one type, for tables and partitions that hold several.
///
/// Each variant holds an entity. The enum implements `Entity` and `Projection`, too: a query of a whole partition gives each
/// row as what it is, and it can be changed and replaced under its ETag, deleted, and put into
/// transactions without asking which type it is.
///
/// ```
/// use rowkey::{DynamicEntity, Entity, EntitySet, Key, Match, StorageAccount};
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}", version = 2)]
/// struct Employee {
///     department: String,
///     id: u32,
///     cents: i64,
/// }
///
/// // What employees were before there were versions.
/// #[derive(Clone, Debug, Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// struct EmployeeV1 {
///     department: String,
///     id: u32,
///     salary: f64,
/// }
///
/// impl From<EmployeeV1> for Employee {
///     fn from(EmployeeV1 { department, id, salary }: EmployeeV1) -> Self {
///         Self { department, id, cents: (salary * 100.0).round() as i64 }
///     }
/// }
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(partition = "{department}", row = "review_{employee:6}_{year:4}")]
/// struct Review {
///     department: String,
///     employee: u32,
///     year: u16,
///     rating: i32,
/// }
///
/// #[derive(Clone, Debug, EntitySet)]
/// enum Record {
///     #[entity_set(older(EmployeeV1))]
///     Employee(Employee),
///     Review(Review),
///     #[entity_set(unknown)]
///     Unknown(DynamicEntity),
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let staff = account.table("staff");
/// # staff.create().await?;
/// staff.insert(&EmployeeV1 { department: "sales".into(), id: 7, salary: 1000.0 }).await?;
/// staff.insert(&DynamicEntity::new("sales", "note_1")).await?;
///
/// for stored in staff.query(Employee::partition("sales").whole::<Record>()).all().await? {
///     match &stored.entity {
///         // Upgraded when it was read; written in the newest form.
///         Record::Employee(employee) => assert_eq!(employee.cents, 100_000),
///         Record::Review(_) => unreachable!("there is none"),
///         Record::Unknown(other) => assert_eq!(other.row_key, "note_1"),
///     }
///     staff.replace(&stored).await?;
///     staff.delete(Key::of(&stored.entity), Match::Any).await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Which type a row is of
///
/// The type in whose rows the RowKey lies (the head of its row template), whose `kind` is the
/// `EntityType` of the row (or its `discriminator`), and whose `version` is its `EntityVersion`, 1 where there
/// is none. Types without a `kind` do not look at that property. Two types of a set that could both claim a row do not
/// compile: give them heads that do not begin with one another, or both a `kind`, or different
/// versions.
///
/// A row that is of no type of the set is kept as it is in the variant with `#[entity_set(unknown)]`,
/// all its properties and their types, and written back so: newer versions of the types of the set
/// are among them. Without such a variant the row is an error.
///
/// Copies that a declared index of a type of the set keeps are no entities. Queries pass over them, and
/// reading one by its key is an error: a copy is changed with its entity or not at all.
///
/// Types with encrypted fields cannot be in a set. Types with indexes can, to be
/// read; write them through their index.
///
/// # On the enum
///
/// - `discriminator = ".."`: the property that tells the type, if it is not `EntityType`; the types with a `kind` say
///   the same.
/// - `crate = ".."`: where `rowkey` is, if not at `::rowkey`.
///
/// # On a variant
///
/// - `older(EmployeeV1, EmployeeV2)`: entity types of older versions, which the type of the variant
///   is made `From` when they are read. The conversion must keep the keys.
/// - `unknown`: takes what is of no type of the set; once. Its type is `DynamicEntity`, or another
///   that reads anything.
#[proc_macro_derive(EntitySet, attributes(entity_set))]
pub fn derive_entity_set(input: TokenStream) -> TokenStream {
    expand(input, entity_set::derive, stub::entity_set)
}

/// Makes a struct readable from entities: some of their properties, to fetch less.
///
/// Only the properties that it has are asked for. It has no templates; otherwise its attributes are
/// those of the `Entity` derive, and three more on fields:
///
/// - `partition_key`, `row_key`: the field receives the key as it is stored; a `String` or another
///   type that is made `From<&str>`.
/// - `timestamp`: the field receives the time of the last write; a `DateTime`, of this crate or
///   chrono's.
///
/// ```
/// use rowkey::Projection;
///
/// #[derive(Projection)]
/// #[entity(rename_all = "PascalCase")]
/// struct Contact {
///     #[entity(row_key)]
///     row: String,
///     email_address: String,
///     phone: Option<String>,
/// }
///
/// let columns = ["PartitionKey", "RowKey", "Timestamp", "EmailAddress", "Phone"];
/// assert_eq!(Contact::COLUMNS, Some(&columns[..]));
/// ```
#[proc_macro_derive(Projection, attributes(entity))]
pub fn derive_projection(input: TokenStream) -> TokenStream {
    expand(input, entity::projection, stub::projection)
}

/// Makes the fields of a struct properties of the entity that it is a field of.
///
/// The entity, or a projection, has it as a field with `flatten`, and `prefix = ".."` if the names of its
/// properties are to begin with that. Its attributes are those of an entity's fields, without
/// `encrypt`, `blob`, `rest` and `flatten`. It may be generic.
///
/// ```
/// use rowkey::{DynamicEntity, Entity, Flatten};
///
/// #[derive(Clone, Debug, PartialEq, Flatten)]
/// #[entity(rename_all = "PascalCase")]
/// struct Address {
///     city: String,
///     street: Option<String>,
/// }
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{tenant}", row = "customer_{id:6}")]
/// struct Customer {
///     tenant: String,
///     id: u32,
///     #[entity(flatten)]
///     address: Address,
///     #[entity(flatten, prefix = "Billing_")]
///     billing: Address,
/// }
///
/// let leeds = Address { city: "Leeds".into(), street: None };
/// let (address, billing) = (leeds.clone(), leeds);
/// let customer = Customer { tenant: "contoso".into(), id: 7, address, billing };
/// let stored = DynamicEntity::of(&customer)?;
/// let names: Vec<_> = stored.iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["City", "Billing_City"]);
/// assert_eq!(stored.read_as::<Customer>()?, customer);
/// assert_eq!(Address::CITY.name(), "City");
/// # Ok::<(), rowkey::Error>(())
/// ```
///
/// Two properties of one name do not compile. A column of a field with a prefix is
/// `Column::named("Billing_City")`.
#[proc_macro_derive(Flatten, attributes(entity))]
pub fn derive_flatten(input: TokenStream) -> TokenStream {
    expand(input, entity::flatten, stub::flatten)
}

/// Makes a newtype or an enum storable in a property.
///
/// A struct of one field is stored as that field. An enum is stored as a String, the name of the
/// variant; `#[property(rename_all = "..")]` writes the names another way (as on entities, and
/// `"kebab-case"`), `#[property(rename = "..")]` on a variant gives it another text. Text that no
/// variant has is an error when the entity is read. `#[property(ignore_serde)]` says that attributes
/// `#[serde(..)]` are for serde alone; they are errors without it. `#[property(crate = "..")]` says
/// where `rowkey` is, if not at `::rowkey`.
///
/// ```
/// use rowkey::Property;
/// use rowkey::edm::Value;
///
/// #[derive(Property)]
/// struct Celsius(f64);
///
/// #[derive(Debug, PartialEq, Property)]
/// #[property(rename_all = "kebab-case")]
/// enum Status {
///     InProgress,
///     #[property(rename = "finished")]
///     Done,
/// }
///
/// let stored = Value::from("in-progress");
/// assert_eq!(Status::InProgress.to_value(), Ok(Some(stored.as_ref())));
/// assert_eq!(Status::from_value(stored.as_ref()), Ok(Status::InProgress));
/// assert!(Status::from_value(Value::from("Done").as_ref()).is_err());
/// ```
///
/// - `#[property(repr = "Int32")]` or `"Int64"` stores an enum as the number of the variant, its
///   discriminant, which is an integer literal or one more than that of the variant before.
/// - `#[property(other)]` on a variant with one field holds what is of no other variant. What the service
///   has is written back unchanged; a value that is another variant's is refused when it is written.
///
/// ```
/// use rowkey::Property;
/// use rowkey::edm::Value;
///
/// #[derive(Debug, PartialEq, Property)]
/// #[property(repr = "Int32")]
/// enum Level {
///     Low = 10,
///     High = 20,
/// }
///
/// #[derive(Debug, PartialEq, Property)]
/// enum State {
///     Open,
///     #[property(other)]
///     Other(String),
/// }
///
/// assert_eq!(Level::High.to_value(), Ok(Some(Value::from(20).as_ref())));
/// assert_eq!(State::from_value(Value::from("Paused").as_ref()), Ok(State::Other("Paused".into())));
/// ```
#[proc_macro_derive(Property, attributes(property))]
pub fn derive_property(input: TokenStream) -> TokenStream {
    expand(input, property::derive, stub::property)
}

/// Makes a newtype or an enum without fields usable in a key template.
///
/// A struct of one field is written as that field. An enum is written as text, the name of the
/// variant, so its values are kept **in the order of the text**, not of the declaration.
/// `#[key_part(rename_all = "..")]`, `#[key_part(rename = "..")]`, `#[key_part(ignore_serde)]` and
/// `#[key_part(crate = "..")]` are as for the `Property` derive.
///
/// ```
/// use rowkey::{Entity, KeyPart};
///
/// #[derive(Clone, Copy, KeyPart)]
/// struct EmployeeId(u32);
///
/// #[derive(Clone, Copy, KeyPart)]
/// #[key_part(rename_all = "lowercase")]
/// enum Region {
///     North,
///     South,
/// }
///
/// #[derive(Entity)]
/// #[entity(partition = "{region}", row = "id_{id:6}")]
/// struct Employee {
///     region: Region,
///     id: EmployeeId,
/// }
///
/// let key = Employee::key(Region::North, EmployeeId(223));
/// assert_eq!(key.parts(), Ok(("north", "id_000223")));
/// ```
#[proc_macro_derive(KeyPart, attributes(key_part))]
pub fn derive_key_part(input: TokenStream) -> TokenStream {
    expand(input, key_part::derive, stub::key_part)
}

fn expand(
    input: TokenStream,
    derive: fn(&DeriveInput) -> syn::Result<proc_macro2::TokenStream>,
    stub: fn(&DeriveInput) -> proc_macro2::TokenStream,
) -> TokenStream {
    let written = syn::parse::<DeriveInput>(input).and_then(|input| {
        derive(&input).or_else(|error| {
            let (error, stub) = (error.to_compile_error(), stub(&input));
            Ok(quote::quote! { #error #stub })
        })
    });
    written.unwrap_or_else(|error| error.to_compile_error()).into()
}
