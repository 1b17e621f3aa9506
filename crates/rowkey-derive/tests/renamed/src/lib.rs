//! Every derive with `crate = ".."`, in a crate that depends on `rowkey` under another name, and on
//! `rowkey_entity`.

pub mod alone;

use table_storage::{DynamicEntity, Entity, EntitySet, KeyPart, Projection, Property};

/// An entity of derived parts and properties.
#[derive(Debug, Entity)]
#[entity(
    partition = "{region}",
    row = "id_{id:desc}_{at}",
    kind = "e",
    crate = "table_storage",
    version = 2
)]
pub struct Employee {
    /// In the PartitionKey.
    pub region: Region,
    /// In the RowKey.
    pub id: Id,
    /// In the RowKey.
    pub at: u8,
    /// A property.
    pub level: Option<Level>,
    /// A property with a default.
    #[entity(default)]
    pub score: Score,
    /// Not stored.
    #[entity(skip)]
    pub cached: bool,
    secret: Secret,
}

/// What employees were before.
#[derive(Debug, Entity)]
#[entity(partition = "{region}", row = "id_{id:desc}_{at}", kind = "e", crate = "table_storage")]
pub struct EmployeeV1 {
    /// In the PartitionKey.
    pub region: Region,
    /// In the RowKey.
    pub id: Id,
    /// In the RowKey.
    pub at: u8,
}

impl From<EmployeeV1> for Employee {
    fn from(EmployeeV1 { region, id, at }: EmployeeV1) -> Self {
        Self {
            region,
            id,
            at,
            level: None,
            score: Score::default(),
            cached: false,
            secret: Secret(false),
        }
    }
}

/// Everything in the table.
#[derive(Debug, EntitySet)]
#[entity_set(crate = "table_storage")]
pub enum Record {
    /// Of either version.
    #[entity_set(older(EmployeeV1))]
    Employee(Employee),
    /// All else.
    #[entity_set(unknown)]
    Unknown(DynamicEntity),
}

/// Known to this crate only, and so must its column be.
#[derive(Clone, Copy, Debug, Default, Property)]
#[property(crate = "table_storage")]
struct Secret(bool);

/// Some of it.
#[derive(Debug, Projection)]
#[entity(crate = "table_storage")]
pub struct Slim {
    /// The RowKey.
    #[entity(row_key)]
    pub row: String,
    /// A property.
    pub level: Level,
}

/// Stored as text.
#[derive(Clone, Copy, Debug, Property)]
#[property(crate = "table_storage")]
pub enum Level {
    /// The only one.
    One,
}

/// Stored as a number.
#[derive(Clone, Copy, Debug, Default, Property)]
#[property(crate = "table_storage")]
pub struct Score(i32);

/// Written as text.
#[derive(Clone, Copy, Debug, KeyPart)]
#[key_part(crate = "table_storage")]
pub enum Region {
    /// The only one.
    North,
}

/// Written as a number.
#[derive(Clone, Copy, Debug, KeyPart)]
#[key_part(crate = "table_storage")]
pub struct Id(u16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_derives_find_the_client_under_another_name() {
        let key = Employee::key(Region::North, Id(7), 1);
        assert_eq!(key.parts(), Ok(("North", "id_65528_001")));
        assert_eq!(Employee::SECRET.name(), "secret");
        assert_eq!(Slim::COLUMNS.map(<[_]>::len), Some(4));
    }
}
