use rowkey::{Entity, EntitySet};

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}")]
struct Employee {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}", version = 2)]
struct EmployeeV2 {
    department: String,
    id: u32,
}

impl From<EmployeeV2> for Employee {
    fn from(EmployeeV2 { department, id }: EmployeeV2) -> Self {
        Self { department, id }
    }
}

#[derive(EntitySet)]
enum Record {
    #[entity_set(older(EmployeeV2))]
    Employee(Employee),
}

fn main() {}
