//! Reading a query: one page, pages, a stream, all entities, or the first.

use rowkey_entity::{Projection, Stored};

use super::super::pages::Page;
use super::super::{entities, pages, prefetch};
use super::Query;
use crate::error::{ErrorKind, Result};
use crate::paging::{Continuation, Stream};

impl<P: Projection + Send + 'static> Query<P> {
    /// Reads a page of `entities` entities, or all that are left if there are fewer, from the
    /// beginning or from the end of a previous page. For lists that are shown page by page.
    ///
    /// ```
    /// # use rowkey::{Continuation, Entity, Page, Result, StorageAccount, Table};
    /// # #[derive(Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:9}")]
    /// # struct Order { tenant: String, id: u64 }
    /// /// Answers `GET /orders?page=...`.
    /// async fn list(orders: &Table, tenant: &str, page: Option<&str>) -> Result<Page<Order>> {
    ///     let from: Option<Continuation> = page.map(str::parse).transpose()?;
    ///     orders.query(Order::partition(tenant)).page(20, from).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # for id in 0..21 { orders.insert(&Order { tenant: "contoso".into(), id }).await?; }
    ///
    /// let first = list(&orders, "contoso", None).await?;
    /// let next = first.continuation.map(|next| next.to_string());
    /// assert_eq!(list(&orders, "contoso", next.as_deref()).await?.entities.len(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// The page is filled even if the service sends short pages, or if rows are skipped. Its
    /// continuation is right after its last entity; it is `None` when nothing is left. (If a page
    /// of the service ends exactly at the last entity, the service may not know that yet: then the
    /// next page is empty.) [`take`](Self::take) makes the page smaller.
    ///
    /// Takes one request, and another one for each page of the service that had fewer entities than
    /// were missing, for each 1,000 entities, and for each part of a query that is split.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if `entities` is 0 or `from` comes from another query; nothing is
    /// sent then. [`ErrorKind::Decode`] if a row does not decode
    /// ([`failed_rows`](crate::ErrorDetails::failed_rows)); with [`results`](Self::results) the
    /// page includes such rows, and has a continuation.
    pub async fn page(mut self, entities: u32, from: Option<Continuation>) -> Result<Page<P>> {
        if entities == 0 {
            self.fail(ErrorKind::Invalid, "a page must have at least 1 entity".to_owned());
        }
        self.resume = from.or(self.resume);
        self.take(entities.into()).into_reader()?.filled().await
    }

    /// Reads the entities one by one. The next page is requested when the current one is used up,
    /// or earlier with [`prefetch`](Self::prefetch).
    ///
    /// A row that does not decode is an error that [names it](crate::ErrorDetails::failed_rows),
    /// and the stream continues with the next row, unless the query is set to
    /// [fail fast](Self::fail_fast). Any other error ends the stream.
    ///
    /// ```
    /// use futures_util::TryStreamExt as _;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # for id in 1..=5 { orders.insert(&order(id, i64::from(id) * 100)).await?; }
    /// let mut found = orders.query(Order::partition("contoso")).prefetch().stream();
    /// let mut cents = 0;
    /// while let Some(stored) = found.try_next().await? {
    ///     cents += stored.entity.cents;
    /// }
    /// assert_eq!(cents, 1500);
    /// # Ok(()) }
    /// ```
    pub fn stream(self) -> Stream<Stored<P>> {
        let prefetch = self.prefetch;
        entities::entities(self.into_reader(), prefetch)
    }

    /// Reads the pages as the service sends them, one request each: for jobs that store their
    /// progress. A page may be empty and still have a continuation. [`page`](Self::page) fills
    /// pages.
    ///
    /// A page with rows that do not decode is an error that
    /// [names them](crate::ErrorDetails::failed_rows), and the stream continues with the next page;
    /// with [`results`](Self::results) it is an ordinary page.
    pub fn pages(self) -> Stream<Page<P>> {
        if self.prefetch {
            prefetch::pages(self.into_reader())
        } else {
            pages::pages(self.into_reader())
        }
    }

    /// Reads all entities into memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Decode`] if rows do not decode: the message has their number, and
    /// [`failed_rows`](crate::ErrorDetails::failed_rows) lists them. All pages are read first,
    /// unless the query is set to [fail fast](Self::fail_fast). [`results`](Self::results) returns
    /// them together with the entities.
    pub async fn all(self) -> Result<Vec<Stored<P>>> {
        self.into_reader()?.all().await
    }

    /// Reads the first entity, following continuations until there is one.
    pub async fn first(self) -> Result<Option<Stored<P>>> {
        Ok(self.take(1).all().await?.pop())
    }
}
