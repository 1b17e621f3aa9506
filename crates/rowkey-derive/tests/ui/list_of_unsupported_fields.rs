use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(list(name = by_name, value = "{name}"))]
#[entity(list(name = by_address, value = "{address}"))]
#[entity(list(name = by_cached, value = "{cached}"))]
#[entity(list(name = by_nothing, value = "all"))]
#[entity(list(name = by_unknown, value = "{tag}", max = 2))]
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
