use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{ward}", row = "id_{id}")]
#[entity(index(name = by_bed, row = "bed_{bed}", copy(name)))]
struct Patient {
    ward: String,
    id: u32,
    bed: u32,
    #[entity(encrypt)]
    name: String,
}

fn main() {}
