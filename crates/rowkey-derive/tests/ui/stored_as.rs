use rowkey::{Entity, Projection};

#[derive(Entity)]
#[entity(partition = "all", row = "{id}")]
struct Unknown {
    id: u32,
    #[entity(as = "Int16")]
    count: i64,
}

#[derive(Entity)]
#[entity(partition = "all", row = "{id}", compat = "ruby")]
struct Library {
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "all", row = "{id}")]
struct Key {
    #[entity(as = "Int32")]
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "all", row = "{id}")]
struct Json {
    id: u32,
    #[entity(json, as = "Int32")]
    count: Vec<i64>,
    #[entity(skip, exact)]
    skipped: i64,
}

#[derive(Entity)]
#[entity(store, partition = "all", row = "{id}")]
struct Sealed {
    id: u32,
    #[entity(encrypt, as = "String")]
    name: String,
    #[entity(blob, as = "String")]
    text: String,
}

#[derive(Projection)]
struct Some {
    #[entity(exact)]
    count: i64,
}

fn main() {}
