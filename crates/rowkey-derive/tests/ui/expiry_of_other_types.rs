use chrono::NaiveDate;
use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "session_{id:4}")]
struct OfText {
    tenant: String,
    id: u32,
    #[entity(expiry)]
    until: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "session_{id:4}")]
struct OfADate {
    tenant: String,
    id: u32,
    #[entity(expiry)]
    until: Option<NaiveDate>,
}

fn main() {}
