use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id}")]
struct Employee {
    department: String,
    id: u32,
    #[entity(partition_key)]
    partition: String,
}

fn main() {}
