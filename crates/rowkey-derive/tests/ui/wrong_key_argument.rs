use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "id_{id}")]
struct Employee {
    department: String,
    id: u32,
}

fn main() {
    let _ = Employee::key("sales", "7");
}
