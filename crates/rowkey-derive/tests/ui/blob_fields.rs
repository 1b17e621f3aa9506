use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_invoice, row = "invoice_{invoice}"))]
struct Indexed {
    tenant: String,
    id: u32,
    #[entity(blob)]
    invoice: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(unique(name = by_invoice, value = "{invoice}"))]
struct Unique {
    tenant: String,
    id: u32,
    #[entity(blob)]
    invoice: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(list(name = by_line, value = "{lines}", max = 8))]
struct Listed {
    tenant: String,
    id: u32,
    #[entity(json, blob)]
    lines: Vec<String>,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_courier, row = "courier_{courier}", copy(invoice)))]
struct Copied {
    tenant: String,
    id: u32,
    courier: String,
    #[entity(blob)]
    invoice: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct Key {
    #[entity(blob)]
    tenant: String,
    id: u32,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct Defaulted {
    tenant: String,
    id: u32,
    #[entity(blob, default)]
    card: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
struct Met {
    tenant: String,
    id: u32,
    #[entity(blob)]
    invoice: String,
    #[entity(rename = "invoice_Blob")]
    other: String,
}

#[derive(Entity)]
#[entity(partition = "{tenant}", row = "order_{id:4}")]
struct WithoutAStore {
    tenant: String,
    id: u32,
    #[entity(blob)]
    invoice: Vec<u8>,
}

fn main() {}
