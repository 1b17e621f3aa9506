//! Errors of writing: [`EncodeError`], an entity that cannot be stored, and [`FilterError`], text
//! that is not a filter.

use std::fmt;

use rowkey_wire::filter::ParseError;
use rowkey_wire::key as wire;
use rowkey_wire::limits::{MAX_BINARY, MAX_ENTITY, MAX_PROPERTIES, MAX_PROPERTY_NAME};

use crate::entity::PropertyError;
use crate::key::KeyError;

/// Why an entity cannot be stored as it is. No message shows a key or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The PartitionKey or the RowKey is not valid.
    Key(KeyError),
    /// The value of a property cannot be stored in it.
    Property {
        /// The property.
        name: String,
        /// Why not.
        error: PropertyError,
    },
    /// The service does not accept the name of a property.
    InvalidName {
        /// The name.
        name: String,
    },
    /// OData JSON uses the name of a property for something else.
    ReservedName {
        /// The name.
        name: String,
    },
    /// The entity is larger than 1 MiB as the service counts.
    TooLarge {
        /// The size in bytes, by the service's formula.
        size: usize,
    },
    /// More than 252 properties.
    TooManyProperties {
        /// The number of properties.
        count: usize,
    },
    /// A String or a Binary over 64 KiB.
    ValueTooLarge {
        /// The property.
        name: String,
        /// The size in bytes; of UTF-16 for a String.
        size: usize,
    },
}

impl EncodeError {
    /// Whether the entity, a key or a property exceeds a limit of the service.
    pub fn is_too_large(&self) -> bool {
        match self {
            Self::Key(KeyError::Invalid(wire::KeyError::TooLong { .. }))
            | Self::TooLarge { .. }
            | Self::TooManyProperties { .. }
            | Self::ValueTooLarge { .. } => true,
            Self::Key(_)
            | Self::Property { .. }
            | Self::InvalidName { .. }
            | Self::ReservedName { .. } => false,
        }
    }
}

impl From<KeyError> for EncodeError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Property { name, error } => write!(f, "property `{name}`: {error}"),
            Self::InvalidName { name } => write!(
                f,
                "{name:?} cannot be a property's name: names are identifiers of letters, digits and \
                 `_`, up to {MAX_PROPERTY_NAME} characters, and not PartitionKey, RowKey or Timestamp"
            ),
            Self::ReservedName { name } => {
                write!(f, "property `{name}`: OData has this name for something else")
            }
            Self::TooLarge { size } => write!(
                f,
                "the entity has {size} bytes as the service counts; {MAX_ENTITY} (1 MiB) are allowed"
            ),
            Self::TooManyProperties { count } => write!(
                f,
                "the entity has {count} properties besides its keys; {MAX_PROPERTIES} are allowed"
            ),
            Self::ValueTooLarge { name, size } => write!(
                f,
                "property `{name}` has {size} bytes; {MAX_BINARY} (64 KiB, of UTF-16 for text) are \
                 allowed"
            ),
        }
    }
}

impl std::error::Error for EncodeError {}

/// The text is not a filter: the error of [`Filter::raw`](crate::Filter::raw). The message says
/// where and why, without the text, which contains values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError(pub(crate) ParseError);

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the text is not a filter: {}", self.0)
    }
}

impl std::error::Error for FilterError {}
