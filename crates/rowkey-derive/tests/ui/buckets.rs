use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{day}", row = "{device:bucket(8)}_{at}")]
struct InARowKey {
    day: u32,
    device: String,
    at: u32,
}

#[derive(Entity)]
#[entity(partition = "{device:bucket(1)}", row = "{at}")]
struct OfOne {
    device: String,
    at: u32,
}

#[derive(Entity)]
#[entity(partition = "{device:bucket(8)}", row = "{at}")]
struct OfWhatMayBeAbsent {
    device: Option<String>,
    at: u32,
}

#[derive(Entity)]
#[entity(store, partition = "all", row = "item_{at}")]
#[entity(unique(name = by_device, value = "{device:bucket(8)}"))]
struct OfAUniqueValue {
    device: String,
    at: u32,
}

fn main() {}
