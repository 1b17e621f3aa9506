use chrono::{DateTime, Utc};
use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{from}_{to:date}", row = "{from:date}_{to}")]
struct Stay {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
}

fn main() {}
