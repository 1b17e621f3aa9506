use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}")]
struct Employee {
    department: String,
    id: u32,
    tags: Vec<String>,
}

fn main() {}
