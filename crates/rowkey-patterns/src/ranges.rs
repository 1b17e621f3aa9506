//! Key ranges: a table in parts that can be read apart from each other, by several tasks or several machines.
//!
//! [`split`] finds ranges with about as many rows each, by a bounded number of requests. [`between`] makes them of keys that the program
//! knows. Each [`KeyRange`] is then a scan of its part ([`KeyRange::query`]), and one row is in exactly one of them.

use std::fmt;

use rowkey_client::internals::{compare_keys, has_order};
use rowkey_client::table::Explanation;
use rowkey_client::{DynamicEntity, Projection, Query, Result, ScanPolicy, Table};

use crate::inspect::sample;
use crate::probe::{self, PARTITION_KEY};

/// The rows that [`split`] looks at.
const ROWS: u64 = 1_000;
/// The requests behind the first one that [`split`] sends for each part, and in all at least and at most.
const REQUESTS: usize = 2;
const MIN_REQUESTS: usize = 8;
const MAX_REQUESTS: usize = 63;

/// A range of the PartitionKeys of a table, in the order of the service.
///
/// Its `Debug` output does not show the keys.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The first PartitionKey of the range; `None` if the range has the first keys of the table.
    pub from: Option<String>,
    /// The PartitionKey before which the range ends; `None` if the range has the last keys of the table.
    pub to: Option<String>,
}

impl KeyRange {
    /// The range of all keys.
    ///
    /// ```
    /// use rowkey::patterns::ranges::KeyRange;
    ///
    /// assert_eq!(KeyRange::all(), KeyRange { from: None, to: None });
    /// ```
    pub const fn all() -> Self {
        Self { from: None, to: None }
    }

    /// The query of all rows in this range, read as `P`: a table scan of the range, which no
    /// [`ScanPolicy`] denies.
    ///
    /// It has every row, copies in indexes included. [`within`](Self::within) limits other queries to the range.
    ///
    /// Costs a request for each 1,000 rows, and at least one.
    ///
    /// ```
    /// use rowkey::patterns::ranges::KeyRange;
    /// use rowkey::{DynamicEntity, StorageAccount};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let airports = account.table("airports");
    /// # airports.create().await?;
    /// for state in ["CA", "OR", "WA"] {
    ///     airports.insert(&DynamicEntity::new(state, "airport")).await?;
    /// }
    /// let range = KeyRange { from: Some("CO".to_owned()), to: Some("WA".to_owned()) };
    /// let rows = range.query::<DynamicEntity>(&airports).all().await?;
    /// assert_eq!((rows.len(), &*rows[0].entity.partition_key), (1, "OR"));
    /// # Ok(()) }
    /// ```
    pub fn query<P: Projection + Send + 'static>(&self, table: &Table) -> Query<P> {
        let query = table.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow);
        self.within(query.project())
    }

    /// Limits a query to the range, for example a scan of a type, which skips copies in indexes.
    ///
    /// Uses up to two of the 15 comparisons of the query.
    ///
    /// ```
    /// use rowkey::patterns::ranges::between;
    /// use rowkey::{Entity, StorageAccount};
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{name}", row = "_")]
    /// struct User {
    ///     name: String,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let users = account.table("users");
    /// # users.create().await?;
    /// for name in ["ada", "grace", "zoe"] {
    ///     users.insert(&User { name: name.to_owned() }).await?;
    /// }
    /// let ranges = between(["ada", "grace"].map(str::to_owned), 2);
    /// let rest = ranges[1].within(users.scan::<User>()).all().await?;
    /// assert_eq!(rest.len(), 2, "from grace on");
    /// # Ok(()) }
    /// ```
    pub fn within<P: Projection + Send + 'static>(&self, query: Query<P>) -> Query<P> {
        probe::between(query, PARTITION_KEY, (self.from.as_deref(), self.to.as_deref()))
    }

    /// Explains the [`query`](Self::query) of the range, without sending it.
    ///
    /// # Errors
    ///
    /// Those of [`Query::explain`].
    ///
    /// ```
    /// use rowkey::patterns::ranges::KeyRange;
    /// use rowkey::{Cost, StorageAccount};
    ///
    /// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let range = KeyRange { from: None, to: Some("n".to_owned()) };
    /// let explanation = range.explain(&account.table("users"))?;
    /// assert_eq!(explanation.cost, Cost::TableScan);
    /// assert_eq!(explanation.requests[0].filter.as_deref(), Some("PartitionKey lt 'n'"));
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn explain(&self, table: &Table) -> Result<Explanation> {
        self.query::<DynamicEntity>(table).explain()
    }
}

/// Divides all keys of a table into at most `parts` ranges that have about as many of these PartitionKeys each.
///
/// The ranges are in the order of the service, they do not overlap, and each key is in one of them. The first range begins with the
/// first key and the last one ends with the last, so keys that were not given are in a range as well. A key that is given several times
/// counts several times, and is never divided; so there are fewer ranges than parts if there are fewer keys, or if few keys have most
/// of the occurrences. Fewer than two different keys make one range.
///
/// ```
/// use rowkey::patterns::ranges::{KeyRange, between};
///
/// let keys = ["a", "b", "c", "d", "e", "f"].map(str::to_owned);
/// let ranges = between(keys, 3);
/// let ends: Vec<_> = ranges.iter().map(|range| range.to.as_deref()).collect();
/// assert_eq!(ends, [Some("c"), Some("e"), None]);
/// assert_eq!(between(["a".to_owned()], 3), [KeyRange::all()]);
/// ```
pub fn between(partition_keys: impl IntoIterator<Item = String>, parts: usize) -> Vec<KeyRange> {
    let mut keys: Vec<_> = partition_keys.into_iter().collect();
    keys.sort_unstable_by(|one, other| compare_keys(one, other));
    let cuts = cuts(&keys, parts).into_iter().map(|at| keys[at].clone());
    let mut ranges = vec![KeyRange::all()];
    for cut in cuts {
        let last = ranges.len() - 1;
        ranges[last].to = Some(cut.clone());
        ranges.push(KeyRange { from: Some(cut), to: None });
    }
    ranges
}

/// Where to cut sorted keys into parts of about the same number: never in front of the first one, and never between equal ones.
fn cuts(keys: &[String], parts: usize) -> Vec<usize> {
    let starts: Vec<_> = (1..keys.len()).filter(|at| keys[*at] != keys[*at - 1]).collect();
    let (mut cuts, mut begin) = (Vec::new(), 0);
    for left in (2..=parts).rev() {
        // What is left is divided among the parts that are left: a key with many occurrences takes a part, and no share of others.
        let target = begin + (keys.len() - begin).div_ceil(left);
        let behind = starts.partition_point(|start| *start < target);
        let before = behind.checked_sub(1).and_then(|at| starts.get(at));
        let before = before.copied().filter(|start| *start > begin);
        let nearest = match (before, starts.get(behind).copied()) {
            (Some(before), Some(behind)) if target - before < behind - target => before,
            (before, behind) => match behind.or(before) {
                Some(start) => start,
                None => break,
            },
        };
        cuts.push(nearest);
        begin = nearest;
    }
    cuts
}

/// Divides a table into at most `parts` ranges of about as many rows each, by a sample of its PartitionKeys.
///
/// The sample begins with the first rows and looks for other partitions by probes, as [`inspect::sample`](fn@crate::inspect::sample) does,
/// and reads keys alone. So the ranges are even if the keys are spread evenly over the characters that they differ in, such as numbers,
/// hashes, dates or names. Where some partitions have many more rows than others, or where keys are dense, ranges differ in size: more
/// parts than tasks that read them even that out. A partition is never divided, and a table of one partition is one range. Ranges stay
/// valid when rows are added or deleted, as they cover all keys.
///
/// Costs one request if the table has up to 1,000 rows; the ranges are those of all its keys then. Otherwise it costs one more for each
/// probe, of which there are two for each part, at most 63 and up to 8 for few parts: 9 requests for 4 parts, 17 for 8, 64 for 32 or more.
/// All of them read 1,000 keys or few more. Pages that are empty count as probes. One part costs nothing.
///
/// In Azure Cosmos DB, whose queries have no order, the table is one range, and nothing is sent.
///
/// ```
/// use rowkey::patterns::ranges::split;
/// use rowkey::{DynamicEntity, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let events = account.table("events");
/// events.create().await?;
/// for device in 0..30 {
///     let rows = (0..100).map(|row| DynamicEntity::new(format!("device-{device:02}"), format!("{row:02}")));
///     rows.fold(events.transaction(), |all, row| all.insert(&row)).submit().await?;
/// }
/// let mut rows = 0;
/// let ranges = split(&events, 4).await?;
/// for range in &ranges {
///     rows += range.query::<DynamicEntity>(&events).all().await?.len();
/// }
/// assert_eq!((ranges.len(), rows), (4, 3_000));
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Those of queries, for example if the table does not exist.
pub async fn split(table: &Table, parts: usize) -> Result<Vec<KeyRange>> {
    if parts < 2 || !has_order(table) {
        return Ok(vec![KeyRange::all()]);
    }
    let requests = parts.saturating_mul(REQUESTS).clamp(MIN_REQUESTS, MAX_REQUESTS) as u64;
    Ok(between(sample(table, ROWS).partition_keys(requests).await?, parts))
}

impl fmt::Debug for KeyRange {
    /// Shows which bounds there are, without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |bound: &Option<String>| bound.as_ref().map(|_| format_args!(".."));
        f.debug_struct("KeyRange")
            .field("from", &shown(&self.from))
            .field("to", &shown(&self.to))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(keys: &[&str], parts: usize) -> Vec<String> {
        let ranges = between(keys.iter().map(|key| (*key).to_owned()), parts);
        assert!(ranges[0].from.is_none() && ranges[ranges.len() - 1].to.is_none());
        assert!(ranges.windows(2).all(|two| two[0].to == two[1].from && two[0].to.is_some()));
        ranges.into_iter().filter_map(|range| range.to).collect()
    }

    #[test]
    fn the_parts_have_as_many_keys() {
        let keys: Vec<_> = (0..100).map(|n| format!("{n:02}")).collect();
        let keys: Vec<_> = keys.iter().rev().map(String::as_str).collect();
        assert_eq!(ends(&keys, 1), [""; 0]);
        assert_eq!(ends(&keys, 0), [""; 0]);
        assert_eq!(ends(&keys, 3), ["34", "67"]);
        assert_eq!(ends(&keys, 4), ["25", "50", "75"]);
        assert_eq!(ends(&keys, usize::MAX).len(), 99, "one for each key");
    }

    #[test]
    fn a_key_with_many_rows_has_a_part_of_its_own() {
        let mut keys = vec!["m"; 60];
        keys.extend(["a", "b", "x", "y", "z", "z2"]);
        assert_eq!(ends(&keys, 3), ["m", "x"]);
        assert_eq!(ends(&keys, 4), ["m", "x", "z"]);
        assert_eq!(ends(&["a", "a", "a", "b"], 4), ["b"]);
    }

    #[test]
    fn there_is_one_range_if_there_are_no_two_keys() {
        assert_eq!(ends(&[], 5), [""; 0]);
        assert_eq!(ends(&["a"], 5), [""; 0]);
        assert_eq!(ends(&["", "", ""], 5), [""; 0]);
        assert_eq!(ends(&["", "", "a"], 5), ["a"], "the empty key begins no range");
    }

    #[test]
    fn the_order_is_that_of_the_service() {
        // In UTF-16, astral characters are before U+E000.
        assert_eq!(ends(&["\u{e000}", "\u{10000}", "a"], 3), ["\u{10000}", "\u{e000}"]);
        let text = format!("{:?}", KeyRange { from: Some("secret".to_owned()), to: None });
        assert_eq!(text, "KeyRange { from: Some(..), to: None }");
    }
}
