use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_customer, row = "customer_{customer}", many))]
#[entity(list(name = by_customer, value = "{customer}"))]
#[entity(list(name = key, value = "{customer}"))]
#[entity(list(name = by_tag, value = "{tags}", max = 8))]
#[entity(list(name = by_tag, value = "{tags}", max = 8))]
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
