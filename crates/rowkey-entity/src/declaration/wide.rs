//! Entities of several rows: `#[entity(wide = 40)]`.

/// The rows that an entity takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    /// The most rows (`#[entity(wide = 40)]`): a store keeps properties that do not fit into one row in further rows
    /// of the partition.
    pub rows: usize,
    /// Whether the name of each property of a wide entity determines its row, its part (`#[entity(wide = 64,
    /// parts)]`), so that it can be read and patched without the other rows; and the number of first characters of
    /// the name that count, `usize::MAX` for all.
    pub parts: Option<usize>,
}

impl Wide {
    /// For a type whose entities take one row each.
    pub const ONE: Self = Self { rows: 1, parts: None };
}
