use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{id:6}", row = "{department:12}")]
struct Employee {
    department: String,
    id: u32,
}

fn main() {}
