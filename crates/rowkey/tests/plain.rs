//! Tests of entities whose keys are plain fields, and of entities as the JSON of an API.

use rowkey::KeyPart;
use rowkey::edm::{DateTime, Guid};
use rowkey::key::{KeyReadError, KeyWriter, PartFormat};
use rowkey::{DynamicEntity, Entity, Key, Properties, Receipt, Stored};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Entity)]
#[entity(partition = "{partition_key}", row = "{row_key}", ignore_serde)]
struct Plain {
    #[serde(rename = "PartitionKey")]
    partition_key: String,
    #[serde(rename = "RowKey")]
    row_key: String,
    count: i64,
}

fn row(row_key: &str) -> DynamicEntity {
    let mut row = DynamicEntity::new("p", row_key);
    row.set("count", 1_i64);
    row
}

/// All keys of two characters between letters that a table allows.
fn keys() -> Vec<String> {
    let characters: Vec<char> = (' '..='~').chain(['é', '日', '\u{1F600}']).collect();
    let pairs = characters.iter().flat_map(|a| characters.iter().map(move |b| format!("x{a}{b}y")));
    pairs.filter(|key| Key::<Plain>::new("p", &**key).parts().is_ok()).collect()
}

#[test]
fn a_plain_key_field_holds_the_stored_text() {
    let plain = Plain { partition_key: "sales".into(), row_key: "ann b_1".into(), count: 1 };
    assert_eq!(Plain::key("sales", "ann b_1").parts(), Ok(("sales", "ann b_1")));
    let stored = DynamicEntity::of(&plain).unwrap();
    assert_eq!((&*stored.partition_key, &*stored.row_key), ("sales", "ann b_1"));
    assert_eq!(stored.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["count"]);
    assert_eq!(stored.read_as::<Plain>().unwrap(), plain);

    let mut escaped = 0;
    for key in keys() {
        let Ok(plain) = row(&key).read_as::<Plain>() else {
            escaped += 1;
            continue;
        };
        // It must never be another row.
        assert_eq!(DynamicEntity::of(&plain).unwrap(), row(&key));
    }
    // `"`, `.`, `>` and `[` before `}` and before non-ASCII characters.
    assert_eq!(escaped, 4 * 4);
}

/// Text that is written to a key unchanged.
#[derive(Clone, Debug, PartialEq)]
struct Verbatim(String);

impl KeyPart for Verbatim {
    fn write(&self, out: &mut KeyWriter) {
        out.literal(&self.0);
    }

    fn read(text: &str, _: PartFormat) -> Result<Self, KeyReadError> {
        Ok(Self(text.to_owned()))
    }
}

#[derive(Debug, PartialEq, Entity)]
#[entity(partition = "{shop}", row = "{id}")]
struct AsItIs {
    shop: String,
    id: Verbatim,
    count: i64,
}

#[test]
fn a_part_that_writes_no_escapes_reads_every_key() {
    for key in keys() {
        let read: AsItIs = row(&key).read_as().unwrap();
        assert_eq!(read.id.0, key);
        assert_eq!(DynamicEntity::of(&read).unwrap(), row(&key));
    }
    let read = AsItIs { shop: "p".into(), id: Verbatim("a/b".into()), count: 1 };
    assert!(Key::of(&read).parts().is_err());
}

#[test]
fn plain_keys_are_members_of_the_json() {
    let plain = Plain { partition_key: "sales".into(), row_key: "7".into(), count: 1 };
    let json = json!({"PartitionKey": "sales", "RowKey": "7", "count": 1});
    assert_eq!(json!(plain), json);
    assert_eq!(serde_json::from_value::<Plain>(json).unwrap(), plain);
}

#[test]
fn an_entity_round_trips_through_the_json_of_an_api() {
    #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Entity)]
    #[entity(partition = "{shop}", row = "{number:8}", ignore_serde)]
    struct Sale {
        shop: String,
        number: u32,
        at: DateTime,
        customer: Guid,
        #[serde(with = "rowkey::edm::base64")]
        receipt: Vec<u8>,
        #[entity(rest)]
        #[serde(flatten)]
        others: Properties,
    }

    let mut row = DynamicEntity::new("north", "00000007");
    row.set("at", "2026-11-20T09:00:00.1234567Z".parse::<DateTime>().unwrap());
    row.set("customer", "C9DA6455-213D-42C9-9A79-3E9149A57833".parse::<Guid>().unwrap());
    row.set("receipt", b"binary".as_slice());
    row.set("Floor", 3);
    row.set("Total", f64::INFINITY);
    let sale: Sale = row.read_as().unwrap();
    let json = json!(sale);
    assert_eq!(
        json,
        json!({
            "shop": "north",
            "number": 7,
            "at": "2026-11-20T09:00:00.1234567Z",
            "customer": "c9da6455-213d-42c9-9a79-3e9149a57833",
            "receipt": "YmluYXJ5",
            "Floor": 3,
            "Total": {"Edm.Double": "Infinity"},
        })
    );
    let back: Sale = serde_json::from_value(json).unwrap();
    assert_eq!(back, sale);
    assert_eq!(DynamicEntity::of(&back).unwrap(), row);

    // The same entity as returned by the service.
    let timestamp: DateTime = "2026-11-20T10:00:00Z".parse().unwrap();
    let etag = rowkey::ETag::from_timestamp(timestamp);
    let receipt = Receipt::default();
    let stored = Stored { entity: DynamicEntity::of(&sale).unwrap(), etag, timestamp, receipt };
    let odata = stored.to_odata_json().unwrap();
    let read = Stored::<DynamicEntity>::from_odata_json(&odata).unwrap();
    assert_eq!(read, stored);
    assert_eq!(read.entity.read_as::<Sale>().unwrap(), sale);
}
