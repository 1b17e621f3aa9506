use rowkey::{Entity, KeyPart, Projection, Property};
use serde::{Deserialize, Serialize};

#[derive(Entity, Serialize, Deserialize)]
#[entity(partition = "{department}", row = "id_{id}")]
#[serde(rename_all = "camelCase")]
struct Employee {
    department: String,
    id: u32,
    #[serde(rename = "Mail", default)]
    email: String,
    #[serde(skip)]
    cached: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

#[derive(Projection, Serialize)]
struct Contact {
    #[serde(rename = "Mail")]
    email: String,
}

#[derive(Property, KeyPart, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[key_part(ignore_serde)]
enum Grade {
    Good,
    #[serde(rename = "best")]
    Great,
}

/// Said once, it is no error: serde's attributes are for an API.
#[derive(Entity, Serialize, Deserialize)]
#[entity(partition = "{department}", row = "id_{id}", ignore_serde)]
#[serde(rename_all = "camelCase")]
struct Manager {
    department: String,
    id: u32,
    #[serde(rename = "Mail")]
    email: String,
}

fn main() {
    let _ = Employee::key("sales", 7);
    let _ = Manager::key("sales", 7);
}
