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

#[derive(Entity)]
#[entity(partition = "{created_ticks}", row = "{device}")]
struct Ticks {
    created_ticks: i64,
    device: String,
}

#[derive(Entity)]
#[entity(partition = "all", row = "{order_seq}")]
struct Sequence {
    order_seq: i32,
    text: String,
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

#[derive(Entity)]
#[entity(partition = "{date}_{ticks:5}", row = "{sequence}")]
struct Texts {
    date: String,
    ticks: u16,
    sequence: String,
}

#[derive(Entity)]
#[entity(partition = "{day:2}", row = "{device}")]
#[entity(index(name = by_time, partition = "hour_{time:3}", row = "{device}"))]
struct DayOfMonth {
    day: u8,
    time: i16,
    device: String,
}

fn main() {}
