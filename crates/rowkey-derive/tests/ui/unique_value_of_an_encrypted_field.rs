use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{ward}", row = "id_{id}")]
#[entity(unique(name = by_name, value = "{name}"))]
struct Patient {
    ward: String,
    id: u32,
    #[entity(encrypt)]
    name: String,
}

fn main() {}
