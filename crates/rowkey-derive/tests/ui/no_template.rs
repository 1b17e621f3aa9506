use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}")]
struct Employee {
    department: String,
}

fn main() {}
