use rowkey::{Entity, EntitySet};

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}", kind = "visitor", discriminator = "Kind")]
struct Visitor {
    department: String,
    id: u32,
}

#[derive(EntitySet)]
enum Record {
    Visitor(Visitor),
}

fn main() {}
