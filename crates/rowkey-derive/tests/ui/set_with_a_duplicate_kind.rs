use rowkey::{Entity, EntitySet};

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}", kind = "employee")]
struct Employee {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "{name}", kind = "employee")]
struct Person {
    department: String,
    name: String,
}

#[derive(EntitySet)]
enum Record {
    Employee(Employee),
    Person(Person),
}

fn main() {}
