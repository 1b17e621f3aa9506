use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{departement}", row = "id_{id}")]
struct Employee {
    department: String,
    id: u32,
}

fn main() {}
