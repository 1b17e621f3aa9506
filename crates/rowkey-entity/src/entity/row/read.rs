//! The reader of an entity's properties.

use std::cell::Cell;
use std::fmt;

use rowkey_wire::edm::{DateTime, Type, Value, ValueRef};
use rowkey_wire::odata::Fields;

use super::{DecodeError, VERSION, is_own};
use crate::entity::convert;
use crate::entity::dynamic::DynamicEntity;
use crate::entity::flatten::{self, Names, full};
use crate::entity::properties::Rest;
use crate::entity::property::{Property, PropertyError};
use crate::index::{INDEX_NAME, Index, PRIMARY_ROW_KEY, ROW_FORMAT};
use crate::key::{KeyReadError, KeyWriter};

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
    pub fn in_partition_of<E: crate::Entity>(&self, entity: &E) -> Result<(), DecodeError> {
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
