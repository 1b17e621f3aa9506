use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{id}", row = "order")]
#[entity(list(name = by_customer, value = "{customer}"))]
struct Order {
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
