use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}", row = "{id}")]
struct Employee {
    department: String,
    id: u32,
}

fn main() {}
