use rowkey::{Entity, Projection, Property};

#[derive(Entity)]
#[entity(partition = "all", row = "{id}")]
struct Employee<'a> {
    id: u32,
    name: &'a str,
}

#[derive(Projection)]
struct Slim<'a> {
    name: &'a str,
}

#[derive(Property)]
struct Id<'a>(&'a str);

fn main() {}
