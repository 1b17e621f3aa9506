//! Where the properties without a field of their own may go.

use std::collections::BTreeMap;

use rowkey::{Entity, Projection};

#[derive(Entity)]
#[entity(partition = "all", row = "id_{id}")]
struct Twice {
    id: u32,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
    #[entity(rest)]
    days: BTreeMap<String, f64>,
}

#[derive(Entity)]
#[entity(partition = "all", row = "id_{id}")]
struct Json {
    id: u32,
    #[entity(rest, json)]
    hours: BTreeMap<String, f64>,
}

#[derive(Entity)]
#[entity(partition = "all", row = "id_{id}")]
#[entity(index(name = by_hours, partition = "hours_{hours}", row = "{id}"))]
struct Indexed {
    id: u32,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

#[derive(Entity)]
#[entity(partition = "all", row = "id_{id}")]
#[entity(index(name = by_name, partition = "name_{name}", row = "{id}", copy(hours)))]
struct Copied {
    id: u32,
    name: String,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

#[derive(Projection)]
struct Hours {
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

fn main() {}
