use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{ward}", row = "encryption_key_{id}")]
struct Own {
    ward: String,
    id: u32,
    #[entity(encrypt)]
    name: String,
}

#[derive(Entity)]
#[entity(store, partition = "ward_{ward}", row = "id_{id}")]
#[entity(index(name = by_bed, partition = "encryption", row = "encryption_{bed}"))]
struct Indexed {
    ward: String,
    id: u32,
    bed: u32,
    #[entity(encrypt)]
    name: String,
}

// Another partition, or nothing encrypted.
#[derive(Entity)]
#[entity(store, partition = "ward_{ward}", row = "encryption_key_{id}")]
struct Elsewhere {
    ward: String,
    id: u32,
    #[entity(encrypt)]
    name: String,
}

#[derive(Entity)]
#[entity(store, partition = "{ward}", row = "encryption_key_{id}")]
struct Plain {
    ward: String,
    id: u32,
    name: String,
}

fn main() {}
