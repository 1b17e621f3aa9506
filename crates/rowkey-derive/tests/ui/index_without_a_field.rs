use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
#[entity(index(name = by_email, row = "email_"))]
#[entity(index(name = by_last_name))]
struct Employee {
    department: String,
    id: u32,
    email: String,
    last_name: String,
    manager: Option<u32>,
    #[entity(json)]
    skills: Vec<String>,
}

fn main() {}
