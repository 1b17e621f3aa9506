#![deny(deprecated)]

use rowkey::edm::DateTime;
use rowkey::{Entity, KeyPart};

/// As that of the log tail, which is known by its name.
#[derive(KeyPart)]
struct EntryId(String);

#[derive(Entity)]
#[entity(partition = "{at:date}", row = "{device}_{at}")]
struct ByDay {
    at: DateTime,
    device: String,
}

#[derive(Entity)]
#[entity(partition = "event_{at:desc}", row = "{device}")]
struct NewestFirst {
    at: DateTime,
    device: String,
}

#[derive(Entity)]
#[entity(partition = "{sequence:12}_{device}", row = "event")]
struct Numbered {
    sequence: u64,
    device: String,
}

#[derive(Entity)]
#[entity(partition = "events", row = "at_{at}_{device}")]
struct OnePartition {
    at: DateTime,
    device: String,
}

#[derive(Entity)]
#[entity(partition = "log", row = "{id}")]
struct OneLog {
    id: EntryId,
    text: String,
}

#[derive(Entity)]
#[entity(partition = "{shop}", row = "sale_{id:6}")]
#[entity(index(name = by_day, partition = "day_{day:8}", row = "{shop}_{id:6}"))]
struct Sale {
    shop: String,
    id: u32,
    day: u32,
}

// None of these warns.

#[derive(Entity)]
#[entity(append_ok, partition = "{at:date}", row = "{device}_{at}")]
struct Few {
    at: DateTime,
    device: String,
}

#[derive(Entity)]
#[entity(partition = "{device}_{at:date}", row = "{at:desc}")]
struct ByDevice {
    at: DateTime,
    device: String,
}

#[derive(Entity)]
#[entity(partition = "{day:8}_{device:bucket(8)}", row = "{device}_{second:5}")]
struct Spread {
    day: u32,
    device: String,
    second: u32,
}

#[derive(Entity)]
#[entity(partition = "settings", row = "{name}_{changed:iso}")]
struct Setting {
    name: String,
    changed: DateTime,
}

#[derive(Entity)]
#[entity(partition = "{id}", row = "account")]
struct Account {
    id: u64,
    daytime: u32,
}

fn main() {}
