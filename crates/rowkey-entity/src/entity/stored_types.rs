//! The list of a type's properties and their EDM types, `Projection::TYPES`, where fields are flattened: the derives
//! join the lists of the fields at compile time.

use rowkey_wire::edm::Type;

/// Properties, each with the EDM type that it is stored as.
type Types = &'static [(&'static str, Option<Type>)];

/// The type that a property is stored as: its own, unless another one is chosen.
pub const fn stored_type(own: Option<Type>, stored: Option<Type>) -> Option<Type> {
    match stored {
        Some(_) => stored,
        None => own,
    }
}

/// The bytes of the names with their prefix.
pub const fn prefixed_length(prefix: &str, types: Types) -> usize {
    let (mut length, mut at) = (0, 0);
    while at < types.len() {
        length += prefix.len() + types[at].0.len();
        at += 1;
    }
    length
}

/// The names with their prefix, one after the other. `N` is their [`prefixed_length`].
pub const fn prefixed<const N: usize>(prefix: &str, types: Types) -> [u8; N] {
    let mut names = [0; N];
    let (mut length, mut at) = (0, 0);
    while at < types.len() {
        length = append(&mut names, length, prefix);
        length = append(&mut names, length, types[at].0);
        at += 1;
    }
    names
}

const fn append(names: &mut [u8], mut length: usize, name: &str) -> usize {
    let (name, mut at) = (name.as_bytes(), 0);
    while at < name.len() {
        names[length] = name[at];
        length += 1;
        at += 1;
    }
    length
}

/// The text of names that were joined, which are valid UTF-8 as each of them is.
pub const fn text(names: &'static [u8]) -> &'static str {
    match std::str::from_utf8(names) {
        Ok(names) => names,
        Err(_) => "",
    }
}

/// Joins lists of properties: each with the prefix of its names, and all its names with the prefix, which are not
/// needed without one. `N` is the number of properties.
pub const fn joined<const N: usize>(
    lists: &[(&'static str, &'static str, Types)],
) -> [(&'static str, Option<Type>); N] {
    let mut all = [("", None); N];
    let (mut length, mut list) = (0, 0);
    while list < lists.len() {
        let (prefix, mut names, types) = lists[list];
        let mut at = 0;
        while at < types.len() {
            let (mut name, ty) = types[at];
            if !prefix.is_empty() {
                // The texts of constants cannot be joined one by one: each name is a part of all of them.
                (name, names) = names.split_at(prefix.len() + name.len());
            }
            all[length] = (name, ty);
            length += 1;
            at += 1;
        }
        list += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: Types = &[("Straße", Some(Type::String)), ("Floor", None)];

    #[test]
    fn lists_are_joined_in_order_with_their_prefixes() {
        const NAMES: &[u8; prefixed_length("To_", LIST)] = &prefixed("To_", LIST);
        assert_eq!(text(NAMES), "To_StraßeTo_Floor");
        let all: [_; 5] =
            joined(&[("", "", LIST), ("To_", text(NAMES), LIST), ("", "", &[("Id", None)])]);
        let expected = [
            ("Straße", Some(Type::String)),
            ("Floor", None),
            ("To_Straße", Some(Type::String)),
            ("To_Floor", None),
            ("Id", None),
        ];
        assert_eq!(all, expected);
    }
}
