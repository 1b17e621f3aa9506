use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "all", row = "{department}-{id}")]
struct Employee {
    department: String,
    id: u32,
}

fn main() {}
