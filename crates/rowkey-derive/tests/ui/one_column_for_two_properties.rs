use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}")]
struct Employee {
    department: String,
    id: u32,
    home_city: String,
    #[entity(rename = "home")]
    homeCity: String,
}

fn main() {}
