use rowkey::{Entity, Projection};

#[derive(Entity)]
#[entity(partition = "all", row = "one")]
struct Pair(u32, u32);

#[derive(Projection)]
enum Either {
    Left,
    Right,
}

fn main() {}
