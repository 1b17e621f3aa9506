use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{ward}", row = "id_{id}")]
struct Patient {
    ward: String,
    id: u32,
    #[entity(encrypt)]
    name: String,
}

fn main() {}
