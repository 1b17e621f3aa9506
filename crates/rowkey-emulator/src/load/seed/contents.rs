//! [`Seed`]: what is put into a server, and [`SeedError`]: why it cannot be.

use std::error::Error;
use std::fmt;

use bytes::Bytes;
use rowkey_wire::blob::ContentHeaders;
use rowkey_wire::blob::name::{check_blob, check_container};
use rowkey_wire::edm::Value;
use rowkey_wire::limits::MAX_MESSAGE;
use rowkey_wire::queue::check_name;
use rowkey_wire::shown;

use crate::op::metadata::Metadata;
use crate::op::names::check_table_name;

/// Tables, queues and blobs to put into a server, at its start by
/// [`ServerBuilder::seed`](crate::ServerBuilder::seed) or while it runs by [`Server::seed`](crate::Server::seed).
///
/// [`from_json`](Self::from_json) and [`read`](Self::read) take a small format for people, one object with three
/// members, each of which may be absent:
///
/// ```json
/// {
///   "tables": {
///     "orders": [
///       {"PartitionKey": "contoso", "RowKey": "1", "Price": 3.5,
///        "At": "2026-02-28T12:00:00Z", "At@odata.type": "Edm.DateTime"}
///     ]
///   },
///   "queues": {"work": ["a message", "another one"]},
///   "containers": {
///     "invoices": {
///       "a.txt": {"text": "hello"},
///       "b.bin": {"base64": "AAEC", "contentType": "image/png", "metadata": {"owner": "me"}},
///       "c.pdf": {"file": "relative/path.pdf"}
///     }
///   }
/// }
/// ```
///
/// An entity is written as in the service's protocol: text, `true` and `false`, numbers with a point (Double) and
/// without (Int32) need no type, all others have an annotation `NAME@odata.type`. `"account": "NAME"` beside the three
/// selects an account other than the server's first. A member that is not known is an error.
#[derive(Clone, Default)]
pub struct Seed {
    pub(super) account: Option<String>,
    pub(super) tables: Vec<SeedTable>,
    pub(super) queues: Vec<SeedQueue>,
    pub(super) containers: Vec<SeedContainer>,
}

/// The reason why a seed cannot be read or applied, and the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedError {
    place: String,
    what: String,
}

#[derive(Clone)]
pub(super) struct SeedTable {
    pub(super) name: String,
    pub(super) entities: Vec<SeedEntity>,
}

#[derive(Clone)]
pub(super) struct SeedEntity {
    pub(super) partition_key: String,
    pub(super) row_key: String,
    pub(super) properties: Vec<(String, Value)>,
}

#[derive(Clone)]
pub(super) struct SeedQueue {
    pub(super) name: String,
    pub(super) messages: Vec<String>,
}

#[derive(Clone)]
pub(super) struct SeedContainer {
    pub(super) name: String,
    pub(super) blobs: Vec<SeedBlob>,
}

#[derive(Clone)]
pub(super) struct SeedBlob {
    pub(super) name: String,
    pub(super) content: Bytes,
    pub(super) headers: ContentHeaders,
    pub(super) metadata: Metadata,
}

impl Seed {
    /// A seed without anything, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects the account that it is for. By default it is the server's first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use rowkey_emulator::{Seed, Server};
    ///
    /// let server = Server::builder().account("a", ["a2V5"]).account("b", ["a2V5"]).start().await?;
    /// server.seed(&Seed::from_json(r#"{"queues": {"work": []}}"#)?.account("b"))?;
    /// assert!(server.snapshot().queue("work").is_none());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn account(mut self, name: impl Into<String>) -> Self {
        self.account = Some(name.into());
        self
    }

    /// Adds a table, unless the seed has it. Fails for a name that no table can have.
    ///
    /// ```
    /// let mut seed = rowkey_emulator::Seed::new();
    /// seed.add_table("orders")?;
    /// assert!(seed.add_table("2026").is_err());
    /// # Ok::<(), rowkey_emulator::SeedError>(())
    /// ```
    pub fn add_table(&mut self, name: &str) -> Result<(), SeedError> {
        self.table(name).map(drop)
    }

    /// Adds an entity with typed properties, and its table. Whether the entity is within the limits is checked when the
    /// seed is applied.
    ///
    /// ```
    /// let mut seed = rowkey_emulator::Seed::new();
    /// # let properties = Vec::new();
    /// seed.add_entity("orders", "contoso", "1", properties)?;
    /// # Ok::<(), rowkey_emulator::SeedError>(())
    /// ```
    pub fn add_entity(
        &mut self,
        table: &str,
        partition_key: impl Into<String>,
        row_key: impl Into<String>,
        properties: Vec<(String, Value)>,
    ) -> Result<(), SeedError> {
        let entity =
            SeedEntity { partition_key: partition_key.into(), row_key: row_key.into(), properties };
        self.table(table)?.entities.push(entity);
        Ok(())
    }

    pub(super) fn table(&mut self, name: &str) -> Result<&mut SeedTable, SeedError> {
        let known = self.tables.iter().rposition(|table| table.name == name);
        let at = if let Some(at) = known {
            at
        } else {
            check_table_name(name).map_err(|_| {
                let what = "it is not the name of a table: 3 to 63 letters and digits, of which the first is a letter";
                SeedError::new(format!("tables.{name}"), what)
            })?;
            self.tables.push(SeedTable { name: name.to_owned(), entities: Vec::new() });
            self.tables.len() - 1
        };
        Ok(&mut self.tables[at])
    }

    pub(super) fn queue(&mut self, name: &str, messages: Vec<String>) -> Result<(), SeedError> {
        check_name(name).map_err(|_| {
            let what = "it is not the name of a queue: 3 to 63 lower-case letters, digits and single hyphens";
            SeedError::new(format!("queues.{name}"), what)
        })?;
        for (at, text) in messages.iter().enumerate() {
            let what = if text.len() > MAX_MESSAGE {
                "the message has more than 64 KiB"
            } else if text.chars().any(is_not_xml) {
                "the message has a control character, which messages cannot have; encode it, as in base64"
            } else {
                continue;
            };
            return Err(SeedError::new(format!("queues.{name}[{at}]"), what));
        }
        self.queues.push(SeedQueue { name: name.to_owned(), messages });
        Ok(())
    }

    pub(super) fn container(&mut self, name: &str, blobs: Vec<SeedBlob>) -> Result<(), SeedError> {
        check_container(name).map_err(|_| {
            let what =
                "it is not the name of a container: 3 to 63 lower-case letters, digits and single hyphens";
            SeedError::new(format!("containers.{name}"), what)
        })?;
        for blob in &blobs {
            check_blob(&blob.name).map_err(|_| {
                let place = format!("containers.{name}.{}", blob.name);
                SeedError::new(place, "it is not the name of a blob: 1 to 1,024 characters")
            })?;
        }
        self.containers.push(SeedContainer { name: name.to_owned(), blobs });
        Ok(())
    }
}

// Leaves out the data.
shown!(Seed: account);

impl SeedError {
    pub(super) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }

    /// The error when the disk accepts no changes.
    #[cfg(feature = "durable")]
    pub(crate) fn not_written() -> Self {
        Self::new(
            "",
            "the disk of the location accepts no changes; make room, and apply the seed again",
        )
    }

    /// The place in the seed, as `tables.orders[3].Price`; empty if the whole of it is wrong.
    pub fn place(&self) -> &str {
        &self.place
    }
}

impl fmt::Display for SeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.place {
            "" => f.write_str(&self.what),
            place => write!(f, "{place}: {}", self.what),
        }
    }
}

impl Error for SeedError {}

/// Whether XML has no form for a character.
fn is_not_xml(c: char) -> bool {
    (c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{7f}'))
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}
