use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(list(name = by_data, value = "{data}"))]
struct Order {
    tenant: String,
    id: u32,
    data: Vec<u8>,
}

fn main() {}
