use rowkey::Entity;
use rowkey::edm::Value;

#[derive(Entity)]
#[entity(partition = "all", row = "{id}")]
struct Types {
    id: u32,
    #[entity(as = "Int32")]
    name: String,
    #[entity(as = "String")]
    weight: Option<f64>,
    #[entity(as = "Int32")]
    any: Value,
}

fn main() {}
