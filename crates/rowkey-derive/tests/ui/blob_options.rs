use rowkey::{BlobRef, Entity};

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct WithoutABlob {
    tenant: String,
    id: u32,
    #[entity(threshold = 1000)]
    text: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct CompressedProperty {
    tenant: String,
    id: u32,
    #[entity(compress)]
    text: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct TooLarge {
    tenant: String,
    id: u32,
    #[entity(blob, threshold = 65537)]
    text: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct Encrypted {
    tenant: String,
    id: u32,
    #[entity(blob, encrypt, threshold = 1000)]
    text: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct EncryptedAndCompressed {
    tenant: String,
    id: u32,
    #[entity(blob, encrypt, compress)]
    text: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct CompressedReference {
    tenant: String,
    id: u32,
    #[entity(blob, compress)]
    scan: BlobRef,
}

fn main() {}
