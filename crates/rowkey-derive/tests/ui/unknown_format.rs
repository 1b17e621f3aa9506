use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id:hex}")]
struct Employee {
    department: String,
    id: u32,
}

fn main() {}
