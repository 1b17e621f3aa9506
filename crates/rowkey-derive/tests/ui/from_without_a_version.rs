use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{ward}", row = "id_{id}")]
struct PatientV1 {
    ward: String,
    id: u32,
}

#[derive(Entity)]
#[entity(store, partition = "{ward}", row = "id_{id}", from = PatientV1)]
struct Patient {
    ward: String,
    id: u32,
}

fn main() {}
