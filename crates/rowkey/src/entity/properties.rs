//! Properties by name: those of a [`DynamicEntity`](super::DynamicEntity), and those that no field of a
//! type names.

use std::collections::BTreeMap;
use std::fmt;

use rowkey_wire::edm::{Value, ValueRef};

use super::property::{Property, PropertyError};
use super::row::DecodeError;

/// Properties of an entity by name, in their stored order, each with its type.
///
/// As the field with `#[entity(rest)]` it holds the properties that no other field names, and the entity
/// is written with them: a program that knows a part of an entity loses nothing of it.
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
/// Two are equal if they have the same properties: these have no order, and a service may send them in
/// another one than that in which they were written.
///
/// # JSON
///
/// By serde it is an object with a member for each property. The values are those of [`Value`].
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
    /// No properties.
    pub const fn new() -> Self {
        Self { values: Vec::new() }
    }

    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The value of a property as a Rust type, converted as a field of that type is read.
    ///
    /// Fails if the property has another type or does not fit; an absent property is an error unless `P`
    /// is an `Option`.
    pub fn get_as<P: Property>(&self, name: &str) -> Result<P, DecodeError> {
        match self.get(name) {
            Some(value) => P::from_value(value.as_ref())
                .map_err(|error| DecodeError::property(name, error.reason())),
            None => P::absent().ok_or_else(|| DecodeError::missing(name)),
        }
    }

    /// Sets a property; returns the value it had. A new one is added at the end.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (name, value) = (name.into(), value.into());
        if let Some((_, old)) = self.values.iter_mut().find(|(known, _)| *known == name) {
            return Some(std::mem::replace(old, value));
        }
        self.values.push((name, value));
        None
    }

    /// Removes a property; returns the value it had.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.values.iter().position(|(known, _)| known == name)?;
        Some(self.values.remove(at).1)
    }

    /// Keeps the properties for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        self.values.retain(|(name, value)| keep(name, value));
    }

    /// The properties in their stored order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Those with these names, each of which is there once.
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

/// Of two with one name the last one counts.
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
    /// Gives each property with its value, `None` for one that is not stored.
    #[doc(hidden)]
    fn each<'a>(&'a self, give: &mut dyn FnMut(&'a str, RestValue<'a>));

    /// Makes it of stored properties.
    #[doc(hidden)]
    fn collect(values: impl Iterator<Item = (String, Value)>) -> Result<Self, DecodeError>;
}

/// What [`Property::to_value`] gives.
type RestValue<'a> = Result<Option<ValueRef<'a>>, PropertyError>;

impl Rest for Properties {
    fn each<'a>(&'a self, give: &mut dyn FnMut(&'a str, RestValue<'a>)) {
        for (name, value) in self.iter() {
            give(name, Ok(Some(value.as_ref())));
        }
    }

    fn collect(values: impl Iterator<Item = (String, Value)>) -> Result<Self, DecodeError> {
        // A body has each name once.
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
