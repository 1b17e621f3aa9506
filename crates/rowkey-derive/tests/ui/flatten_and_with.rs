//! Shapes that cannot be.

use rowkey::{Entity, Flatten, Property};

#[derive(Flatten)]
struct Address {
    city: String,
}

#[derive(Entity)]
#[entity(partition = "all", row = "id_{id}")]
struct Prefix {
    id: u32,
    #[entity(prefix = "Home_")]
    home: String,
}

#[derive(Entity)]
#[entity(partition = "all", row = "id_{id}")]
struct Both {
    id: u32,
    #[entity(flatten, json)]
    home: Address,
}

#[derive(Entity)]
#[entity(partition = "all", row = "id_{id}")]
struct Converted {
    id: u32,
    #[entity(with = "path", json)]
    home: String,
}

#[derive(Entity)]
#[entity(partition = "all", row = "id_{id}")]
struct Key<T> {
    id: T,
}

#[derive(Flatten)]
struct Nested {
    #[entity(flatten)]
    address: Address,
}

#[derive(Property)]
#[property(repr = "Int16")]
enum Small {
    One,
}

#[derive(Property)]
#[property(repr = "Int32")]
enum Large {
    One = 3_000_000_000,
}

#[derive(Property)]
enum Others {
    One,
    #[property(other)]
    First(String),
    #[property(other)]
    Second(String),
}

#[derive(Entity)]
#[entity(partition = "all", row = "id_{id}")]
struct Clash {
    id: u32,
    city: String,
    #[entity(flatten)]
    address: Address,
}

fn main() {}
