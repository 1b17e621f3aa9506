use rowkey::{BlobRef, Entity, Flatten};

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct WithoutTheAttribute {
    tenant: String,
    id: u32,
    scan: BlobRef,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct Encrypted {
    tenant: String,
    id: u32,
    #[entity(blob, encrypt)]
    scan: Option<BlobRef>,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct Defaulted {
    tenant: String,
    id: u32,
    #[entity(blob, default)]
    scan: BlobRef,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_scan, row = "scan_{scan}"))]
struct Indexed {
    tenant: String,
    id: u32,
    #[entity(blob)]
    scan: BlobRef,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(list(name = by_scan, value = "{scan}"))]
struct Listed {
    tenant: String,
    id: u32,
    #[entity(blob)]
    scan: BlobRef,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct Met {
    tenant: String,
    id: u32,
    #[entity(blob)]
    scan: BlobRef,
    #[entity(rename = "scan_Length")]
    other: i64,
}

#[derive(Entity)]
#[entity(partition = "{tenant}", row = "order_{id:4}")]
struct WithoutAStore {
    tenant: String,
    id: u32,
    #[entity(blob)]
    scan: BlobRef,
}

#[derive(Flatten)]
struct Flattened {
    #[entity(blob)]
    scan: BlobRef,
}

fn main() {}
