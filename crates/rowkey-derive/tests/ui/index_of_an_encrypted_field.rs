use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{ward}", row = "id_{id}", index(name = by_name, row = "name_{name}"))]
struct Patient {
    ward: String,
    id: u32,
    #[entity(encrypt)]
    name: String,
}

fn main() {}
