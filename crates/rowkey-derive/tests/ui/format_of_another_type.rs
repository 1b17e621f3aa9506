use chrono::{DateTime, NaiveDate, Utc};
use rowkey::Entity;
use rowkey::edm::Guid;

#[derive(Entity)]
#[entity(partition = "{name:unpadded}", row = "{number:x8}_{day:iso3}_{at:N}_{id:date}_{open:B}")]
struct Row {
    name: String,
    number: i32,
    day: NaiveDate,
    at: DateTime<Utc>,
    id: Guid,
    open: bool,
}

#[derive(Entity)]
#[entity(partition = "{number:True}", row = "{day:desc}_{at:6}")]
struct Other {
    number: u32,
    day: NaiveDate,
    at: DateTime<Utc>,
}

fn main() {}
