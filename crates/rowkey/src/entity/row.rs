//! What an entity is written to and read from.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use rowkey_wire::edm::{DateTime, Value, ValueRef};
use rowkey_wire::odata::{EntityWriter, FieldError, Fields};

use super::dynamic::DynamicEntity;
use super::property::{Property, PropertyError};
use crate::key::{KeyReadError, KeyWriter};

/// The property that tells the type where the rows do not.
pub(crate) const KIND: &str = "EntityType";

/// The property that tells the version of the type; an entity without it is of version 1.
pub(crate) const VERSION: &str = "EntityVersion";

/// The properties that are no data of an entity: those of the service, of the type, and of the rows that
/// `rowkey_store::Store` writes. No open field has one of them.
const OWN: [&str; 11] = [
    "PartitionKey",
    "RowKey",
    "Timestamp",
    KIND,
    VERSION,
    "EntityOp",
    "EntityRows",
    "IndexName",
    "PrimaryPartitionKey",
    "PrimaryRowKey",
    "RowFormat",
];

/// The properties of an entity on their way to the service.
pub struct RowWriter {
    out: EntityWriter,
    /// Where values go as they are, of any size, if they are not to be written.
    kept: Option<Vec<(String, Value)>>,
    only: Option<&'static [&'static str]>,
    /// The properties that will be encrypted before they are sent.
    encrypted: &'static [&'static str],
    error: Option<(String, PropertyError)>,
}

impl RowWriter {
    pub(crate) fn new(capacity: usize, partition_key: &str, row_key: &str) -> Self {
        let out = EntityWriter::with_capacity(capacity, partition_key, row_key);
        Self { out, kept: None, only: None, encrypted: &[], error: None }
    }

    /// Keeps the properties in memory, of any size, until [`into_values`](Self::into_values).
    pub(crate) fn in_memory() -> Self {
        Self { kept: Some(Vec::new()), ..Self::new(0, "", "") }
    }

    /// Takes these properties in plain: they are encrypted afterwards.
    pub(crate) fn encrypting(self, encrypted: &'static [&'static str]) -> Self {
        Self { encrypted, ..self }
    }

    /// Writes a property; one that is `None` is left out.
    pub fn property<P: Property>(&mut self, name: &str, value: &P) {
        if !self.takes(name) {
            return;
        }
        match value.to_value() {
            Ok(Some(value)) => self.put(name, value),
            Ok(None) => {}
            Err(error) => self.fail(name, error),
        }
    }

    /// Writes a value of any serialisable type as JSON text.
    pub fn json<T: serde::Serialize>(&mut self, name: &str, value: &T) {
        if !self.takes(name) {
            return;
        }
        match serde_json::to_string(value) {
            Ok(text) => self.property(name, &text),
            Err(_) => self.fail(name, PropertyError::new("the value cannot be written as JSON")),
        }
    }

    /// Writes each entry as a property of its own. One with a name of `taken`, which other fields have, or
    /// with a name that the service, the type or a store writes is an error.
    pub fn rest<P: Property>(&mut self, entries: &BTreeMap<String, P>, taken: &[&str]) {
        for (name, value) in entries {
            if !self.takes(name) {
                continue;
            }
            if taken.contains(&&**name) || OWN.contains(&&**name) {
                let what = "an entry of the open field has this name, and another field, the service or \
                            the store writes this property; give the entry another name";
                self.fail(name, PropertyError::new(what));
                return;
            }
            self.property(name, value);
        }
    }

    /// Says that the property with this name must not be stored as it is, before it is written: the
    /// writing fails unless somebody will encrypt it. For each of [`Entity::ENCRYPTED`].
    ///
    /// [`Entity::ENCRYPTED`]: super::Entity::ENCRYPTED
    pub fn must_encrypt(&mut self, name: &str) {
        if self.takes(name) && !self.encrypted.contains(&name) {
            let what = "it is to be encrypted, and nothing on the way to this table does that; write \
                        the entity through its store";
            self.fail(name, PropertyError::new(what));
        }
    }

    #[doc(hidden)]
    pub fn kind(&mut self, kind: &'static str) {
        self.put(KIND, ValueRef::String(kind.into()));
    }

    /// Writes what `write` writes, but only the properties with these names (and the `EntityType`
    /// of a type that has a kind).
    pub fn only(&mut self, names: &'static [&'static str], write: impl FnOnce(&mut Self)) {
        let before = self.only.replace(names);
        write(self);
        self.only = before;
    }

    fn takes(&self, name: &str) -> bool {
        self.only.is_none_or(|names| names.contains(&name))
    }

    #[doc(hidden)]
    pub fn version(&mut self, version: i32) {
        // What was stored before there were versions is of the first, and so is this, byte for byte.
        if version > 1 {
            self.put(VERSION, ValueRef::Int32(version));
        }
    }

    fn put(&mut self, name: &str, value: ValueRef<'_>) {
        match &mut self.kept {
            Some(values) => values.push((name.to_owned(), value.into_owned())),
            None => self.out.property(name, &value),
        }
    }

    fn fail(&mut self, name: &str, error: PropertyError) {
        self.error.get_or_insert_with(|| (name.to_owned(), error));
    }

    pub(crate) fn finish(self) -> Result<EntityWriter, (String, PropertyError)> {
        self.error.map_or(Ok(self.out), Err)
    }

    pub(crate) fn into_values(self) -> Result<Vec<(String, Value)>, (String, PropertyError)> {
        self.error.map_or(Ok(self.kept.unwrap_or_default()), Err)
    }
}

/// One entity of an answer, to be read into a type.
pub struct RowReader<'a> {
    source: Source<'a>,
    /// Where the last property was found. The service sends properties in the order they were
    /// stored, which is mostly the order they are asked for.
    next: Cell<usize>,
    /// The keys to read instead of those of the row.
    keys: Option<(&'a str, &'a str)>,
}

/// Where the properties come from.
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
    pub(crate) fn new(fields: &'a Fields<'a>) -> Self {
        Self { source: Source::Answer(fields), next: Cell::new(0), keys: None }
    }

    /// An entity in memory as if it had come from the service.
    pub(crate) fn in_memory(entity: &'a DynamicEntity) -> Self {
        Self { source: Source::Memory(entity), next: Cell::new(0), keys: None }
    }

    /// The same row as if these were its PartitionKey and its RowKey: how a copy that is kept under
    /// another key is read as what it is a copy of.
    #[must_use]
    pub fn with_keys<'b>(&'b self, partition_key: &'b str, row_key: &'b str) -> RowReader<'b> {
        let source: Source<'b> = self.source;
        RowReader { source, next: self.next.clone(), keys: Some((partition_key, row_key)) }
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
            None => P::absent().ok_or_else(|| DecodeError::missing(name)),
        }
    }

    /// The property with this name, or what `default` makes when the entity does not have it.
    pub fn property_or<P: Property>(
        &self,
        name: &str,
        default: impl FnOnce() -> P,
    ) -> Result<P, DecodeError> {
        Ok(self.find(name)?.unwrap_or_else(default))
    }

    /// A value of any deserialisable type from JSON text; `None` when the entity does not have it.
    pub fn json<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, DecodeError> {
        let Some(text) = self.find::<String>(name)? else { return Ok(None) };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|_| DecodeError::property(name, "its JSON is not of the field's type"))
    }

    /// The properties that no other field names: none with a name of `taken`, and none that the service,
    /// the type or a store writes.
    pub fn rest<P: Property>(&self, taken: &[&str]) -> Result<BTreeMap<String, P>, DecodeError> {
        let is_open = |name: &str| !taken.contains(&name) && !OWN.contains(&name);
        let open = self.values()?.into_iter().filter(|(name, _)| is_open(name));
        open.map(|(name, value)| match P::from_value(value.as_ref()) {
            Ok(value) => Ok((name, value)),
            Err(error) => Err(DecodeError::property(&name, error.reason())),
        })
        .collect()
    }

    #[doc(hidden)]
    pub fn kind(&self, kind: &'static str) -> Result<(), DecodeError> {
        if self.text(KIND) == Some(kind) {
            return Ok(());
        }
        Err(DecodeError::property(KIND, format!("it is not {kind:?}, so it is of another type")))
    }

    #[doc(hidden)]
    pub fn version(&self, version: i32) -> Result<(), DecodeError> {
        let stored = self.stored_version()?;
        if stored == version {
            return Ok(());
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

    /// Refuses a row whose PartitionKey is of another bucket than that of its entity.
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

    /// Whether a version before this one wrote the entity.
    #[doc(hidden)]
    pub fn is_older(&self, version: i32) -> Result<bool, DecodeError> {
        Ok(self.stored_version()? < version)
    }

    pub(crate) fn stored_version(&self) -> Result<i32, DecodeError> {
        self.property_or(VERSION, || 1)
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

    /// Whether there is such a property.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self.source {
            Source::Answer(fields) => fields.get(name).is_some_and(|field| !field.is_null()),
            Source::Memory(entity) => entity.get(name).is_some(),
        }
    }

    /// All properties but those that every entity has, in their stored order.
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
        let value = match self.source {
            Source::Memory(entity) => entity.get(name).map(Value::as_ref),
            Source::Answer(fields) => {
                let Some((at, field)) = fields.position(name, self.next.get()) else {
                    return Ok(None);
                };
                self.next.set(at + 1);
                field.value().map_err(|error| DecodeError::field(name, &error))?
            }
        };
        value
            .map(P::from_value)
            .transpose()
            .map_err(|error| DecodeError::property(name, error.reason()))
    }
}

/// An entity that is not of the type it was read as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    what: String,
    reason: String,
    index_copy: bool,
}

impl DecodeError {
    /// A property is not what the type needs. `reason` must not show the value.
    pub fn property(name: &str, reason: impl Into<String>) -> Self {
        Self { what: format!("property `{name}`"), reason: reason.into(), index_copy: false }
    }

    /// A property that the type needs is absent.
    pub fn missing(name: &str) -> Self {
        Self::property(name, "it is absent, and the field is not an Option and has no default")
    }

    /// A key is not one that the type's template makes.
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub fn key(which: &str, error: KeyReadError) -> Self {
        Self { what: which.to_owned(), reason: error.to_string(), index_copy: false }
    }

    pub(crate) fn row_key(reason: String) -> Self {
        Self { what: "RowKey".to_owned(), reason, index_copy: false }
    }

    /// The row is a copy that an index keeps. Queries leave it out.
    pub(crate) fn index_copy() -> Self {
        let reason = "it is a copy that an index keeps; read the entity at its own key";
        Self { index_copy: true, ..Self::row_key(reason.to_owned()) }
    }

    pub(crate) fn is_index_copy(&self) -> bool {
        self.index_copy
    }

    fn field(name: &str, error: &FieldError) -> Self {
        Self::property(name, error.to_string())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the entity cannot be read: {}: {}", self.what, self.reason)
    }
}

impl std::error::Error for DecodeError {}
