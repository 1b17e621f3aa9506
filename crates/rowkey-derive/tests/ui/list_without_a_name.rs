use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(list(value = "{customer}"))]
struct Order {
    tenant: String,
    id: u32,
    customer: String,
    courier: Option<String>,
    #[entity(json)]
    tags: Vec<String>,
    #[entity(json)]
    places: Option<Vec<u32>>,
    #[entity(json)]
    address: (String, String),
    #[entity(encrypt)]
    name: String,
    #[entity(skip)]
    cached: String,
}

fn main() {}
