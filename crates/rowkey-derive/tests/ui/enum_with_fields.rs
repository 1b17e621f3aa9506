use rowkey::{KeyPart, Property};

#[derive(Property)]
enum Level {
    Junior,
    Senior(u32),
}

#[derive(KeyPart)]
struct Pair(u32, u32);

fn main() {}
