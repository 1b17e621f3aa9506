//! Loading entities of plain types, to which no other rows belong.

use std::fmt;

use futures_util::{Stream, StreamExt as _};
use rowkey::table::{EncodedRow, RowWrite};
use rowkey::{
    DynamicEntity, Entity, Error, ErrorCode, ErrorKind, Key, Outcome, Result, Table, Transaction,
};

use super::pack::{Merge, Packs, pack};
use super::{Attempt, Batch, Job, Loading, Report, Verdict, paced};
use crate::row::{Keys, keys_of, not_of_a_store};
use crate::together::try_all;

/// Entities that are read at a time, to see which are stored already.
const AT_A_TIME: usize = 16;
/// How often entities are looked up that a transaction refuses because they are there.
const LOOKUPS: u32 = 8;

/// Entities of one partition that are stored by one transaction; what [`Job::insert`] is a stream of.
pub struct Rows<E> {
    table: Table,
    verb: Verb,
    keys: Keys,
    /// The entities with what is sent of them.
    entities: Vec<(E, Option<EncodedRow>)>,
    /// All operations, to see what fits.
    all: Transaction,
}

/// What is done with each entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Insert,
    Upsert,
    UpsertMerge,
}

impl Verb {
    fn add(self, transaction: Transaction, row: &EncodedRow) -> Transaction {
        match self {
            Self::Insert => transaction.row(row, RowWrite::Insert),
            Self::Upsert => transaction.row(row, RowWrite::Upsert),
            Self::UpsertMerge => transaction.row(row, RowWrite::UpsertMerge),
        }
    }
}

/// Loads of plain types. Those of a type with `#[entity(store)]` are loaded by
/// [`Store::load`](crate::Store::load). This does not compile:
///
/// ```compile_fail
/// # use futures_util::stream;
/// # use rowkey::{Entity, StorageAccount};
/// # use rowkey_store::job::Job;
/// # #[derive(Clone, Debug, Entity)]
/// # #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
/// # struct User { tenant: String, id: u32 }
/// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
/// let user = User { tenant: "contoso".into(), id: 1 };
/// let _past_the_store = Job::insert(&account.table("users"), stream::iter([user]));
/// ```
impl<E: Entity + Send + Sync + 'static> Job<'static, Loading<Packs<Rows<E>>>> {
    /// Inserts all entities of a stream, as many of a partition to a transaction as fit: 100, in 4 MiB.
    ///
    /// What the service does not take now is sent later; throttling loses no entity. An entity that is
    /// there already as it is counts as stored, so a load can be repeated, and a lost answer leaves
    /// nothing unknown. One that cannot be stored is reported with its keys, and the others go on.
    ///
    /// Entities of one partition are stored in the order of the stream, so of one that comes twice the
    /// second is refused. Up to 64 partitions are packed at a time; a stream that is sorted by partition,
    /// or has no more of them, makes the fewest transactions.
    ///
    /// Costs one request for each transaction; one more for each entity that is refused; and where one is
    /// there already, a read for each of its transaction.
    ///
    /// ```
    /// use futures_util::stream;
    /// use rowkey::{Entity, StorageAccount};
    /// use rowkey_store::job::Job;
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{sensor}", row = "{hour:6}")]
    /// struct Reading { sensor: String, hour: u32, degrees: f64 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let table = account.table("readings");
    /// table.create_if_missing().await?;
    /// let reading = |hour| Reading { sensor: format!("sensor-{}", hour % 4), hour, degrees: 20.0 };
    /// let report = Job::insert(&table, stream::iter((0..1000).map(reading))).run().await?;
    /// assert!(report.is_clean() && report.total.right == 1000);
    /// # Ok(()) }
    /// ```
    pub fn insert(table: &Table, entities: impl Stream<Item = E> + Send + 'static) -> Self {
        Self::rows("insert", table, Verb::Insert, entities)
    }

    /// Replaces or inserts all entities of a stream. As [`insert`](Self::insert) otherwise; of an entity
    /// that comes twice the last one stays.
    pub fn upsert(table: &Table, entities: impl Stream<Item = E> + Send + 'static) -> Self {
        Self::rows("upsert", table, Verb::Upsert, entities)
    }

    /// Merges or inserts all entities of a stream: other properties of an entity stay. As
    /// [`upsert`](Self::upsert) otherwise.
    pub fn upsert_merge(table: &Table, entities: impl Stream<Item = E> + Send + 'static) -> Self {
        Self::rows("upsert_merge", table, Verb::UpsertMerge, entities)
    }

    fn rows(
        name: &str,
        table: &Table,
        verb: Verb,
        entities: impl Stream<Item = E> + Send + 'static,
    ) -> Self {
        const { not_of_a_store::<E>() };
        let to = paced(table);
        Self::load(name, table, pack(entities.map(move |entity| Rows::of(&to, verb, entity))))
    }
}

impl<E: Entity> Rows<E> {
    fn of(table: &Table, verb: Verb, entity: E) -> Self {
        let row = EncodedRow::of(&entity).ok();
        let keys = row.as_ref().and_then(|_| keys_of(&entity).ok()).unwrap_or_default();
        let all = table.transaction();
        let all = if let Some(row) = &row { verb.add(all, row) } else { all };
        Self { table: table.clone(), verb, keys, entities: vec![(entity, row)], all }
    }
}

impl<E: Entity + Send + Sync> Rows<E> {
    /// Takes those that are stored, and those that differ from what is stored, out of `left`.
    async fn look_up<'r>(
        &self,
        left: Vec<(&'r E, &'r EncodedRow)>,
        refused: &Error,
        report: &mut Report,
    ) -> Result<Vec<(&'r E, &'r EncodedRow)>> {
        let read = left.into_iter().map(|(entity, row)| async move {
            let (partition_key, row_key) = row.keys();
            let stored = self.table.get(Key::<E>::new(partition_key, row_key)).await?;
            Ok::<_, Error>((entity, row, stored.map(|stored| stored.entity)))
        });
        let mut left = Vec::new();
        for (entity, row, stored) in try_all(read, AT_A_TIME).await? {
            match stored {
                None => left.push((entity, row)),
                Some(stored) if is_same(&stored, entity)? => report.note(None, Verdict::Right, 1),
                Some(_) => report.problem(None, Verdict::Failed, row.keys(), refused),
            }
        }
        Ok(left)
    }
}

/// Whether what is stored is what is to be stored.
pub(crate) fn is_same<E: Entity>(stored: &E, entity: &E) -> Result<bool> {
    let row = DynamicEntity::of_any_size::<E>;
    Ok(row(stored)? == row(entity)?)
}

impl<E: Entity + Send + Sync> Batch for Rows<E> {
    fn keys(&self) -> (&str, &str) {
        (&self.keys.0, &self.keys.1)
    }

    fn entities(&self) -> u64 {
        self.entities.len() as u64
    }

    async fn store(&self, _: Attempt) -> Result<Report> {
        let mut report = Report::default();
        let mut left = Vec::with_capacity(self.entities.len());
        for (entity, row) in &self.entities {
            match row {
                Some(row) => left.push((entity, row)),
                // What cannot be encoded says why again.
                None => return EncodedRow::of(entity).map(|_| report),
            }
        }
        let mut lookups = 0;
        while !left.is_empty() {
            let add = |transaction, (_, row): &(&E, &EncodedRow)| self.verb.add(transaction, row);
            let sent = left.iter().fold(self.table.transaction(), add).submit().await;
            let Err(error) = sent else {
                report.note(None, Verdict::Right, left.len() as u64);
                break;
            };
            let refused = error.details().operation_index.filter(|at| *at < left.len());
            if error.kind() == ErrorKind::AlreadyExists && lookups < LOOKUPS {
                lookups += 1;
                left = self.look_up(left, &error, &mut report).await?;
            } else if let Some(at) = refused.filter(|_| is_of_one(&error)) {
                let (_, row) = left.remove(at);
                report.problem(None, Verdict::Failed, row.keys(), &error);
            } else {
                return Err(error);
            }
        }
        Ok(report)
    }
}

impl<E: Entity + Send + Sync> Merge for Rows<E> {
    fn merge(&mut self, other: Self) -> Option<Self> {
        if !self.all.fits(&other.all) {
            return Some(other);
        }
        let all = std::mem::replace(&mut self.all, self.table.transaction());
        self.all = all.append(other.all);
        self.entities.extend(other.entities);
        None
    }
}

/// Whether an entity of the transaction made it fail, so that the others may be stored without it.
fn is_of_one(error: &Error) -> bool {
    let of_all =
        matches!(error.kind(), ErrorKind::Auth | ErrorKind::Throttled | ErrorKind::Unavailable);
    error.outcome() != Outcome::Unknown
        && !of_all
        && error.code() != Some(&ErrorCode::TABLE_NOT_FOUND)
}

impl<E> fmt::Debug for Rows<E> {
    /// Shows neither keys nor entities.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("verb", &self.verb)
            .field("entities", &self.entities.len())
            .finish_non_exhaustive()
    }
}
