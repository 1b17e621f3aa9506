use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id:hex}")]
struct Employee {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id:unpaded}")]
struct Misspelled {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id:x8,desc}")]
struct Descending {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "{department}", row = "{id:6,unordered}")]
struct Ordered {
    department: String,
    id: u32,
}

fn main() {}
