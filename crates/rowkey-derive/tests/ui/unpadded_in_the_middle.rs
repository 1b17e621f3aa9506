use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{a:unpadded}", row = "{b:unpadded}_{c}")]
struct Row {
    a: u32,
    b: u32,
    c: u32,
}

#[derive(Entity)]
#[entity(partition = "all", row = "id_{a}")]
#[entity(index(name = by_b, row = "b_{b:unpadded}", many))]
struct Indexed {
    a: u32,
    b: u32,
}

fn main() {}
