//! The types that the tests store.

use rowkey::edm::{DateTime, Guid};
use rowkey::{Entity, KeyPart, Projection, Property};

/// An employee, a row a number.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
pub(crate) struct Employee {
    pub(crate) department: String,
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) salary: f64,
    pub(crate) title: Option<String>,
}

/// Another type in the same partitions.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "badge_{number}")]
pub(crate) struct Badge {
    pub(crate) department: String,
    pub(crate) number: u32,
    pub(crate) holder: String,
}

/// Some of an employee.
#[derive(Debug, PartialEq, Projection)]
#[entity(rename_all = "PascalCase")]
pub(crate) struct Pay {
    pub(crate) salary: f64,
}

/// A review, with a key of several parts.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "review_{employee}_{year:4}")]
pub(crate) struct Review {
    pub(crate) department: String,
    pub(crate) employee: String,
    pub(crate) year: u16,
    pub(crate) grade: Grade,
}

/// Stored as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KeyPart, Property)]
pub(crate) enum Grade {
    Good,
    Great,
}

/// Every type of property.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{partition}", row = "{row}")]
pub(crate) struct Everything {
    pub(crate) partition: String,
    pub(crate) row: String,
    pub(crate) binary: Vec<u8>,
    pub(crate) boolean: bool,
    pub(crate) datetime: DateTime,
    pub(crate) double: f64,
    pub(crate) guid: Guid,
    pub(crate) int32: i32,
    pub(crate) int64: i64,
    pub(crate) string: String,
    pub(crate) absent: Option<i32>,
    #[entity(json)]
    pub(crate) tags: Vec<String>,
}

pub(crate) fn employee(id: u32) -> Employee {
    Employee {
        department: "sales".into(),
        id,
        name: format!("Employee {id}"),
        salary: f64::from(id) * 1000.0,
        title: id.is_multiple_of(2).then(|| "Lead".into()),
    }
}

pub(crate) fn everything(partition: &str, row: &str) -> Everything {
    Everything {
        partition: partition.into(),
        row: row.into(),
        binary: (0..=255).collect(),
        boolean: true,
        datetime: "2026-11-20T12:34:56.7654321Z".parse().unwrap(),
        double: 8_589_934_592.0,
        guid: "c9da6455-213d-42c9-9a79-3e9149a57833".parse().unwrap(),
        int32: i32::MIN,
        int64: i64::MAX,
        string: "O'Neil \"quoted\" \\ / \n 日本 😀 é".into(),
        absent: None,
        tags: vec!["a".into(), "b'c".into()],
    }
}
