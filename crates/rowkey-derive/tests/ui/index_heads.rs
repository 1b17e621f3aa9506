use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
#[entity(index(name = by_email, row = "email_{email}"))]
#[entity(index(name = by_mail, row = "em_{email}"))]
#[entity(index(name = by_name, row = "email_last_{last_name}", many))]
#[entity(index(name = by_other_id, row = "id_{last_name}", many))]
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
