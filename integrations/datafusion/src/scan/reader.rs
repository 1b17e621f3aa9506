//! Reads a range of keys: pages of entities, each a record batch.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::metrics::{Count, MetricBuilder};
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use rowkey::{DynamicEntity, Filter, Page, Table};
use tokio::time::timeout;

use super::Range;
use super::entities::{EntitySource, Read, dynamic};
use crate::columns::Batch;
use crate::error;
use crate::keys::{Keys, Span};
use crate::pushdown;

/// The most entities of a page.
const PAGE: usize = 1_000;

/// Reads the ranges of one partition of a scan.
pub(super) struct Reader {
    inner: Arc<Inner>,
    told: Vec<Arc<dyn PhysicalExpr>>,
    awaited: Vec<u64>,
    patience: Option<Duration>,
}

struct Inner {
    table: Table,
    /// All columns, which conditions are about, and those that are read.
    all: SchemaRef,
    schema: SchemaRef,
    /// The properties to ask for, if not all.
    select: Option<Vec<String>>,
    read: Read,
    limit: Option<usize>,
    requests: Count,
    bytes: Count,
}

impl Reader {
    pub(super) fn new(
        source: &EntitySource,
        columns: &[usize],
        limit: Option<usize>,
        partition: usize,
        (told, awaited): (&[Arc<dyn PhysicalExpr>], &[u64]),
    ) -> Result<Self> {
        let schema = Arc::new(source.schema().project(columns)?);
        let read = source.read.clone();
        let metrics =
            MetricBuilder::new(datafusion::datasource::physical_plan::FileSource::metrics(source));
        let bytes =
            MetricBuilder::new(datafusion::datasource::physical_plan::FileSource::metrics(source));
        let inner = Inner {
            table: source.table.clone(),
            all: Arc::clone(source.schema()),
            schema,
            select: (!read.is_whole).then(|| source.select()),
            read,
            limit,
            requests: metrics.counter("requests", partition),
            bytes: bytes.counter("bytes_received", partition),
        };
        Ok(Self {
            inner: Arc::new(inner),
            told: told.to_vec(),
            awaited: awaited.to_vec(),
            patience: source.patience,
        })
    }
}

impl FileOpener for Reader {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let range = file.extension::<Arc<Range>>().cloned().ok_or_else(|| {
            DataFusionError::Internal("a file of a table scan has no range of keys".to_owned())
        })?;
        let patience = self.patience;
        let (inner, told, awaited) =
            (Arc::clone(&self.inner), self.told.clone(), self.awaited.clone());
        Ok(Box::pin(async move {
            let conditions = complete(&told, &awaited, patience).await?;
            let (spans, filter) = inner.narrowed(&range.span, &conditions);
            let each =
                stream::iter(spans).map(move |span| inner.clone().batches(&span, filter.clone()));
            Ok(each.flatten().boxed())
        }))
    }
}

/// What other operators have told: conditions that are complete, after those that are waited for are.
async fn complete(
    told: &[Arc<dyn PhysicalExpr>],
    awaited: &[u64],
    patience: Option<Duration>,
) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let mut conditions = Vec::new();
    for part in told.iter().flat_map(dynamic) {
        let Some(filter) = part.downcast_ref::<DynamicFilterPhysicalExpr>() else { continue };
        if part.expression_id().is_some_and(|id| awaited.contains(&id)) {
            match patience {
                None => filter.wait_complete().await,
                // What it says until then holds, too.
                Some(patience) => _ = timeout(patience, filter.wait_complete()).await,
            }
        }
        // A condition that still changes becomes narrower, so what it says now holds, too.
        conditions.push(filter.current()?);
    }
    Ok(conditions)
}

impl Inner {
    /// What of a range is left by further conditions, and the filter of all conditions.
    fn narrowed(
        &self,
        span: &Span,
        conditions: &[Arc<dyn PhysicalExpr>],
    ) -> (Vec<Span>, Option<Filter>) {
        if conditions.is_empty() {
            return (vec![span.clone()], self.read.filter.clone());
        }
        // The ranges of a scan are parts in the order of the service, so this one is no condition, whose bounds are widened to mean the
        // same in both orders: another range would have the same rows.
        let (spans, _) = Keys::default().spans(conditions.iter().map(pushdown::at_least));
        let spans = spans.into_iter().filter_map(|one| one.within(span)).collect();
        // Together with the filter that the plan has, it might be too long.
        let filter = self.read.filter.clone().or_else(|| pushdown::filter(conditions, &self.all));
        (spans, filter)
    }

    /// The entities of a range, a batch for each page.
    fn batches(
        self: Arc<Self>,
        span: &Span,
        filter: Option<Filter>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let mut query = span.query(&self.table);
        if let Some(properties) = &self.select {
            query = query.select(properties.clone());
        }
        if let Some(filter) = filter {
            query = query.filter(filter);
        }
        // Where rows are passed over, pages of this size might be many.
        let is_whole = self.read.check == Keys::default() && self.read.rows.copies.is_empty();
        query = match self.limit.filter(|limit| *limit < PAGE && is_whole) {
            Some(limit) => query.page_size(u32::try_from(limit.max(1)).unwrap_or(1)),
            // A point has no second page.
            None if span.is_point() || self.limit.is_some() => query,
            None => query.prefetch(),
        };
        let pages = query.pages().map_err(error::of_service);
        let batches = pages.map(move |page| self.batch(&page?));
        batches.try_filter(|batch| std::future::ready(batch.num_rows() > 0)).boxed()
    }

    /// Fails for an entity with a property that is no column.
    fn has_columns_alone(&self, entity: &DynamicEntity) -> Result<()> {
        let is_column = |name: &str| self.all.fields().find(name).is_some();
        match entity.iter().find(|(name, _)| !is_column(name)) {
            Some((name, value)) => Err(error::unseen(self.table.name(), name, value.edm_type())),
            None => Ok(()),
        }
    }

    fn batch(&self, page: &Page<DynamicEntity>) -> Result<RecordBatch> {
        self.requests.add(usize::try_from(page.receipt.attempts()).unwrap_or_default());
        self.bytes.add(usize::try_from(page.receipt.bytes_received()).unwrap_or_default());
        let Read { check, rows, mismatch, is_whole, .. } = &self.read;
        let mut batch =
            Batch::new(self.table.name(), &self.schema, *mismatch, *is_whole, page.entities.len())?;
        for row in &page.entities {
            let entity = &row.entity;
            if rows.has(entity) && check.contains(&entity.partition_key, &entity.row_key) {
                if *is_whole {
                    self.has_columns_alone(entity)?;
                }
                batch.push(row)?;
            }
        }
        batch.finish()
    }
}
