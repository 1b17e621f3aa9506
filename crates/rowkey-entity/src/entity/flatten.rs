//! Structs that are stored as properties of the entity that contains them.

use std::borrow::Cow;

use rowkey_wire::edm::Type;

use super::row::{DecodeError, RowReader, RowWriter};

/// A struct whose fields are stored as properties of the entity or projection that contains it.
///
/// `#[derive(Flatten)]` implements it; the field of the entity has the attribute
/// `#[entity(flatten)]`.
#[diagnostic::on_unimplemented(
    message = "the fields of `{Self}` are not properties of an entity",
    note = "derive `Flatten` for the type of a field with `#[entity(flatten)]`"
)]
pub trait Flatten: Sized {
    /// The names of its properties.
    const NAMES: &'static [&'static str];

    /// Its properties, each with the EDM type that it is stored as: see [`Projection::TYPES`](crate::Projection::TYPES).
    const TYPES: &'static [(&'static str, Option<Type>)] = &[];

    /// Reads the value.
    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError>;

    /// Writes its properties.
    fn encode(&self, out: &mut RowWriter);
}

/// Lists of property names, each with the prefix of its names.
pub(crate) type Names<'a> = [(&'a str, &'a [&'a str])];

/// Whether one of these names is `name`.
pub(crate) fn has(names: &Names<'_>, name: &str) -> bool {
    names
        .iter()
        .any(|(prefix, names)| name.strip_prefix(prefix).is_some_and(|name| names.contains(&name)))
}

/// `name` with its prefix.
pub(crate) fn full<'n>(prefix: &str, name: &'n str) -> Cow<'n, str> {
    if prefix.is_empty() { Cow::Borrowed(name) } else { [prefix, name].concat().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_with_its_prefix() {
        assert!(has(&[("", &["A"]), ("B_", &["C"])], "B_C"));
        assert!(!has(&[("", &["A"]), ("B_", &["C"])], "C"));
    }
}
