use rowkey::{Entity, EntitySet};

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}", kind = "employee")]
struct Employee {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "{year}")]
struct Review {
    department: String,
    year: u16,
}

#[derive(EntitySet)]
enum Record {
    Employee(Employee),
    Review(Review),
}

fn main() {}
