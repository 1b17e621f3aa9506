use rowkey::{DynamicEntity, Entity, EntitySet};

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}", version = 2)]
struct Employee {
    department: String,
    id: u32,
}

#[derive(EntitySet)]
enum Misspelt {
    Employee(Employee),
    #[entity_set(unknwon)]
    Unknown(DynamicEntity),
}

#[derive(EntitySet)]
enum OlderOfUnknown {
    Employee(Employee),
    #[entity_set(unknown, older(Employee))]
    Unknown(DynamicEntity),
}

#[derive(EntitySet)]
enum OlderOfNothing {
    #[entity_set(older())]
    Employee(Employee),
}

#[derive(EntitySet)]
enum OnTheField {
    Employee(#[entity_set(older(Employee))] Employee),
}

fn main() {}
