//! Tests of entities as the JSON of the service: with bodies that the live service sent, and that
//! messages show no values.

use rowkey_wire::edm::{DateTime, Guid, Value};

use super::Stored;
use crate::{DynamicEntity, EncodeError};

/// Bodies of recordings of azure-cosmosdb-table for Python, `test_table_entity`, without the
/// leading member `odata.metadata`, which belongs to the response.
const RECORDED: [(&str, &str); 6] = [
    (
        "test_get_entity",
        r#"{"odata.etag":"W/\"datetime'2017-11-10T02%3A44%3A46.1416145Z'\"","PartitionKey":"pke7730dad","RowKey":"rke7730dad","Timestamp":"2017-11-10T02:44:46.1416145Z","age@odata.type":"Edm.Int64","age":"39","sex":"male","married":true,"deceased":false,"evenratio":3.0,"ratio":3.1,"large@odata.type":"Edm.Int64","large":"933311100","Birthday@odata.type":"Edm.DateTime","Birthday":"1973-10-04T00:00:00Z","birthday@odata.type":"Edm.DateTime","birthday":"1970-10-04T00:00:00Z","binary@odata.type":"Edm.Binary","binary":"YmluYXJ5","other":20,"clsid@odata.type":"Edm.Guid","clsid":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#,
    ),
    (
        "test_get_entity_with_special_doubles",
        r#"{"odata.etag":"W/\"datetime'2017-11-10T02%3A46%3A53.636692Z'\"","PartitionKey":"pk65ff1655","RowKey":"rk65ff1655","Timestamp":"2017-11-10T02:46:53.636692Z","inf@odata.type":"Edm.Double","inf":"Infinity","negativeinf@odata.type":"Edm.Double","negativeinf":"-Infinity","nan@odata.type":"Edm.Double","nan":"NaN"}"#,
    ),
    (
        "test_unicode_property_name, an element of the page",
        r#"{"odata.etag":"W/\"datetime'2017-11-10T02%3A47%3A49.3911117Z'\"","PartitionKey":"pk9990123c","RowKey":"rk9990123c","Timestamp":"2017-11-10T02:47:49.3911117Z","\u554a\u9f44\u4e02\u72db\u72dc":"\ua015"}"#,
    ),
    (
        "test_binary_property_value",
        r#"{"odata.etag":"W/\"datetime'2017-11-10T02%3A44%3A38.5104164Z'\"","PartitionKey":"pk99fe1256","RowKey":"rk99fe1256","Timestamp":"2017-11-10T02:44:38.5104164Z","binary@odata.type":"Edm.Binary","binary":"AQIDBAUGBwgJCg=="}"#,
    ),
    (
        "test_empty_and_spaces_property_value, shortened",
        r#"{"odata.etag":"W/\"datetime'2017-11-10T02%3A44%3A44.8663911Z'\"","PartitionKey":"pk66111670","RowKey":"rk66111670","Timestamp":"2017-11-10T02:44:44.8663911Z","EmptyUnicode":"","SpacesOnlyUnicode":"   ","SpacesAfterUnicode":"Text   "}"#,
    ),
    (
        "test_none_property_value",
        r#"{"odata.etag":"W/\"datetime'2017-11-10T02%3A47%3A14.0728399Z'\"","PartitionKey":"pk76561181","RowKey":"rk76561181","Timestamp":"2017-11-10T02:47:14.0728399Z"}"#,
    ),
];

fn of(partition_key: &str, row_key: &str, properties: Vec<(&str, Value)>) -> DynamicEntity {
    let mut entity = DynamicEntity::new(partition_key, row_key);
    entity.properties.extend(properties);
    entity
}

/// The entity that the recorded test inserted, from the request of that recording.
fn inserted(partition_key: &str, row_key: &str) -> DynamicEntity {
    let date = |text: &str| text.parse::<DateTime>().unwrap().into();
    let guid: Guid = "c9da6455-213d-42c9-9a79-3e9149a57833".parse().unwrap();
    of(
        partition_key,
        row_key,
        vec![
            ("age", 39_i64.into()),
            ("sex", "male".into()),
            ("married", true.into()),
            ("deceased", false.into()),
            ("evenratio", 3.0.into()),
            ("ratio", 3.1.into()),
            ("large", 933_311_100_i64.into()),
            ("Birthday", date("1973-10-04T00:00:00Z")),
            ("birthday", date("1970-10-04T00:00:00Z")),
            ("binary", b"binary".as_slice().into()),
            ("other", 20.into()),
            ("clsid", guid.into()),
        ],
    )
}

#[test]
fn recorded_entities_are_written_as_the_service_wrote_them() {
    for (name, body) in RECORDED {
        let stored = Stored::<DynamicEntity>::from_odata_json(body).unwrap();
        assert_eq!(stored.to_odata_json().unwrap(), body, "{name}");
    }
}

#[test]
fn a_recorded_entity_has_the_types_that_were_inserted() {
    let stored = Stored::<DynamicEntity>::from_odata_json(RECORDED[0].1).unwrap();
    assert_eq!(stored.entity, inserted("pke7730dad", "rke7730dad"));
    assert_eq!(stored.etag.as_str(), "W/\"datetime'2017-11-10T02%3A44%3A46.1416145Z'\"");
    assert_eq!(stored.timestamp, "2017-11-10T02:44:46.1416145Z".parse().unwrap());
}

#[test]
fn full_metadata_says_the_same() {
    // test_get_entity_full_metadata, complete.
    let body = r#"{"odata.metadata":"https://storagename.table.core.windows.net/$metadata#uttabled1cb135f/@Element","odata.type":"storagename.uttabled1cb135f","odata.id":"https://storagename.table.core.windows.net/uttabled1cb135f(PartitionKey='pkd1cb135f',RowKey='rkd1cb135f')","odata.etag":"W/\"datetime'2017-11-10T02%3A44%3A47.6221962Z'\"","odata.editLink":"uttabled1cb135f(PartitionKey='pkd1cb135f',RowKey='rkd1cb135f')","PartitionKey":"pkd1cb135f","RowKey":"rkd1cb135f","Timestamp@odata.type":"Edm.DateTime","Timestamp":"2017-11-10T02:44:47.6221962Z","age@odata.type":"Edm.Int64","age":"39","sex":"male","married":true,"deceased":false,"evenratio":3.0,"ratio":3.1,"large@odata.type":"Edm.Int64","large":"933311100","Birthday@odata.type":"Edm.DateTime","Birthday":"1973-10-04T00:00:00Z","birthday@odata.type":"Edm.DateTime","birthday":"1970-10-04T00:00:00Z","binary@odata.type":"Edm.Binary","binary":"YmluYXJ5","other":20,"clsid@odata.type":"Edm.Guid","clsid":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#;
    let stored = Stored::<DynamicEntity>::from_odata_json(body).unwrap();
    assert_eq!(stored.entity, inserted("pkd1cb135f", "rkd1cb135f"));
    assert_eq!(stored.etag.as_str(), "W/\"datetime'2017-11-10T02%3A44%3A47.6221962Z'\"");
    assert_eq!(DynamicEntity::from_odata_json(body).unwrap(), stored.entity);
}

#[test]
fn without_metadata_what_json_does_not_tell_is_text_and_the_tag_is_that_of_the_header() {
    // test_get_entity_no_metadata, complete; the ETag is the header of the same response.
    let body = r#"{"PartitionKey":"pkab3d1289","RowKey":"rkab3d1289","Timestamp":"2017-11-10T02:44:50.3846037Z","age":"39","sex":"male","married":true,"deceased":false,"evenratio":3.0,"ratio":3.1,"large":"933311100","Birthday":"1973-10-04T00:00:00Z","birthday":"1970-10-04T00:00:00Z","binary":"YmluYXJ5","other":20,"clsid":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#;
    let stored = Stored::<DynamicEntity>::from_odata_json(body).unwrap();
    let mut expected = inserted("pkab3d1289", "rkab3d1289");
    for (name, text) in [
        ("age", "39"),
        ("large", "933311100"),
        ("Birthday", "1973-10-04T00:00:00Z"),
        ("birthday", "1970-10-04T00:00:00Z"),
        ("binary", "YmluYXJ5"),
        ("clsid", "c9da6455-213d-42c9-9a79-3e9149a57833"),
    ] {
        expected.set(name, text);
    }
    assert_eq!(stored.entity, expected);
    assert_eq!(stored.etag.as_str(), "W/\"datetime'2017-11-10T02%3A44%3A50.3846037Z'\"");
}

#[test]
fn requests_of_another_library_are_read() {
    // The insert of test_get_entity_full_metadata: annotations after the values, and a null.
    let body = r#"{"PartitionKey": "pkd1cb135f", "RowKey": "rkd1cb135f", "age": "39", "age@odata.type": "Edm.Int64", "sex": "male", "married": true, "deceased": false, "optional": null, "evenratio": 3.0, "ratio": 3.1, "large": "933311100", "large@odata.type": "Edm.Int64", "Birthday": "1973-10-04T00:00:00Z", "Birthday@odata.type": "Edm.DateTime", "birthday": "1970-10-04T00:00:00Z", "birthday@odata.type": "Edm.DateTime", "binary": "YmluYXJ5", "binary@odata.type": "Edm.Binary", "other": 20, "clsid": "c9da6455-213d-42c9-9a79-3e9149a57833", "clsid@odata.type": "Edm.Guid"}"#;
    let entity = DynamicEntity::from_odata_json(body.as_bytes()).unwrap();
    assert_eq!(entity, inserted("pkd1cb135f", "rkd1cb135f"));
    let error = Stored::<DynamicEntity>::from_odata_json(body).unwrap_err().to_string();
    assert_eq!(error, "the entity cannot be read: property `Timestamp`: it is absent");
}

#[test]
fn doubles_are_those_of_recorded_answers() {
    // Doubles as text in responses of the service: sdk-go TestAddAnnotatedEntity, and sdk-js
    // numbers in scientific notation.
    for (text, number) in [
        ("3.0", 3.0),
        ("8589934592.0", 8_589_934_592.0),
        ("1.23456789012346E+24", 1.234_567_890_123_46e24),
        ("1.7976931348623157E+308", f64::MAX),
        ("-0.0", -0.0),
    ] {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"r","x":{text}}}"#);
        let entity = DynamicEntity::from_odata_json(&body).unwrap();
        let read: f64 = entity.get_as("x").unwrap();
        assert_eq!(read.to_bits(), number.to_bits());
        assert_eq!(entity.to_odata_json().unwrap(), body);
    }
    // .NET writes the smallest Double with more digits than necessary.
    let body = r#"{"PartitionKey":"p","RowKey":"r","x":4.94065645841247E-324}"#;
    assert_eq!(DynamicEntity::from_odata_json(body).unwrap().get("x"), Some(&5e-324.into()));
}

#[test]
fn a_whole_number_without_a_type_is_an_int32_or_exactly_a_double() {
    let read = |number: &str| {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"r","x":{number}}}"#);
        DynamicEntity::from_odata_json(&body).map(|entity| entity.get("x").cloned().unwrap())
    };
    assert_eq!(read("2147483647"), Ok(i32::MAX.into()));
    assert_eq!(read("2147483648"), Ok(2_147_483_648.0.into()));
    assert_eq!(read("9007199254740992"), Ok(9_007_199_254_740_992.0.into()));
    let error = read("9007199254740993").unwrap_err().to_string();
    assert!(error.contains("property `x`: it is a whole number that no Edm.Double"), "{error}");
    assert!(!error.contains("9007199254740993"), "{error}");
}

#[test]
fn what_is_no_entity_is_refused_without_being_shown() {
    for (body, reason) in [
        ("", "JSON: it is cut off"),
        (r#"{"PartitionKey":"secret"#, "JSON: it is cut off"),
        ("secret", "JSON: it is not one object of properties (line 1, column 1)"),
        (r#"["secret"]"#, "JSON: it is not one object of properties (line 1, column 1)"),
        (r#"{"PartitionKey":"p"} secret"#, "JSON: it is not one object"),
        (r#"{"PartitionKey":"secret"}"#, "property `RowKey`: it is absent"),
        (r#"{"RowKey":"secret"}"#, "property `PartitionKey`: it is absent"),
        (r#"{"PartitionKey":"p","RowKey":98765}"#, "property `RowKey`: a key is text"),
        (r#"{"RowKey":"r","PartitionKey":null}"#, "property `PartitionKey`: a key is text"),
        (r#"{"a":"secret","a":"secret"}"#, "property `a`: it is there twice"),
        (r#"{"a":["secret"]}"#, "property `a`: an object or a list cannot be a property"),
        (
            r#"{"a":"secret","a@odata.type":"Edm.Guid"}"#,
            "property `a`: the value is not a valid Edm.Guid",
        ),
        (
            r#"{"a":"secret","a@odata.type":"Edm.Secret"}"#,
            "property `a`: the type annotation names",
        ),
    ] {
        let error = DynamicEntity::from_odata_json(body).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(reason), "{body}: {shown}");
        assert!(!shown.contains("secret") && !shown.contains("98765"), "{shown}");
    }
    let mut entity = inserted("p", "r");
    for name in ["PartitionKey", "RowKey", "Timestamp", "odata.etag", "age@odata.type"] {
        entity.set(name, "secret");
        let error = entity.to_odata_json().unwrap_err();
        assert_eq!(error, EncodeError::ReservedName { name: name.to_owned() });
        assert!(error.to_string().contains(name) && !error.to_string().contains("secret"));
        entity.remove(name);
    }
}

#[test]
fn damaged_bodies_are_errors_or_other_entities_and_never_a_panic() {
    let body = RECORDED[0].1.as_bytes();
    for end in 0..body.len() {
        assert!(DynamicEntity::from_odata_json(&body[..end]).is_err(), "{end}");
    }
    let mut refused = 0;
    for at in 0..body.len() {
        for byte in [0, b'"', b'\\', b'{', b',', b'-', b'9', b'e', 0xFF] {
            let mut damaged = body.to_vec();
            damaged[at] = byte;
            match Stored::<DynamicEntity>::from_odata_json(&damaged) {
                // An entity that is read is written back the same.
                Ok(stored) => {
                    let json = stored.to_odata_json().unwrap();
                    let back = Stored::<DynamicEntity>::from_odata_json(&json).unwrap();
                    assert_eq!(back, stored);
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}
