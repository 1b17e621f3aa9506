//! Message texts and rows of dead letters: decoded values round-trip.

use rowkey::DynamicEntity;
use rowkey::worker::dead_letters::{reread_message, reread_row};

/// The properties of a row, in the order in which an input gives them.
const PROPERTIES: [&str; 11] = [
    "Id",
    "Kind",
    "Cause",
    "Reason",
    "FirstSeen",
    "Redrive",
    "MessageId",
    "Letter",
    "Message",
    "Message2",
    "Message3",
];

/// The input as the text of a message, and as the values of a row.
pub fn all(input: &[u8]) {
    let _ = reads(input);
}

/// Whether the input is a message or a row of a letter; each is read as itself.
pub fn reads(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let mut is_message = false;
    if let Some(written) = reread_message(&text) {
        assert_eq!(reread_message(&written).as_ref(), Some(&written), "it is not read as itself");
        is_message = true;
    }
    // The first line is the RowKey, the others are properties; a number behind `#` is one.
    let mut lines = text.split('\n');
    let mut row = DynamicEntity::new("jobs", lines.next().unwrap_or_default());
    for (name, value) in PROPERTIES.into_iter().zip(lines) {
        match value.strip_prefix('#').and_then(|number| number.parse::<i32>().ok()) {
            Some(number) => drop(row.set("Redriven", number)),
            None => drop(row.set(name, value)),
        }
    }
    // What another program wrote becomes what this one would write, and stays that.
    for (written, again) in reread_row(&row).into_iter().zip(reread_row_twice(&row)) {
        assert_eq!(written, again, "it is not read as itself");
    }
    is_message || row.row_key.starts_with("letter_") || row.row_key.starts_with("task_")
}

fn reread_row_twice(row: &DynamicEntity) -> Vec<DynamicEntity> {
    let [letter, task] = reread_row(row);
    let ([letter, _], [_, task]) = (reread_row(&letter), reread_row(&task));
    vec![letter, task]
}

/// Messages and rows as they are written.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"kind":"job","id":"5f0c","task":{"number":1}}"#,
        r#"{"kind":"job","id":"5f0c","claim":"jobs/5f0c","sha256":"9f86","attempts":2,"receptions":3,"alone":true}"#,
        r#"{"kind":"job","id":"5f0c","task":null,"firstSeen":"2026-03-01T12:00:00.000Z","history":[{"at":"2026-03-01T12:00:00.000Z","error":"no","cause":"Panic"}],"redriven":1,"redrive":"r1","givenUp":{"cause":"Panic","reason":"no"},"traceparent":"00-1-2-01","x":1e400}"#,
        r#"{"number":1}"#,
        "eyJudW1iZXIiOjF9",
        "letter_251635000000000_5f0c\n5f0c\njob\nPanic\nno\n2026-03-01T12:00:00.000Z\n#2\nm1\n\n{}\n{}",
        "task_5f0c\n5f0c\n\n\n\n\n#1\nm1\nletter_251635000000000_5f0c",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
