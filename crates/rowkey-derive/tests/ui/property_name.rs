use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}", rename_all = "kebab-case")]
struct Employee {
    department: String,
    id: u32,
    home_city: String,
    #[entity(rename = "1st")]
    first: String,
}

fn main() {}
