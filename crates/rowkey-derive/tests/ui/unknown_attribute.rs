use rowkey::Entity;

#[derive(Entity)]
#[entity(partiton = "{department}", row = "{id}")]
struct Employee {
    department: String,
    id: u32,
}

fn main() {}
