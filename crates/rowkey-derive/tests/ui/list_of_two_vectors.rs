use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(list(name = by_tag, value = "{tags}", max = 40))]
#[entity(index(name = by_customer, row = "customer_{customer}", many))]
#[entity(list(name = by_place, value = "{places}", max = 9))]
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
