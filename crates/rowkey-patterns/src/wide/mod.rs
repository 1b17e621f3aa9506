//! One entity of more properties than an entity may have, in several rows of one partition.
//!
//! - this file: [`Wide`], reading and writing
//! - [`entity`](WideEntity): the properties, and which row each is in
//! - `rows`: how rows are named, filled and read back

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use rowkey::edm::Value;
use rowkey::{
    DynamicEntity, ETag, Error, ErrorKind, Key, Match, Outcome, Partition, Result, Stored, Table,
    Transaction,
};

use self::rows::{Head, MAX_ROWS, Names};
use crate::rounds::{Rounds, was_lost};

mod entity;
mod rows;

pub use entity::WideEntity;

const OPERATION: &str = "Wide";

/// Entities of up to 25,198 properties and 4 MiB, each in up to 100 rows.
///
/// An entity is written by one entity group transaction and read by one query, so a reader never
/// meets a half of one version and a half of another. Its ETag is that of its first row, which every
/// write changes.
///
/// ```
/// use rowkey::{Key, StorageAccount};
/// use rowkey_patterns::wide::{Wide, WideEntity};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let table = account.table("years");
/// table.create_if_missing().await?;
/// let years = Wide::new(table);
///
/// let mut year = WideEntity::new("Seattle", "2010");
/// for hour in 0..8760 {
///     year.set(format!("H{hour:04}"), 50.0);
/// }
/// years.insert(&year).await?;
///
/// let mut stored = years.get(year.key()).await?.ok_or("it is there")?;
/// assert_eq!(stored.entity.len(), 8760);
/// years.merge(&mut stored, [("H8759", 39.5)]).await?; // sends one property, not all of them
/// # Ok(()) }
/// ```
///
/// The guide has it as "Wide entities pattern".
#[derive(Clone, Debug)]
pub struct Wide {
    table: Table,
}

impl Wide {
    /// Wide entities in `table`, which may hold others as well.
    pub fn new(table: Table) -> Self {
        Self { table }
    }

    /// Stores a new entity. Fails with [`ErrorKind::AlreadyExists`] if there is one with its keys.
    pub async fn insert(&self, entity: &WideEntity) -> Result<ETag> {
        let rows = entity.pack(1).map_err(|error| self.of(error))?;
        let insert = rows.iter().fold(self.table.transaction(), Transaction::insert);
        first_etag(insert.submit().await?)
    }

    /// Reads the entity at `key`, or `None` when there is none.
    ///
    /// An answer of the service shows one version. If it takes several, the first row is read again
    /// after them, and everything once more if it was changed meanwhile.
    pub async fn get<K>(&self, key: Key<K>) -> Result<Option<Stored<WideEntity>>> {
        let names = Names::of(&key).map_err(|error| self.of(error))?;
        let mut rounds = Rounds::new(&self.table, names.row(0));
        loop {
            let (first, last) = (names.key(0), names.key(MAX_ROWS - 1));
            let all = Partition::<DynamicEntity>::new(&names.partition_key).range(first..=last);
            let mut pages = self.table.query(all).pages();
            let (mut rows, mut answers) = (Vec::new(), 0);
            while let Some(page) = pages.try_next().await? {
                rows.extend(page.entities.into_iter().filter(|row| names.is_row(row)));
                answers += 1;
            }
            let is_one_version = match rows.first() {
                Some(first) if answers > 1 => {
                    let now: Option<Stored<Head>> = self.table.get_as(names.key(0)).await?;
                    let is_first = first.entity.row_key == names.row(0);
                    is_first && now.is_some_and(|now| now.etag == first.etag)
                }
                Some(_) => true,
                None => return Ok(None),
            };
            if is_one_version {
                return WideEntity::join(&names, &rows).map(Some).map_err(|error| self.of(error));
            }
            if !rounds.again().await {
                let what = "others changed the entity each time that it was read";
                return Err(self.of(Error::refused(ErrorKind::Conflict, what)));
            }
        }
    }

    /// Replaces the entity if nobody changed it since it was read, and deletes the rows that it has no
    /// use for any more. `stored` is then as it is stored now.
    ///
    /// Fails with [`ErrorKind::Conflict`] if somebody did, and with [`ErrorKind::NotFound`] if it was
    /// deleted.
    pub async fn replace(&self, stored: &mut Stored<WideEntity>) -> Result<()> {
        let condition = Match::from(&*stored);
        let version = stored.entity.version + 1;
        let old_rows = stored.entity.rows;
        let etag = self.overwrite(&stored.entity, version, old_rows, condition).await?;
        let rows = stored.entity.pack(version)?;
        stored.entity.settle(version, &rows);
        now_stored(stored, etag);
        Ok(())
    }

    /// Changes some properties, and adds those that are new, if nobody changed the entity since it was
    /// read. `stored` is then as it is stored now.
    ///
    /// Only these properties are sent, to the rows that they are in and to the first. If a row has no
    /// room for what becomes larger, the whole entity is written anew. Give it `stored` as it was
    /// read: other changes to it are for [`replace`](Self::replace) to send.
    pub async fn merge<N: Into<String>, V: Into<Value>>(
        &self,
        stored: &mut Stored<WideEntity>,
        changes: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        let mut changed = stored.clone();
        let version = stored.entity.version + 1;
        let mut rows: BTreeMap<usize, Vec<(String, Value)>> = BTreeMap::from([(0, Vec::new())]);
        for (name, value) in changes {
            let (name, value) = (name.into(), value.into());
            let row = changed.entity.place(&name, value.clone());
            rows.entry(row).or_default().push((name, value));
        }
        if !changed.entity.is_within_limits() {
            changed.entity.rows = stored.entity.rows;
            self.replace(&mut changed).await?;
            *stored = changed;
            return Ok(());
        }
        let names = Names::of(&stored.entity.key()).map_err(|error| self.of(error))?;
        let mut transaction = self.table.transaction();
        for (number, properties) in rows {
            let mut row = names.entity(number);
            if number == 0 {
                Head { version, rows: changed.entity.rows }.write(&mut row);
            }
            for (name, value) in properties {
                row.set(name, value);
            }
            transaction = match number {
                0 => transaction.merge((&row, &*stored)),
                _ => transaction.upsert_merge(&row),
            };
        }
        let etag = first_etag(transaction.submit().await?)?;
        changed.entity.version = version;
        now_stored(&mut changed, etag);
        *stored = changed;
        Ok(())
    }

    /// Stores an entity, whether or not there is one: what was there is replaced, however many rows it
    /// had.
    pub async fn upsert(&self, entity: &WideEntity) -> Result<ETag> {
        let names = Names::of(&entity.key()).map_err(|error| self.of(error))?;
        let mut rounds = Rounds::new(&self.table, names.row(0));
        loop {
            let head: Option<Stored<Head>> = self.table.get_as(names.key(0)).await?;
            let result = match head {
                None => self.insert(entity).await,
                Some(head) => {
                    let Head { version, rows } = head.entity;
                    self.overwrite(entity, version + 1, rows, (&head).into()).await
                }
            };
            match result {
                Err(error) if was_lost(&error) && rounds.again().await => {}
                result => return result,
            }
        }
    }

    /// Deletes all rows of the entity if nobody changed it since it was read.
    pub async fn delete(&self, stored: &Stored<WideEntity>) -> Result<()> {
        let names = Names::of(&stored.entity.key()).map_err(|error| self.of(error))?;
        self.delete_rows(&names, stored.entity.rows, stored.into()).await
    }

    /// Deletes all rows of the entity if it is there, in whatever version; says whether it was.
    pub async fn delete_if_exists<K>(&self, key: Key<K>) -> Result<bool> {
        let names = Names::of(&key).map_err(|error| self.of(error))?;
        let mut rounds = Rounds::new(&self.table, names.row(0));
        loop {
            let head: Option<Stored<Head>> = self.table.get_as(names.key(0)).await?;
            let Some(head) = head else { return Ok(false) };
            match self.delete_rows(&names, head.entity.rows, (&head).into()).await {
                Err(error) if was_lost(&error) && rounds.again().await => {}
                // The refusal may be the echo of a deletion whose answer was lost.
                Err(error) if error.is_not_found() && error.outcome() == Outcome::Unknown => {
                    let now: Option<Stored<Head>> = self.table.get_as(names.key(0)).await?;
                    return if now.is_none() { Ok(true) } else { Err(error) };
                }
                result => return result.map(|()| true),
            }
        }
    }

    /// Writes all rows over the `old_rows` that are there, if the first fulfils `condition`.
    async fn overwrite(
        &self,
        entity: &WideEntity,
        version: i64,
        old_rows: usize,
        condition: Match,
    ) -> Result<ETag> {
        let names = Names::of(&entity.key()).map_err(|error| self.of(error))?;
        let rows = entity.pack(version).map_err(|error| self.of(error))?;
        let mut transaction = self.table.transaction();
        for (number, row) in rows.iter().enumerate() {
            transaction = match number {
                0 => transaction.replace((row, condition.clone())),
                _ => transaction.upsert(row),
            };
        }
        for surplus in rows.len()..old_rows {
            transaction = transaction.delete(names.key(surplus), Match::Any);
        }
        first_etag(transaction.submit().await?)
    }

    async fn delete_rows(&self, names: &Names, rows: usize, condition: Match) -> Result<()> {
        let first = self.table.transaction().delete(names.key(0), condition);
        let all = (1..rows).fold(first, |all, row| all.delete(names.key(row), Match::Any));
        all.submit().await.map(drop)
    }

    fn of(&self, error: Error) -> Error {
        error.of(OPERATION, self.table.name())
    }
}

/// The ETag of the first row, which is that of the entity.
fn first_etag(etags: Vec<Option<ETag>>) -> Result<ETag> {
    etags.into_iter().next().flatten().ok_or_else(|| {
        Error::refused(ErrorKind::Decode, "the write succeeded but the answer has no ETag")
    })
}

fn now_stored(stored: &mut Stored<WideEntity>, etag: ETag) {
    stored.timestamp = etag.timestamp().unwrap_or(stored.timestamp);
    stored.etag = etag;
}
