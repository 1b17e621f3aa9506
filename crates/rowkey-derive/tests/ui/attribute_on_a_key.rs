use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}")]
struct Employee {
    department: String,
    #[entity(rename = "Id")]
    id: u32,
}

fn main() {}
