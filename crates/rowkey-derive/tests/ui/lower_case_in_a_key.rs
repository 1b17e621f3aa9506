use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "email_{email:lower}")]
struct Employee {
    department: String,
    email: String,
}

fn main() {}
