//! An entity together with its keys as they are stored.

use rowkey_entity::edm::Type;
use rowkey_entity::entity::{Declarations, RowReader};
use rowkey_entity::{DecodeError, Projection};

/// A value read from an entity, and the entity's keys: from [`Query::keyed`](crate::Query::keyed).
///
/// It declares what the value's type declares. So a type with fields in blobs is refused at compile time here, too: only
/// a store reads it.
///
/// ```compile_fail,E0080
/// # use rowkey::{Entity, StorageAccount};
/// #[derive(Entity)]
/// #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
/// struct Order {
///     tenant: String,
///     id: u32,
///     #[entity(blob)]
///     scan: Vec<u8>,
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
/// let orders = account.table("orders");
/// orders.query(Order::partition("contoso")).keyed().first().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Keyed<P> {
    /// The PartitionKey as it is stored.
    pub partition_key: String,
    /// The RowKey as it is stored.
    pub row_key: String,
    /// The value that was read.
    pub entity: P,
}

impl<P: Projection> Projection for Keyed<P> {
    const COLUMNS: Option<&'static [&'static str]> = P::COLUMNS;
    const TYPES: &'static [(&'static str, Option<Type>)] = P::TYPES;
    const DECLARED: Declarations = P::DECLARED;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            partition_key: row.partition_key()?.to_owned(),
            row_key: row.row_key()?.to_owned(),
            entity: P::decode(row)?,
        })
    }
}
