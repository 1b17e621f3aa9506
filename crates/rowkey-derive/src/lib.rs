//! `#[derive(Entity, EntitySet, Flatten, Projection, Property, KeyPart)]` for the `rowkey` crate, which
//! re-exports them.
//!
//! - `entity_set`: an enum of entities
//! - `attrs`: parses the attributes · `names`: derived names, and "did you mean"
//! - `declaration`: a file for each kind of declaration, such as `index(..)` or `expiry`
//! - `template`: `"id_{id:6}"` · `notation`: the format after the colon · `model`: a struct and the roles of
//!   its fields
//! - `shape`: a newtype or an enum · `entity`, `keys`, `property`, `key_part`: the generated code
//! - `growing`: a warning for keys that only grow
//! - `serde`: refuses serde's attributes that would have no effect · `stub`: the output of a failed derive
//!
//! All paths in the generated code are absolute (`::core::..`, `::rowkey::..`), and calls of trait methods
//! name the trait, because the user's names are in scope where it is compiled: a type named `Result` or a
//! trait with a method `into_arg` must not change its meaning. Its local variables have unique names for the
//! same reason.

// The examples are tests of the package in `tests`. `cargo test --doc` would run them here as well, without the
// crates that they need.
#![cfg(not(doctest))]

mod attrs;
mod declaration;
mod entity;
mod entity_set;
mod growing;
mod key_part;
mod keys;
mod model;
mod names;
mod notation;
mod property;
mod role;
mod serde;
mod shape;
mod store;
mod stored_types;
mod stub;
mod template;
mod types;

use proc_macro::TokenStream;
use syn::DeriveInput;

/// Makes a struct an entity: generates its keys, and its conversion to and from rows.
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
/// It implements `Entity` and `Projection`, and generates these items with the visibility of the struct:
///
/// | item | description |
/// |---|---|
/// | `key(..) -> Key<Self>` | the address of one entity; takes the fields in the templates, PartitionKey first, each once |
/// | `partition(..) -> Partition<Self>` | all entities of the type in a partition |
/// | `under_employee(..) -> Partition<Self>` | the entities whose RowKey begins with the parts up to this one; generated for each part but the last |
/// | `parse_key(&str, &str)` | the fields of a stored PartitionKey and RowKey, as a tuple if there are several |
/// | `RATING: Column<f64>` | a constant for each property, for filters; the column of an `Option<T>` is a `Column<T>` |
///
/// Arguments may be values, references, and `&str` for a `String`.
///
/// # Templates
///
/// A template is text with fields in braces; write `{{` and `}}` for literal braces. Fields in a template are
/// read from the keys, and are not stored again as properties. A field may be in both templates. Its type
/// must implement `KeyPart`.
///
/// | part | of | format of the value | order |
/// |---|---|---|---|
/// | `{id}` | all | text order is value order; a number has all the digits of its type | holds |
/// | `{id:6}` | numbers | 6 digits, 1 to 20; creating a key with a larger number is an error | holds |
/// | `{at:desc}`, `{id:6,desc}` | numbers, bools, instants | largest first | reversed |
/// | `{id:unpadded}` | numbers | `7`, `-5` | **not**: `10` before `9` |
/// | `{id:x8}`, `{id:X8}` | unsigned numbers | 8 hexadecimal digits, 1 to 16, in lower or upper case | holds |
/// | `{at:18}` | instants | .NET's ticks in 18 digits, until the year 3169; `{at}` has 19 | holds |
/// | `{at:iso}`, `{at:iso3}` | instants | `2026-11-23T04:45:06Z`, with up to 9 digits of fraction | holds |
/// | `{at:iso6,naive}` | instants | the same without the `Z` | holds |
/// | `{at:unix}`, `{at:unix_ms}` | instants | seconds since 1970 in 10 digits, milliseconds in 13, until 2286 | holds |
/// | `{at:unix,unpadded}` | instants | without padding, `-` before 1970 | **not** |
/// | `{day:date}`, `{day:yyyyMMdd}` | days, instants | `2026-11-23`, `20261123` | holds |
/// | `{id:D}`, `{id:N}`, `{id:B}` | GUIDs | with hyphens, digits only, in braces; in lower case | holds |
/// | `{id:N,upper}`, `{id:upper}` | GUIDs | the same in upper case | holds |
/// | `{open:True}`, `{open:true}` | bools | `True` and `False`, `true` and `false` | holds |
/// | `{email:lower}` | text | in lower case, in indexes only | of the lower case |
/// | `{device:bucket(8)}` | all | one of 8 buckets, chosen by a hash of the value, in PartitionKeys only | no |
///
/// Instants are `chrono::DateTime<Utc>` and `edm::DateTime`, days are `chrono::NaiveDate`. Values are
/// truncated to the resolution of the format: with `{at:unix}` two entities of one second have one key. A
/// field in both keys is read from the key with the finer resolution, so `partition = "{at:date}", row =
/// "{at:desc}"` reads back all of `at`.
///
/// A key is read back only if the template produces the same key from the values. The book lists the formats
/// that read the keys of each library.
///
/// `unpadded` is allowed in the last part; before other parts it must be written `{id:unpadded,unordered}`.
/// Ranges of such keys are correct, but read all rows that have the parts before.
///
/// The value cannot be read back from a bucket, so its field is also a property, or a part of the RowKey.
/// `key` and `partition` take the value and compute the bucket; `partitions` returns the partitions of all
/// buckets.
///
/// The text after a part ends it, so it must begin with a character that the part never contains: `{a}-{b}`
/// with unsigned numbers, `{day}T{hour:2}`. Signed numbers and GUIDs contain `-`, so there it does not
/// compile. Text can contain any character; it must be followed by one of `_ : | , ; - = + !`, and is escaped
/// where it contains that.
///
/// The text before the first part of the row template distinguishes the entity types of a partition. A query
/// for `id_{id}` never returns a row `email_{email}`. Types whose templates begin with a part need a `kind`
/// instead.
///
/// # On the struct
///
/// - `partition = "..", row = ".."`: the templates of the keys; required.
/// - `rename_all = ".."`: derives the names of properties from those of fields: `"PascalCase"`, as .NET
///   writes them, `"camelCase"`, `"snake_case"`, `"SCREAMING_SNAKE_CASE"`, `"lowercase"` or `"UPPERCASE"`.
///   Default: unchanged.
/// - `kind = ".."`: every entity gets a property `EntityType` with this value, and reading an entity with
///   another value fails.
/// - `kind = "..", discriminator = ".."`: uses this property name instead of `EntityType`, for rows of
///   another program. An `EntitySet` of such types needs the same `discriminator`.
/// - `index(..)`, `list(..)`: see below. They may be given several times.
/// - `version = 2`: every entity gets a property `EntityVersion` with this value, and reading an entity of
///   another version fails. From 2 on, an entity without the property has version 1.
/// - `version = 2, from = OrderV1`, with `store`: entities of the older version are read as that type,
///   converted by `From<OrderV1>`, and stored in the new version by the next write, or by `Store::migrate`.
///   `OrderV1` is an entity with the same keys; it may have its own `from`.
/// - `wide = 40`, with `store`: an entity has up to this number of rows, 2 to 98; one transaction must have
///   room for them and for the indexes and lists of the partition. Such a type has no full copies, and a
///   `Table` neither writes nor reads it.
/// - `parts`, with `wide`: each property has a fixed row, chosen by its name, so that a `Store` reads and patches
///   it without the other rows; `parts = 5`: the first 5 characters of the name choose the row, so that
///   properties with the same beginning share it.
/// - `compat = ".."`: the stored types of fields without an `as`, so that another library can read and filter
///   them: `"azure_data_tables-0.21"`, `"dotnet"`, `"javascript"` or `"python"`. The book has the table.
/// - `exact`: every row has the stored types of the fields, so each comparison of a number is sent as a
///   single comparison.
/// - `append_ok`: no warning that all inserts go to one end of the table or of a partition. The warning is that of
///   a deprecated item, and appears where a PartitionKey begins with an instant, a day or a number named as one
///   (`{day:8}`, `{sequence}`), or has no part at all and the RowKey begins so; also for indexes in other
///   partitions. A `{device:bucket(8)}` in the PartitionKey, or a part named `bucket` or `shard`, spreads the
///   writes. One partition takes about 2,000 entities per second.
/// - `ignore_serde`: the attributes `#[serde(..)]` of the struct and its fields apply only to serde. Without
///   it they are errors, because they have no effect on the stored entity.
/// - `crate = ".."`: the path of `rowkey`, if not `::rowkey`; `rowkey_entity` in a program without a client.
///
#[doc = include_str!("declaration/index.md")]
///
#[doc = include_str!("declaration/list.md")]
///
/// # On a field
///
/// - `rename = ".."`: the name of the property.
/// - `default`, `default = "path::to::function"`: the value of a field whose property is missing; not needed
///   for an `Option`, which is `None`.
/// - `json`: a value of any type that serde supports, as JSON in a String property. It cannot be filtered, so
///   there is no column. An `Option` that is `None` is not stored.
/// - `as = ".."`: the stored type, if not the default: `"Int32"`, `"Int64"` or `"Double"` for numbers,
///   `"String"` for integers, dates (RFC 3339) and GUIDs; `"DateTime"` and `"Guid"` to override `compat`.
///   Writing a value that the type cannot represent fails. The field reads this type in addition to those
///   that it reads without `as`. Not with `json`, `blob` or `encrypt`.
/// - `exact`: every row has the stored type of the field, so each of its comparisons is sent as a single
///   comparison.
/// - `blob`: stored in a blob, by a store: a value of any size that becomes a String or Binary property, or
///   with `json` any type. The type needs a `Default`, which is the field's value if the blob is not read.
///   Such a field has no column and can be in no key, index, list or unique value.
/// - `threshold = 16384`, with `blob`: values of at most this many bytes stay in the row, 1 to 65,536, counted as the
///   service counts: two bytes for each UTF-16 unit of a String. Not with `encrypt`.
/// - `compress`, with `blob`: the blob holds the content in gzip, if that is shorter. Not with `encrypt`.
/// - `blob` on a `BlobRef` or an `Option` of it: a reference to a blob that the program uploads with
///   `rowkey::store::Store::upload`. The entity stores it in four properties: the path under the name of the field, and
///   its length, digest and type under that name with `_Length`, `_Sha256` and `_ContentType`. The type is recognized by
///   its name. Not with `encrypt`; projections can have such a field, too.
/// - `expiry`, on one field of type `chrono::DateTime<Utc>`, `edm::DateTime` or an `Option` of them, with `store`: the
///   time from which on a store reads the entity as if it did not exist; `None` never expires.
///   `Store::delete_expired` removes such entities. Not with `wide`, `compat` or other attributes than `rename`.
/// - `encrypt`: stored encrypted, by the store with the keys of `rowkey::encryption`; a String or
///   Binary property, or one with `json`. The type needs `store`, a `Table` neither writes nor reads it, and
///   a store refuses a filter that compares the field. With `blob` the content of the blob is encrypted.
/// - `rest`: on one field of type `Properties`, which receives the properties that no other field names, each
///   with its stored type, and writes them back. If all have one type, or if names are data, use a
///   `BTreeMap<String, V>` with `V` any property type. Writing fails for an entry with the name of another
///   field, or of a property that the service or a store writes (`Timestamp`, `EntityType`, `EntityOp`, names that
///   begin with `CopiedFrom_`, and so on).
/// - `flatten`, `flatten, prefix = ".."`: the fields of a struct that derives `Flatten` are properties of the
///   entity, with the prefix before their names. Such an entity is read with all columns. No key, index or
///   list can name a field of the struct. (An `Option` of the struct is not supported: make its fields
///   `Option`s.)
/// - `with = "path"`: the module's functions convert the field, for types of other crates: `to_value(&T) ->
///   Result<Option<ValueRef<'_>>, PropertyError>` and `from_value(ValueRef<'_>) -> Result<T, PropertyError>`,
///   as in the trait `Property`. On an `Option<T>` they convert the `T`, and `None` is not stored. There is
///   no column.
/// - `skip`: not stored; read as `Default::default()`, or as the value of `default = ".."`.
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
/// Declarations that the service would refuse do not compile: characters that are invalid in keys, names that
/// are not letters, digits and `_`, the names of the system properties, one name for two properties, more
/// than 252 properties of an entity of one row ([Understanding the Table service data
/// model](https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model)).
/// The struct must have named fields and no lifetimes. It may have type parameters, for fields that are in no
/// template; the implementations then require of a field's type what its attributes need (`T: Property`, or
/// serde's traits for `json`):
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
/// Each variant holds an entity. The enum implements `Entity` and `Projection`, too: a query of a whole
/// partition returns each row as its own type, and a row can be changed and replaced under its ETag, deleted,
/// and added to transactions without matching on its type.
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
/// A row belongs to the type whose row template has the leading text of the RowKey, whose `kind` is the row's
/// `EntityType` (or `discriminator`), and whose `version` is its `EntityVersion`, 1 if it has none. Types
/// without a `kind` ignore the `EntityType`. Two types of a set that could both claim a row do not compile:
/// use leading texts that are not prefixes of one another, a `kind` for both, or different versions.
///
/// A row that matches no type of the set is read unchanged into the variant with `#[entity_set(unknown)]`,
/// with all properties and their types, and written back in the same way; this includes newer versions of the
/// types. Without such a variant the row is an error.
///
/// Copies that a declared index of a type of the set maintains are not entities. Queries skip them, and
/// reading one by its key is an error: a copy changes only together with its entity.
///
/// Types with encrypted fields cannot be in a set. Types with indexes can be read through a set; write them
/// through their index.
///
/// # On the enum
///
/// - `discriminator = ".."`: the property that identifies the type, if not `EntityType`; types with a `kind`
///   need the same attribute.
/// - `crate = ".."`: the path of `rowkey`, if not `::rowkey`; `rowkey_entity` in a program without a client.
///
/// # On a variant
///
/// - `older(EmployeeV1, EmployeeV2)`: entity types of older versions, which are converted to the variant's
///   type with `From` when they are read. The conversion must keep the keys.
/// - `unknown`: receives rows that match no type of the set; at most one variant. Its type is
///   `DynamicEntity`, or another type that reads any row.
#[proc_macro_derive(EntitySet, attributes(entity_set))]
pub fn derive_entity_set(input: TokenStream) -> TokenStream {
    expand(input, entity_set::derive, stub::entity_set)
}

/// Makes a struct readable from entities: a subset of their properties, to fetch less.
///
/// Queries request only the properties that it has. It has no templates; otherwise its attributes are those
/// of the `Entity` derive, and three more on fields:
///
/// - `partition_key`, `row_key`: the field receives the key as stored; a `String` or another type with
///   `From<&str>`.
/// - `timestamp`: the field receives the time of the last write; a `DateTime`, of this crate or of chrono.
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

/// Makes the fields of a struct properties of the entity that contains it.
///
/// The entity, or a projection, has it as a field with `flatten`, optionally with `prefix = ".."` for the
/// names of its properties. Its attributes are those of an entity's fields, without `encrypt`, `blob`, `rest`
/// and `flatten`. It may be generic.
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
/// Two properties with the same name do not compile. The column of a field with a prefix is
/// `Column::named("Billing_City")`.
#[proc_macro_derive(Flatten, attributes(entity))]
pub fn derive_flatten(input: TokenStream) -> TokenStream {
    expand(input, entity::flatten, stub::flatten)
}

/// Makes a newtype or an enum storable as a property.
///
/// A struct of one field is stored as that field. An enum is stored as a String, the name of the variant;
/// `#[property(rename_all = "..")]` changes the case of the names (as on entities, and `"kebab-case"`),
/// `#[property(rename = "..")]` on a variant sets another text. Reading a text that no variant has is an
/// error. `#[property(ignore_serde)]` declares that attributes `#[serde(..)]` apply only to serde; they are
/// errors without it. `#[property(crate = "..")]` sets the path of `rowkey`, if not `::rowkey`.
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
///   discriminant, which is an integer literal or one more than that of the previous variant.
/// - `#[property(other)]` on a variant with one field holds values that match no other variant. Such a value
///   is written back unchanged; writing a value that belongs to another variant fails.
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
/// A struct of one field is written as that field. An enum is written as text, the name of the variant, so
/// its values sort **in text order**, not in the order of the declaration. `#[key_part(rename_all = "..")]`,
/// `#[key_part(rename = "..")]`, `#[key_part(ignore_serde)]` and `#[key_part(crate = "..")]` are as for the
/// `Property` derive.
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
