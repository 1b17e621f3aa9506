//! Random table operations of a client: inserts, merges, replacements, deletions, transactions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use rowkey_emulator::{DEVELOPMENT_ACCOUNT, Server, Service, Snapshot};

use super::worker::{Random, State};
use crate::support::{Answer, Client};

/// The maximum number of rows of a client.
const ROWS: u32 = 40;

/// The entities of a partition by RowKey.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    table: &'static str,
    name: String,
    rows: BTreeMap<String, Entity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entity {
    /// Int32s by name.
    properties: BTreeMap<String, u32>,
    /// `None` if it is unknown.
    timestamp: Option<String>,
}

/// A change of one entity.
#[derive(Clone, Debug)]
enum Change {
    Delete(String),
    Insert(String, u32),
    Merge(String, String, u32),
}

impl Partition {
    pub(super) fn new(table: &'static str, name: String) -> Self {
        Self { table, name, rows: BTreeMap::new() }
    }

    fn change(&self, random: &mut Random) -> Change {
        let row = format!("r{:02}", random.below(ROWS));
        let value = random.below(1000);
        match random.below(4) {
            0 if self.rows.contains_key(&row) => Change::Delete(row),
            _ if !self.rows.contains_key(&row) => Change::Insert(row, value),
            _ => Change::Merge(row, format!("p{}", random.below(4)), value),
        }
    }

    /// Applies a change to the model; `tag` is the new ETag of the entity.
    fn apply(&mut self, change: &Change, tag: Option<String>) {
        match change {
            Change::Delete(row) => {
                self.rows.remove(row);
            }
            Change::Insert(row, value) => {
                let properties = BTreeMap::from([("p0".to_owned(), *value)]);
                self.rows.insert(row.clone(), Entity { properties, timestamp: tag });
            }
            Change::Merge(row, name, value) => {
                let entity = self.rows.entry(row.clone()).or_default();
                entity.properties.insert(name.clone(), *value);
                entity.timestamp = tag;
            }
        }
    }

    /// Method, target, headers and body of a change.
    fn request(&self, change: &Change) -> (&'static str, String, String) {
        let Self { table, name, .. } = self;
        let address = |row: &str| format!("/{table}(PartitionKey='{name}',RowKey='{row}')");
        match change {
            Change::Delete(row) => ("DELETE", address(row), String::new()),
            Change::Insert(row, value) => (
                "POST",
                format!("/{table}"),
                format!(r#"{{"PartitionKey":"{name}","RowKey":"{row}","p0":{value}}}"#),
            ),
            Change::Merge(row, property, value) => {
                ("MERGE", address(row), format!(r#"{{"{property}":{value}}}"#))
            }
        }
    }

    fn transaction(&self, changes: &[Change]) -> String {
        let parts = changes.iter().map(|change| {
            let (method, target, content) = self.request(change);
            (method, target, (method != "POST").then(|| "*".to_owned()), content)
        });
        transaction(parts)
    }
}

/// The body of a transaction: of each change the method, the target, `If-Match` and the body. Its
/// boundary is `b`.
pub(super) fn transaction(
    changes: impl IntoIterator<Item = (&'static str, String, Option<String>, String)>,
) -> String {
    let mut body = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n".to_owned();
    for (method, target, condition, content) in changes {
        let condition = condition.map(|tag| format!("If-Match: {tag}\r\n")).unwrap_or_default();
        write!(
            body,
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
             \r\n{method} http://localhost/{DEVELOPMENT_ACCOUNT}{target} HTTP/1.1\r\n\
             Content-Type: application/json\r\n{condition}\r\n{content}\r\n"
        )
        .unwrap();
    }
    body + "--c--\r\n--b--\r\n"
}

impl State for Partition {
    const SERVICE: Service = Service::Table;

    fn prepare(&self, client: &mut Client) -> io::Result<()> {
        let body = format!(r#"{{"TableName":"{}"}}"#, self.table);
        let answer = client.try_send_at(DEVELOPMENT_ACCOUNT, "POST", "/Tables", &[], &body)?;
        assert!([201, 409].contains(&answer.status), "{answer:?}");
        Ok(())
    }

    fn step(
        &mut self,
        random: &mut Random,
        client: &mut Client,
        possible: &mut Vec<Self>,
    ) -> io::Result<()> {
        let mut changes = vec![self.change(random)];
        if random.below(3) == 0 {
            for _ in 0..random.below(20) {
                let change = self.change(random);
                if changes.iter().all(|other| row_of(other) != row_of(&change)) {
                    changes.push(change);
                }
            }
        }
        let mut sent = self.clone();
        for change in &changes {
            sent.apply(change, None);
        }
        possible.push(sent);
        let tags = if let [change] = &*changes {
            let (method, target, body) = self.request(change);
            let any = [("if-match", "*")];
            let headers = if method == "POST" { &[][..] } else { &any };
            let account = DEVELOPMENT_ACCOUNT;
            let answer = client.try_send_at(account, method, &target, headers, &body)?;
            assert!((200..300).contains(&answer.status), "{answer:?}");
            vec![answer.header("etag").map(str::to_owned)]
        } else {
            let kind = ("content-type", "multipart/mixed; boundary=b");
            let headers = [kind, ("accept", "*/*")];
            let body = self.transaction(&changes);
            let answer =
                client.try_send_at(DEVELOPMENT_ACCOUNT, "POST", "/$batch", &headers, &body)?;
            tags_of(&answer, changes.len())
        };
        for (change, tag) in changes.iter().zip(tags) {
            self.apply(change, tag.as_deref().map(timestamp_of));
        }
        Ok(())
    }

    fn observe(&self, _: &Server, snapshot: &Snapshot) -> Self {
        let mut rows = BTreeMap::new();
        for entity in
            snapshot.table(self.table).iter().flat_map(|table| table.partition(&self.name))
        {
            let properties = entity
                .properties()
                .map(|(name, value)| match value {
                    rowkey_wire::edm::Value::Int32(value) => {
                        (name.to_owned(), value.cast_unsigned())
                    }
                    other => panic!("{name} is {other:?}"),
                })
                .collect();
            let timestamp = Some(entity.timestamp().to_string());
            rows.insert(entity.row_key().to_owned(), Entity { properties, timestamp });
        }
        Self { rows, ..self.clone() }
    }

    fn allows(&self, observed: &Self) -> bool {
        self.rows.len() == observed.rows.len()
            && self.rows.iter().zip(&observed.rows).all(|((row, entity), (other, found))| {
                row == other
                    && entity.properties == found.properties
                    && (entity.timestamp.is_none() || entity.timestamp == found.timestamp)
            })
    }
}

fn row_of(change: &Change) -> &str {
    match change {
        Change::Delete(row) | Change::Insert(row, _) | Change::Merge(row, ..) => row,
    }
}

/// The tags in the response to a committed transaction of `count` changes.
fn tags_of(answer: &Answer, count: usize) -> Vec<Option<String>> {
    let parts: Vec<&str> = answer.body.split("HTTP/1.1 ").skip(1).collect();
    assert_eq!(parts.len(), count, "{answer:?}");
    parts
        .iter()
        .map(|part| {
            assert!(part.starts_with('2'), "{answer:?}");
            let (_, tag) = part.split_once("ETag: ")?;
            tag.split_once("\r\n").map(|(tag, _)| tag.to_owned())
        })
        .collect()
}

/// The instant in a tag, `W/"datetime'2026-01-01T00%3A00%3A00.1234567Z'"`.
fn timestamp_of(tag: &str) -> String {
    tag.split('\'').nth(1).unwrap().replace("%3A", ":")
}
