//! What tells the entries of a log apart: a time and a tie-breaker.

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::KeyPart;
use rowkey::key::{KeyReadError, KeyWriter, PartFormat};

use super::DIGITS;

/// The time of an entry and what tells it from others of the same tick, as a part of a row template,
/// `{id}` or `log_{id}`.
///
/// Written as 19 digits of inverted ticks, `_`, and the tie-breaker. It also reads, and writes back
/// as they were, the rows that programs for .NET write: ticks alone, or ticks and a GUID. Where
/// another part follows, as in `{id}_{line:3}`, the `_` before the tie-breaker is escaped, `^~`.
///
/// Two ids are equal when they make the same RowKey. [`LogTail::next_id`](super::LogTail::next_id)
/// makes those of new entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryId {
    at: DateTime<Utc>,
    /// All that follows the ticks.
    rest: String,
}

impl EntryId {
    /// The id of an entry of this time (cut to 100 ns), with a tie-breaker that no other entry of
    /// the same tick has: the number of an order, the name of the writer, a GUID.
    ///
    /// An entry whose tie-breaker has characters that keys must not contain (`/ \ # ?`, control
    /// characters) is refused when it is written.
    ///
    /// ```
    /// use rowkey::Entity;
    /// use rowkey_patterns::log_tail::EntryId;
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

    /// What follows the ticks and one `_` or `-`; empty if nothing does.
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

fn inverted() -> PartFormat {
    PartFormat { descending: true, ..PartFormat::default() }
}
