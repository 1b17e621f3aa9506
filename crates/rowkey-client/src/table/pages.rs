//! Reads a query page by page, one request each, until nothing is left.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use rowkey_entity::entity::RowReader;
use rowkey_entity::{FailedRow, Projection, Receipt, Stored};
use rowkey_wire::auth::Service;
use rowkey_wire::edm::DateTime;
use rowkey_wire::headers::parse_http_date;
use rowkey_wire::odata::Fields;

use super::azurite;
use super::handle::Table;
use super::plan::Plan;
use crate::error::{Error, Result};
use crate::hot_partitions::tracker::Touch;
use crate::pace::load::Load;
use crate::paging::progress::{Limits, PagePermit, Progress};
use crate::paging::{Continuation, Stream};
use crate::table::wire::page::{self, PageError};
use crate::table::wire::{decode as headers, encode};
use crate::transport::{Call, Host, Reply, Safety};

const OPERATION: &str = "QueryEntities";

/// A page of the entities that match a query, and the continuation token of the next page.
#[derive(Clone, Debug)]
pub struct Page<P> {
    /// The entities in key order. A page of [`Query::pages`](crate::Query::pages) may be empty
    /// although more pages follow.
    pub entities: Vec<Stored<P>>,
    /// Where the query resumes, right after the last entity of the page; `None` at the end.
    pub continuation: Option<Continuation>,
    /// What reading the page used. The sum, if it took several requests.
    pub receipt: Receipt,
}

/// The position of a running query.
pub(crate) struct Reader<P> {
    pub(super) source: Arc<Source<P>>,
    /// Where the next page begins; `None` when everything has been read.
    pub(super) next: Option<Continuation>,
    pub(super) row_limits: RowLimits,
    pub(super) progress: Progress<Continuation>,
    /// The time of the service at the first response.
    pub(super) began: Option<DateTime>,
}

/// The number of entities to request and to return.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLimits {
    /// The most entities that a page may have.
    page_size: Option<u32>,
    /// How many are still missing; `None` for no limit.
    left: Option<u64>,
    /// How many more are requested, because some rows are skipped.
    extra: u64,
}

/// The query that is read, independent of the position.
pub(crate) struct Source<P> {
    table: Table,
    plan: Plan,
    fingerprint: u64,
    fail_fast: bool,
    projection: PhantomData<fn() -> P>,
}

/// The decoded rows of a response, up to the limit.
pub(super) struct DecodedPage<P> {
    pub(super) entities: Vec<Stored<P>>,
    /// The rows that do not decode, each with the number of entities before it.
    pub(super) failed: Vec<(usize, FailedRow)>,
    /// How many rows precede the first one that is neither wanted nor skipped.
    used: u64,
    /// Whether the response has more matching entities than are wanted. Its token points past
    /// those.
    has_more: bool,
    /// How many rows were skipped.
    passed: u64,
}

impl RowLimits {
    pub(super) fn new(page_size: Option<u32>, left: Option<u64>) -> Self {
        Self { page_size, left, extra: 0 }
    }

    /// Whether there is a limit.
    pub(super) fn is_limited(&self) -> bool {
        self.left.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    /// `$top`: the size of a page, or the number that is missing if that is smaller.
    pub(super) fn top(&self) -> Option<u32> {
        let left = self.left.map(|left| left.saturating_add(self.extra));
        let left = left.map(|left| u32::try_from(left).unwrap_or(u32::MAX));
        match (self.page_size, left) {
            (Some(size), Some(left)) => Some(size.min(left)),
            (Some(size), None) => Some(size),
            (None, Some(left)) => (left < rowkey_wire::limits::MAX_PAGE).then_some(left),
            (None, None) => None,
        }
    }

    /// Counts the entities that were received.
    pub(super) fn take<P>(&mut self, decoded: &DecodedPage<P>) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(decoded.rows());
        }
    }

    /// Counts the received rows. After a page with skipped rows the next request asks for at least
    /// twice as many extra rows: one entity after ten thousand copies must not take ten thousand
    /// requests.
    pub(super) fn note<P>(&mut self, decoded: &DecodedPage<P>) {
        self.take(decoded);
        let doubled = self.extra.saturating_mul(2).max(decoded.passed);
        self.extra = if decoded.passed == 0 { 0 } else { doubled };
    }
}

impl<P> DecodedPage<P> {
    /// How many rows count towards the limit, including those that do not decode.
    fn rows(&self) -> u64 {
        (self.entities.len() + self.failed.len()) as u64
    }

    /// The entities, if all rows decode.
    fn whole(self) -> Result<Vec<Stored<P>>> {
        if self.failed.is_empty() { Ok(self.entities) } else { Err(Error::of_rows(self.failed())) }
    }

    /// The rows that do not decode.
    fn failed(self) -> Vec<FailedRow> {
        self.failed.into_iter().map(|(_, row)| row).collect()
    }
}

impl<P: Projection> Reader<P> {
    pub(crate) fn new(
        table: Table,
        plan: Plan,
        row_limits: (Option<u32>, Option<u64>),
        resume: Option<Continuation>,
        (limits, fail_fast): (Limits, bool),
    ) -> Result<Self> {
        let row_limits = RowLimits::new(row_limits.0, row_limits.1);
        let next = begin(&table, &plan, resume)?;
        let fingerprint = plan.fingerprint(table.name());
        let source = Source { table, plan, fingerprint, fail_fast, projection: PhantomData };
        let progress = Progress::new(limits, next.as_ref());
        Ok(Self { source: Arc::new(source), next, row_limits, progress, began: None })
    }

    /// The next page, or `None` when everything that is wanted has been read. After an error the
    /// same page is requested again, unless the error is about rows: then the next one is.
    ///
    /// The continuation of a page is right after its last entity. If the response has more than was
    /// wanted, which happens only after rows were skipped, the page is requested again with the
    /// exact size.
    pub(crate) async fn next(&mut self) -> Result<Option<Page<P>>> {
        let Some(from) = self.next.clone().filter(|_| !self.row_limits.is_done()) else {
            return Ok(None);
        };
        let source = Arc::clone(&self.source);
        let mut top = self.row_limits.top();
        let mut receipt = Receipt::default();
        for _ in 0..MAX_CUTS {
            let permit = source.admit(&mut self.progress)?;
            let reply = permit.wait(source.request(&from, top)).await;
            let reply = reply.map_err(|error| source.named(error))?;
            self.began = self.began.or_else(|| date_of(&reply));
            receipt.add(&reply.receipt());
            let decoded = source.read(&from, &reply, self.row_limits)?;
            if decoded.has_more {
                self.progress.advance(None, None);
                top = u32::try_from(decoded.used).ok();
                continue;
            }
            let continuation = source.after(from.part, &reply);
            self.progress.advance(Some(&from), continuation.as_ref());
            self.row_limits.note(&decoded);
            self.next.clone_from(&continuation);
            let entities = decoded.whole();
            let mut entities = entities.map_err(|e| e.of_answer(&source.call(&from), &reply))?;
            // A page that was requested again took several requests.
            if receipt.attempts() > reply.attempts {
                for row in &mut entities {
                    row.receipt = receipt.clone();
                }
            }
            return Ok(Some(Page { entities, continuation, receipt }));
        }
        Err(source.named(too_many()))
    }

    /// The entities of the next response; `None` when everything has been read. The place after the
    /// last wanted entity does not matter here.
    async fn some(&mut self) -> Result<Option<DecodedPage<P>>> {
        let Some(from) = self.next.take().filter(|_| !self.row_limits.is_done()) else {
            return Ok(None);
        };
        let source = &self.source;
        let permit = source.admit(&mut self.progress)?;
        let reply = permit.wait(source.request(&from, self.row_limits.top())).await;
        let reply = reply.map_err(|error| source.named(error))?;
        let decoded = source.read(&from, &reply, self.row_limits)?;
        self.next = source.after(from.part, &reply);
        self.progress.advance(Some(&from), self.next.as_ref());
        self.row_limits.note(&decoded);
        Ok(Some(decoded))
    }

    /// Reads everything that is wanted. If rows do not decode, the error lists all of them, or with
    /// `fail_fast` those of one response.
    pub(super) async fn all(mut self) -> Result<Vec<Stored<P>>> {
        let (mut all, mut failed) = (Vec::new(), Vec::new());
        while let Some(mut some) = self.some().await? {
            if all.is_empty() {
                all = std::mem::take(&mut some.entities);
            } else {
                all.append(&mut some.entities);
            }
            if !some.failed.is_empty() {
                failed.extend(some.failed());
                if self.source.fail_fast {
                    break;
                }
            }
        }
        if failed.is_empty() { Ok(all) } else { Err(self.source.named(Error::of_rows(failed))) }
    }

    /// Reads a page with as many entities as are wanted, or all if there are fewer.
    pub(super) async fn filled(mut self) -> Result<Page<P>> {
        let mut page =
            Page { entities: Vec::new(), continuation: None, receipt: Receipt::default() };
        while let Some(next) = self.next().await? {
            page.entities.extend(next.entities);
            page.continuation = next.continuation;
            page.receipt.add(&next.receipt);
        }
        Ok(page)
    }
}

/// The time of the service in a response.
fn date_of(reply: &Reply) -> Option<DateTime> {
    let date = parse_http_date(reply.headers.get(http::header::DATE)?.to_str().ok()?)?;
    date.try_into().ok()
}

/// How often one page is requested, at most.
const MAX_CUTS: usize = 4;

#[cold]
fn too_many() -> Error {
    Error::decode(
        "the service sent more entities than requested, so there is no continuation after \
         the last requested one",
    )
}

impl<P: Projection> Source<P> {
    /// Requests the page at `from`, of at most `top` entities.
    pub(super) async fn request(&self, from: &Continuation, top: Option<u32>) -> Result<Reply> {
        let pipeline = self.table.pipeline();
        let filter = self.plan.filters[usize::from(from.part)].as_deref();
        let adapted = || filter.map(azurite::filter);
        if !pipeline.is_azurite() {
            let first = self.ask_for(from, top, filter).await;
            // Only a response shows which server it is.
            if !pipeline.is_azurite() || adapted().as_deref() == filter {
                return first;
            }
            let mut reply = self.ask_for(from, top, adapted().as_deref()).await?;
            if let Ok(first) = first {
                reply.follows(&first);
            }
            return Ok(reply);
        }
        self.ask_for(from, top, adapted().as_deref()).await
    }

    async fn ask_for(
        &self,
        from: &Continuation,
        top: Option<u32>,
        filter: Option<&str>,
    ) -> Result<Reply> {
        let select: Option<Vec<&str>> =
            self.plan.select.as_ref().map(|names| names.iter().map(String::as_str).collect());
        let query =
            encode::Query { filter, select: select.as_deref(), top, next: from.token.as_ref() };
        let request = encode::query(self.table.name(), &query);
        self.table.pipeline().send(request, self.call(from)).await
    }

    /// Decodes the response, up to the last wanted entity.
    pub(super) fn read(
        &self,
        from: &Continuation,
        reply: &Reply,
        row_limits: RowLimits,
    ) -> Result<DecodedPage<P>> {
        let mut decoded = DecodedPage {
            entities: Vec::new(),
            failed: Vec::new(),
            used: 0,
            has_more: false,
            passed: 0,
        };
        let receipt = reply.receipt();
        let mut rows = 0;
        page::page(&reply.body, |fields| {
            rows += 1;
            if decoded.has_more {
                return Ok(());
            }
            if self.plan.passes_over(fields) {
                (decoded.used, decoded.passed) = (decoded.used + 1, decoded.passed + 1);
                return Ok(());
            }
            if row_limits.left.is_some_and(|left| decoded.rows() >= left) {
                decoded.has_more = true;
                return Ok(());
            }
            decoded.used += 1;
            match Stored::decode(fields) {
                Ok(stored) => {
                    decoded.entities.push(Stored { receipt: receipt.clone(), ..stored });
                }
                Err(error) if error.is_index_copy() => decoded.passed += 1,
                Err(error) => {
                    let row = FailedRow::of(&RowReader::new(fields), &error);
                    decoded.failed.push((decoded.entities.len(), row));
                }
            }
            Ok::<_, Infallible>(())
        })
        .map_err(|error| match error {
            PageError::Body(error) => Error::from(error).of_answer(&self.call(from), reply),
            PageError::Entity(never) => match never {},
        })?;
        self.returned(from, reply, rows);
        Ok(decoded)
    }

    /// Reports how many rows a response has.
    pub(super) fn returned(&self, from: &Continuation, reply: &Reply, rows: usize) {
        let pipeline = self.table.pipeline();
        pipeline.returned(Service::Table, &self.call(from), reply, rows);
        pipeline.count_read(&self.call(from), rows as u64);
        pipeline.hot().add(|| {
            // The request counts as one already.
            let (key, rows) = (self.plan.partition.as_deref()?, rows.checked_sub(1)?);
            Some(Touch {
                table: self.table.name(),
                partition_key: key,
                written: None,
                entities: rows as u64,
                is_throttled: false,
                second: pipeline.clock().now().timestamp(),
            })
        });
    }

    /// Whether to skip a row that was received.
    pub(super) fn passes_over(&self, row: &Fields<'_>) -> bool {
        self.plan.passes_over(row)
    }

    /// Decodes, as a page, a response that was requested with no more entities than are wanted.
    pub(super) fn page(
        &self,
        from: &Continuation,
        reply: &Reply,
        row_limits: &mut RowLimits,
    ) -> Result<Page<P>> {
        let decoded = self.read(from, reply, *row_limits)?;
        if decoded.has_more {
            return Err(too_many().of_answer(&self.call(from), reply));
        }
        row_limits.take(&decoded);
        let entities = decoded.whole().map_err(|e| e.of_answer(&self.call(from), reply))?;
        let continuation = self.after(from.part, reply);
        Ok(Page { entities, continuation, receipt: reply.receipt() })
    }

    /// Whether a stream continues after the error: if it is about rows, and not about a response.
    pub(super) fn continues_after(&self, error: &Error) -> bool {
        !self.fail_fast && !error.details().failed_rows.is_empty()
    }

    /// Where the page after this response begins.
    pub(super) fn after(&self, part: u16, reply: &Reply) -> Option<Continuation> {
        let query = self.fingerprint;
        let token = headers::continuation(&reply.headers);
        if token.is_some() {
            let secondary = reply.host() == Host::Secondary;
            Some(Continuation { query, part, token, secondary })
        } else {
            let part = part.checked_add(1)?;
            let is_there = usize::from(part) < self.plan.filters.len();
            is_there.then_some(Continuation { query, part, token: None, secondary: false })
        }
    }

    /// Admits the next page, and warns once if the query reads very many.
    pub(super) fn admit(&self, progress: &mut Progress<Continuation>) -> Result<PagePermit> {
        let permit = progress.admit().map_err(|error| self.named(error))?;
        if permit.pages() == self.table.pipeline().options().many_pages {
            self.warn(permit.pages());
        }
        Ok(permit)
    }

    /// One event for a query, when it asks for the page after the last usual one.
    #[cold]
    fn warn(&self, pages: u64) {
        tracing::warn!(
            target: "rowkey",
            operation = OPERATION,
            resource = self.table.name(),
            cost = %self.plan.cost,
            pages,
            "query of many pages"
        );
    }

    /// Adds the operation and the table to an error of this query.
    #[cold]
    pub(super) fn named(&self, error: Error) -> Error {
        error.of(OPERATION, self.table.name())
    }

    pub(super) fn call(&self, from: &Continuation) -> Call<'_> {
        let filter = || self.plan.filters.get(usize::from(from.part)).and_then(Option::as_deref);
        let load = match &self.plan.partition {
            Some(key) => Load::Partition { key, entities: 0, written: None },
            None => Load::Scan { filter: filter().unwrap_or_default() },
        };
        Call::new(OPERATION, self.table.name(), Safety::Read).counting(load).at(from.host())
    }
}

/// Where a query begins; `None` if there is nothing to read.
pub(super) fn begin(
    table: &Table,
    plan: &Plan,
    resume: Option<Continuation>,
) -> Result<Option<Continuation>> {
    let query = plan.fingerprint(table.name());
    let next = match resume {
        Some(from) if from.query != query || usize::from(from.part) >= plan.filters.len() => {
            let what = "the continuation token is not of this query: its table, its range of keys or \
                        its filter is another";
            return Err(Error::invalid(what).of(OPERATION, table.name()));
        }
        Some(from) => from,
        None => Continuation { query, part: 0, token: None, secondary: false },
    };
    Ok((!plan.filters.is_empty()).then_some(next))
}

/// Pages of `reader`. An error ends the stream, unless it is about rows.
pub(crate) fn pages<P: Projection + Send + 'static>(reader: Result<Reader<P>>) -> Stream<Page<P>> {
    match reader {
        Ok(reader) => stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(page) => page.map(|page| (Ok(page), Some(reader))),
                Err(error) => {
                    let continues = reader.source.continues_after(&error);
                    Some((Err(error), continues.then_some(reader)))
                }
            }
        })
        .boxed(),
        Err(error) => failed(error),
    }
}

/// A stream that yields only this error.
pub(super) fn failed<T: Send + 'static>(error: Error) -> Stream<T> {
    stream::once(async { Err(error) }).boxed()
}
