use chrono::{DateTime, Utc};
use rowkey::Entity;
use rowkey::edm::Guid;

#[derive(Entity)]
#[entity(partition = "all", row = "{from}-{to}")]
struct Move {
    from: i64,
    to: i64,
}

#[derive(Entity)]
#[entity(partition = "{id}-{name}", row = "{at:iso3}:{name}")]
struct Visit {
    id: Guid,
    at: DateTime<Utc>,
    name: String,
}

#[derive(Entity)]
#[entity(partition = "{name}.{id:x8}a", row = "")]
struct Named {
    name: String,
    id: u32,
}

fn main() {}
