//! The error of a row that is not of the type that it is read as.

use std::fmt;

use rowkey_wire::odata::FieldError;

use crate::key::KeyReadError;

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
