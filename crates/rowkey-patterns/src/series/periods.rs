//! The periods of a series as they are read: whole entities, pages, and points in order.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey_client::entity::RowReader;
use rowkey_client::internals::shown;
use rowkey_client::table::Stream;
use rowkey_client::{
    Continuation, DecodeError, DynamicEntity, Entity, Error, FailedRow, Page, Projection, Property,
    Query, Result, Stored,
};

use super::Series;

/// A period: its entity, and a value or a gap for each slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Period<E, V> {
    /// The entity itself.
    pub entity: E,
    /// The slots from slot 0; `None` for a slot that was not set.
    pub slots: Vec<Option<V>>,
}

/// One slot in the ordered slots of several periods.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<E, V> {
    /// The entity of the period.
    pub entity: Arc<E>,
    /// The slot within the period.
    pub slot: usize,
    /// Its value, or `None` for a gap.
    pub value: Option<V>,
}

/// The periods of a partition, or of a part of one. Created by [`Series::periods`].
#[must_use = "nothing is read before `page` or `stream`"]
pub struct Periods<E, V> {
    pub(super) series: Series<V>,
    pub(super) query: Query<Raw<E>>,
}

impl<E: Entity + Send + 'static, V: Property + Send + 'static> Periods<E, V> {
    /// Reads `periods` periods, or all remaining if there are fewer, from the beginning or from the end of an
    /// earlier page. Like [`Query::page`], with its cost and its errors.
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
    /// # for date in 20260101..20260106 { hours.set(Day::key("seattle", date), 13, 8.5).await?; }
    /// let first = hours.periods(Day::partition("seattle")).page(3, None).await?;
    /// let rest = hours.periods(Day::partition("seattle")).page(3, first.continuation).await?;
    /// assert_eq!((first.entities.len(), rest.entities.len()), (3, 2));
    /// # Ok(()) }
    /// ```
    pub async fn page(
        self,
        periods: u32,
        from: Option<Continuation>,
    ) -> Result<Page<Period<E, V>>> {
        let name = self.series.table.name().to_owned();
        let Page { entities, continuation, receipt } = self.page_results(periods, from).await?;
        let mut failed = Vec::new();
        let whole =
            entities.into_iter().filter_map(|Stored { entity, etag, timestamp, receipt }| {
                let entity = entity.map_err(|row| failed.push(row)).ok()?;
                Some(Stored { entity, etag, timestamp, receipt })
            });
        let whole = whole.collect();
        if failed.is_empty() {
            Ok(Page { entities: whole, continuation, receipt })
        } else {
            Err(Error::of_rows(failed).of("Series", &name))
        }
    }

    /// Like [`page`](Self::page), with a [`FailedRow`] in the place of each period that does not decode: to page
    /// through a partition with such rows.
    ///
    /// ```
    /// # use rowkey::patterns::series::Series;
    /// # use rowkey::{DynamicEntity, Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{station}", row = "{date:8}")]
    /// # struct Day { station: String, date: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("days");
    /// # table.create().await?;
    /// # let hours = Series::<f64>::new(table.clone(), "t", 24)?;
    /// # hours.set(Day::key("seattle", 20260101), 13, 8.5).await?;
    /// // Another program writes a text in a slot.
    /// let mut other = DynamicEntity::new("seattle", "20260102");
    /// other.set("t013", "mild");
    /// table.insert(&other).await?;
    /// let page = hours.periods(Day::partition("seattle")).page_results(10, None).await?;
    /// assert!(page.entities[0].entity.is_ok());
    /// let failed = page.entities[1].entity.as_ref().unwrap_err();
    /// assert_eq!(&*failed.row_key, "20260102");
    /// # Ok(()) }
    /// ```
    pub async fn page_results(
        self,
        periods: u32,
        from: Option<Continuation>,
    ) -> Result<Page<Result<Period<E, V>, FailedRow>>> {
        let page = self.query.results().page(periods, from).await?;
        let Page { entities, continuation, receipt } = page;
        let read = |stored: Stored<Result<Raw<E>, FailedRow>>| {
            let Stored { entity, etag, timestamp, receipt } = stored;
            let entity = entity.and_then(|raw| self.series.period(raw));
            Stored { entity, etag, timestamp, receipt }
        };
        Ok(Page { entities: entities.into_iter().map(read).collect(), continuation, receipt })
    }

    /// Reads them as a stream. A period that does not decode is an error that names its row
    /// ([`failed_rows`](rowkey_client::ErrorDetails::failed_rows)), and the stream continues with the next one.
    pub fn stream(self) -> Stream<Stored<Period<E, V>>> {
        let series = self.series;
        self.query
            .stream()
            .and_then(move |stored| std::future::ready(series.stored_period(stored)))
            .boxed()
    }
}

shown!([E, V] Periods<E, V>: series);

/// An entity and all properties of its row.
#[derive(Debug)]
pub(super) struct Raw<E> {
    pub(super) entity: E,
    pub(super) properties: DynamicEntity,
}

impl<E: Projection> Projection for Raw<E> {
    const COLUMNS: Option<&'static [&'static str]> = None;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { entity: E::decode(row)?, properties: DynamicEntity::decode(row)? })
    }
}
