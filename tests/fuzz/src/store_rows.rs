//! Rows and messages of a store: op rows, voids, claims, heads of wide entities and of fields in blobs. What
//! is read is written and read again as the same.

use rowkey::DynamicEntity;
use rowkey::store::reread;

/// The properties of a row, in the order in which an input gives them.
const PROPERTIES: [&str; 13] = [
    "RowFormat",
    "Created",
    "Void",
    "Targets",
    "Targets2",
    "Claims",
    "TraceParent",
    "OwnerPartition",
    "OwnerRow",
    "OpRow",
    "Image_Blob",
    "EntityRows",
    "PrimaryRowKey",
];

/// The input as the text of a message, and as the values of a row.
pub fn all(input: &[u8]) {
    let _ = reads(input);
}

/// Whether the input is a message or a row of a store; each is read as itself.
pub fn reads(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let message = reread::message(&text);
    if let Some(written) = &message {
        assert_eq!(reread::message(written).as_ref(), Some(written), "it is not read as itself");
    }
    let row = row(&text);
    let rows = reread::row(&row);
    for written in &rows {
        assert!(reread::row(written).contains(written), "it is not read as itself");
    }
    let (head, further) = reread::wide(&row);
    assert!(head.is_none_or(|rows| (2..=100).contains(&rows)), "no entity has {head:?} rows");
    message.is_some() || !rows.is_empty() || head.is_some() || further.is_some()
}

/// The first line is the RowKey, the others are properties: `#` stands before an Int32, `@` before a
/// DateTime in ticks, `!` before a Boolean.
fn row(text: &str) -> DynamicEntity {
    let mut lines = text.split('\n');
    let mut row = DynamicEntity::new("leeds", lines.next().unwrap_or_default());
    for (name, value) in PROPERTIES.into_iter().zip(lines).filter(|(_, value)| !value.is_empty()) {
        let (kind, rest) = value.split_at_checked(1).unwrap_or((value, ""));
        let number = rest.parse::<i64>().ok();
        match (kind, number) {
            ("#", Some(number)) => drop(row.set(name, i32::try_from(number).unwrap_or(-1))),
            ("@", Some(ticks)) => match rowkey::edm::DateTime::from_ticks(ticks) {
                Ok(time) => drop(row.set(name, time)),
                Err(_) => drop(row.set(name, value)),
            },
            ("!", _) => drop(row.set(name, rest == "true")),
            _ => drop(row.set(name, value)),
        }
    }
    row
}

/// Messages and rows as they are written.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"v":2,"op":["leeds","op_0638990208000000000_00000000000000ff"]}"#,
        r#"{"v":2,"op":["leeds","op_1"],"claims":[{"keys":["unique_a","claim"],"rowKey":"order_7","of":"order_","name":"by_number"}]}"#,
        "op_0638990208000000000_00000000000000ff\n#1\n@638990208000000000\n\n[{\"rowKey\":\"order_7\",\"of\":\"order_\",\"declaration\":\"by_courier\",\"address\":\"a\"}]\n\n[{\"keys\":[\"unique_a\",\"claim\"],\"rowKey\":\"order_7\",\"of\":\"order_\",\"name\":\"by_number\",\"before\":\"op_0\"}]\n00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "op_0638990208000000000_00000000000000ff\n#1\n@638990208000000000\n!true",
        "claim\n#1\n\n\n\n\n\n\nleeds\norder_7\nop_1",
        "photo_1\n\n\n\n\n\n\n\n\n\n\n{\"v\":1,\"blob\":\"photos/blob_1\",\"type\":\"Edm.Binary\",\"length\":3,\"sha256\":\"ba78\"}",
        "photo_1\n\n\n\n\n\n\n\n\n\n\n\n#3",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
