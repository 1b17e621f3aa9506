//! How the rows of a wide entity are named, and what the first says of the others.

use rowkey::entity::RowReader;
use rowkey::{DecodeError, DynamicEntity, Error, ErrorKind, Key, Projection, Result, Stored};

/// The rows that one transaction can write.
pub(super) const MAX_ROWS: usize = 100;

/// The property of the first row that says how often the entity was written.
pub(super) const VERSION: &str = "WideVersion";
/// The property of the first row that says how many rows there are.
pub(super) const ROWS: &str = "WideRows";

/// The keys of the rows of one entity.
pub(super) struct Names {
    pub(super) partition_key: String,
    /// The RowKey of the entity and `_`, which all rows begin with.
    prefix: String,
}

impl Names {
    pub(super) fn of<K>(key: &Key<K>) -> Result<Self> {
        let (partition_key, row_key) =
            key.parts().map_err(|error| Error::refused(ErrorKind::Invalid, error.to_string()))?;
        Ok(Self { partition_key: partition_key.to_owned(), prefix: format!("{row_key}_") })
    }

    /// The RowKey of the entity.
    pub(super) fn row_key(&self) -> &str {
        self.prefix.strip_suffix("_").unwrap_or(&self.prefix)
    }

    /// The RowKey of a row.
    pub(super) fn row(&self, number: usize) -> String {
        format!("{}{number:02}", self.prefix)
    }

    pub(super) fn key(&self, number: usize) -> Key<DynamicEntity> {
        Key::new(&*self.partition_key, self.row(number))
    }

    pub(super) fn entity(&self, number: usize) -> DynamicEntity {
        DynamicEntity::new(&*self.partition_key, self.row(number))
    }

    /// Whether it is one of these rows. Between them there may be others, such as those of an entity
    /// whose RowKey begins as theirs do.
    pub(super) fn is_row(&self, row: &Stored<DynamicEntity>) -> bool {
        let number = row.entity.row_key.strip_prefix(&*self.prefix);
        number.is_some_and(|number| {
            number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    }
}

/// What the first row says.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) version: i64,
    pub(super) rows: usize,
}

impl Head {
    pub(super) fn write(self, row: &mut DynamicEntity) {
        row.set(VERSION, self.version);
        // At most 100.
        row.set(ROWS, i32::try_from(self.rows).unwrap_or(i32::MAX));
    }
}

impl Projection for Head {
    const COLUMNS: Option<&'static [&'static str]> = Some(&[VERSION, ROWS, "Timestamp"]);

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let rows: i32 = row.property(ROWS)?;
        let rows = usize::try_from(rows).ok().filter(|rows| (1..=MAX_ROWS).contains(rows));
        let rows = rows.ok_or_else(|| DecodeError::property(ROWS, "it is not 1 to 100"))?;
        Ok(Self { version: row.property(VERSION)?, rows })
    }
}
