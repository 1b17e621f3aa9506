use chrono::{DateTime, Utc};
use rowkey::{Entity, Projection};

#[derive(Entity)]
#[entity(partition = "{tenant}", row = "session_{id:4}")]
struct WithoutAStore {
    tenant: String,
    id: u32,
    #[entity(expiry)]
    until: DateTime<Utc>,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "session_{id:4}")]
struct Two {
    tenant: String,
    id: u32,
    #[entity(expiry)]
    until: DateTime<Utc>,
    #[entity(expiry)]
    also_until: DateTime<Utc>,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "session_{until}")]
struct InAKey {
    tenant: String,
    #[entity(expiry)]
    until: DateTime<Utc>,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "session_{id:4}")]
struct Encrypted {
    tenant: String,
    id: u32,
    #[entity(expiry, encrypt)]
    until: DateTime<Utc>,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "session_{id:4}")]
struct AsText {
    tenant: String,
    id: u32,
    #[entity(expiry, as = "String")]
    until: DateTime<Utc>,
}

#[derive(Entity)]
#[entity(store, wide = 4, partition = "{tenant}", row = "session_{id:4}")]
struct Wide {
    tenant: String,
    id: u32,
    #[entity(expiry)]
    until: DateTime<Utc>,
}

#[derive(Entity)]
#[entity(store, compat = "azure_data_tables-0.21", partition = "{tenant}", row = "session_{id:4}")]
struct OfAnotherLibrary {
    tenant: String,
    id: u32,
    #[entity(expiry)]
    until: DateTime<Utc>,
}

#[derive(Projection)]
struct Part {
    #[entity(expiry)]
    until: DateTime<Utc>,
}

fn main() {}
