//! Rows that older versions of a type left beside their entities.

use crate::entity::{DecodeError, Entity, RowReader};
use crate::index::{Index, List, ListPlace};
use crate::key::KeyWriter;
use rowkey_wire::shown;

/// The index and list rows of an entity that an older version of its type wrote. A store removes
/// them when it writes the entity in the current version.
#[derive(Clone)]
pub struct Older {
    /// The version of the entity as it is stored.
    pub version: i32,
    /// Its rows in the indexes that this version declared: PartitionKey and RowKey.
    pub indexed: Vec<(&'static Index, (String, String))>,
    /// The PartitionKeys and RowKeys of the lists that it is in; lists in blobs have no PartitionKey.
    pub listed: Vec<(&'static List, (String, String))>,
    /// The paths of the blobs that it refers to.
    pub references: Vec<String>,
}

/// The most rows that older versions of a type may have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderRows {
    /// The maximum number of rows in the partition of an entity.
    pub beside: usize,
    /// Whether some are in other partitions.
    pub elsewhere: bool,
}

impl OlderRows {
    /// For a type without older versions.
    pub const NONE: Self = Self { beside: 0, elsewhere: false };

    /// Whether there are none.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.beside == 0 && !self.elsewhere
    }

    /// For a type whose last older version is `V`.
    #[doc(hidden)]
    #[must_use]
    pub const fn of<V: Entity>() -> Self {
        let Self { mut beside, elsewhere } = V::DECLARED.older;
        let own = V::DECLARED.rows_beside();
        if own > beside {
            beside = own;
        }
        let elsewhere = elsewhere || V::DECLARED.has_elsewhere();
        Self { beside, elsewhere }
    }

    /// Whether `E` has all fields in blobs of `V`, its version before, by their properties. The store reads the blobs
    /// of the fields that `E` has: the conversion would get the default of another one.
    #[doc(hidden)]
    #[must_use]
    pub const fn keeps_blobs<V: Entity, E: Entity>() -> bool {
        let mut at = 0;
        while at < V::DECLARED.blobs.len() {
            let mut of_own = 0;
            while of_own < E::DECLARED.blobs.len()
                && !is_same(
                    V::DECLARED.blobs[at].property.as_bytes(),
                    E::DECLARED.blobs[of_own].property.as_bytes(),
                )
            {
                of_own += 1;
            }
            if of_own == E::DECLARED.blobs.len() {
                return false;
            }
            at += 1;
        }
        true
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

impl Older {
    /// The rows that an entity of `V`, or of a version before it, has.
    #[doc(hidden)]
    pub fn of<V: Entity>(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        if let Some(older) = V::older(row)? {
            return Ok(older);
        }
        let entity = V::decode(row)?;
        let mut indexed = Vec::new();
        for (position, index) in V::DECLARED.indexes.iter().enumerate() {
            let (mut partition, mut row) = (KeyWriter::new(), KeyWriter::new());
            // Values that make no valid key were never in the index.
            if entity.index_key(position, &mut partition, &mut row)
                && let (Ok(partition), Ok(row)) = (partition.finish(), row.finish())
            {
                indexed.push((index, (partition, row)));
            }
        }
        let mut listed = Vec::new();
        for (position, list) in V::DECLARED.lists.iter().enumerate() {
            entity.list_keys(position, &mut |partition, row| {
                let partition = match list.place {
                    ListPlace::Blob => Ok(String::new()),
                    ListPlace::Partition | ListPlace::Elsewhere => partition.finish(),
                };
                if let (Ok(partition), Ok(row)) = (partition, row.finish()) {
                    listed.push((list, (partition, row)));
                }
            });
        }
        let mut references = Vec::new();
        entity.references(&mut |_, reference| references.push(reference.path().to_owned()));
        Ok(Self { version: V::VERSION, indexed, listed, references })
    }
}

shown! {
    /// Shows the version, but no keys.
    Older: version
}
