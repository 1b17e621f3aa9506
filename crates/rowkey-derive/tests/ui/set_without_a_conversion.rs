use rowkey::{Entity, EntitySet};

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}")]
struct EmployeeV1 {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}", version = 2)]
struct Employee {
    department: String,
    id: u32,
}

#[derive(EntitySet)]
enum Record {
    #[entity_set(older(EmployeeV1))]
    Employee(Employee),
}

fn main() {}
