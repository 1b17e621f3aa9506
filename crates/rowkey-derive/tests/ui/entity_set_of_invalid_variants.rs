use rowkey::{DynamicEntity, Entity, EntitySet};

#[derive(EntitySet)]
struct Record {
    entity: DynamicEntity,
}

#[derive(EntitySet)]
enum Pairs {
    Pair(DynamicEntity, DynamicEntity),
    Named { entity: DynamicEntity },
    Nothing,
}

#[derive(EntitySet)]
enum Unknown {
    #[entity_set(unknown)]
    Unknown(DynamicEntity),
}

#[derive(EntitySet)]
enum Generic<T> {
    Entity(T),
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}")]
struct Employee {
    department: String,
    id: u32,
}

struct Note {
    text: String,
}

#[derive(EntitySet)]
enum Mixed {
    Employee(Employee),
    Note(Note),
}

fn main() {}
