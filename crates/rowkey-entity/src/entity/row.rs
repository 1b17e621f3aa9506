//! Writers and readers of an entity's properties.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use rowkey_wire::edm::{DateTime, Type, Value, ValueRef};
use rowkey_wire::odata::{FieldError, Fields};

use super::convert;
use super::dynamic::DynamicEntity;
use super::flatten::{self, Names, full};
use super::properties::Rest;
use super::property::{Property, PropertyError};
use crate::EncodeError;
use crate::index::{
    COPIED_FROM, INDEX_NAME, Index, PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY, ROW_FORMAT,
};
use crate::key::{KeyReadError, KeyWriter};
use crate::odata::encode::EntityWriter;

/// The default name of the discriminator: the property that identifies the type if the keys do not.
pub(crate) const KIND: &str = "EntityType";

/// The property that holds the version of the type; an entity without it has version 1.
pub(crate) const VERSION: &str = "EntityVersion";

/// Properties that are not data of an entity: those of the service, of the type, and of the rows
/// that `rowkey_store::Store` writes. A field with `#[entity(rest)]` never contains them.
pub(crate) const OWN: [&str; 12] = [
    "PartitionKey",
    "RowKey",
    "Timestamp",
    KIND,
    VERSION,
    "EntityOp",
    "EntityParts",
    "EntityRows",
    INDEX_NAME,
    PRIMARY_PARTITION_KEY,
    PRIMARY_ROW_KEY,
    ROW_FORMAT,
];

/// Whether a property is one of [`OWN`], or names the source of a copy.
fn is_own(name: &str) -> bool {
    OWN.contains(&name) || name.starts_with(COPIED_FROM)
}

/// Writes the properties of an entity for a request.
pub struct RowWriter {
    out: EntityWriter,
    /// Where properties are collected if they are not to be sent.
    collected: Collected,
    only: Option<&'static [&'static str]>,
    /// The prefix of each name.
    prefix: &'static str,
    /// The properties that will be encrypted before they are sent.
    encrypted: &'static [&'static str],
    error: Option<(String, PropertyError)>,
}

/// The part of the written properties that is kept in memory.
enum Collected {
    /// Nothing: the properties are sent.
    Nothing,
    /// The values, of any size.
    Values(Vec<(String, Value)>),
    /// Only the names, including those of values that the service does not accept.
    Names(HashSet<String>),
}

impl RowWriter {
    pub(crate) fn new(capacity: usize, partition_key: &str, row_key: &str) -> Self {
        let out = EntityWriter::with_capacity(capacity, partition_key, row_key);
        Self {
            out,
            collected: Collected::Nothing,
            only: None,
            prefix: "",
            encrypted: &[],
            error: None,
        }
    }

    /// Collects the properties, of any size, until [`into_values`](Self::into_values).
    pub(crate) fn in_memory() -> Self {
        Self { collected: Collected::Values(Vec::new()), ..Self::new(0, "", "") }
    }

    /// Collects the names of the properties until [`into_names`](Self::into_names). Refuses
    /// nothing.
    pub(crate) fn names() -> Self {
        Self { collected: Collected::Names(HashSet::new()), ..Self::new(0, "", "") }
    }

    /// Accepts these properties in plaintext: they are encrypted afterwards.
    pub(crate) fn encrypting(self, encrypted: &'static [&'static str]) -> Self {
        Self { encrypted, ..self }
    }

    /// Writes a property; `None` is left out.
    pub fn property<P: Property>(&mut self, name: &str, value: &P) {
        if !self.takes(name) {
            return;
        }
        self.value(name, value.to_value());
    }

    fn value(&mut self, name: &str, value: Result<Option<ValueRef<'_>>, PropertyError>) {
        match value {
            Ok(Some(value)) => self.put(name, value),
            Ok(None) => {}
            Err(error) => self.fail(name, error),
        }
    }

    /// Writes a property as a value of another type, `None` for its own, as
    /// `#[entity(as = "Int32")]` does. A value that the type does not represent exactly is an
    /// error.
    pub fn property_as<P: Property>(
        &mut self,
        name: &str,
        value: &P,
        stored: impl Into<Option<Type>>,
    ) {
        let Some(stored) = stored.into() else { return self.property(name, value) };
        if !self.takes(name) {
            return;
        }
        let value = value.to_value();
        self.value(name, value.and_then(|v| v.map(|v| convert::store(v, stored)).transpose()));
    }

    /// Writes a property that a function of the program has converted.
    #[doc(hidden)]
    pub fn converted(&mut self, name: &str, value: Result<Option<ValueRef<'_>>, PropertyError>) {
        if self.takes(name) {
            self.value(name, value);
        }
    }

    /// Writes the properties of `write` with `prefix` before each name.
    #[doc(hidden)]
    pub fn flatten(&mut self, prefix: &'static str, write: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.prefix, prefix);
        write(self);
        self.prefix = before;
    }

    /// Writes a value of any serializable type as JSON text.
    pub fn json<T: serde::Serialize>(&mut self, name: &str, value: &T) {
        if !self.takes(name) {
            return;
        }
        match serde_json::to_string(value) {
            Ok(text) => self.property(name, &text),
            Err(_) => self.fail(name, PropertyError::new("the value cannot be written as JSON")),
        }
    }

    /// Writes each entry as a separate property. An entry whose name is in `taken`, which holds the
    /// names of other fields, or is a name that the service, the type or a store writes is an
    /// error.
    pub fn rest<R: Rest>(&mut self, entries: &R, taken: &Names<'_>) {
        entries.each(&mut |name, value| {
            if !self.takes(name) {
                return;
            }
            if flatten::has(taken, name) || is_own(name) {
                let what = "an entry of the open field has this name, and another field, the service or \
                            the store writes this property; give the entry another name";
                self.fail(name, PropertyError::new(what));
                return;
            }
            self.value(name, value);
        });
    }

    /// Declares, before the property is written, that it must not be stored in plaintext: writing
    /// fails unless it will be encrypted. Called for each of [`Declarations::encrypted`].
    ///
    /// [`Declarations::encrypted`]: super::Declarations::encrypted
    pub fn must_encrypt(&mut self, name: &str) {
        let is_kept =
            matches!(self.collected, Collected::Names(_)) || self.encrypted.contains(&name);
        if self.takes(name) && !is_kept {
            let what = "it is to be encrypted, and nothing on the way to this table does that; write \
                        the entity through its store";
            self.fail(name, PropertyError::new(what));
        }
    }

    /// Writes only those properties of `write` that have these names (and the discriminator of a
    /// type that has a kind).
    pub fn only(&mut self, names: &'static [&'static str], write: impl FnOnce(&mut Self)) {
        let before = self.only.replace(names);
        write(self);
        self.only = before;
    }

    fn takes(&self, name: &str) -> bool {
        self.only.is_none_or(|names| names.contains(&&*full(self.prefix, name)))
    }

    /// Writes the kind of the type, with the name of its discriminator, and its version.
    #[doc(hidden)]
    pub fn of_type(&mut self, kind: Option<(&'static str, &'static str)>, version: i32) {
        if let Some((discriminator, kind)) = kind {
            self.put(discriminator, ValueRef::String(kind.into()));
        }
        // Entities from before versioning have version 1, and version 1 is written the same way,
        // byte for byte.
        if version > 1 {
            self.put(VERSION, ValueRef::Int32(version));
        }
    }

    fn put(&mut self, name: &str, value: ValueRef<'_>) {
        let name = &*full(self.prefix, name);
        match &mut self.collected {
            Collected::Nothing => self.out.property(name, &value),
            Collected::Values(values) => values.push((name.to_owned(), value.into_owned())),
            Collected::Names(names) => drop(names.insert(name.to_owned())),
        }
    }

    fn fail(&mut self, name: &str, error: PropertyError) {
        let name = &*full(self.prefix, name);
        if let Collected::Names(names) = &mut self.collected {
            names.insert(name.to_owned());
            return;
        }
        self.error.get_or_insert_with(|| (name.to_owned(), error));
    }

    pub(crate) fn finish(self) -> Result<Vec<u8>, EncodeError> {
        match self.error {
            Some((name, error)) => Err(EncodeError::Property { name, error }),
            None => self.out.finish(),
        }
    }

    pub(crate) fn into_values(self) -> Result<Vec<(String, Value)>, EncodeError> {
        match (self.error, self.collected) {
            (Some((name, error)), _) => Err(EncodeError::Property { name, error }),
            (None, Collected::Values(values)) => Ok(values),
            (None, Collected::Nothing | Collected::Names(_)) => Ok(Vec::new()),
        }
    }

    pub(crate) fn into_names(self) -> HashSet<String> {
        match self.collected {
            Collected::Names(names) => names,
            Collected::Nothing | Collected::Values(_) => HashSet::new(),
        }
    }
}

/// Reads the properties of one entity in a response.
pub struct RowReader<'a> {
    source: Source<'a>,
    /// Where the last property was found. The service returns properties in stored order, which is
    /// mostly the order in which they are requested.
    next: Cell<usize>,
    /// The prefix of each name.
    prefix: &'a str,
    /// Keys that replace those of the row.
    keys: Option<(&'a str, &'a str)>,
    /// The properties that another version of the program encrypted and the type does not.
    sealed: &'a [String],
}

/// The source of the properties.
#[derive(Clone, Copy)]
enum Source<'a> {
    Answer(&'a Fields<'a>),
    Memory(&'a DynamicEntity),
}

impl fmt::Debug for RowWriter {
    /// Does not show what was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowWriter").finish_non_exhaustive()
    }
}

impl fmt::Debug for RowReader<'_> {
    /// Does not show what is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowReader").finish_non_exhaustive()
    }
}

impl<'a> RowReader<'a> {
    /// Reads an entity of a response.
    #[doc(hidden)]
    pub fn new(fields: &'a Fields<'a>) -> Self {
        Self::of(Source::Answer(fields))
    }

    /// Reads an entity in memory as if it had come from the service.
    pub(crate) fn in_memory(entity: &'a DynamicEntity) -> Self {
        Self::of(Source::Memory(entity))
    }

    fn of(source: Source<'a>) -> Self {
        Self { source, next: Cell::new(0), prefix: "", keys: None, sealed: &[] }
    }

    /// The same row, in which these properties are encrypted by another version of the program. Reading one
    /// of them is an error that names it.
    #[doc(hidden)]
    #[must_use]
    pub fn beside_sealed<'b>(&'b self, sealed: &'b [String]) -> RowReader<'b> {
        RowReader { sealed, next: self.next.clone(), ..*self }
    }

    /// The same row with another PartitionKey and RowKey, to read a copy that is stored under
    /// another key as its original.
    #[must_use]
    pub fn with_keys<'b>(&'b self, partition_key: &'b str, row_key: &'b str) -> RowReader<'b> {
        let keys = Some((partition_key, row_key));
        RowReader { keys, next: self.next.clone(), ..*self }
    }

    /// The same row, read with `prefix` before each name.
    #[doc(hidden)]
    #[must_use]
    pub fn flattened<'b>(&'b self, prefix: &'b str) -> RowReader<'b> {
        RowReader { prefix, next: self.next.clone(), ..*self }
    }

    /// The error of a property with an invalid value.
    pub(crate) fn refused(&self, name: &str, what: &'static str) -> DecodeError {
        DecodeError::property(&full(self.prefix, name), what)
    }

    /// A property, converted by a function of the program; `None` if it is absent.
    #[doc(hidden)]
    pub fn converted<T>(
        &self,
        name: &str,
        convert: impl FnOnce(ValueRef<'_>) -> Result<T, PropertyError>,
    ) -> Result<Option<T>, DecodeError> {
        self.find_by(name, convert)
    }

    /// The PartitionKey.
    pub fn partition_key(&self) -> Result<&'a str, DecodeError> {
        let key = self.keys.map(|keys| keys.0).or_else(|| self.text("PartitionKey"));
        key.ok_or_else(|| DecodeError::missing("PartitionKey"))
    }

    /// The RowKey.
    pub fn row_key(&self) -> Result<&'a str, DecodeError> {
        let key = self.keys.map(|keys| keys.1).or_else(|| self.text("RowKey"));
        key.ok_or_else(|| DecodeError::missing("RowKey"))
    }

    /// When the service last wrote the entity.
    pub fn timestamp(&self) -> Result<DateTime, DecodeError> {
        self.text("Timestamp")
            .ok_or_else(|| DecodeError::missing("Timestamp"))?
            .parse()
            .map_err(|_| DecodeError::property("Timestamp", "it is not a date"))
    }

    /// The property with this name. An absent one is an error unless `P` is an `Option`.
    pub fn property<P: Property>(&self, name: &str) -> Result<P, DecodeError> {
        match self.find::<P>(name)? {
            Some(value) => Ok(value),
            None => P::absent().ok_or_else(|| DecodeError::missing(&full(self.prefix, name))),
        }
    }

    /// The property with this name, which is stored as this type, `None` for its own: text is read
    /// as the number, date or GUID that it represents, and other values as without the type.
    ///
    /// If the entity does not have it, the value of `default`, and an error if that is `None`:
    /// [`Property::absent`] or `|| Some(..)`.
    pub fn property_as<P: Property>(
        &self,
        name: &str,
        stored: impl Into<Option<Type>>,
        default: impl FnOnce() -> Option<P>,
    ) -> Result<P, DecodeError> {
        match self.find_as::<P>(name, stored.into())? {
            Some(value) => Ok(value),
            None => default().ok_or_else(|| DecodeError::missing(&full(self.prefix, name))),
        }
    }

    /// A value of any deserializable type from JSON text; `None` if the entity does not have it.
    pub fn json<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, DecodeError> {
        let Some(text) = self.find::<String>(name)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|_| {
            DecodeError::property(&full(self.prefix, name), "its JSON is not of the field's type")
        })
    }

    /// The properties that no other field names: those whose names are not in `taken` and are not
    /// written by the service, the type or a store, nor encrypted by another version of the program.
    pub fn rest<R: Rest>(&self, taken: &Names<'_>) -> Result<R, DecodeError> {
        let is_sealed = |name: &str| self.sealed.iter().any(|sealed| sealed == name);
        let is_open = |name: &str| !flatten::has(taken, name) && !is_own(name) && !is_sealed(name);
        R::collect(self.values()?.into_iter().filter(|(name, _)| is_open(name)))
    }

    /// Refuses a row of another kind or version. Returns whether its version is older, which is an
    /// error unless `takes_older`.
    #[doc(hidden)]
    pub fn of_type(
        &self,
        kind: Option<(&'static str, &'static str)>,
        version: Option<i32>,
        takes_older: bool,
    ) -> Result<bool, DecodeError> {
        if let Some((discriminator, kind)) = kind
            && self.text(discriminator) != Some(kind)
        {
            let what = format!("it is not {kind:?}, so it is of another type");
            return Err(DecodeError::property(discriminator, what));
        }
        let Some(version) = version else { return Ok(false) };
        let stored = self.stored_version()?;
        if stored == version || (stored < version && takes_older) {
            return Ok(stored < version);
        }
        let how = if stored > version {
            "a newer program wrote it"
        } else {
            "an `EntitySet` reads several versions, and so does a type that names the older one: \
             `from = V1`"
        };
        let what =
            format!("the entity is of version {stored} and the type of version {version}; {how}");
        Err(DecodeError::property(VERSION, what))
    }

    /// Refuses a row whose PartitionKey belongs to another bucket than the entity's.
    #[doc(hidden)]
    pub fn in_partition_of<E: super::Entity>(&self, entity: &E) -> Result<(), DecodeError> {
        let mut key = KeyWriter::new();
        entity.partition_key(&mut key);
        if key.finish().is_ok_and(|key| self.partition_key() == Ok(&*key)) {
            return Ok(());
        }
        let expected = "the bucket of its entity; the number of buckets may have been another one";
        Err(DecodeError::key("PartitionKey", KeyReadError::malformed(expected)))
    }

    pub(crate) fn stored_version(&self) -> Result<i32, DecodeError> {
        self.property_as(VERSION, None, || Some(1))
    }

    /// The text of a String property.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        match self.source {
            Source::Answer(fields) => fields.text(name),
            Source::Memory(entity) => match name {
                "PartitionKey" => Some(&entity.partition_key),
                "RowKey" => Some(&entity.row_key),
                name => match entity.get(name) {
                    Some(Value::String(text)) => Some(text),
                    _ => None,
                },
            },
        }
    }

    /// Whether a store keeps this row beside an entity: a copy in one of these indexes, or a row
    /// with a format of its own. A property `PrimaryRowKey` alone is not sufficient, because other
    /// programs may have one.
    #[doc(hidden)]
    pub fn is_beside(&self, indexes: &[&[Index]]) -> bool {
        let is_declared = |name| indexes.iter().copied().flatten().any(|index| index.name == name);
        self.has(PRIMARY_ROW_KEY)
            && (self.text(INDEX_NAME).is_some_and(is_declared) || self.has(ROW_FORMAT))
    }

    /// Whether the row has this property.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self.source {
            Source::Answer(fields) => fields.get(name).is_some_and(|field| !field.is_null()),
            Source::Memory(entity) => entity.get(name).is_some(),
        }
    }

    /// All properties in stored order, except those that every entity has.
    pub(crate) fn values(&self) -> Result<Vec<(String, Value)>, DecodeError> {
        let fields = match self.source {
            Source::Answer(fields) => fields,
            Source::Memory(entity) => {
                return Ok(entity.iter().map(|(name, v)| (name.to_owned(), v.clone())).collect());
            }
        };
        let mut values = Vec::new();
        for field in fields {
            if matches!(field.name.as_ref(), "PartitionKey" | "RowKey" | "Timestamp") {
                continue;
            }
            match field.value() {
                Ok(Some(value)) => values.push((field.name.to_string(), value.into_owned())),
                Ok(None) => {}
                Err(error) => return Err(DecodeError::field(&field.name, &error)),
            }
        }
        Ok(values)
    }

    fn find<P: Property>(&self, name: &str) -> Result<Option<P>, DecodeError> {
        self.find_by(name, P::from_value)
    }

    fn find_as<P: Property>(
        &self,
        name: &str,
        stored: Option<Type>,
    ) -> Result<Option<P>, DecodeError> {
        match stored {
            Some(stored) => self.find_by(name, |value| convert::load(value, stored)),
            None => self.find(name),
        }
    }

    fn find_by<T>(
        &self,
        name: &str,
        read: impl FnOnce(ValueRef<'_>) -> Result<T, PropertyError>,
    ) -> Result<Option<T>, DecodeError> {
        if !self.sealed.is_empty() {
            let name = &*full(self.prefix, name);
            if self.sealed.iter().any(|sealed| sealed == name) {
                let what = "another version of the program encrypted it, and this type does not encrypt \
                            it: mark the field #[entity(encrypt)], or declare with the keys of the store \
                            that it is no longer encrypted";
                return Err(DecodeError::property(name, what));
            }
        }
        let value = match self.source {
            Source::Memory(entity) => entity.get(&full(self.prefix, name)).map(Value::as_ref),
            Source::Answer(fields) => {
                let next = self.next.get();
                let found = if self.prefix.is_empty() {
                    fields.position(name, next)
                } else {
                    fields.position_after(self.prefix, name, next)
                };
                let Some((at, field)) = found else { return Ok(None) };
                self.next.set(at + 1);
                field.value().map_err(|error| DecodeError::field(&field.name, &error))?
            }
        };
        value
            .map(read)
            .transpose()
            .map_err(|error| DecodeError::property(&full(self.prefix, name), error.reason()))
    }
}

/// An error for an entity that cannot be read as the requested type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    what: String,
    reason: String,
    index_copy: bool,
}

impl DecodeError {
    /// A property does not match the type. `reason` must not show the value.
    pub fn property(name: &str, reason: impl Into<String>) -> Self {
        Self { what: format!("property `{name}`"), reason: reason.into(), index_copy: false }
    }

    /// A required property is absent.
    pub fn missing(name: &str) -> Self {
        Self::property(name, "it is absent, and the field is not an Option and has no default")
    }

    /// A key does not match the type's template.
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub fn key(which: &str, error: KeyReadError) -> Self {
        Self { what: which.to_owned(), reason: error.to_string(), index_copy: false }
    }

    /// The text is not the JSON of an entity.
    pub(crate) fn json(reason: impl Into<String>) -> Self {
        Self { what: "JSON".to_owned(), reason: reason.into(), index_copy: false }
    }

    pub(crate) fn row_key(reason: String) -> Self {
        Self { what: "RowKey".to_owned(), reason, index_copy: false }
    }

    /// The row is a copy in an index. Queries skip it.
    pub(crate) fn index_copy() -> Self {
        let reason = "it is a copy that an index keeps; read the entity at its own key";
        Self { index_copy: true, ..Self::row_key(reason.to_owned()) }
    }

    #[doc(hidden)]
    pub fn is_index_copy(&self) -> bool {
        self.index_copy
    }

    pub(crate) fn field(name: &str, error: &FieldError) -> Self {
        Self::property(name, error.to_string())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the entity cannot be read: {}: {}", self.what, self.reason)
    }
}

impl std::error::Error for DecodeError {}
