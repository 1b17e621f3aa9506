use rowkey::Entity;
use rowkey::index::{IndexKey, SamePartition};

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
#[entity(index(name = by_city, partition = "city_{city}", row = "{department}_{id:6}"))]
struct Employee {
    department: String,
    id: u32,
    city: String,
}

fn find(_: IndexKey<Employee, SamePartition>) {}

fn main() {
    find(Employee::by_city("Leeds", "sales", 7_u32));
}
