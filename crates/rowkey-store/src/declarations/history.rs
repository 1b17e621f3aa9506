//! Histories: a row that is inserted with each change of an entity.

use rowkey_client::internals::shown;
use rowkey_client::{Entity, Result};

use crate::declaring::{Change, Contribution, Declaration};
use crate::row::not_of_a_store;

/// A row of type `R` that is inserted with each change of an `E`, in its transaction: an audit log, or the events of
/// an entity.
///
/// Give it to [`StoreBuilder::with`](crate::StoreBuilder::with). Rows are written by all writes of the store, jobs
/// included, and are never changed. Costs one operation in the transaction and no request.
///
/// ```
/// use chrono::{DateTime, Utc};
/// use rowkey::store::{Change, History, Store};
/// use rowkey::{Entity, StorageAccount};
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(store, partition = "{tenant}", row = "order_{id:9}")]
/// struct Order {
///     tenant: String,
///     id: u32,
///     state: String,
/// }
///
/// /// A state that an order had, the newest first.
/// #[derive(Debug, Entity)]
/// #[entity(partition = "{tenant}", row = "event_{order:9}_{at:desc}_{operation}")]
/// struct Event {
///     tenant: String,
///     order: u32,
///     at: DateTime<Utc>,
///     operation: String,
///     state: String,
/// }
///
/// impl Event {
///     fn of(change: Change<'_, Order>) -> Option<Self> {
///         let order = change.after.filter(|after| change.before.is_none_or(|b| b.state != after.state))?;
///         let (tenant, state) = (order.tenant.clone(), order.state.clone());
///         let (at, operation) = (change.op().created(), change.op().mark().to_owned());
///         Some(Self { tenant, order: order.id, at, operation, state })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let events = History::new("events", Event::of);
/// let orders = Store::builder(account.table("orders")).with(events).build()?;
/// orders.create_if_missing().await?;
/// orders.insert(&Order { tenant: "contoso".into(), id: 1, state: "open".into() }).await?;
/// orders.update(Order::key("contoso", 1), |order| order.state = "closed".into()).await?;
///
/// let events = orders.table().query(Event::under_order("contoso", 1)).all().await?;
/// let states: Vec<_> = events.iter().map(|event| &*event.entity.state).collect();
/// assert_eq!(states, ["closed", "open"]);
/// # Ok(()) }
/// ```
pub struct History<E, R> {
    name: &'static str,
    row: RowOf<E, R>,
}

type RowOf<E, R> = Box<dyn Fn(Change<'_, E>) -> Option<R> + Send + Sync>;

impl<E, R: Entity> History<E, R> {
    /// Creates a history with the name of a declaration. `row` returns the row of a change, or `None`.
    ///
    /// It must depend on the change alone, and compare both of its states: repairs and migrations write an entity
    /// without changing it. The row is in the partition of the entity, and is new: give it the time and the mark of
    /// [`Change::op`]. An entity that replaces an expired one is inserted, and has no state before. A write whose row
    /// exists fails with [`ErrorKind::AlreadyExists`](rowkey_client::ErrorKind::AlreadyExists).
    pub fn new(
        name: &'static str,
        row: impl Fn(Change<'_, E>) -> Option<R> + Send + Sync + 'static,
    ) -> Self {
        const { not_of_a_store::<R>() };
        Self { name, row: Box::new(row) }
    }
}

impl<E: Entity, R: Entity> Declaration<E> for History<E, R> {
    fn name(&self) -> &str {
        self.name
    }

    fn operations(&self) -> usize {
        1
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        (self.row)(change.to_readers()).map_or(Ok(()), |row| plan.insert(&row))
    }
}

shown!([E, R] History<E, R>: name);
