use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(index(name = by_email, row = "email_{email}"))]
struct Employee {
    department: String,
    id: u32,
    email: String,
    primary_row_key: String,
}

fn main() {}
