use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}")]
struct Employee {
    department: String,
    id: u32,
    #[entity(renamed = "Mail")]
    email: String,
}

fn main() {}
