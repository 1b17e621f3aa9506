use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "all", row = "{id}_{department}_{id}")]
struct Employee {
    department: String,
    id: u32,
}

fn main() {}
