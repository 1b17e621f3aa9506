//! A table as DataFusion plans with it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DFSchema, Result, Statistics};
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use rowkey::{Filter, Operator, Table};

use super::entities::Read;
use super::{EntitySource, file_groups, object_store_url};
use crate::columns::{Mismatch, Rows};
use crate::error;
use crate::keys::{Keys, Span};
use crate::pushdown;
use crate::sink::{self, Target, WriteMode};

/// The most rows that a query with a limit reads with one stream, instead of several that each read a page.
const ONE_STREAM: usize = 10_000;
/// The rows that a table is taken to have whose sample has not all of them.
const MANY: usize = 1_000_000;

/// A table in a storage account, as a table of DataFusion.
///
/// Its columns are `PartitionKey`, `RowKey`, `Timestamp` and the properties. Register it, or query all tables of an account by a
/// [`Catalog`](crate::Catalog).
///
/// Conditions on keys become ranges of keys and are decided by the service alone; conditions on properties are sent as a filter and checked
/// again. The service is asked for the columns that the query needs. [Opening](Self::open) it says what a query costs to plan.
#[derive(Clone, Debug)]
pub struct TableSource {
    pub(super) table: Table,
    pub(super) schema: SchemaRef,
    pub(super) rows: Arc<Rows>,
    /// Whether the columns are those of a sample.
    pub(super) is_sampled: bool,
    /// Whether a store keeps more of an entity than a row.
    pub(super) is_of_store: bool,
    pub(super) mismatch: Mismatch,
    pub(super) write: WriteMode,
    pub(super) most_rejects: u64,
    pub(super) splits: usize,
    /// PartitionKeys at which a scan is divided, in the order of the service.
    pub(super) boundaries: Vec<String>,
    /// The rows and bytes of the sample, and whether these are all.
    pub(super) sample: (u64, u64, bool),
}

/// What a scan reads.
fn read(
    keys: &Keys,
    conditions: &[Arc<dyn PhysicalExpr>],
    source: &TableSource,
) -> (Vec<Span>, Read) {
    let TableSource { rows, schema, mismatch, .. } = source;
    let further = conditions.iter().map(pushdown::at_least).chain([rows.keys()]);
    let (spans, check) = keys.spans(further);
    let kind =
        rows.kind.iter().map(|(name, kind)| Filter::dynamic(name, Operator::Equal, kind.as_str()));
    let filter = kind.chain(pushdown::filter(conditions, schema)).reduce(Filter::and);
    let (rows, mismatch, is_sampled) = (Arc::clone(rows), *mismatch, source.is_sampled);
    (spans, Read { check, filter, rows, mismatch, is_sampled, is_whole: false })
}

impl TableSource {
    /// A table that need not exist yet, with these columns, for writes.
    pub(crate) fn new(
        table: Table,
        schema: SchemaRef,
        write: WriteMode,
        most_rejects: u64,
    ) -> Self {
        Self {
            table,
            schema,
            rows: Arc::new(Rows::ALL),
            is_sampled: false,
            is_of_store: false,
            mismatch: Mismatch::default(),
            write,
            most_rejects,
            splits: 1,
            boundaries: Vec::new(),
            sample: (0, 0, false),
        }
    }

    /// Whether the sample had no rows.
    pub(crate) const fn is_empty(&self) -> bool {
        self.sample.0 == 0
    }

    /// Whether the sample had all rows.
    pub(crate) const fn is_small(&self) -> bool {
        self.sample.2
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// A condition of the engine in its physical form, in which columns have no table.
    fn physical(&self, expression: &Expr) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let expression = unnormalize_col(expression.clone());
        let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        create_physical_expr(&expression, &schema, &properties, &context)
    }

    /// How many rows a scan of these ranges is taken to have. Never exact, because other programs write.
    fn estimate(&self, spans: &[Span], is_filtered: bool) -> Statistics {
        let (rows, bytes, is_complete) = self.sample;
        let [rows, bytes] = [rows, bytes].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let of_row = bytes / rows.max(1);
        let all = if is_complete { rows } else { MANY.max(rows) };
        let is_narrow = spans.iter().all(Span::is_of_one_partition);
        let rows = if !spans.is_empty() && spans.iter().all(Span::is_point) {
            spans.len().min(all)
        } else if is_narrow {
            // A partition is taken to have a hundredth of the rows.
            (all / 100).max(1).saturating_mul(spans.len()).min(all)
        } else {
            all
        };
        let rows = if is_filtered { rows.div_ceil(5) } else { rows };
        Statistics {
            num_rows: Precision::Inexact(rows),
            total_byte_size: Precision::Inexact(rows.saturating_mul(of_row)),
            column_statistics: vec![ColumnStatistics::new_unknown(); self.schema.fields().len()],
        }
    }
}

#[async_trait]
impl TableProvider for TableSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.estimate(&[Span::ALL], false))
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let each = filters.iter().map(|filter| {
            // A condition that has no physical form here, such as one with a subquery, is the engine's.
            Ok(match self.physical(filter) {
                Ok(filter) if pushdown::exactly(&filter).is_some() => {
                    TableProviderFilterPushDown::Exact
                }
                Ok(_) => TableProviderFilterPushDown::Inexact,
                Err(_) => TableProviderFilterPushDown::Unsupported,
            })
        });
        each.collect()
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let conditions =
            filters.iter().map(|filter| self.physical(filter)).collect::<Result<Vec<_>>>()?;
        let keys = Keys::of(conditions.iter().filter_map(pushdown::exactly));
        let (spans, read) = read(&keys, &conditions, self);
        let statistics = self.estimate(&spans, read.filter.is_some());
        if spans.is_empty() {
            let schema = match projection {
                Some(columns) => Arc::new(self.schema.project(columns)?),
                None => Arc::clone(&self.schema),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let (spans, groups) = if limit.is_some_and(|limit| limit <= ONE_STREAM) {
            (spans, 1)
        } else {
            (
                spans.into_iter().flat_map(|span| span.divided(&self.boundaries)).collect(),
                self.splits,
            )
        };
        let source = EntitySource::new(&self.table, &self.schema, read);
        let config = FileScanConfigBuilder::new(object_store_url(), Arc::new(source))
            .with_file_groups(file_groups(spans, groups))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .with_statistics(statistics)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Self { table, schema, rows, write, most_rejects, .. } = self;
        if self.is_of_store {
            return Err(error::plan(format!(
                "the entities of the type in the table {} are written by a store, which keeps further rows, blobs or encrypted fields for each; write them by \
                 `rowkey::store::Store`, or insert into a table without a type",
                table.name()
            )));
        }
        let target = Target {
            table: table.clone(),
            schema: Arc::clone(schema),
            rows: Arc::clone(rows),
            mode: *write,
            most_rejects: *most_rejects,
        };
        sink::insert(target, input, operation)
    }
}
