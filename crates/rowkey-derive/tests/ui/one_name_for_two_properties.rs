use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}")]
struct Employee {
    department: String,
    id: u32,
    email: String,
    #[entity(rename = "email")]
    mail: String,
}

fn main() {}
