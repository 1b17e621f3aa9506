//! What an entity of several rows may declare.

use std::collections::BTreeMap;

use rowkey::Entity;

#[derive(Entity)]
#[entity(wide = 3, partition = "all", row = "id_{id}")]
struct WithoutAStore {
    id: u32,
}

#[derive(Entity)]
#[entity(store, wide = 1, partition = "all", row = "id_{id}")]
struct OneRow {
    id: u32,
}

#[derive(Entity)]
#[entity(store, wide = 99, partition = "all", row = "id_{id}")]
struct TooManyRows {
    id: u32,
}

#[derive(Entity)]
#[entity(store, wide = 3, partition = "all", row = "id_{id}")]
#[entity(index(name = by_name, row = "name_{name}"))]
struct WholeCopies {
    id: u32,
    name: String,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

#[derive(Entity)]
#[entity(store, wide = 3, partition = "all", row = "id_{id}")]
#[entity(index(name = by_name, partition = "name_{name}", row = "{id}"))]
struct WholeCopiesElsewhere {
    id: u32,
    name: String,
}

#[derive(Entity)]
#[entity(store, wide = 97, partition = "all", row = "id_{id}")]
#[entity(list(name = by_name, value = "{name}"))]
#[entity(unique(name = by_number, value = "{number}"))]
struct TooManyOperations {
    id: u32,
    name: String,
    number: u32,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

#[derive(Entity)]
#[entity(store, wide = 96, partition = "all", row = "id_{id}")]
#[entity(list(name = by_name, value = "{name}"))]
#[entity(index(name = by_number, row = "number_{number}", copy(number)))]
struct TooManyOperationsOfAll {
    id: u32,
    name: String,
    number: u32,
}

#[derive(Entity)]
#[entity(store, wide = 3, partition = "all", row = "wide_{id}")]
struct KeysOfFurtherRows {
    id: u32,
}

#[derive(Entity)]
#[entity(store, wide = 3, partition = "all", row = "id_{id}", rename_all = "PascalCase")]
struct PropertyOfFurtherRows {
    id: u32,
    row_format: i32,
}

#[derive(Entity)]
#[entity(store, partition = "all", row = "id_{id}", rename_all = "PascalCase")]
struct PropertyOfHeads {
    id: u32,
    entity_rows: i32,
}

#[derive(Entity)]
#[entity(store, parts, partition = "all", row = "id_{id}")]
struct PartsOfOneRow {
    id: u32,
}

#[derive(Entity)]
#[entity(store, wide = 3, parts = 0, partition = "all", row = "id_{id}")]
struct PartsOfNothing {
    id: u32,
}

#[derive(Entity)]
#[entity(store, partition = "all", row = "id_{id}", rename_all = "PascalCase")]
struct PropertyOfParts {
    id: u32,
    entity_parts: String,
}

fn main() {}
