//! Tests of entities in serde formats and as OData: each one round-trips, and messages show no
//! values.

use rowkey_wire::edm::{DateTime, Guid, Value};
use rowkey_wire::etag::ETag;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Stored;
use super::properties::Properties;
use super::receipt::Receipt;
use crate::DynamicEntity;
use crate::key::tests::Random;

fn date() -> DateTime {
    "2017-11-10T02:44:50.3846037Z".parse().unwrap()
}

fn stored<E>(entity: E) -> Stored<E> {
    let receipt = Receipt::default();
    Stored { entity, etag: ETag::from_timestamp(date()), timestamp: date(), receipt }
}

#[test]
fn an_entity_is_one_object_of_its_keys_and_properties() {
    let mut ada = DynamicEntity::new("sales", "id_000007");
    ada.set("Age", 36);
    ada.set("Salary", 5_i64);
    let text =
        r#"{"PartitionKey":"sales","RowKey":"id_000007","Age":36,"Salary":{"Edm.Int64":"5"}}"#;
    assert_eq!(serde_json::to_string(&ada).unwrap(), text);
    assert_eq!(serde_json::from_str::<DynamicEntity>(text).unwrap(), ada);
    assert_eq!(json!(ada.properties), json!({"Age": 36, "Salary": {"Edm.Int64": "5"}}));
    assert_eq!(
        json!(stored(ada)),
        json!({
            "entity": {
                "PartitionKey": "sales",
                "RowKey": "id_000007",
                "Age": 36,
                "Salary": {"Edm.Int64": "5"},
            },
            "etag": "W/\"datetime'2017-11-10T02%3A44%3A50.3846037Z'\"",
            "timestamp": "2017-11-10T02:44:50.3846037Z",
        })
    );
}

#[test]
fn a_null_is_an_absent_property_and_the_order_of_members_is_free() {
    let read: DynamicEntity =
        serde_json::from_str(r#"{"Age":36,"Email":null,"RowKey":"r","PartitionKey":"p"}"#).unwrap();
    let mut expected = DynamicEntity::new("p", "r");
    expected.set("Age", 36);
    assert_eq!(read, expected);
    let read: Properties = serde_json::from_str(r#"{"Email":null}"#).unwrap();
    assert!(read.is_empty());
    let stored: Stored<u8> = serde_json::from_value(json!({
        "timestamp": date(), "more": ["x"], "etag": "tag", "entity": 1,
    }))
    .unwrap();
    let receipt = Receipt::default();
    assert_eq!(stored, Stored { entity: 1, etag: ETag::new("tag"), timestamp: date(), receipt });
}

fn refused<T: DeserializeOwned + std::fmt::Debug>(json: &str) -> String {
    let error = serde_json::from_str::<T>(json).unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("secret") && !shown.contains("98765"), "{shown}");
    error.to_string()
}

#[test]
fn messages_name_the_property_and_show_no_value() {
    for (json, message) in [
        ("\"secret\"", "expected an object with a PartitionKey, a RowKey and properties"),
        ("987654321", "expected an object with a PartitionKey, a RowKey and properties"),
        ("[\"secret\"]", "expected an object with a PartitionKey, a RowKey and properties"),
        (r#"{"PartitionKey":"secret"}"#, "RowKey: it is absent"),
        (r#"{"RowKey":"secret"}"#, "PartitionKey: it is absent"),
        (r#"{"RowKey":987654321}"#, "RowKey: expected text"),
        (r#"{"RowKey":"secret","RowKey":"secret"}"#, "property `RowKey`: it is there twice"),
        (r#"{"Age":1,"Age":987654321}"#, "property `Age`: it is there twice"),
        (
            r#"{"Age":98765.5}"#,
            "property `Age`: expected text, true, false, an Int32, or an object",
        ),
        (r#"{"Age":{"Edm.Int64":"secret"}}"#, "property `Age`: expected a valid Edm.Int64"),
        (r#"{"Age":{"secret":1}}"#, "property `Age`: expected text, true"),
    ] {
        let shown = refused::<DynamicEntity>(json);
        assert!(shown.starts_with(message), "{json}: {shown}");
    }
    assert!(refused::<Properties>("\"secret\"").starts_with("expected an object of properties"));
    for (json, message) in [
        ("\"secret\"", "expected an object with an entity, an etag and a timestamp"),
        (r#"{"entity":{},"etag":987654321}"#, "expected the text of an ETag"),
        (r#"{"entity":{},"timestamp":"secret"}"#, "expected a date and time from 1601 to 9999"),
        (r#"{"entity":{},"etag":"secret"}"#, "timestamp: it is absent"),
        (r#"{"etag":"a","etag":"secret"}"#, "etag: it is there twice"),
    ] {
        let shown = refused::<Stored<Properties>>(json);
        assert!(shown.starts_with(message), "{json}: {shown}");
    }
    let mut entity = DynamicEntity::new("p", "r");
    entity.set("RowKey", "secret");
    let error = serde_json::to_string(&entity).unwrap_err().to_string();
    assert_eq!(error, "property `RowKey`: it has the name of a key; give it another one");
}

impl Random {
    fn symbols(&mut self) -> String {
        let letters = ['a', '"', '\\', '\u{0}', '\n', 'é', '5', '\u{1F600}', '\u{FEFF}', '\''];
        let length = self.below(7);
        let letter = |_| letters[usize::try_from(self.below(10)).unwrap()];
        (0..length).map(letter).collect()
    }

    fn value(&mut self) -> Value {
        match self.below(8) {
            0 => self.symbols().into_bytes().into(),
            1 => (self.next() & 1 == 0).into(),
            2 => {
                let span = (DateTime::MAX.ticks() - DateTime::MIN.ticks() + 1).unsigned_abs();
                let ticks = DateTime::MIN.ticks() + i64::try_from(self.below(span)).unwrap();
                DateTime::from_ticks(ticks).unwrap().into()
            }
            // NaN is not equal to itself; other tests cover it.
            3 => Some(f64::from_bits(self.next())).filter(|n| !n.is_nan()).unwrap_or(-0.0).into(),
            4 => Guid::from_u64_pair(self.next(), self.next()).into(),
            5 => i32::from_le_bytes(self.next().to_le_bytes()[..4].try_into().unwrap()).into(),
            6 => i64::from_le_bytes(self.next().to_le_bytes()).into(),
            _ => self.symbols().into(),
        }
    }

    fn entity(&mut self) -> DynamicEntity {
        let mut entity = DynamicEntity::new(self.symbols(), self.symbols());
        for _ in 0..self.below(9) {
            let name = format!("P{}", self.symbols());
            let value = self.value();
            entity.set(name, value);
        }
        entity
    }
}

/// Whether both have the same properties in the same order, with the same bits.
fn is_same(one: &DynamicEntity, other: &DynamicEntity) -> bool {
    let bits = |value: &Value| match value {
        Value::Double(number) => Some(number.to_bits()),
        _ => None,
    };
    one == other
        && one.iter().zip(other.iter()).all(|((name, value), (name_2, value_2))| {
            name == name_2 && bits(value) == bits(value_2)
        })
}

#[test]
fn every_entity_comes_back_as_itself() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..3_000 {
        let entity = stored(random.entity());
        let text = serde_json::to_string(&entity).unwrap();
        let tree = serde_json::to_value(&entity).unwrap();
        let bytes = postcard::to_stdvec(&entity).unwrap();
        let odata = entity.to_odata_json().unwrap();
        let read: [Stored<DynamicEntity>; 4] = [
            serde_json::from_str(&text).unwrap(),
            Stored::from_odata_json(&odata).unwrap(),
            postcard::from_bytes(&bytes).unwrap(),
            serde_json::from_value(tree).unwrap(),
        ];
        for back in &read[..3] {
            assert!(is_same(&back.entity, &entity.entity), "{text} {odata}");
        }
        // An object of serde_json sorts its names alphabetically.
        for back in read {
            assert_eq!(back, entity);
        }
        let entity = entity.entity;
        let json = entity.to_odata_json().unwrap();
        assert!(is_same(&DynamicEntity::from_odata_json(&json).unwrap(), &entity), "{json}");
        let bytes = postcard::to_stdvec(&entity.properties).unwrap();
        assert_eq!(postcard::from_bytes::<Properties>(&bytes).unwrap(), entity.properties);
    }
}

#[test]
fn a_struct_of_dates_and_guids_derives_its_json() {
    #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
    struct Sale {
        at: DateTime,
        customer: Guid,
        paid: Option<DateTime>,
        #[serde(with = "rowkey_wire::edm::base64")]
        receipt: Vec<u8>,
        #[serde(flatten)]
        others: Properties,
    }

    let mut others = Properties::new();
    others.set("Floor", 3);
    others.set("Total", 5.0);
    let sale = stored(Sale {
        at: DateTime::MAX,
        customer: "C9DA6455-213D-42C9-9A79-3E9149A57833".parse().unwrap(),
        paid: None,
        receipt: b"binary".to_vec(),
        others,
    });
    let json = json!({
        "entity": {
            "at": "9999-12-31T23:59:59.9999999Z",
            "customer": "c9da6455-213d-42c9-9a79-3e9149a57833",
            "paid": null,
            "receipt": "YmluYXJ5",
            "Floor": 3,
            "Total": {"Edm.Double": "5.0"},
        },
        "etag": sale.etag.as_str(),
        "timestamp": "2017-11-10T02:44:50.3846037Z",
    });
    assert_eq!(json!(sale), json);
    assert_eq!(serde_json::from_value::<Stored<Sale>>(json.clone()).unwrap(), sale);
    assert_eq!(serde_json::from_str::<Stored<Sale>>(&json.to_string()).unwrap(), sale);
}
