//! Entities in serde formats: their properties as the members of one object.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use rowkey_wire::edm::{DateTime, Value};
use rowkey_wire::etag::ETag;
use rowkey_wire::odata::Scalar;
use rowkey_wire::serial::{self, Property, Quiet, Read};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeStruct as _, Serializer};

use super::dynamic::DynamicEntity;
use super::properties::Properties;
use super::receipt::Receipt;
use super::stored::Stored;

const PARTITION_KEY: &str = "PartitionKey";
const ROW_KEY: &str = "RowKey";

/// An object with a member for each property, in order: `{"Age":36}`. The values have the form of
/// [`Value`].
impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// A null is an absent property, as in the service. A duplicate name is an error.
impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object(deserializer, ReadProperties)
    }
}

/// An object with the members `PartitionKey` and `RowKey` and one for each property.
///
/// Fails for a property with the name of a key, which no table can store.
impl Serialize for DynamicEntity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let properties = &self.properties;
        if let Some((name, _)) = properties.iter().find(|(name, _)| is_key(name)) {
            return Err(S::Error::custom(format_args!(
                "property `{name}`: it has the name of a key; give it another one"
            )));
        }
        let members = properties.len().saturating_add(2);
        let mut object = serializer.serialize_map(Some(members))?;
        object.serialize_entry(PARTITION_KEY, &self.partition_key)?;
        object.serialize_entry(ROW_KEY, &self.row_key)?;
        for (name, value) in properties.iter() {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}

/// Like [`Properties`]; both keys are required.
impl<'de> Deserialize<'de> for DynamicEntity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object(deserializer, ReadEntity)
    }
}

/// An object with the members `entity`, `etag` and `timestamp`.
impl<E: Serialize> Serialize for Stored<E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Stored", 3)?;
        object.serialize_field("entity", &self.entity)?;
        object.serialize_field("etag", &self.etag)?;
        object.serialize_field("timestamp", &self.timestamp)?;
        object.end()
    }
}

/// Ignores members with other names.
impl<'de, E: Deserialize<'de>> Deserialize<'de> for Stored<E> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return serial::read(deserializer, ReadStored(PhantomData));
        }
        let Members { entity, etag, timestamp } = Members::deserialize(deserializer)?;
        Ok(Self { entity, etag, timestamp, receipt: Receipt::default() })
    }
}

/// The members of a [`Stored`] in binary formats.
#[derive(serde::Deserialize)]
#[serde(rename = "Stored")]
struct Members<E> {
    entity: E,
    etag: ETag,
    timestamp: DateTime,
}

fn is_key(name: &str) -> bool {
    matches!(name, PARTITION_KEY | ROW_KEY)
}

/// Reads an object from any format.
fn object<'de, D: Deserializer<'de>, R: Read<'de>>(from: D, read: R) -> Result<R::Value, D::Error> {
    if from.is_human_readable() {
        serial::read(from, read)
    } else {
        from.deserialize_map(Quiet(read))
    }
}

/// Collects properties and refuses duplicate names.
#[derive(Default)]
struct Collected {
    values: Vec<(String, Value)>,
    names: HashSet<String>,
}

impl Collected {
    fn add<'de, A: MapAccess<'de>>(
        &mut self,
        name: String,
        members: &mut A,
    ) -> Result<(), A::Error> {
        let value = members.next_value_seed(Property { name: Some(&name) })?;
        if !self.names.insert(name.clone()) {
            return Err(twice(&name));
        }
        if let Some(value) = value {
            self.values.push((name, value));
        }
        Ok(())
    }
}

#[cold]
fn twice<E: Error>(name: &str) -> E {
    E::custom(format_args!("property `{name}`: it is there twice"))
}

struct ReadProperties;

impl<'de> Read<'de> for ReadProperties {
    type Value = Properties;

    fn expected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an object of properties")
    }

    fn members<A: MapAccess<'de>>(self, mut members: A) -> Result<Properties, A::Error> {
        let mut collected = Collected::default();
        while let Some(name) = members.next_key()? {
            collected.add(name, &mut members)?;
        }
        Ok(Properties::of(collected.values))
    }
}

struct ReadEntity;

impl<'de> Read<'de> for ReadEntity {
    type Value = DynamicEntity;

    fn expected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an object with a PartitionKey, a RowKey and properties")
    }

    fn members<A: MapAccess<'de>>(self, mut members: A) -> Result<DynamicEntity, A::Error> {
        let (mut partition_key, mut row_key) = (None, None);
        let mut collected = Collected::default();
        while let Some(name) = members.next_key::<String>()? {
            let key = match &*name {
                PARTITION_KEY => &mut partition_key,
                ROW_KEY => &mut row_key,
                _ => {
                    collected.add(name, &mut members)?;
                    continue;
                }
            };
            if key.replace(members.next_value_seed(KeyText(&name))?).is_some() {
                return Err(twice(&name));
            }
        }
        let missing = |name| A::Error::custom(format_args!("{name}: it is absent"));
        let partition_key: String = partition_key.ok_or_else(|| missing(PARTITION_KEY))?;
        let row_key: String = row_key.ok_or_else(|| missing(ROW_KEY))?;
        Ok(DynamicEntity { partition_key, row_key, properties: Properties::of(collected.values) })
    }
}

/// A key, which messages name.
struct KeyText<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for KeyText<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        if deserializer.is_human_readable() {
            serial::read(deserializer, self)
        } else {
            String::deserialize(deserializer)
        }
    }
}

impl Read<'_> for KeyText<'_> {
    type Value = String;

    fn expected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected text", self.0)
    }

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<String, E> {
        match scalar {
            Scalar::Text(text) => Ok(text.into_owned()),
            _ => Err(self.refuse()),
        }
    }
}

struct ReadStored<E>(PhantomData<E>);

impl<'de, E: Deserialize<'de>> Read<'de> for ReadStored<E> {
    type Value = Stored<E>;

    fn expected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an object with an entity, an etag and a timestamp")
    }

    fn members<A: MapAccess<'de>>(self, mut members: A) -> Result<Stored<E>, A::Error> {
        let (mut entity, mut etag, mut timestamp) = (None, None, None);
        while let Some(name) = members.next_key::<String>()? {
            let is_repeated = match &*name {
                "entity" => entity.replace(members.next_value()?).is_some(),
                "etag" => etag.replace(members.next_value()?).is_some(),
                "timestamp" => timestamp.replace(members.next_value()?).is_some(),
                _ => {
                    members.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if is_repeated {
                return Err(A::Error::custom(format_args!("{name}: it is there twice")));
            }
        }
        let missing = |name| A::Error::custom(format_args!("{name}: it is absent"));
        Ok(Stored {
            entity: entity.ok_or_else(|| missing("entity"))?,
            etag: etag.ok_or_else(|| missing("etag"))?,
            timestamp: timestamp.ok_or_else(|| missing("timestamp"))?,
            receipt: Receipt::default(),
        })
    }
}
