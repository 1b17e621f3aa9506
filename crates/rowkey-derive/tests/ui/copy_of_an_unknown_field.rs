use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
#[entity(index(name = by_email, row = "email_{email}", copy(lastname)))]
#[entity(index(name = by_last_name, row = "last_{last_name}", copy(id)))]
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
