//! What only the code of derives calls: checks at compile time, and the type of a row in a set.
//!
//! A row belongs to a type if its keys begin as the templates of the type do, its discriminator
//! (`EntityType`, unless the set and its types name another property) equals the type's `kind` (a
//! type without a `kind` accepts any discriminator, or none), and its `EntityVersion` equals the
//! type's `version`. No two types of a set can match one row: that is checked when the set is
//! compiled.

use rowkey_wire::edm::Type;
use rowkey_wire::shown;

use super::flatten::Names;
use super::row::{DecodeError, OWN, RowReader, VERSION};
pub use super::stored_types::{joined, prefixed, prefixed_length, stored_type, text};
use super::traits::{Entity, Rows};
pub use crate::declaration::expiry::Expiry;
use crate::index::Index;
use crate::key::Key;

/// The longest `EntityType` that an error quotes.
const MAX_SHOWN: usize = 64;

/// The properties that identify the type of a row.
pub struct Tag<'a> {
    discriminator: &'static str,
    partition_key: &'a str,
    row_key: &'a str,
    kind: Option<&'a str>,
    /// `None` if it is not an Int32, so that no type matches the row.
    version: Option<i32>,
}

shown! {
    /// Does not show the RowKey.
    [] Tag<'_>: version
}

impl<'a> Tag<'a> {
    /// Reads the properties. A copy in one of the indexes is not a separate entity, and is an error
    /// that queries skip.
    pub fn read(
        row: &RowReader<'a>,
        discriminator: &'static str,
        indexes: &[&[Index]],
    ) -> Result<Self, DecodeError> {
        if row.is_beside(indexes) {
            return Err(DecodeError::index_copy());
        }
        Ok(Self {
            discriminator,
            partition_key: row.partition_key()?,
            row_key: row.row_key()?,
            kind: row.text(discriminator),
            version: row.stored_version().ok(),
        })
    }

    /// Whether the row belongs to this type.
    pub fn is<E: Entity>(&self) -> bool {
        E::PARTITIONS.may_hold(self.partition_key)
            && E::ROWS.may_hold(self.row_key)
            && E::KIND.is_none_or(|kind| self.kind == Some(kind))
            && self.version == Some(E::VERSION)
    }

    /// The error for a row that matches no type of the set called `set`, whose types have these
    /// rows.
    #[cold]
    pub fn unknown(&self, set: &str, rows: &[Rows]) -> DecodeError {
        let is_name = |kind: &&str| {
            kind.len() <= MAX_SHOWN
                && kind.chars().all(|c| c.is_alphanumeric() || "_-.:+".contains(c))
        };
        let discriminator = self.discriminator;
        let version = self.version.map_or_else(|| "no number".to_owned(), |v| v.to_string());
        match (self.kind, self.kind.filter(is_name)) {
            (Some(_), Some(kind)) => DecodeError::property(
                discriminator,
                format!("it is {kind:?}, version {version}, which `{set}` does not have"),
            ),
            (Some(_), None) => {
                DecodeError::property(discriminator, format!("`{set}` does not have it"))
            }
            (None, _) => {
                let heads = rows.iter().filter_map(|rows| match rows {
                    Rows::All => None,
                    Rows::Head(head) | Rows::One(head) => Some(format!("{head:?}")),
                });
                let heads: Vec<_> = heads.collect();
                DecodeError::row_key(format!(
                    "there is no `{discriminator}`, the version is {version}, and `{set}` has no such type \
                     with one of these heads: {}",
                    heads.join(", ")
                ))
            }
        }
    }
}

/// Reads an entity of an older version and converts it.
pub fn upgraded<Old: Entity, New: Entity + From<Old>>(
    row: &RowReader<'_>,
) -> Result<New, DecodeError> {
    let new = New::from(Old::decode(row)?);
    if Key::of(&new).parts() == Ok((row.partition_key()?, row.row_key()?)) {
        return Ok(new);
    }
    let what =
        "the conversion from an older version alters a part of the key, and keys cannot change";
    Err(DecodeError::property(VERSION, what))
}

/// Whether the type identifies its kind by this property, or has no kind.
pub const fn is_told_by<E: Entity>(discriminator: &str) -> bool {
    E::KIND.is_none() || equal(E::DISCRIMINATOR, discriminator)
}

/// The reason why two types cannot be in one set, if there is one: `no_kind` if both could match one
/// row and at least one has no kind, `same` if they also have the same kind and version.
pub const fn clash<A: Entity, B: Entity>(
    no_kind: &'static str,
    same: &'static str,
) -> Option<&'static str> {
    if apart(A::ROWS, B::ROWS) || A::VERSION != B::VERSION {
        return None;
    }
    match (A::KIND, B::KIND) {
        (Some(a), Some(b)) if equal(a, b) => Some(same),
        (Some(_), Some(_)) => None,
        _ => Some(no_kind),
    }
}

const fn apart(a: Rows, b: Rows) -> bool {
    match (a, b) {
        (Rows::All, _) | (_, Rows::All) => false,
        (Rows::One(a), Rows::One(b)) => !equal(a, b),
        (Rows::One(row), Rows::Head(head)) | (Rows::Head(head), Rows::One(row)) => {
            !begins_with(row, head)
        }
        (Rows::Head(a), Rows::Head(b)) => !begins_with(a, b) && !begins_with(b, a),
    }
}

const fn equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && begins_with(a, b)
}

const fn begins_with(text: &str, head: &str) -> bool {
    let (text, head) = (text.as_bytes(), head.as_bytes());
    if head.len() > text.len() {
        return false;
    }
    let mut i = 0;
    while i < head.len() {
        if text[i] != head[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether all names are distinct, and none is a name that the service, the type or a store writes.
/// The derives call it at compile time.
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

/// Whether values of one type can be stored as another: numbers as any number type; integers, dates
/// and GUIDs as text.
pub const fn is_storable_as(own: Option<Type>, stored: Type) -> bool {
    use Type::{DateTime, Double, Guid, Int32, Int64, String};
    let Some(own) = own else { return false };
    // Equality of enums is not `const`.
    own.code() == stored.code()
        || matches!(
            (own, stored),
            (Int32 | Int64 | Double, Int32 | Int64 | Double)
                | (Int32 | Int64 | DateTime | Guid, String)
        )
}

/// The library whose rows a type is compatible with, `#[entity(compat = "..")]`.
#[derive(Clone, Copy, Debug)]
pub enum Compat {
    /// `azure_data_tables` 0.21, which writes a struct as serde serializes it.
    AzureDataTables,
    /// Azure.Data.Tables for .NET.
    DotNet,
    /// `@azure/data-tables` 13.
    JavaScript,
    /// `azure-data-tables` 12 for Python.
    Python,
}

impl Compat {
    /// The type that the library stores for values of type `own`; `None` for the same type.
    pub const fn stored_as(self, own: Option<Type>) -> Option<Type> {
        match (self, own) {
            (Self::AzureDataTables | Self::JavaScript | Self::Python, Some(Type::Int64)) => {
                Some(Type::Int32)
            }
            (Self::AzureDataTables, Some(Type::DateTime | Type::Guid)) => Some(Type::String),
            _ => None,
        }
    }
}

/// A type that a field with `#[entity(json)]` may have.
pub trait Json: serde::Serialize + serde::de::DeserializeOwned {}

impl<T: serde::Serialize + serde::de::DeserializeOwned> Json for T {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_apart_when_no_row_key_could_be_both() {
        let (all, id, email) = (Rows::All, Rows::Head("id_"), Rows::Head("email_"));
        assert!(apart(id, email));
        assert!(!apart(id, id));
        assert!(!apart(id, Rows::Head("id_x_")), "one begins with the other");
        assert!(!apart(Rows::Head("id_x_"), id));
        assert!(!apart(all, id) && !apart(id, all) && !apart(all, all));
        assert!(apart(Rows::One("id"), id), "the head is longer than the row");
        assert!(!apart(Rows::One("id_7"), id) && !apart(id, Rows::One("id_7")));
        assert!(apart(Rows::One("a"), Rows::One("b")) && !apart(Rows::One("a"), Rows::One("a")));
    }

    #[test]
    fn a_kind_is_repeated_in_an_error_only_if_it_looks_like_a_name() {
        let unknown = |kind| {
            let (discriminator, version) = ("EntityType", Some(3));
            let keys = ("secret", "secret");
            let tag = Tag { discriminator, partition_key: keys.0, row_key: keys.1, kind, version };
            tag.unknown("Record", &[Rows::Head("id_"), Rows::All, Rows::One("main")]).to_string()
        };
        let error = unknown(Some("note"));
        assert!(error.contains("`EntityType`: it is \"note\", version 3"), "{error}");
        let error = unknown(Some("Ada Lovelace <ada@contoso.com>"));
        assert!(!error.contains("Ada"), "{error}");
        let error = unknown(None);
        assert!(error.contains("heads: \"id_\", \"main\""), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn names_are_apart_unless_they_are_the_same_with_their_prefixes() {
        assert!(names_apart(&[("", &["City"]), ("Billing_", &["City"]), ("Home_", &["City"])]));
        assert!(!names_apart(&[("", &["City"]), ("", &["Street", "City"])]));
        assert!(!names_apart(&[("", &["A_B"]), ("A_", &["B"])]));
        assert!(!names_apart(&[("", &[]), ("Time", &["stamp"])]), "the service keeps it");
    }

    #[test]
    fn a_profile_stores_each_type_so_that_it_can() {
        let all =
            [Type::Binary, Type::Boolean, Type::DateTime, Type::Double, Type::Guid, Type::Int32];
        for own in all.into_iter().chain([Type::Int64, Type::String]) {
            for compat in
                [Compat::AzureDataTables, Compat::DotNet, Compat::JavaScript, Compat::Python]
            {
                let stored = compat.stored_as(Some(own));
                assert!(stored.is_none_or(|stored| is_storable_as(Some(own), stored)), "{own}");
            }
        }
        assert_eq!(Compat::AzureDataTables.stored_as(None), None);
    }
}
