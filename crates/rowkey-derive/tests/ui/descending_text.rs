use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{id}", row = "{department:desc}")]
struct Employee {
    department: String,
    id: u32,
}

fn main() {}
