use rowkey::{Entity, Projection};

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}", version = 0)]
struct Zero {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}", version = "2")]
struct Text {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}", version = 2, rename_all = "PascalCase")]
struct Taken {
    department: String,
    id: u32,
    entity_version: i32,
}

#[derive(Projection)]
#[entity(version = 2)]
struct Slim {
    name: String,
}

fn main() {}
