//! Opens a table: samples its rows for columns, ranges and statistics.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;
use rowkey::Table;
use rowkey::edm::Type;
use rowkey::patterns::ranges;

use super::TableSource;
use crate::columns::{
    Declared, Found, Inferred, Kind, Mismatch, PARTITION_KEY, ROW_KEY, Rows, TIMESTAMP, schema,
};
use crate::error;
use crate::sink::WriteMode;

/// The ranges of keys that a scan reads at once, if a program does not say.
const SPLITS: usize = 8;

/// Where the columns of a table come from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Schema {
    /// A sample of its rows.
    Inferred,
    /// A type.
    Declared(Box<Declared>),
}

impl From<Inferred> for Schema {
    fn from(_: Inferred) -> Self {
        Self::Inferred
    }
}

impl From<Declared> for Schema {
    fn from(declared: Declared) -> Self {
        Self::Declared(Box::new(declared))
    }
}

/// A table that is being opened: await it.
///
/// ```
/// use std::sync::Arc;
///
/// use rowkey_datafusion::{Inferred, TableSource, session};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// # let table = account.table("orders");
/// # table.create().await?;
/// # let mut row = rowkey::DynamicEntity::new("contoso", "1");
/// # row.set("cents", 995_i64);
/// # table.insert(&row).await?;
/// let orders = TableSource::open(&table).schema(Inferred).splits(4).await?;
/// let session = session();
/// session.register_table("orders", Arc::new(orders))?;
/// let rows = session.sql("SELECT cents FROM orders WHERE PartitionKey = 'contoso'").await?;
/// assert_eq!(rows.count().await?, 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is requested before it is awaited"]
pub struct Open {
    table: Table,
    schema: Schema,
    splits: usize,
    mismatch: Mismatch,
    columns: Vec<(String, Type)>,
    /// The columns with which the table was created. They come first, so that their places stay.
    created: Option<SchemaRef>,
    write: WriteMode,
    most_rejects: u64,
}

impl TableSource {
    /// Opens a table, with columns from a sample of its rows.
    ///
    /// Costs one request for a table with fewer than 1,000 rows, about 20 for a larger one. Ranges and statistics are those of the
    /// time when it was opened: later rows are read, but the ranges may become uneven.
    pub fn open(table: &Table) -> Open {
        Open {
            table: table.clone(),
            schema: Schema::Inferred,
            splits: SPLITS,
            mismatch: Mismatch::default(),
            columns: Vec::new(),
            created: None,
            write: WriteMode::default(),
            most_rejects: 0,
        }
    }
}

impl Open {
    /// Where the columns come from: [`Inferred`], or the type of [`of`](crate::of).
    pub fn schema(mut self, schema: impl Into<Schema>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Reads at most this many ranges of keys at once, at least 1. Default: 8.
    ///
    /// Each range may end with a page that is not full, and more ranges of a small table cost more requests.
    pub fn splits(mut self, ranges: usize) -> Self {
        self.splits = ranges.max(1);
        self
    }

    /// What a scan does with a value that its column's type cannot represent. Default: the query fails.
    pub fn mismatch(mut self, mismatch: Mismatch) -> Self {
        self.mismatch = mismatch;
        self
    }

    /// Adds a column, or gives it another type than the schema has.
    pub fn column(mut self, name: impl Into<String>, edm: Type) -> Self {
        self.columns.push((name.into(), edm));
        self
    }

    pub(crate) fn created(mut self, columns: Option<SchemaRef>) -> Self {
        self.created = columns;
        self
    }

    /// What `INSERT INTO` does with a row whose key an entity has already. Default: it rejects the row.
    pub fn write(mut self, mode: WriteMode) -> Self {
        self.write = mode;
        self
    }

    /// How many rows `INSERT INTO` may reject: with more of them the statement fails, when it has written all others. Default: 0.
    ///
    /// A row is rejected if the service refuses it: its key is invalid or has an entity already ([`WriteMode::Insert`]), or it is too large. The
    /// count of a statement is that of the rows that are written; the metric `rejected` of `EXPLAIN ANALYZE` has the others.
    pub fn rejects(mut self, most: u64) -> Self {
        self.most_rejects = most;
        self
    }
}

impl IntoFuture for Open {
    type Output = Result<TableSource>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self {
                table,
                schema: from,
                splits,
                mismatch,
                columns,
                created,
                write,
                most_rejects,
            } = self;
            let (declared, rows, is_of_store) = match from {
                Schema::Inferred => (None, Rows::ALL, false),
                Schema::Declared(declared) => {
                    (Some(declared.properties), declared.rows, declared.is_of_store)
                }
            };
            let is_sampled = declared.is_none();
            let found = Found::of(&table, &rows).await.map_err(error::of_service)?;
            let kind_of = |name: &str| {
                found.properties.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind)
            };
            let mut properties = match declared {
                None => found.properties.clone(),
                Some(properties) => properties
                    .into_iter()
                    .map(|(name, edm)| {
                        let kind = edm.map(Kind::of).or_else(|| kind_of(&name));
                        (name, kind.unwrap_or(Kind::Text))
                    })
                    .collect(),
            };
            let is_property = |field: &&Arc<Field>| {
                !matches!(field.name().as_str(), PARTITION_KEY | ROW_KEY | TIMESTAMP)
            };
            let created = created.iter().flat_map(|columns| columns.fields());
            let created = created
                .filter(is_property)
                .filter_map(|field| Some((field.name().clone(), Kind::of_field(field)?)));
            let mut first: Vec<_> = created.collect();
            properties.retain(|(name, _)| first.iter().all(|(known, _)| known != name));
            first.append(&mut properties);
            properties = first;
            for (name, edm) in columns {
                let kind = Kind::of(edm);
                match properties.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => *known = kind,
                    None => properties.push((name, kind)),
                }
            }
            let schema = schema(properties.iter().map(|(name, kind)| (name.as_str(), *kind)));
            let between = ranges::between(found.partition_keys, splits);
            Ok(TableSource {
                table,
                schema,
                rows: Arc::new(rows),
                is_sampled,
                is_of_store,
                mismatch,
                write,
                most_rejects,
                splits,
                boundaries: between.into_iter().filter_map(|range| range.from).collect(),
                sample: (found.rows, found.bytes, found.is_complete),
            })
        })
    }
}
