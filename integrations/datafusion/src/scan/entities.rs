//! What DataFusion executes: reads ranges of keys, with the columns that a query needs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use rowkey::{Filter, Table};

use super::reader::Reader;
#[cfg(feature = "cluster")]
use crate::cluster::pruning::Linked;
use crate::columns::{Mismatch, PARTITION_KEY, ROW_KEY, Rows, TIMESTAMP};
use crate::keys::Keys;

/// The longest that a scan on a cluster waits for joins.
#[cfg(feature = "cluster")]
const PATIENCE: Duration = Duration::from_secs(60);

/// What a scan reads of its ranges.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// What the keys of rows are checked for.
    pub(crate) check: Keys,
    /// The filter of properties.
    pub(crate) filter: Option<Filter>,
    pub(crate) rows: Arc<Rows>,
    pub(crate) mismatch: Mismatch,
    /// Whether the columns are those of a sample, which may not have shown all.
    pub(crate) is_sampled: bool,
    /// Whether an entity with a property that is no column is an error.
    pub(crate) is_whole: bool,
}

/// A scan of a table.
#[derive(Clone)]
pub(crate) struct EntitySource {
    pub(crate) table: Table,
    columns: TableSchema,
    projection: SplitProjection,
    pub(crate) read: Read,
    /// Conditions that other operators tell while the query runs.
    told: Vec<Arc<dyn PhysicalExpr>>,
    /// The identifiers of those that are waited for.
    awaited: Vec<u64>,
    /// The longest that it waits.
    pub(super) patience: Option<Duration>,
    /// What joins in the same part of a plan tell.
    #[cfg(feature = "cluster")]
    linked: Vec<Linked>,
    metrics: ExecutionPlanMetricsSet,
}

impl EntitySource {
    pub(crate) fn new(table: &Table, schema: &SchemaRef, read: Read) -> Self {
        let columns = TableSchema::from(Arc::clone(schema));
        Self {
            table: table.clone(),
            projection: SplitProjection::unprojected(&columns),
            columns,
            read,
            told: Vec::new(),
            awaited: Vec::new(),
            patience: None,
            #[cfg(feature = "cluster")]
            linked: Vec::new(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.columns.file_schema()
    }

    /// The same scan for a copy of all columns, which must leave no property out; `None` if it is not one.
    pub(super) fn whole(&self, is_copied: impl Fn(&str) -> bool) -> Option<Self> {
        let Read { is_sampled, mismatch, .. } = self.read;
        let fields = self.schema().fields().iter().enumerate();
        let mut properties = fields.filter(|(_, field)| {
            !matches!(field.name().as_str(), PARTITION_KEY | ROW_KEY | TIMESTAMP)
        });
        let has_all = properties.all(|(at, field)| {
            self.projection.file_indices.contains(&at) && is_copied(field.name())
        });
        (is_sampled && has_all && mismatch == Mismatch::Fail)
            .then(|| Self { read: Read { is_whole: true, ..self.read.clone() }, ..self.clone() })
    }

    /// The properties that are requested, besides the keys and the Timestamp, which every response has.
    pub(crate) fn select(&self) -> Vec<String> {
        let columns = self
            .projection
            .file_indices
            .iter()
            .map(|column| self.schema().field(*column).name().as_str());
        let columns = columns.filter(|name| !matches!(*name, PARTITION_KEY | ROW_KEY | TIMESTAMP));
        let mut select: Vec<String> = Vec::new();
        for name in columns.chain(self.read.rows.deciding()) {
            if !select.iter().any(|known| known == name) {
                select.push(name.to_owned());
            }
        }
        select
    }

    /// Whether it begins when a join has told what it needs.
    pub(crate) fn waits(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// The identifiers of the conditions that are told while the query runs.
    pub(super) fn told(&self) -> Vec<u64> {
        self.told.iter().flat_map(identifiers).collect()
    }

    pub(super) fn awaited(&self) -> &[u64] {
        &self.awaited
    }

    /// The same scan of a table in another account.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_table(&self, table: Table) -> Self {
        Self { table, ..self.clone() }
    }

    /// What other operators tell.
    #[cfg(feature = "cluster")]
    pub(crate) fn told_parts(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.told.iter().flat_map(dynamic).collect()
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn linked(&self) -> &[Linked] {
        &self.linked
    }

    /// The same scan, with what it waits for written down.
    #[cfg(feature = "cluster")]
    pub(crate) fn linking(&self, linked: Vec<Linked>) -> Self {
        Self { told: Vec::new(), awaited: Vec::new(), linked, ..self.clone() }
    }

    /// The same scan, which waits for these conditions, but not for ever.
    #[cfg(feature = "cluster")]
    pub(crate) fn told_by(&self, told: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        let awaited = told.iter().flat_map(identifiers).collect();
        Self { told, awaited, patience: Some(PATIENCE), linked: Vec::new(), ..self.clone() }
    }

    /// The same scan, which begins when these conditions are complete.
    pub(super) fn awaiting(&self, awaited: Vec<u64>) -> Self {
        Self { awaited, ..self.clone() }
    }
}

/// The identifiers of the conditions in an expression that are told while the query runs.
fn identifiers(expression: &Arc<dyn PhysicalExpr>) -> Vec<u64> {
    dynamic(expression).iter().filter_map(|filter| filter.expression_id()).collect()
}

/// The parts of an expression that are told while the query runs.
pub(super) fn dynamic(expression: &Arc<dyn PhysicalExpr>) -> Vec<Arc<dyn PhysicalExpr>> {
    let mut found = Vec::new();
    // The closure never fails.
    let _ = expression.apply(|part| {
        if part.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
            found.push(Arc::clone(part));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

impl FileSource for EntitySource {
    fn create_file_opener(
        &self,
        _: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let columns = &self.projection.file_indices;
        let reader =
            Reader::new(self, columns, config.limit, partition, (&self.told, &self.awaited))?;
        ProjectionOpener::try_new(self.projection.clone(), Arc::new(reader), self.schema())
    }

    fn table_schema(&self) -> &TableSchema {
        &self.columns
    }

    fn with_batch_size(&self, _: usize) -> Arc<dyn FileSource> {
        // A batch is a page of the service.
        Arc::new(self.clone())
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &'static str {
        "azure-table"
    }

    fn fmt_extra(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", table={}", self.table.name())?;
        if let Some(filter) = &self.read.filter {
            write!(f, ", $filter={}", filter.to_odata().unwrap_or_default())?;
        }
        if !self.awaited.is_empty() {
            write!(f, ", waits for {} join(s)", self.awaited.len())?;
        }
        Ok(())
    }

    /// A range of keys is no range of bytes.
    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        // What is known at planning time is in the ranges and the filter already.
        let told = filters.iter().filter(|filter| !dynamic(filter).is_empty()).cloned();
        let told: Vec<_> = self.told.iter().cloned().chain(told).collect();
        let source = Self { told, ..self.clone() };
        let checked = vec![PushedDown::No; filters.len()];
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(checked)
            .with_updated_node(Arc::new(source) as Arc<dyn FileSource>))
    }

    fn try_pushdown_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn FileSource>>> {
        let projection = self.projection.source.try_merge(projection)?;
        let projection = SplitProjection::new(self.schema(), &projection);
        Ok(Some(Arc::new(Self { projection, ..self.clone() })))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let projected = self.projection.source.iter().map(|one| &one.expr);
        for expression in projected.chain(&self.told) {
            if f(expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
