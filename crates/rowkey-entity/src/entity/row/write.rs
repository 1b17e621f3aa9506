//! The writer of an entity's properties.

use std::collections::HashSet;
use std::fmt;

use rowkey_wire::edm::{Type, Value, ValueRef};

use super::{VERSION, is_own};
use crate::EncodeError;
use crate::entity::convert;
use crate::entity::flatten::{self, Names, full};
use crate::entity::properties::Rest;
use crate::entity::property::{Property, PropertyError};
use crate::odata::encode::EntityWriter;

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
    /// [`Declarations::encrypted`]: crate::entity::Declarations::encrypted
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

    pub(crate) fn finish(self) -> Result<(Vec<u8>, usize), EncodeError> {
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

impl fmt::Debug for RowWriter {
    /// Does not show what was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowWriter").finish_non_exhaustive()
    }
}
