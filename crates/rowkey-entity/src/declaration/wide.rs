//! Entities of several rows: `#[entity(wide = 40)]`.

/// The rows that an entity takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    /// The most rows (`#[entity(wide = 40)]`): a store keeps properties that do not fit into one row in further rows
    /// of the partition.
    pub rows: usize,
    /// Whether each property of a wide entity has a row of its own choice (`#[entity(wide = 64, parts)]`), its part, so
    /// that it can be read and patched without the other rows; and the number of first characters of a name
    /// that choose it, `usize::MAX` for all of them.
    pub parts: Option<usize>,
}

impl Wide {
    /// For a type whose entities take one row each.
    pub const ONE: Self = Self { rows: 1, parts: None };
}
