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

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}", kind = "visitor", discriminator = "Kind")]
struct Visitor {
    department: String,
    id: u32,
}

#[derive(EntitySet)]
#[entity_set(discriminator = "RowKey")]
enum OwnDiscriminator {
    Visitor(Visitor),
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}", discriminator = "Kind")]
struct WithoutAKind {
    department: String,
    id: u32,
}

fn main() {}
