//! The list of one value: keys spread over the properties of a row, and over rows.
//!
//! Lists beside the entities they name and lists elsewhere are stored alike; see "Index entities" in
//! the book.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::TryStreamExt as _;
use rowkey::edm::Value;
use rowkey::{
    DynamicEntity, ETag, Error, ErrorKind, Key, Match, Partition, Result, Stored, Table,
    Transaction,
};

use crate::rounds::Rounds;

/// UTF-16 units of a string property: 64 KiB.
const MAX_UNITS: usize = 32 * 1024;
/// List properties of a row. Half of what fits into an entity, so that one transaction takes an
/// entity of any size and a row of each of two lists.
const MAX_PROPERTIES: usize = 8;
/// What no key contains, so that it can stand between two.
const SEPARATOR: char = '/';
/// How many keys the whole list has, on its first row.
const COUNT: &str = "Count";
/// `Keys0`, `Keys1`, .. on every row.
const KEYS: &str = "Keys";

/// The keys of the entities that share a value, as they were read and then changed.
///
/// Row 0 is written with every change, under the ETag it was read with: it stands for the list as
/// a whole.
///
/// ```
/// use rowkey::StorageAccount;
/// use rowkey_patterns::index_entity::list::List;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let table = account.table("lists");
/// # table.create().await?;
/// let mut list = List::read(&table, "last_Jones", "list_").await?;
/// list.add("000223", 8)?;
/// list.write(table.transaction()).submit().await?;
/// # Ok(())
/// # }
/// ```
pub struct List {
    partition_key: String,
    /// The RowKey of each row without its number: `last_Jones_`.
    stem: String,
    /// The tag of row 0, `None` if there is no list.
    etag: Option<ETag>,
    rows: BTreeMap<u16, Row>,
}

#[derive(Debug, Default)]
struct Row {
    /// In order.
    keys: Vec<String>,
    /// Whether it differs from what is stored.
    changed: bool,
}

impl List {
    /// The list whose rows are named `stem` and a number, as it was at one time: one query.
    ///
    /// A page is: the service answers it from one state of the partition. Where the rows came in
    /// several pages, others may have written in between, which shows in the tag of row 0.
    pub async fn read(table: &Table, partition_key: &str, stem: &str) -> Result<Self> {
        let mut rounds = Rounds::new(table, stem);
        loop {
            let rows = Partition::<DynamicEntity>::new(partition_key).prefix(stem);
            let mut pages = table.query(rows).pages();
            let (mut rows, mut answers) = (Vec::new(), 0);
            while let Some(page) = pages.try_next().await? {
                answers += usize::from(!page.entities.is_empty());
                rows.extend(page.entities);
            }
            let list = Self::of(partition_key, stem, rows);
            if let Some(list) = list
                && (answers <= 1 || list.is_current(table).await?)
            {
                return Ok(list);
            }
            if !rounds.again().await {
                let what = "the rows of a list do not belong together";
                return Err(Error::refused(ErrorKind::Decode, what)
                    .advise("delete them, and index their entities again"));
            }
        }
    }

    /// Whether nobody has changed the list since it was read: one point query.
    pub async fn is_current(&self, table: &Table) -> Result<bool> {
        let head = table.get(self.key(0)).await?;
        Ok(head.map(|head| head.etag) == self.etag)
    }

    /// The list in these rows; `None` if they do not make one, as when others wrote between two
    /// pages.
    fn of(partition_key: &str, stem: &str, stored: Vec<Stored<DynamicEntity>>) -> Option<Self> {
        let mut list = Self {
            partition_key: partition_key.to_owned(),
            stem: stem.to_owned(),
            etag: None,
            rows: BTreeMap::new(),
        };
        let mut count = 0;
        for Stored { entity, etag, .. } in stored {
            let number = entity.row_key.strip_prefix(stem)?.parse().ok()?;
            if number == 0 {
                list.etag = Some(etag);
                let Some(Value::Int32(stored)) = entity.get(COUNT) else { return None };
                count = usize::try_from(*stored).ok()?;
            }
            let mut keys: Vec<_> = keys_of(&entity).map(str::to_owned).collect();
            keys.sort_unstable();
            list.rows.insert(number, Row { keys, changed: false });
        }
        (list.len() == count).then_some(list)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.rows.values().map(|row| row.keys.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has rows in the table.
    pub fn is_stored(&self) -> bool {
        self.etag.is_some()
    }

    /// The keys, in order within each row.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.rows.values().flat_map(|row| row.keys.iter().map(String::as_str))
    }

    /// Whether this key is one of them.
    pub fn contains(&self, key: &str) -> bool {
        self.keys().any(|known| known == key)
    }

    /// Adds a key unless it is there, to the first row with room.
    ///
    /// Fails with [`ErrorKind::TooLarge`] if so many rows are full.
    pub fn add(&mut self, key: &str, max_rows: u16) -> Result<()> {
        if self.contains(key) {
            return Ok(());
        }
        for number in 0..max_rows {
            if self.rows.entry(number).or_default().add(key) {
                return Ok(());
            }
        }
        Err(Error::refused(
            ErrorKind::TooLarge,
            format!(
                "the list of the value has {} keys and is full: rows: {max_rows}, properties of each: \
                 {MAX_PROPERTIES}, of 64 KiB",
                self.len()
            ),
        )
        .advise("allow more rows, or list keys that are so many in blobs: `list(.., blob)` of a store"))
    }

    /// Takes a key away if it is there.
    pub fn remove(&mut self, key: &str) {
        for row in self.rows.values_mut() {
            row.remove(key);
        }
    }

    /// Adds what stores the changed list to a transaction: row 0 under the list's ETag, and the rows
    /// that differ. A list without keys has no rows.
    ///
    /// One that was not changed is written, too: whoever read it before is then refused.
    pub fn write(mut self, mut transaction: Transaction) -> Transaction {
        let count = self.len();
        if self.etag.is_none() && count == 0 {
            return transaction;
        }
        let head = self.rows.remove(&0).unwrap_or_default();
        transaction = match &self.etag {
            None => transaction.insert(&self.row(0, &head.keys, count)),
            Some(etag) if count == 0 => transaction.delete(self.key(0), etag.clone()),
            Some(etag) if head.changed => {
                transaction.replace((&self.row(0, &head.keys, count), etag.clone()))
            }
            // Its keys stay as they are, and need not be sent.
            Some(etag) => transaction.merge((&self.row(0, &[], count), etag.clone())),
        };
        for (&number, row) in self.rows.iter().filter(|(_, row)| row.changed) {
            transaction = if row.keys.is_empty() {
                transaction.delete(self.key(number), Match::Any)
            } else {
                transaction.upsert(&self.row(number, &row.keys, count))
            };
        }
        transaction
    }

    /// The address of a row.
    fn key(&self, number: u16) -> Key<DynamicEntity> {
        Key::new(&*self.partition_key, format!("{}{number:04}", self.stem))
    }

    fn row(&self, number: u16, keys: &[String], count: usize) -> DynamicEntity {
        let row_key = format!("{}{number:04}", self.stem);
        let mut row = DynamicEntity::new(&*self.partition_key, row_key);
        if number == 0 {
            row.set(COUNT, i32::try_from(count).unwrap_or(i32::MAX));
        }
        for (at, text) in pack(keys).into_iter().enumerate() {
            row.set(format!("{KEYS}{at}"), text);
        }
        row
    }
}

/// Without the keys: they are data.
impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List")
            .field("etag", &self.etag)
            .field("rows", &self.rows.len())
            .field("keys", &self.len())
            .finish_non_exhaustive()
    }
}

impl Row {
    /// Adds a key if there is room.
    fn add(&mut self, key: &str) -> bool {
        let at = self.keys.partition_point(|known| known.as_str() < key);
        self.keys.insert(at, key.to_owned());
        if pack(&self.keys).len() > MAX_PROPERTIES {
            self.keys.remove(at);
            return false;
        }
        self.changed = true;
        true
    }

    fn remove(&mut self, key: &str) {
        let before = self.keys.len();
        self.keys.retain(|known| known != key);
        self.changed |= self.keys.len() != before;
    }
}

/// The keys that one row of a list has.
pub fn keys_of(row: &DynamicEntity) -> impl Iterator<Item = &str> {
    let texts = row.iter().filter(|(name, _)| name.starts_with(KEYS));
    let texts = texts.filter_map(|(_, value)| match value {
        Value::String(text) => Some(text),
        _ => None,
    });
    texts.flat_map(|text| text.split(SEPARATOR))
}

/// The keys as texts that fit into a property each.
fn pack(keys: &[String]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut units = 0;
    for key in keys {
        let length = key.encode_utf16().count();
        match texts.last_mut() {
            Some(text) if units + 1 + length <= MAX_UNITS => {
                text.push(SEPARATOR);
                text.push_str(key);
                units += 1 + length;
            }
            _ => {
                texts.push(key.clone());
                units = length;
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: std::ops::Range<u32>) -> Vec<String> {
        ids.map(|id| format!("{id:06}")).collect()
    }

    fn empty() -> List {
        List::of("sales", "last_Jones_", Vec::new()).unwrap()
    }

    #[test]
    fn a_property_holds_as_many_six_digit_ids_as_the_service_lets_it() {
        // The last one needs no separator: (32768 + 1) / 7.
        assert_eq!(pack(&ids(0..4681)).len(), 1);
        assert_eq!(pack(&ids(0..4682)).len(), 2);
        assert!(pack(&ids(0..4681))[0].encode_utf16().count() <= MAX_UNITS);
    }

    #[test]
    fn units_are_those_of_utf_16() {
        // Two units each.
        let keys: Vec<_> = (0..10_923).map(|_| "\u{1F600}".to_owned()).collect();
        assert_eq!(pack(&keys).len(), 1, "10,923 * 2 + 10,922 = 32,768");
        assert_eq!(pack(&[keys.as_slice(), &["a".to_owned()]].concat()).len(), 2);
    }

    #[test]
    fn what_is_packed_reads_back() {
        let keys = ids(0..10_000);
        let mut row = DynamicEntity::new("sales", "last_Jones_0000");
        for (at, text) in pack(&keys).into_iter().enumerate() {
            row.set(format!("{KEYS}{at}"), text);
        }
        assert_eq!(keys_of(&row).collect::<Vec<_>>(), keys);
    }

    #[test]
    fn a_key_is_listed_once() {
        let mut list = empty();
        list.add("000007", 1).unwrap();
        list.add("000007", 1).unwrap();
        assert_eq!(list.keys().collect::<Vec<_>>(), ["000007"]);
        list.remove("000007");
        list.remove("000007");
        assert_eq!(list.len(), 0);
    }

    #[test]
    fn a_list_over_its_rows_is_refused_by_an_error_that_says_which_limit_and_what_to_do() {
        let mut list = empty();
        let full = u32::try_from(MAX_PROPERTIES * 4681).unwrap();
        list.rows.insert(0, Row { keys: ids(0..full), changed: false });
        let error = list.add("999999", 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert_eq!(
            error.to_string(),
            "the list of the value has 37448 keys and is full: rows: 1, properties of \
             each: 8, of 64 KiB; allow more rows, or list keys that are so many in blobs: \
             `list(.., blob)` of a store"
        );
        list.add("999999", 2).unwrap();
        assert_eq!(list.rows[&1].keys, ["999999"]);
    }

    #[test]
    fn rows_that_lack_one_make_no_list() {
        let mut head = DynamicEntity::new("sales", "last_Jones_0000");
        head.set(COUNT, 2);
        head.set("Keys0", "000001");
        let stored = Stored {
            entity: head,
            etag: ETag::new("W/\"1\""),
            timestamp: rowkey::edm::DateTime::MIN,
        };
        assert!(List::of("sales", "last_Jones_", vec![stored]).is_none());
    }
}
