use rowkey::{DynamicEntity, Entity, EntitySet};

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}")]
struct Employee {
    department: String,
    id: u32,
}

#[derive(EntitySet)]
enum Record {
    Employee(Employee),
    #[entity_set(unknown)]
    Other(DynamicEntity),
    #[entity_set(unknown)]
    Unknown(DynamicEntity),
}

fn main() {}
