//! Properties by name: those of a [`DynamicEntity`](crate::DynamicEntity), and those without a
//! field in a type.

use std::collections::BTreeMap;
use std::fmt;

use rowkey_wire::edm::{Value, ValueRef};

use super::property::{Property, PropertyError};
use super::row::DecodeError;

/// Properties of an entity by name, in their stored order, each with its type.
///
/// As the field with `#[entity(rest)]` it holds the properties that no other field names, and they
/// are written back with the entity: a program that knows only a part of an entity loses nothing.
///
/// ```
/// use rowkey::{DynamicEntity, Entity, Properties};
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     name: String,
///     #[entity(rest)]
///     others: Properties,
/// }
///
/// let mut row = DynamicEntity::new("sales", "id_000007");
/// row.set("name", "Ada");
/// row.set("Floor", 3_i32);
/// let ada: Employee = row.read_as()?;
/// assert_eq!(ada.others.get_as::<i32>("Floor")?, 3);
/// assert_eq!(ada.others.get_as::<Option<String>>("Room")?, None);
/// assert_eq!(DynamicEntity::of(&ada)?, row);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Two are equal if they have the same properties in any order: a service may return properties in
/// another order than they were written.
///
/// # JSON
///
/// With serde it is an object with a member for each property. The values have the form of
/// [`Value`].
///
/// ```
/// # use rowkey::Properties;
/// let json = r#"{"Floor":3,"Pay":{"Edm.Int64":"5"}}"#;
/// let properties: Properties = serde_json::from_str(json)?;
/// assert_eq!(properties.get_as::<u64>("Pay")?, 5);
/// assert_eq!(serde_json::to_string(&properties)?, json);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Properties {
    values: Vec<(String, Value)>,
}

impl Properties {
    /// Creates an empty set of properties.
    pub const fn new() -> Self {
        Self { values: Vec::new() }
    }

    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns the value of a property as a Rust type, converted like a field of that type.
    ///
    /// Fails if the property has another type or its value does not fit; an absent property is an
    /// error unless `P` is an `Option`.
    pub fn get_as<P: Property>(&self, name: &str) -> Result<P, DecodeError> {
        match self.get(name) {
            Some(value) => P::from_value(value.as_ref())
                .map_err(|error| DecodeError::property(name, error.reason())),
            None => P::absent().ok_or_else(|| DecodeError::missing(name)),
        }
    }

    /// Sets a property and returns its previous value. A new property is added at the end.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (name, value) = (name.into(), value.into());
        if let Some((_, old)) = self.values.iter_mut().find(|(known, _)| *known == name) {
            return Some(std::mem::replace(old, value));
        }
        self.values.push((name, value));
        None
    }

    /// Removes a property and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.values.iter().position(|(known, _)| known == name)?;
        Some(self.values.remove(at).1)
    }

    /// Keeps only the properties for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        self.values.retain(|(name, value)| keep(name, value));
    }

    /// Iterates over the properties in their stored order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The number of properties.
    pub const fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no properties.
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Makes properties of these names, which must be distinct.
    pub(crate) const fn of(values: Vec<(String, Value)>) -> Self {
        Self { values }
    }
}

impl PartialEq for Properties {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(name, value)| other.get(name) == Some(value))
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// If a name occurs twice, the last value wins.
impl<N: Into<String>, V: Into<Value>> FromIterator<(N, V)> for Properties {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(values: I) -> Self {
        let mut this = Self::new();
        this.extend(values);
        this
    }
}

impl<N: Into<String>, V: Into<Value>> Extend<(N, V)> for Properties {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, values: I) {
        for (name, value) in values {
            self.set(name, value);
        }
    }
}

impl IntoIterator for Properties {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

/// A type that a field with `#[entity(rest)]` may have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot hold the properties that no field names",
    note = "a field with `#[entity(rest)]` is a `rowkey::Properties`, or a `BTreeMap<String, V>` where all \
            have one type"
)]
pub trait Rest: Sized {
    /// Passes each property with its value to `give`; the value is `None` for one that is not
    /// stored.
    #[doc(hidden)]
    fn each<'a>(&'a self, give: &mut dyn FnMut(&'a str, RestValue<'a>));

    /// Creates the value from stored properties.
    #[doc(hidden)]
    fn collect(values: impl Iterator<Item = (String, Value)>) -> Result<Self, DecodeError>;
}

/// The return type of [`Property::to_value`].
type RestValue<'a> = Result<Option<ValueRef<'a>>, PropertyError>;

impl Rest for Properties {
    fn each<'a>(&'a self, give: &mut dyn FnMut(&'a str, RestValue<'a>)) {
        for (name, value) in self.iter() {
            give(name, Ok(Some(value.as_ref())));
        }
    }

    fn collect(values: impl Iterator<Item = (String, Value)>) -> Result<Self, DecodeError> {
        // A body has each name only once.
        Ok(Self::of(values.collect()))
    }
}

impl<P: Property> Rest for BTreeMap<String, P> {
    fn each<'a>(&'a self, give: &mut dyn FnMut(&'a str, RestValue<'a>)) {
        for (name, value) in self {
            give(name, value.to_value());
        }
    }

    fn collect(values: impl Iterator<Item = (String, Value)>) -> Result<Self, DecodeError> {
        let read = |(name, value): (String, Value)| match P::from_value(value.as_ref()) {
            Ok(value) => Ok((name, value)),
            Err(error) => Err(DecodeError::property(&name, error.reason())),
        };
        values.map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_getters_convert_as_fields_do_and_name_the_property() {
        let mut properties = Properties::new();
        properties.set("Count", 7_i64);
        properties.set("Name", "Ada");
        assert_eq!(properties.get_as::<u64>("Count"), Ok(7));
        assert_eq!(properties.get_as::<Option<String>>("Name").unwrap().as_deref(), Some("Ada"));
        assert_eq!(properties.get_as::<Option<bool>>("Open"), Ok(None));
        let error = properties.get_as::<bool>("Open").unwrap_err().to_string();
        assert!(error.contains("property `Open`: it is absent"), "{error}");
        let error = properties.get_as::<bool>("Count").unwrap_err().to_string();
        assert!(error.contains("property `Count`: it is Edm.Int64"), "{error}");
    }

    #[test]
    fn of_two_with_one_name_the_last_one_counts() {
        let properties: Properties = [("A", 1), ("B", 2), ("A", 3)].into_iter().collect();
        assert_eq!(format!("{properties:?}"), r#"{"A": Int32(3), "B": Int32(2)}"#);
        let other: Properties = [("B", 2), ("A", 3)].into_iter().collect();
        assert_eq!(properties, other);
    }
}
