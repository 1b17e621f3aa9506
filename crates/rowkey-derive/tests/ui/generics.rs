use rowkey::{Entity, Projection, Property};

#[derive(Entity)]
#[entity(partition = "all", row = "{id}")]
struct Employee<'a> {
    id: u32,
    name: &'a str,
}

#[derive(Projection)]
struct Slim<T> {
    name: T,
}

#[derive(Property)]
struct Id<T>(T);

fn main() {}
