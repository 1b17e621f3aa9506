//! A group: where its summary lies, and the rows beside it.

use rowkey::edm::Value;
use rowkey::index::{PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY};
use rowkey::key::{KeyWriter, PartFormat};
use rowkey::{DynamicEntity, Error, Key, KeyPart, Partition, Result};

/// The view that a summary or a contribution is of.
pub(super) const VIEW: &str = "View";

/// What the RowKey of every contribution begins with.
const HEAD: &str = "from_";
/// The parts of that RowKey, but for the last, end with one.
const PART: PartFormat =
    PartFormat { width: None, descending: false, separator: Some('_'), lower: false };

/// The keys of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    partition_key: String,
    row_key: String,
}

impl Group {
    pub(super) fn of<S>(summary: &Key<S>) -> Result<Self> {
        let (partition_key, row_key) = summary.parts().map_err(Error::no_such_key)?;
        Ok(Self { partition_key: partition_key.to_owned(), row_key: row_key.to_owned() })
    }

    /// The group of a row that was read, if it is a contribution.
    pub(super) fn of_contribution(row: &DynamicEntity) -> Option<Self> {
        row.get(PRIMARY_ROW_KEY)?;
        let (row_key, _) = row.row_key.strip_prefix(HEAD)?.split_once('_')?;
        let row_key = String::read(row_key, PART).ok()?;
        Some(Self { partition_key: row.partition_key.clone(), row_key })
    }

    /// As text: no key contains a slash.
    pub(super) fn address(&self) -> String {
        format!("{}/{}", self.partition_key, self.row_key)
    }

    /// The group at such an address.
    pub(super) fn at(address: &str) -> Option<Self> {
        let (partition_key, row_key) = address.split_once('/')?;
        Some(Self { partition_key: partition_key.to_owned(), row_key: row_key.to_owned() })
    }

    pub(super) fn summary(&self) -> Key<DynamicEntity> {
        Key::new(&*self.partition_key, &*self.row_key)
    }

    /// A summary of nothing yet.
    pub(super) fn new_summary(&self) -> DynamicEntity {
        DynamicEntity::new(&*self.partition_key, &*self.row_key)
    }

    /// All contributions.
    pub(super) fn contributions(&self) -> Partition<DynamicEntity> {
        let head = self.writer().finish().unwrap_or_default();
        Partition::new(&*self.partition_key).prefix(&head)
    }

    /// The contribution of an entity: where it lies, without what it says.
    pub(super) fn contribution<E>(&self, view: &str, entity: &Key<E>) -> Result<DynamicEntity> {
        let (partition_key, row_key) = entity.parts().map_err(Error::no_such_key)?;
        let mut out = self.writer();
        out.part(&partition_key.to_owned(), PART);
        out.literal("_");
        out.literal(row_key);
        let key = out.finish().map_err(|error| {
            Error::no_such_key(&error).advise(
                "it is made of the keys of the entity and of its summary; make them shorter",
            )
        })?;
        let mut row = DynamicEntity::new(&*self.partition_key, key);
        row.set(VIEW, view);
        row.set(PRIMARY_PARTITION_KEY, partition_key);
        row.set(PRIMARY_ROW_KEY, row_key);
        Ok(row)
    }

    /// What the RowKey of each contribution to this summary begins with.
    fn writer(&self) -> KeyWriter {
        let mut out = KeyWriter::new();
        out.literal(HEAD);
        out.part(&self.row_key, PART);
        out.literal("_");
        out
    }
}

/// Whether a row of the table is one of this view.
pub(super) fn is_of_view(row: &DynamicEntity, view: &str) -> bool {
    matches!(row.get(VIEW), Some(Value::String(name)) if name == view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contribution_tells_its_group_and_its_entity() {
        let group = Group { partition_key: "d".into(), row_key: "summary_of_all".into() };
        let entity = Key::<DynamicEntity>::new("a_b", "id_7");
        let row = group.contribution("view", &entity).unwrap();
        assert_eq!(row.row_key, "from_summary^~of^~all_a^~b_id_7");
        assert_eq!(Group::of_contribution(&row), Some(group.clone()));
        assert_eq!(rowkey_patterns::index_row::primary_key(&row), Some(entity));
        assert_eq!(Group::at(&group.address()), Some(group));
    }

    #[test]
    fn keys_that_are_too_long_together_are_refused() {
        let group = Group { partition_key: "d".into(), row_key: "summary".into() };
        let entity = Key::<DynamicEntity>::new("p".repeat(300), "r".repeat(300));
        let error = group.contribution("view", &entity).unwrap_err();
        assert_eq!(error.kind(), rowkey::ErrorKind::TooLarge);
        assert!(error.to_string().contains("make them shorter"), "{error}");
    }
}
