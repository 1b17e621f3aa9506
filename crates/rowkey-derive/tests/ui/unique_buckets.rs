use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(unique(name = by_number, value = "{number}", buckets = 1))]
#[entity(unique(name = by_code, value = "{code}", buckets = 1001))]
#[entity(unique(name = by_nothing, value = "nothing", buckets = 4))]
struct Order {
    tenant: String,
    id: u32,
    number: String,
    code: String,
}

fn main() {}
