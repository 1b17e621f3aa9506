use rowkey::{Entity, EntitySet};

#[derive(Entity)]
#[entity(store, partition = "{department}", row = "id_{id}")]
struct Employee {
    department: String,
    id: u32,
    #[entity(encrypt)]
    iban: String,
}

#[derive(EntitySet)]
enum Record {
    Employee(Employee),
}

fn main() {}
