//! Loading entities of plain types, which have no other rows.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};
use rowkey_client::table::{EncodedRow, RowWrite};
use rowkey_client::{
    DynamicEntity, Entity, Error, ErrorCode, ErrorKind, Key, Outcome, Result, Table, Transaction,
};

use super::load::ends_everything;
use super::pack::{Merge, Packs, pack};
use super::{Attempt, Batch, Job, Loading, Report, Verdict};
use crate::keys::not_of_a_store;
use crate::together::try_all;

/// Entities read at once to find out which are stored already.
const AT_A_TIME: usize = 16;
/// How often entities are looked up after a transaction is refused because some exist.
const LOOKUPS: u32 = 8;

/// Entities of one partition that one transaction stores: an item of the stream of [`Job::insert`].
pub struct Rows<E> {
    table: Table,
    verb: Verb,
    entities: Vec<One<E>>,
    /// The size of all entities.
    bytes: usize,
    /// All operations, to check that they fit into one transaction.
    all: Transaction,
    on_rejected: Option<OnRejected>,
}

/// An entity that a job could not store, for the callback of [`Job::rejected`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rejected<'r> {
    /// The entity as it was to be stored.
    pub entity: DynamicEntity,
    /// The reason. Quotes no keys.
    pub error: &'r Error,
}

pub(super) type OnRejected = Arc<dyn Fn(Rejected<'_>) + Send + Sync>;

/// An entity to store.
enum One<E> {
    /// Without the entity, which is dropped while it is in the cache.
    Row(EncodedRow),
    /// With the entity, which a lookup compares with what is stored.
    Compared(E, EncodedRow),
    /// It cannot be encoded.
    Invalid(E),
}

impl<E> One<E> {
    fn row(&self) -> Option<&EncodedRow> {
        match self {
            Self::Row(row) | Self::Compared(_, row) => Some(row),
            Self::Invalid(_) => None,
        }
    }
}

impl<E: Entity + 'static> One<E> {
    /// The entity without its type; of one that cannot be encoded, if it has no other type.
    fn dynamic(&self) -> Option<DynamicEntity> {
        match self {
            Self::Row(row) | Self::Compared(_, row) => row.decoded().ok(),
            Self::Invalid(entity) => (entity as &dyn Any).downcast_ref().cloned(),
        }
    }
}

/// The operation on each entity.
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

/// Loads of plain types. Use `Store::load` for a type with
/// `#[entity(store)]`. This does not compile:
///
/// ```compile_fail
/// # use futures_util::stream;
/// # use rowkey::patterns::job::Job;
/// # use rowkey::{Entity, StorageAccount};
/// # #[derive(Clone, Debug, Entity)]
/// # #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
/// # struct User { tenant: String, id: u32 }
/// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
/// let user = User { tenant: "contoso".into(), id: 1 };
/// let _past_the_store = Job::insert(&account.table("users"), stream::iter([user]));
/// ```
impl<E: Entity + Send + Sync + 'static> Job<'static, Loading<Packs<Rows<E>>>> {
    /// Inserts all entities of a stream. A transaction takes as many entities of a partition as fit: 100,
    /// in 4 MiB.
    ///
    /// Requests that the service does not accept are repeated later; throttling loses no entity. An
    /// entity that is already stored with the same content counts as stored. A load can therefore be
    /// repeated, and a lost response leaves nothing unknown. An entity that cannot be stored is reported
    /// with its keys, and the others continue.
    ///
    /// The stream is read beside the pace of the job: what it sends itself, such as a scan of another table, has the pace of
    /// its own options, if any. [`Job::copy`] reads at the pace of the job.
    ///
    /// Entities of one partition are stored in the order of the stream. If an entity occurs twice, the
    /// second one is refused. Up to 64 partitions are packed at once; a stream that is sorted by
    /// partition, or has no more partitions than that, makes the fewest transactions.
    ///
    /// Costs one request per transaction, one more for each entity that is refused, and, if an entity
    /// exists already, a read for each entity of its transaction.
    ///
    /// ```
    /// use futures_util::stream;
    /// use rowkey::patterns::job::Job;
    /// use rowkey::{Entity, StorageAccount};
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

    /// Inserts or replaces all entities of a stream. If an entity occurs twice, the last one is kept.
    /// Otherwise like [`insert`](Self::insert).
    ///
    /// ```
    /// # use futures_util::stream;
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// use rowkey::patterns::job::Job;
    ///
    /// let row = |number: u32| DynamicEntity::new("device-7", number.to_string());
    /// let rows = || stream::iter((0..3).map(row));
    /// assert_eq!(Job::upsert(&events, rows()).run().await?.total.right, 3);
    /// assert_eq!(Job::upsert(&events, rows()).run().await?.total.right, 3);
    /// # Ok(()) }
    /// ```
    pub fn upsert(table: &Table, entities: impl Stream<Item = E> + Send + 'static) -> Self {
        Self::rows("upsert", table, Verb::Upsert, entities)
    }

    /// Inserts or merges all entities of a stream: other properties of an entity are kept.
    /// Otherwise like [`upsert`](Self::upsert).
    ///
    /// ```
    /// # use futures_util::stream;
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// use rowkey::patterns::job::Job;
    ///
    /// let mut event = DynamicEntity::new("device-7", "1");
    /// event.set("Degrees", 21_i64);
    /// events.insert(&event).await?;
    /// let mut checked = DynamicEntity::new("device-7", "1");
    /// checked.set("Checked", true);
    /// Job::upsert_merge(&events, stream::iter([checked])).run().await?;
    ///
    /// let key = rowkey::Key::<DynamicEntity>::new("device-7", "1");
    /// let merged = events.get(key).await?.ok_or("not found")?.entity;
    /// assert_eq!((merged.get_as::<i64>("Degrees")?, merged.get_as::<bool>("Checked")?), (21, true));
    /// # Ok(()) }
    /// ```
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
        let to = table.clone();
        Self::load(name, table, pack(entities.map(move |entity| Rows::of(&to, verb, entity))))
    }

    /// Passes each entity that cannot be stored to `rejected`, with the reason: to a file, for example. The report has the
    /// keys and reasons of the first ones alone.
    ///
    /// Called before the checkpoint passes the entity, so a job that is resumed may pass it again. An entity of a type
    /// other than [`DynamicEntity`] that cannot be encoded is only in the report.
    ///
    /// ```
    /// # use futures_util::stream;
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # use std::sync::{Arc, Mutex};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// use rowkey::patterns::job::Job;
    ///
    /// let rows = ["1", "2/3", "4"].map(|key| DynamicEntity::new("device-7", key));
    /// let rejected = Arc::new(Mutex::new(Vec::new()));
    /// let all = Arc::clone(&rejected);
    /// let load = Job::upsert(&events, stream::iter(rows));
    /// let report = load.rejected(move |rejected| all.lock().unwrap().push(rejected.entity)).run().await?;
    /// assert_eq!((report.total.right, report.total.failed), (2, 1));
    /// assert_eq!(rejected.lock().unwrap()[0].row_key, "2/3");
    /// # Ok(()) }
    /// ```
    pub fn rejected(mut self, rejected: impl Fn(Rejected<'_>) + Send + Sync + 'static) -> Self {
        let on_rejected: OnRejected = Arc::new(rejected);
        let groups = self.work.groups;
        self.work.groups =
            groups.map(move |rows| rows.on_rejected(Some(Arc::clone(&on_rejected)))).boxed();
        self
    }
}

impl<E: Entity> Rows<E> {
    pub(super) fn on_rejected(self, on_rejected: Option<OnRejected>) -> Self {
        Self { on_rejected, ..self }
    }

    pub(super) fn upsert(table: &Table, entity: E) -> Self {
        Self::of(table, Verb::Upsert, entity)
    }

    fn of(table: &Table, verb: Verb, entity: E) -> Self {
        let one = match EncodedRow::of(&entity) {
            Ok(row) if verb == Verb::Insert => One::Compared(entity, row),
            Ok(row) => One::Row(row),
            Err(_) => One::Invalid(entity),
        };
        let bytes = one.row().map_or(0, EncodedRow::size);
        let all = table.transaction();
        let all = if let Some(row) = one.row() { verb.add(all, row) } else { all };
        Self { table: table.clone(), verb, entities: vec![one], bytes, all, on_rejected: None }
    }
}

/// What was found out about the entities of one attempt.
struct Found<'r, E> {
    report: Report,
    /// Passed on when the attempt is over: what fails as a whole is stored again.
    rejected: Vec<(&'r One<E>, Arc<Error>)>,
}

impl<'r, E: Entity + 'static> Found<'r, E> {
    /// Counts an entity that cannot be stored.
    fn reject(&mut self, one: &'r One<E>, error: &Arc<Error>) {
        let invalid = if one.row().is_none() { one.dynamic() } else { None };
        let keys = match (one.row(), &invalid) {
            (Some(row), _) => row.keys(),
            (None, Some(entity)) => (&*entity.partition_key, &*entity.row_key),
            (None, None) => ("", ""),
        };
        self.report.problem(None, Verdict::Failed, keys, error);
        self.rejected.push((one, Arc::clone(error)));
    }
}

impl<E: Entity + Send + Sync + 'static> Rows<E> {
    /// Removes from `left` the entities that are stored, and those that differ from what is stored.
    async fn look_up<'r>(
        &self,
        left: Vec<(&'r One<E>, &'r EncodedRow)>,
        refused: &Arc<Error>,
        found: &mut Found<'r, E>,
    ) -> Result<Vec<(&'r One<E>, &'r EncodedRow)>> {
        let read = left.into_iter().map(|(one, row)| async move {
            let (partition_key, row_key) = row.keys();
            let stored = self.table.get(Key::<E>::new(partition_key, row_key)).await?;
            Ok::<_, Error>((one, row, stored.map(|stored| stored.entity)))
        });
        let mut left = Vec::new();
        for (one, row, stored) in try_all(read, AT_A_TIME).await? {
            match (stored, one) {
                (None, _) => left.push((one, row)),
                (Some(stored), One::Compared(entity, _)) if is_same(&stored, entity)? => {
                    found.report.note(None, Verdict::Right, 1);
                }
                (Some(_), _) => found.reject(one, refused),
            }
        }
        Ok(left)
    }
}

/// Whether the stored entity is the same as the one to store.
pub fn is_same<E: Entity>(stored: &E, entity: &E) -> Result<bool> {
    let row = DynamicEntity::of_any_size::<E>;
    Ok(row(stored)?.is_same(&row(entity)?))
}

impl<E: Entity + Send + Sync + 'static> Batch for Rows<E> {
    fn keys(&self) -> (&str, &str) {
        let first = self.entities.first().and_then(One::row);
        first.map_or(("", ""), EncodedRow::keys)
    }

    fn entities(&self) -> u64 {
        self.entities.len() as u64
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    async fn store(&self, _: Attempt) -> Result<Report> {
        let mut found = Found { report: Report::default(), rejected: Vec::new() };
        self.store_all(&mut found).await?;
        if let Some(on_rejected) = &self.on_rejected {
            for (one, error) in &found.rejected {
                if let Some(entity) = one.dynamic() {
                    on_rejected(Rejected { entity, error });
                }
            }
        }
        Ok(found.report)
    }
}

impl<E: Entity + Send + Sync + 'static> Rows<E> {
    async fn store_all<'r>(&'r self, found: &mut Found<'r, E>) -> Result<()> {
        let mut left = Vec::with_capacity(self.entities.len());
        for one in &self.entities {
            match one {
                One::Row(row) | One::Compared(_, row) => left.push((one, row)),
                One::Invalid(entity) => {
                    // Encode again to return the error.
                    if let Err(error) = EncodedRow::of(entity) {
                        found.reject(one, &Arc::new(error));
                    }
                }
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let mut lookups = 0;
        let mut sent = self.all.send().await;
        loop {
            let Err(error) = sent else {
                found.report.note(None, Verdict::Right, left.len() as u64);
                return Ok(());
            };
            let refused = error.details().operation_index.filter(|at| *at < left.len());
            let refused = refused.filter(|_| is_of_one(&error));
            if refused.is_none() && ends_everything(&error) {
                return Err(error);
            }
            let error = Arc::new(error);
            if error.kind() == ErrorKind::AlreadyExists && lookups < LOOKUPS {
                lookups += 1;
                left = self.look_up(left, &error, found).await?;
            } else if let Some(at) = refused {
                let (one, _) = left.remove(at);
                found.reject(one, &error);
            } else {
                left.drain(..).for_each(|(one, _)| found.reject(one, &error));
            }
            if left.is_empty() {
                return Ok(());
            }
            let add =
                |transaction, (_, row): &(&One<E>, &EncodedRow)| self.verb.add(transaction, row);
            sent = left.iter().fold(self.table.transaction(), add).submit().await;
        }
    }
}

impl<E: Entity + Send + Sync + 'static> Merge for Rows<E> {
    fn merge(&mut self, other: Self) -> Option<Self> {
        if !self.all.fits(&other.all) {
            return Some(other);
        }
        let all = std::mem::replace(&mut self.all, self.table.transaction());
        self.all = all.append(other.all);
        self.entities.extend(other.entities);
        self.bytes += other.bytes;
        None
    }
}

/// Whether one entity made the transaction fail, so that the others can be stored without it.
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
