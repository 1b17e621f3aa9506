//! The id of a log entry: a time and a tie-breaker.

use chrono::{DateTime, TimeDelta, Utc};
use rowkey_client::KeyPart;
use rowkey_client::key::{KeyReadError, KeyReader, KeyWriter, PartFormat};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::DIGITS;

/// The time of an entry and a tie-breaker for entries of the same tick, as a part of a row template: `{id}`
/// or `log_{id}`.
///
/// Written as 19 digits of inverted ticks, `_`, and the tie-breaker. Keys that .NET programs write (only
/// ticks, or ticks and a GUID) are read, too, and written back unchanged. If another part follows, as in
/// `{id}_{line:3}`, the `_` before the tie-breaker is escaped as `^~`.
///
/// Two ids are equal if they produce the same RowKey. [`LogTail::next_id`](super::LogTail::next_id) creates
/// ids for new entries.
///
/// Serialized as the text that it has in a RowKey, from which it is also read:
///
/// ```
/// use rowkey::patterns::log_tail::EntryId;
///
/// let id = EntryId::new("2017-11-10T00:00:00Z".parse()?, "order-7");
/// let json = serde_json::to_string(&id)?;
/// assert_eq!(json, r#""2518920287999999999_order-7""#);
/// assert_eq!(serde_json::from_str::<EntryId>(&json)?, id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryId {
    at: DateTime<Utc>,
    /// All characters after the ticks.
    rest: String,
}

impl EntryId {
    /// Creates an id from a time (truncated to 100 ns) and a tie-breaker that is unique among the entries of
    /// the same tick: an order number, the name of the writer, a GUID.
    ///
    /// Writing an entry fails if its tie-breaker contains characters that are invalid in keys (`/ \ # ?`,
    /// control characters).
    ///
    /// ```
    /// use rowkey::Entity;
    /// use rowkey::patterns::log_tail::EntryId;
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{shop}", row = "{id}")]
    /// struct Sale { shop: String, id: EntryId }
    ///
    /// let id = EntryId::new("2017-11-10T00:00:00Z".parse()?, "order-7");
    /// assert_eq!(Sale::key("leeds", id).parts(), Ok(("leeds", "2518920287999999999_order-7")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(at: DateTime<Utc>, tie_breaker: &str) -> Self {
        let below_a_tick = i64::from(at.timestamp_subsec_nanos() % 100);
        Self { at: at - TimeDelta::nanoseconds(below_a_tick), rest: format!("_{tie_breaker}") }
    }

    /// The time.
    pub fn at(&self) -> DateTime<Utc> {
        self.at
    }

    /// The text after the ticks and one `_` or `-`; empty if there is none.
    pub fn tie_breaker(&self) -> &str {
        self.rest.strip_prefix(['_', '-']).unwrap_or(&self.rest)
    }
}

impl KeyPart for EntryId {
    const EXACT: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.part(&self.at, inverted());
        out.literal(&self.rest);
    }

    fn read(text: &str, _: PartFormat) -> Result<Self, KeyReadError> {
        let (Some(ticks), Some(rest)) = (text.get(..DIGITS), text.get(DIGITS..)) else {
            return Err(KeyReadError::malformed("19 digits of inverted ticks"));
        };
        Ok(Self { at: DateTime::read(ticks, inverted())?, rest: rest.to_owned() })
    }
}

/// The text in a RowKey. Fails for an id that no key can have.
impl Serialize for EntryId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = KeyWriter::new();
        out.part(self, PartFormat::default());
        let text = out.finish().map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for EntryId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        KeyReader::new(&text).part(PartFormat::default()).map_err(serde::de::Error::custom)
    }
}

fn inverted() -> PartFormat {
    PartFormat { descending: true, ..PartFormat::default() }
}
