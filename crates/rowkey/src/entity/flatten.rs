//! Structs that are stored as properties of the entity that contains them.

use std::borrow::Cow;

use super::row::{DecodeError, OWN, RowReader, RowWriter};

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

/// Whether all names are distinct, and none is a name that the service, the type or a store writes.
/// The derives call it at compile time.
#[doc(hidden)]
#[must_use]
pub const fn names_apart(names: &Names<'_>) -> bool {
    let mut list = 0;
    while list < names.len() {
        let (prefix, own) = names[list];
        let mut at = 0;
        while at < own.len() {
            let mut reserved = 0;
            while list > 0 && reserved < OWN.len() {
                if same((prefix, own[at]), ("", OWN[reserved])) {
                    return false;
                }
                reserved += 1;
            }
            let mut other_list = 0;
            while other_list < list {
                let (other_prefix, others) = names[other_list];
                let mut other = 0;
                while other < others.len() {
                    if same((prefix, own[at]), (other_prefix, others[other])) {
                        return false;
                    }
                    other += 1;
                }
                other_list += 1;
            }
            at += 1;
        }
        list += 1;
    }
    true
}

/// Whether two names with their prefixes are the same.
const fn same(a: (&str, &str), b: (&str, &str)) -> bool {
    let length = a.0.len() + a.1.len();
    if length != b.0.len() + b.1.len() {
        return false;
    }
    let mut at = 0;
    while at < length {
        if byte(a, at) != byte(b, at) {
            return false;
        }
        at += 1;
    }
    true
}

const fn byte(name: (&str, &str), at: usize) -> u8 {
    let prefix = name.0.as_bytes();
    if at < prefix.len() { prefix[at] } else { name.1.as_bytes()[at - prefix.len()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_apart_unless_they_are_the_same_with_their_prefixes() {
        assert!(names_apart(&[("", &["City"]), ("Billing_", &["City"]), ("Home_", &["City"])]));
        assert!(!names_apart(&[("", &["City"]), ("", &["Street", "City"])]));
        assert!(!names_apart(&[("", &["A_B"]), ("A_", &["B"])]));
        assert!(!names_apart(&[("", &[]), ("Time", &["stamp"])]), "the service keeps it");
        assert!(has(&[("", &["A"]), ("B_", &["C"])], "B_C"));
        assert!(!has(&[("", &["A"]), ("B_", &["C"])], "C"));
    }
}
