use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(list(name = by_tag, value = "{tags}"))]
#[entity(list(name = by_place, value = "{places}", max = 50))]
#[entity(list(name = by_customer, value = "{customer}", max = 2))]
#[entity(list(name = by_both, value = "{tags}_{places}", max = 2))]
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
