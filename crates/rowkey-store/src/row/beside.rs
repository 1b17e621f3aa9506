//! The further rows of an entity that does not fit into one row.

use rowkey_client::table::EncodedRow;
use rowkey_client::{DynamicEntity, ETag};

/// The property of a head with the number of rows of the entity, including the head.
pub(crate) const ROWS: &str = "EntityRows";

/// The property of a head with the layout and the mark of its parts.
pub(crate) const PARTS: &str = "EntityParts";

/// The further rows of an entity.
#[derive(Clone, Default)]
pub(crate) enum Beside {
    /// No further rows.
    #[default]
    None,
    /// The further rows that were read, each with its ETag.
    Stored(Vec<(String, ETag)>),
    /// The content to write: the properties of the head, and the further rows.
    Split(DynamicEntity, Vec<EncodedRow>),
}

impl Beside {
    /// Returns the further rows that were read, each with its ETag.
    pub(crate) fn stored(&self) -> &[(String, ETag)] {
        match self {
            Self::Stored(stored) => stored,
            Self::None | Self::Split(..) => &[],
        }
    }

    /// Returns the further rows to write.
    pub(crate) fn written(&self) -> &[EncodedRow] {
        match self {
            Self::Split(_, rows) => rows,
            Self::None | Self::Stored(_) => &[],
        }
    }
}
