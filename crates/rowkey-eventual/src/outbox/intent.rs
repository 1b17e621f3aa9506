//! The row that says what is to be done: a stored format.

use rowkey::edm::{DateTime, Value};
use rowkey::entity::{DecodeError, RowReader};
use rowkey::{DynamicEntity, Error, ErrorKind, Key, Projection, Result, StorageAccount};

use crate::task::{Task, new_id};

/// What the RowKey of an intent begins with. The time follows, so that the oldest are first.
pub(crate) const HEAD: &str = "outbox_";

/// The property that tells the kind of task.
pub(super) const KIND: &str = "Kind";
const CREATED: &str = "Created";
/// What follows the first 32 Ki characters is in `Task2`, `Task3` and so on.
const TASK: &str = "Task";

/// How much text a property holds, in UTF-16 units.
const MAX_TEXT: usize = 32 * 1024;

/// What a row says.
pub(super) struct Intent<T> {
    pub(super) id: String,
    pub(super) created: chrono::DateTime<chrono::Utc>,
    pub(super) task: T,
}

/// Which intents there are, without what is in them.
pub(super) struct Address {
    pub(super) key: Key<DynamicEntity>,
    pub(super) row_key: String,
    pub(super) partition_key: String,
}

impl Projection for Address {
    const COLUMNS: Option<&'static [&'static str]> = Some(&["PartitionKey", "RowKey", "Timestamp"]);

    fn decode(row: &RowReader<'_>) -> std::result::Result<Self, DecodeError> {
        let (partition_key, row_key) = (row.partition_key()?.to_owned(), row.row_key()?.to_owned());
        Ok(Self { key: Key::new(&*partition_key, &*row_key), row_key, partition_key })
    }
}

/// The row of a task, as old as the account's clock says.
pub(super) fn write<T: Task>(
    account: &StorageAccount,
    partition_key: &str,
    kind: &str,
    task: &T,
) -> Result<DynamicEntity> {
    let json = serde_json::to_string(task)
        .map_err(|_| Error::refused(ErrorKind::Invalid, "the task cannot be written as JSON"))?;
    let now = account.clock().now();
    let created = DateTime::try_from(now).map_err(|error| {
        Error::refused(ErrorKind::Invalid, "the clock shows a time that cannot be stored")
            .with_source(error)
    })?;
    let mut row = DynamicEntity::new(partition_key, format!("{}{}", head(created), new_id()?));
    row.set(CREATED, created);
    row.set(KIND, kind);
    for (at, part) in parts(&json).into_iter().enumerate() {
        row.set(property(at), part);
    }
    Ok(row)
}

/// Reads a row, or says why it cannot be read.
pub(super) fn read<T: Task>(row: &DynamicEntity, kind: &str) -> Result<Intent<T>, &'static str> {
    let text = |name: &str| match row.get(name) {
        Some(Value::String(text)) => Some(&**text),
        _ => None,
    };
    if text(KIND) != Some(kind) {
        return Err("the intent is one of another kind");
    }
    let Some(Value::DateTime(created)) = row.get(CREATED) else {
        return Err("the intent does not say when it was written");
    };
    let json: String = (0..).map_while(|at| text(&property(at))).collect();
    // The error of the parser quotes the task.
    let task = serde_json::from_str(&json).map_err(|_| "the intent has no task of its kind")?;
    let id = row.row_key.rsplit('_').next().unwrap_or_default().to_owned();
    Ok(Intent { id, created: created.to_chrono(), task })
}

/// What the RowKey of an intent of this time begins with.
pub(super) fn head(created: DateTime) -> String {
    format!("{HEAD}{:019}_", created.ticks())
}

fn property(at: usize) -> String {
    if at == 0 { TASK.to_owned() } else { format!("{TASK}{}", at + 1) }
}

/// Cuts text so that each part fits into a property; none is empty but that of no text.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut units) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        units += character.len_utf16();
        if units > MAX_TEXT {
            parts.push(&text[from..at]);
            (from, units) = (at, character.len_utf16());
        }
    }
    parts.push(&text[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_where_a_property_ends_and_never_within_a_character() {
        assert_eq!(parts(""), [""]);
        assert_eq!(parts("abc"), ["abc"]);
        let full = "x".repeat(MAX_TEXT);
        assert_eq!(parts(&full), [&*full]);
        // Each of these takes two units, and the last would begin with the last unit.
        let odd = format!("x{}", "\u{1F600}".repeat(MAX_TEXT / 2));
        let cut = parts(&odd);
        assert_eq!(cut.len(), 2);
        assert_eq!(cut.concat(), odd);
        assert!(cut.iter().all(|part| part.encode_utf16().count() <= MAX_TEXT));
        assert_eq!(cut[1], "\u{1F600}");
    }
}
