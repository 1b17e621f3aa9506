//! The ranges of a running walk: each is read page by page, and may give the rest of its keys to another.

use std::collections::VecDeque;
use std::pin::pin;

use futures_util::future::{BoxFuture, Either, FutureExt as _, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey_client::internals::{compare_keys, has_order};
use rowkey_client::table::Stream;
use rowkey_client::telemetry::with_receipt;
use rowkey_client::{Error, ErrorCode, FailedRow, Page, Projection, Result, Stored, Table};

use super::repeat::pause;
use super::split::Probing;
use super::walk::{PageStep, Walk, Walking};
use super::{Interrupted, Job, Report, Run, Verdict, primary};
use crate::probe::PARTITION_KEY;

/// The most bytes of the responses that one step gets.
const MAX_GATHERED: u64 = 4 * 1024 * 1024;

impl<P, F> Job<'_, Walking<P, F>>
where
    P: Projection + Send + 'static,
    F: PageStep<P>,
{
    /// Runs to the end and returns the report, including that of the runs it resumes.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], with a checkpoint, after an error of a read or a step that is not retryable,
    /// after too many failed items, or at the deadline of the pace. Its kind is
    /// [`Invalid`](rowkey_client::ErrorKind::Invalid), and nothing is sent, if the checkpoint to resume belongs
    /// to another job.
    pub async fn run(self) -> Result<Report, Interrupted> {
        let splits = self.work.walk.splits.clone();
        let split_by = self.work.walk.split_by;
        let beside = self.work.beside.iter().map(|(walk, _)| walk.table.name());
        let (beside, others) = (beside.collect::<Vec<_>>().join(","), self.work.beside.len());
        let mut job = self.parameter("split_by", split_by);
        if others > 0 {
            job = job.parameter("tables", beside);
        }
        if job.work.walk.locate.is_some() {
            job = job.parameter("split", "automatically");
        }
        let (mut run, table, work) = job.start(splits)?;
        let (splits, added, is_finished) = {
            let checkpoint = &run.state().checkpoint;
            (checkpoint.splits.clone(), checkpoint.added.len(), checkpoint.is_finished())
        };
        let all = splits.len() + 1 + others;
        run.units = Some(all as u64);
        let ranges = if is_finished { 0 } else { all + added };
        let left = (0..ranges).filter(|at| !run.is_done(*at)).collect();
        let begin = |at| work.range(&run, &table, &splits, at).boxed();
        let walk = run.pace.scope(drive(&run, left, &begin));
        let (walked, _) = with_receipt(walk).await;
        run.end(walked)
    }
}

impl<P, F> Walking<P, F>
where
    P: Projection + Send + 'static,
    F: PageStep<P>,
{
    /// Walks one range to its end.
    async fn range(
        &self,
        run: &Run<'_>,
        table: &Table,
        splits: &[String],
        at: usize,
    ) -> Result<()> {
        let number = at as u64;
        let other = at.checked_sub(splits.len() + 1).and_then(|other| self.beside.get(other));
        let other_table = other.map(|(walk, _)| primary(walk.table()));
        let (walk, step) = other.map_or((&self.walk, &self.step), |(walk, step)| (walk, step));
        let table = other_table.as_ref().unwrap_or(table);
        let clock = table.account().clock();
        let first = splits.len() + 1;
        let (from, to) = match at.checked_sub(first + self.beside.len()) {
            Some(added) => run.added(added),
            // Another table is one range.
            None if at >= first => (None, None),
            None => {
                (at.checked_sub(1).map(|before| splits[before].clone()), splits.get(at).cloned())
            }
        };
        let is_split = other.is_none()
            && walk.is_split_automatically()
            && walk.between(table, (from.as_deref(), to.as_deref())).is_divisible();
        let mut end =
            run.state().checkpoint.end_of(number).map(str::to_owned).or_else(|| to.clone());
        let mut next = run.begin(number);
        // Kept between pages, because it detects repeated tokens; restarted after an error.
        let mut pages: Option<Stream<Page<Result<P, FailedRow>>>> = None;
        // Read, but not passed to the step yet.
        let mut held: Option<Page<Result<P, FailedRow>>> = None;
        let mut failures = 0;
        loop {
            let mut rest = pages.take().unwrap_or_else(|| {
                let query = walk.between(table, (from.as_deref(), to.as_deref())).results();
                let read = held.as_ref().and_then(|held| held.continuation.clone());
                match read.or_else(|| next.clone()) {
                    Some(next) => query.resume(next).pages(),
                    None => query.pages(),
                }
            });
            let page = match rest.try_next().await {
                Ok(page) => page,
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    pause(clock, failures, error).await?;
                    continue;
                }
                Err(error)
                    if other.is_some() && error.code() == Some(&ErrorCode::TABLE_NOT_FOUND) =>
                {
                    return run.advance(number, None, Report::default());
                }
                Err(error) => return Err(error),
            };
            let rest_of = |held: Page<_>| Page { continuation: None, ..held };
            let Some(mut page) = page.or_else(|| held.take().map(rest_of)) else {
                return run.advance(number, None, Report::default());
            };
            if is_split {
                walk.cut(&mut page, end.as_deref());
            }
            let page = gathered(held.take(), page);
            let after = page.continuation.clone();
            let last = page.entities.last().filter(|_| is_split && after.is_some());
            let last = last.and_then(|row| walk.partition_key(row)).map(str::to_owned);
            if walk.gathers(&page) {
                (held, pages) = (Some(page), Some(rest));
                walk.split_behind(run, table, number, last.as_deref(), &mut end).await;
                continue;
            }
            let (page, unreadable) = readable(page);
            match step.step_in(number, page).await {
                Ok(mut report) => {
                    report.merge(unreadable);
                    failures = 0;
                    run.advance(number, after.clone(), report)?;
                    if after.is_none() {
                        return Ok(());
                    }
                    walk.split_behind(run, table, number, last.as_deref(), &mut end).await;
                    (next, pages) = (after, Some(rest));
                }
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    pause(clock, failures, error).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Walks ranges, as many at once as the job allows, and those that are split from them.
async fn drive<'r>(
    run: &'r Run<'_>,
    left: Vec<usize>,
    begin: &(dyn Fn(usize) -> BoxFuture<'r, Result<()>> + Sync),
) -> Result<()> {
    let mut left = VecDeque::from(left);
    let mut in_flight = FuturesUnordered::new();
    loop {
        let free = run.concurrency.saturating_sub(in_flight.len());
        let first = left.drain(..free.min(left.len())).collect::<Vec<_>>();
        let split = run.splits.take(free - first.len());
        in_flight.extend(first.into_iter().chain(split).map(begin));
        if in_flight.is_empty() {
            return Ok(());
        }
        let added = pin!(run.splits.added());
        if let Either::Left((Some(ended), _)) = select(in_flight.next(), added).await {
            ended?;
        }
    }
}

impl<P: Projection + Send + 'static> Walk<P> {
    /// Whether ranges are split while they are read. Their rows must have an order, which those of Cosmos DB have not.
    fn is_split_automatically(&self) -> bool {
        self.locate.is_some() && self.split_by == PARTITION_KEY && has_order(&self.table)
    }

    /// The PartitionKey of a row, if the walk can tell.
    fn partition_key<'r>(&self, row: &'r Stored<Result<P, FailedRow>>) -> Option<&'r str> {
        match &row.entity {
            Ok(entity) => self.locate.map(|locate| locate(entity)),
            Err(row) => Some(&row.partition_key),
        }
    }

    /// Whether the next page belongs to the same step.
    fn gathers(&self, page: &Page<Result<P, FailedRow>>) -> bool {
        page.continuation.is_some()
            && page.entities.len() < self.gather
            && page.receipt.bytes_received() < MAX_GATHERED
    }

    /// Removes the rows from a key on, which belong to another range. If there were any, the page is the last one.
    fn cut(&self, page: &mut Page<Result<P, FailedRow>>, end: Option<&str>) {
        let Some(end) = end else { return };
        let all = page.entities.len();
        let is_before = |row: &Stored<Result<P, FailedRow>>| {
            self.partition_key(row).is_none_or(|key| compare_keys(key, end).is_lt())
        };
        page.entities.truncate(page.entities.partition_point(is_before));
        if page.entities.len() < all {
            page.continuation = None;
        }
    }

    /// Gives the rest of a range behind its position to a new one, if a place is free and a probe finds where to split.
    async fn split_behind(
        &self,
        run: &Run<'_>,
        table: &Table,
        number: u64,
        position: Option<&str>,
        end: &mut Option<String>,
    ) {
        if let Some(position) = position
            && let Some(probing) = run.splits.page()
            && let Some((common, key)) = self.probe(table, &probing, position, end.as_deref()).await
        {
            run.split(number, &key, end.replace(key.clone()), common);
        }
    }

    /// A partition behind a position and before `end`. A failed probe finds none.
    async fn probe(
        &self,
        table: &Table,
        probing: &Probing<'_>,
        position: &str,
        end: Option<&str>,
    ) -> Option<(String, String)> {
        for (common, from) in probing.keys(position, end) {
            if !probing.spend() {
                return None;
            }
            // The first page alone: one that is empty may have others behind it.
            let query = self.between(table, (Some(&from), end)).results().page_size(1);
            let page = query.pages().try_next().await.ok().flatten();
            let found = page.and_then(|page| {
                page.entities.first().and_then(|row| self.partition_key(row)).map(str::to_owned)
            });
            if let Some(key) = found {
                return Some((common, key));
            }
        }
        None
    }
}

/// Adds a page to those before it.
fn gathered<P>(held: Option<Page<P>>, page: Page<P>) -> Page<P> {
    let Some(mut held) = held else { return page };
    held.entities.extend(page.entities);
    held.receipt.add(&page.receipt);
    Page { continuation: page.continuation, ..held }
}

/// Separates the rows that decode from the others, which it reports.
fn readable<P>(page: Page<Result<P, FailedRow>>) -> (Page<P>, Report) {
    let mut report = Report::default();
    let mut entities = Vec::with_capacity(page.entities.len());
    for Stored { entity, etag, timestamp, receipt } in page.entities {
        match entity {
            Ok(entity) => entities.push(Stored { entity, etag, timestamp, receipt }),
            Err(row) => {
                let error = Error::of_rows(vec![row.clone()]);
                let keys = (&*row.partition_key, &*row.row_key);
                report.problem(None, Verdict::Unreadable, keys, &error);
            }
        }
    }
    let Page { continuation, receipt, .. } = page;
    (Page { entities, continuation, receipt }, report)
}

impl Run<'_> {
    /// The first key of a range that was split from another, and the key before which it ended then.
    fn added(&self, at: usize) -> (Option<String>, Option<String>) {
        let state = self.state();
        let added = state.checkpoint.added.get(at);
        added.map_or((None, None), |added| (Some(added.from.clone()), added.to.clone()))
    }

    /// Gives the rest of a range, from a key on, to a new one.
    fn split(&self, at: u64, from: &str, to: Option<String>, common: String) {
        let mut state = self.state();
        let added = state.checkpoint.added.len() as u64 + self.units.unwrap_or_default();
        state.checkpoint.split(at, from.to_owned(), to);
        self.splits.add(usize::try_from(added).unwrap_or(usize::MAX), common);
    }

    fn is_done(&self, at: usize) -> bool {
        self.state().checkpoint.is_done(at as u64)
    }

    /// Opens a range and returns the token to continue from.
    fn begin(&self, at: u64) -> Option<rowkey_client::Continuation> {
        let mut state = self.state();
        state.checkpoint.begin(at);
        state.checkpoint.next_of(at)
    }
}
