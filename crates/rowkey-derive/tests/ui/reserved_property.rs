use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}", rename_all = "PascalCase", kind = "employee")]
struct Employee {
    department: String,
    id: u32,
    timestamp: String,
    entity_type: String,
}

fn main() {}
