use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "all", row = "{id}", rename_all = "pascalCase")]
struct Employee {
    department: String,
    id: u32,
}

fn main() {}
