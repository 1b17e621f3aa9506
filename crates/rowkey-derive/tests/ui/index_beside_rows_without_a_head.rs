use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id:6}")]
#[entity(index(name = by_email, row = "email_{email}"))]
struct Employee {
    department: String,
    id: u32,
    email: String,
}

fn main() {}
