//! Data series: the values of a period in one entity, with one property per slot.
//!
//! A day of hourly values is one entity of 24 properties rather than 24 entities: one point query reads it,
//! and a merge sets one slot without reading.
//!
//! - [`Series`]: the layout of periods; sets, counts, reads
//! - [`Period`]: an entity with its slots, gaps included · [`Periods`]: all periods of a partition ·
//!   [`Point`]: one slot of many
//!
//! ```
//! use rowkey::patterns::series::Series;
//! use rowkey::{Entity, StorageAccount};
//!
//! /// A day of a station. Only its keys: the values are slots.
//! #[derive(Debug, Entity)]
//! #[entity(partition = "{station}", row = "{date:8}")]
//! struct Day {
//!     station: String,
//!     date: u32,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> rowkey::Result<()> {
//! # let server = rowkey_emulator::Server::start().await.unwrap();
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! let table = account.table("temperatures");
//! table.create().await?;
//! let hours = Series::<f64>::new(table, "t", 24)?;
//! hours.set(Day::key("seattle", 20100101), 13, 42.8).await?;
//! let day = hours.get(Day::key("seattle", 20100101)).await?.unwrap();
//! assert_eq!(day.entity.slots[13], Some(42.8));
//! assert_eq!(day.entity.slots[14], None);
//! # Ok(()) }
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey_client::edm::Value;
use rowkey_client::rounds::{Rounds, was_lost};
use rowkey_client::table::Stream;
use rowkey_client::{
    DynamicEntity, Entity, Error, ErrorKind, FailedRow, Key, Outcome, Partition, Property, Result,
    Stored, Table, Transaction,
};

use crate::unique;

mod periods;

use periods::Raw;
pub use periods::{Period, Periods, Point};

/// The maximum number of properties of an entity besides its keys and Timestamp.
const MAX_SLOTS: usize = 252;

/// The number of digits of a slot in the name of its property, enough for the largest possible slot. A width
/// that depended on the number of slots would rename all properties when that number grows.
const DIGITS: usize = 3;

/// A layout of periods: a number of slots, each a property whose name is a prefix and the slot's number in
/// three digits, `t000` to `t023`. The name of a slot does not depend on the number of slots, so a series may
/// get more slots later.
///
/// Your entity type supplies the keys of a period. It may have properties of its own, which must be optional
/// and which setting a slot does not change. If it has a `kind` or a `version`, periods have them, too. For
/// values with a running number, [`place`](Self::place) computes the period and the slot, and
/// [`set_numbered`](Self::set_numbered) sets several of them.
///
/// The guide's section is
/// [Data series pattern](https://learn.microsoft.com/azure/storage/tables/table-storage-design-guide#data-series-pattern).
pub struct Series<V> {
    table: Table,
    prefix: Arc<str>,
    slots: usize,
    value: PhantomData<fn() -> V>,
}

impl<V: Property> Series<V> {
    /// A series with `slots` slots per period, whose properties begin with `prefix`.
    ///
    /// Fails with [`ErrorKind::TooLarge`] if there are more slots than the 252 properties of an entity, and
    /// with [`ErrorKind::Invalid`] if there are none, or if the prefix cannot begin a property's name.
    pub fn new(table: Table, prefix: &str, slots: usize) -> Result<Self> {
        let refused =
            |kind, what: String| Err(Error::refused(kind, what).of("Series", table.name()));
        if slots > MAX_SLOTS {
            let what = format!("{slots} slots exceed the {MAX_SLOTS} properties of an entity");
            return refused(ErrorKind::TooLarge, what).map_err(|error: Error| {
                error.advise("use fewer slots per period and `set_numbered`, or wide entities")
            });
        }
        if slots == 0 {
            return refused(ErrorKind::Invalid, "a period must have at least 1 slot".into());
        }
        let mut characters = prefix.chars();
        let begins = characters.next().is_some_and(|first| first.is_ascii_alphabetic());
        if !begins || !characters.all(|next| next.is_ascii_alphanumeric() || next == '_') {
            let what = "the prefix must be a letter, followed by letters, digits and `_`";
            return refused(ErrorKind::Invalid, what.into());
        }
        Ok(Self { table, prefix: prefix.into(), slots, value: PhantomData })
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The period and the slot of the value with this running number: with 24 slots, number 49 is in slot 1
    /// of period 2.
    ///
    /// ```
    /// # use rowkey::patterns::series::Series;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{station}", row = "{date:8}")]
    /// # struct Day { station: String, date: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("days");
    /// # table.create().await?;
    /// let per_minute = Series::<i64>::new(table, "m", 60)?;
    /// let (hour, minute) = per_minute.place(61);
    /// assert_eq!((hour, minute), (1, 1));
    /// # Ok(()) }
    /// ```
    pub fn place(&self, number: u64) -> (u64, usize) {
        let slots = self.slots as u64;
        // The remainder of a division by at most 252 is small.
        (number / slots, usize::try_from(number % slots).unwrap_or_default())
    }

    /// Sets one slot, whether or not it or the entity exists. The last writer of the slot wins, and other
    /// slots are not changed. One request, which may be repeated.
    pub async fn set<E: Entity>(&self, key: Key<E>, slot: usize, value: V) -> Result<()>
    where
        V: Send,
    {
        self.set_all(key, [(slot, value)]).await
    }

    /// Sets several slots of one period in one request, all or none. The request may be repeated.
    ///
    /// ```
    /// # use rowkey::patterns::series::Series;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{station}", row = "{date:8}")]
    /// # struct Day { station: String, date: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("days");
    /// # table.create().await?;
    /// # let hours = Series::<f64>::new(table, "t", 24)?;
    /// hours.set_all(Day::key("seattle", 20260101), [(0, 3.5), (6, 2.0)]).await?;
    /// hours.clear(Day::key("seattle", 20260101), 0).await?;
    /// let day = hours.get(Day::key("seattle", 20260101)).await?.ok_or("not found")?.entity;
    /// assert_eq!((day.slots[0], day.slots[6]), (None, Some(2.0)));
    /// # Ok(()) }
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "the future must not borrow the key")]
    pub fn set_all<E: Entity>(
        &self,
        key: Key<E>,
        values: impl IntoIterator<Item = (usize, V)>,
    ) -> impl Future<Output = Result<()>> + Send {
        let patch = self.patch(&key, values);
        async move { self.table.upsert_merge(&patch?).await.map(drop) }
    }

    /// Sets values by their running numbers, which [`place`](Self::place) distributes over periods: for more
    /// values than a period has slots. `key` returns the key of a period.
    ///
    /// One request, all or none, which may be repeated. Fails with [`ErrorKind::Invalid`] if the periods are
    /// not in one partition, and with [`ErrorKind::TooLarge`] if there are more than 100, before sending.
    ///
    /// ```
    /// # use rowkey::patterns::series::Series;
    /// # use rowkey::{Entity, StorageAccount};
    /// /// An hour of a day. The 1,440 minutes of a day are in 24 rows.
    /// #[derive(Debug, Entity)]
    /// #[entity(partition = "{station}", row = "{date:8}_{number:2}")]
    /// struct Hour { station: String, date: u32, number: u64 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("days");
    /// # table.create().await?;
    /// let minutes = Series::<f64>::new(table, "m", 60)?;
    /// let hour = |hour| Hour::key("seattle", 20260101, hour);
    /// minutes.set_numbered(hour, [(59, 3.5), (60, 3.25)]).await?;
    /// assert_eq!(minutes.get(hour(1)).await?.ok_or("not found")?.entity.slots[0], Some(3.25));
    /// # Ok(()) }
    /// ```
    pub fn set_numbered<E: Entity>(
        &self,
        key: impl Fn(u64) -> Key<E>,
        values: impl IntoIterator<Item = (u64, V)>,
    ) -> impl Future<Output = Result<()>> + Send {
        let mut periods = BTreeMap::<u64, Vec<(usize, V)>>::new();
        for (number, value) in values {
            let (period, slot) = self.place(number);
            periods.entry(period).or_default().push((slot, value));
        }
        let patches = periods.into_iter().map(|(period, values)| self.patch(&key(period), values));
        let patches: Result<Vec<_>> = patches.collect();
        async move {
            match &*patches? {
                [] => Ok(()),
                [patch] => self.table.upsert_merge(patch).await.map(drop),
                patches => {
                    let transaction = self.table.transaction();
                    let merges = patches.iter().fold(transaction, Transaction::upsert_merge);
                    merges.submit().await.map(drop)
                }
            }
        }
    }

    /// Clears one slot, so that it is a gap again. Reads, and writes under the ETag that was read, until no
    /// other writer interferes.
    pub async fn clear<E: Entity>(&self, key: Key<E>, slot: usize) -> Result<()> {
        let name = self.name_of(slot)?;
        let emptied = self.table.update(self.row(&key)?, |entity| drop(entity.remove(&name))).await;
        match emptied {
            Err(error)
                if error.kind() == ErrorKind::NotFound && error.outcome() != Outcome::Unknown =>
            {
                Ok(())
            }
            result => result.map(drop),
        }
    }

    /// Replaces the value of a slot (or its absence) exactly once, concurrently with other calls that do the
    /// same: reads, and merges the slot under the ETag that was read, until no other program wrote in
    /// between. Returns the new value.
    ///
    /// Two requests, two more for each writer that was faster, and two more for the first value of a period.
    /// `change` may run several times. An additional property, named the prefix and `_by`, holds the id of
    /// the last call that changed the period, so that a call whose response was lost can detect that it
    /// succeeded. Hence at most 251 slots.
    ///
    /// Fails with [`Outcome::Unknown`] if that cannot be determined, because the service did not respond at
    /// all, or because another call has overwritten the property since; and with [`ErrorKind::Conflict`] if
    /// other writers were faster 40 times.
    ///
    /// ```
    /// # use rowkey::patterns::series::Series;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{station}", row = "{date:8}")]
    /// # struct Day { station: String, date: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("days");
    /// # table.create().await?;
    /// let highest = Series::<f64>::new(table, "max", 24)?;
    /// let key = || Day::key("seattle", 20260101);
    /// for degrees in [8.5, 11.0, 9.5] {
    ///     highest.update(key(), 13, |old| old.unwrap_or(degrees).max(degrees)).await?;
    /// }
    /// assert_eq!(highest.get(key()).await?.ok_or("not found")?.entity.slots[13], Some(11.0));
    /// # Ok(()) }
    /// ```
    pub async fn update<E: Entity>(
        &self,
        key: Key<E>,
        slot: usize,
        mut change: impl FnMut(Option<V>) -> V + Send,
    ) -> Result<V>
    where
        V: Send,
    {
        self.try_update(&key, slot, |old| Ok(change(old))).await
    }

    /// Reads a period, or `None` if nothing of it was ever set. One point query.
    pub async fn get<E: Entity + Send>(&self, key: Key<E>) -> Result<Option<Stored<Period<E, V>>>>
    where
        V: Send,
    {
        let Some(stored) = self.table.get_as::<Raw<E>>(key).await? else {
            return Ok(None);
        };
        self.stored_period(stored).map(Some)
    }

    /// The periods of a partition, or of a part of one, in key order. Periods that were never set are not
    /// included.
    pub fn periods<E>(&self, partition: Partition<E>) -> Periods<E, V>
    where
        E: Entity + Send + 'static,
    {
        let query = self.table.query(partition).project::<Raw<E>>();
        Periods { series: self.clone(), query }
    }

    /// All slots of the periods of a partition, or of a part of one, as one ordered stream with gaps. A period that
    /// does not decode is one error that names its row ([`failed_rows`](rowkey_client::ErrorDetails::failed_rows)), and the
    /// stream continues with the next period.
    ///
    /// ```
    /// use futures_util::TryStreamExt as _;
    ///
    /// # use rowkey::patterns::series::Series;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{station}", row = "{date:8}")]
    /// # struct Day { station: String, date: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("days");
    /// # table.create().await?;
    /// # let halves = Series::<i64>::new(table, "h", 2)?;
    /// # halves.set_all(Day::key("seattle", 20260101), [(0, 1), (1, 2)]).await?;
    /// # halves.set_all(Day::key("seattle", 20260102), [(1, 4)]).await?;
    /// let points: Vec<_> = halves.points(Day::partition("seattle")).try_collect().await?;
    /// let values: Vec<_> = points.iter().map(|point| point.value).collect();
    /// assert_eq!(values, [Some(1), Some(2), None, Some(4)]);
    /// # Ok(()) }
    /// ```
    pub fn points<E>(&self, partition: Partition<E>) -> Stream<Point<E, V>>
    where
        E: Entity + Send + Sync + 'static,
        V: Send + 'static,
    {
        self.periods(partition)
            .stream()
            .map_ok(|stored| {
                let Period { entity, slots } = stored.entity;
                let entity = Arc::new(entity);
                stream::iter(slots.into_iter().enumerate().map(move |(slot, value)| {
                    Ok(Point { entity: Arc::clone(&entity), slot, value })
                }))
            })
            .try_flatten()
            .boxed()
    }

    async fn try_update<E: Entity>(
        &self,
        key: &Key<E>,
        slot: usize,
        mut change: impl FnMut(Option<V>) -> Result<V> + Send,
    ) -> Result<V>
    where
        V: Send,
    {
        let most = MAX_SLOTS - type_marks::<E>() - 1;
        if self.slots > most {
            let what =
                format!("{} slots leave no property for the id of the last change", self.slots);
            return Err(self.refused(ErrorKind::Invalid, what).advise(format!(
                "use at most {most} slots for values that depend on the old value"
            )));
        }
        let row = self.row(key)?;
        let name = self.name_of(slot)?;
        let (mark, call) = (format!("{}_by", self.prefix), Value::from(unique::name()));
        let mut rounds = Rounds::new(&self.table, row.parts().unwrap_or_default());
        loop {
            let Some(stored) = self.table.get(row.clone()).await? else {
                // An entity without slots; harmless even if another writer creates it first.
                self.table.upsert_merge(&self.patch(key, [])?).await?;
                if rounds.again().await {
                    continue;
                }
                let what = "other programs keep deleting the period";
                return Err(self.refused(ErrorKind::Conflict, what));
            };
            let old =
                stored.entity.get(&name).map(|value| self.value_of(slot, value)).transpose()?;
            let new = change(old)?;
            let mut patch = self.patch(key, [])?;
            patch.set(&*name, self.stored_value(slot, &new)?);
            patch.set(&*mark, call.clone());
            match self.table.merge((&patch, &stored)).await {
                Ok(_) => return Ok(new),
                Err(error) if was_lost(&error) => {
                    if !rounds.again().await {
                        return Err(error);
                    }
                }
                Err(error) if error.outcome() == Outcome::Unknown => {
                    // A writer that only sets slots keeps this property, so it is still conclusive.
                    let now = self.table.get(row.clone()).await;
                    let is_ours =
                        matches!(&now, Ok(Some(now)) if now.entity.get(&mark) == Some(&call));
                    return if is_ours { Ok(new) } else { Err(error) };
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// An entity with only these slots and the type properties, to be merged.
    fn patch<E: Entity>(
        &self,
        key: &Key<E>,
        values: impl IntoIterator<Item = (usize, V)>,
    ) -> Result<DynamicEntity> {
        let (partition_key, row_key) = self.parts(key)?;
        let most = MAX_SLOTS - type_marks::<E>();
        if self.slots > most {
            let what =
                format!("{} slots and the type properties do not fit into an entity", self.slots);
            return Err(self.refused(ErrorKind::TooLarge, what).advise(format!(
                "use at most {most} slots per period and `set_numbered`, or wide entities"
            )));
        }
        let mut patch = DynamicEntity::new(partition_key, row_key);
        // A period that this merge creates is read as an `E`, which checks the type properties.
        patch.mark_as::<E>();
        for (slot, value) in values {
            patch.set(self.name_of(slot)?, self.stored_value(slot, &value)?);
        }
        Ok(patch)
    }

    fn row<E: Entity>(&self, key: &Key<E>) -> Result<Key<DynamicEntity>> {
        let (partition_key, row_key) = self.parts(key)?;
        Ok(Key::new(partition_key, row_key))
    }

    fn parts<'k, E: Entity>(&self, key: &'k Key<E>) -> Result<(&'k str, &'k str)> {
        key.parts().map_err(|error| self.refused(ErrorKind::Invalid, error.to_string()))
    }

    /// The property name of a slot.
    fn name_of(&self, slot: usize) -> Result<String> {
        if slot >= self.slots {
            let what = format!("slot {slot} does not exist: slots are 0 to {}", self.slots - 1);
            return Err(self.refused(ErrorKind::Invalid, what));
        }
        Ok(self.property(slot))
    }

    fn property(&self, slot: usize) -> String {
        format!("{}{slot:0DIGITS$}", self.prefix)
    }

    fn stored_value(&self, slot: usize, value: &V) -> Result<Value> {
        let refused =
            |what: &str| Err(self.refused(ErrorKind::Invalid, format!("slot {slot}: {what}")));
        match value.to_value() {
            Ok(Some(value)) => Ok(value.into_owned()),
            Ok(None) => refused("an absent value cannot be merged; clear the slot"),
            Err(error) => refused(&error.to_string()),
        }
    }

    fn value_of(&self, slot: usize, value: &Value) -> Result<V> {
        V::from_value(value.as_ref())
            .map_err(|error| self.refused(ErrorKind::Decode, format!("slot {slot}: {error}")))
    }

    fn refused(&self, kind: ErrorKind, what: impl Into<Cow<'static, str>>) -> Error {
        Error::refused(kind, what).of("Series", self.table.name())
    }

    fn stored_period<E>(&self, stored: Stored<Raw<E>>) -> Result<Stored<Period<E, V>>> {
        let Stored { entity, etag, timestamp, receipt } = stored;
        match self.period(entity) {
            Ok(entity) => Ok(Stored { entity, etag, timestamp, receipt }),
            Err(row) => Err(Error::of_rows(vec![row]).of("Series", self.table.name())),
        }
    }

    /// A slot of another type is a row that does not decode.
    fn period<E>(&self, raw: Raw<E>) -> Result<Period<E, V>, FailedRow> {
        let Raw { entity, properties } = raw;
        let slots = (0..self.slots).map(|slot| {
            let value = properties.get(&self.property(slot));
            let value = value.map(|value| V::from_value(value.as_ref())).transpose();
            value.map_err(|error| {
                let reason = format_args!("slot {slot}: {error}").to_string();
                FailedRow::new(&*properties.partition_key, &*properties.row_key, &reason)
            })
        });
        let slots = slots.collect::<Result<_, _>>()?;
        Ok(Period { entity, slots })
    }
}

/// The number of properties that identify the type of an entity.
fn type_marks<E: Entity>() -> usize {
    usize::from(E::KIND.is_some()) + usize::from(E::VERSION > 1)
}

impl Series<i64> {
    /// Adds to a counter exactly once, concurrently with other calls that do the same; a gap counts as 0.
    /// Returns the new count. See [`update`](Self::update).
    ///
    /// Fails with [`ErrorKind::Invalid`] if the sum is too large.
    ///
    /// ```
    /// # use rowkey::patterns::series::Series;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{station}", row = "{date:8}")]
    /// # struct Day { station: String, date: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("days");
    /// # table.create().await?;
    /// let visitors = Series::<i64>::new(table, "v", 24)?;
    /// assert_eq!(visitors.increment(Day::key("seattle", 20260101), 13, 2).await?, 2);
    /// assert_eq!(visitors.increment(Day::key("seattle", 20260101), 13, 1).await?, 3);
    /// # Ok(()) }
    /// ```
    pub async fn increment<E: Entity>(&self, key: Key<E>, slot: usize, by: i64) -> Result<i64> {
        self.try_update(&key, slot, |old| {
            old.unwrap_or(0).checked_add(by).ok_or_else(|| {
                let what = format!("slot {slot}: the sum is too large");
                self.refused(ErrorKind::Invalid, what)
            })
        })
        .await
    }
}

impl<V> Clone for Series<V> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            prefix: Arc::clone(&self.prefix),
            slots: self.slots,
            value: PhantomData,
        }
    }
}

impl<V> fmt::Debug for Series<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series")
            .field("table", &self.table.name())
            .field("prefix", &self.prefix)
            .field("slots", &self.slots)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use rowkey_client::StorageAccount;

    use super::*;

    fn table() -> Table {
        StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap().table("t")
    }

    #[test]
    fn a_slot_name_does_not_depend_on_the_number_of_slots() {
        for (slots, last) in [(1, "t000"), (10, "t009"), (24, "t023"), (252, "t251")] {
            let series = Series::<f64>::new(table(), "t", slots).unwrap();
            assert_eq!(series.name_of(slots - 1).unwrap(), last);
            assert_eq!(series.name_of(0).unwrap(), "t000");
            assert_eq!(series.name_of(slots).unwrap_err().kind(), ErrorKind::Invalid);
        }
        let other = Series::<f64>::new(table(), "t1", 24).unwrap();
        assert_eq!(other.name_of(5).unwrap(), "t1005", "not slot 15 of `t`");
    }

    #[test]
    fn too_many_slots_are_rejected_with_a_hint_at_wide_entities() {
        let error = Series::<f64>::new(table(), "t", 253).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
        assert!(error.to_string().contains("wide entities"), "{error}");
        for prefix in ["", "1", "_t", "t-", "é"] {
            let error = Series::<f64>::new(table(), prefix, 24).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{prefix}");
        }
        assert_eq!(Series::<f64>::new(table(), "t", 0).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn numbers_roll_over_to_the_next_period() {
        let hours = Series::<f64>::new(table(), "t", 24).unwrap();
        let places = [0, 23, 24, 49, u64::MAX].map(|number| hours.place(number));
        assert_eq!(places, [(0, 0), (0, 23), (1, 0), (2, 1), (u64::MAX / 24, 15)]);
    }
}
