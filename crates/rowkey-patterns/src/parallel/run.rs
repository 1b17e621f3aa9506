//! Reads queries a page at a time, several concurrently, and returns their entities in an order.
//!
//! A query is in one of three states: it is requesting a page, it has one, or it has failed. It requests
//! another only when its page is used up, which bounds the memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, FusedStream as _, FuturesUnordered};
use futures_util::{Stream, StreamExt as _};
use rowkey_client::internals::{compare_keys, fnv1a};
use rowkey_client::{
    Continuation, Error, ErrorKind, FailedRow, Projection, Query, Result, Stored, Table,
};
use rowkey_client::{Page, table::Keyed};

use super::checkpoint::{Open, QueryPosition};
use super::{Checkpoint, Failure, Found, OPERATION, Order, Settings};

/// A row with its keys; a row that does not decode is an item, too.
type Row<P> = Keyed<Result<P, FailedRow>>;

type Pages<P> = rowkey_client::table::Stream<Page<Row<P>>>;

/// A response: the query's index, the page, and the source of the next pages.
type PageResponse<P> = (usize, Option<Result<Page<Row<P>>>>, Pages<P>);

/// The sort key of an entity in a merge: one or two keys in the service's order, which compares UTF-16 units.
type Rank = (Vec<u16>, Vec<u16>);

/// The results of a [`Parallel`](super::Parallel).
#[must_use = "nothing is read unless it is polled"]
pub struct Results<P> {
    settings: Settings,
    /// The queries that are not started.
    list: stream::Fuse<BoxStream<'static, Result<Query<P>>>>,
    /// The checkpoint, while its started queries are searched for in the list.
    resuming: Option<Checkpoint>,
    /// Those queries that are found and not started again.
    held: VecDeque<(usize, QueryPosition, Query<P>)>,
    /// The queries that are started and not finished.
    open: BTreeMap<usize, Branch<P>>,
    /// The queries that wait until fewer requests are in flight.
    waiting: VecDeque<(usize, Pages<P>)>,
    asked: FuturesUnordered<BoxFuture<'static, PageResponse<P>>>,
    /// The queries with entities to return, in the order of arrival; in a merge, those that failed. Unused in
    /// the given order.
    came: VecDeque<usize>,
    /// In a merge: the next entity of each query that has a page.
    heads: BinaryHeap<Reverse<(Rank, usize)>>,
    failed: BTreeMap<usize, QueryPosition>,
    begun: usize,
    digest: u64,
    left: Option<u64>,
    stopped: bool,
}

struct Branch<P> {
    position: QueryPosition,
    /// Whether `position.after` comes from the previous run, and may lie after the page.
    resumed: bool,
    table: Table,
    state: State<P>,
    /// In a merge: the sort key of its last entity.
    last: Rank,
}

enum State<P> {
    Requesting,
    Failed(Error),
    Buffered(CurrentPage<P>),
}

struct CurrentPage<P> {
    rows: vec::IntoIter<Stored<Row<P>>>,
    /// The start of the next page; `None` at the end.
    next: Option<Continuation>,
    pages: Pages<P>,
}

impl<P: Projection + Send + 'static> Results<P> {
    pub(super) fn new(
        list: BoxStream<'static, Result<Query<P>>>,
        settings: Settings,
        take: Option<u64>,
        from: Checkpoint,
    ) -> Self {
        let left = from.left.into_iter().chain(take).min();
        let mut results = Self {
            settings,
            list: list.fuse(),
            resuming: None,
            held: VecDeque::new(),
            open: BTreeMap::new(),
            waiting: VecDeque::new(),
            asked: FuturesUnordered::new(),
            came: VecDeque::new(),
            heads: BinaryHeap::new(),
            failed: BTreeMap::new(),
            begun: 0,
            digest: 0,
            left,
            stopped: false,
        };
        if left == Some(0) {
            results.stop();
        }
        results.resuming = (from.begun > 0).then_some(from);
        results
    }

    /// Starts queries and sends requests, up to the limit.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        loop {
            while self.asked.len() < self.settings.in_flight
                && let Some((query, pages)) = self.waiting.pop_front()
            {
                self.asked.push(Box::pin(async move {
                    let (page, pages) = pages.into_future().await;
                    (query, page, pages)
                }));
            }
            if self.resuming.is_none() {
                if !self.is_merge() && self.open.len() >= self.settings.in_flight {
                    return Ok(());
                }
                if let Some((number, position, query)) = self.held.pop_front() {
                    self.open(number, position, query);
                    continue;
                }
            }
            match self.list.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(query))) => self.listed(query)?,
                Poll::Ready(Some(Err(error))) => return Err(self.list_failed(error)),
                Poll::Ready(None) if self.resuming.is_some() => return Err(self.other_list()),
                Poll::Ready(None) | Poll::Pending => return Ok(()),
            }
        }
    }

    /// Starts the next query of the list, or finds its position in the checkpoint.
    fn listed(&mut self, query: Query<P>) -> Result<(), Failure> {
        let number = self.begun;
        self.begun += 1;
        self.digest = digest(self.digest, &query);
        let Some(from) = &self.resuming else {
            self.open(number, QueryPosition::default(), query);
            return Ok(());
        };
        if let Some(open) = from.open.iter().find(|open| open.query == number) {
            self.held.push_back((number, open.position.clone(), query));
        }
        if self.begun == from.begun {
            if self.digest != from.digest {
                return Err(self.other_list());
            }
            self.resuming = None;
        }
        Ok(())
    }

    fn open(&mut self, number: usize, position: QueryPosition, query: Query<P>) {
        let table = query.table().clone();
        let mut query = query.results().keyed();
        match (&position.page, self.left) {
            (Some(page), _) => query = query.resume(page.clone()),
            // The entities of a page that is read again do not count.
            (None, Some(left)) if position.after.is_none() => query = query.take(left),
            (None, _) => {}
        }
        self.waiting.push_back((number, query.pages()));
        let (resumed, last) = (position.after.is_some(), Rank::default());
        self.open
            .insert(number, Branch { position, resumed, table, state: State::Requesting, last });
    }

    /// Processes the response to a request.
    fn settle(&mut self, (number, page, pages): PageResponse<P>) {
        let Some(branch) = self.open.get_mut(&number) else { return };
        branch.state = match page {
            Some(Ok(page)) => {
                let mut rows = page.entities;
                if let Some(after) = branch.position.after.as_ref().filter(|_| branch.resumed) {
                    rows.retain(|row| is_after(&row.entity, after));
                    branch.resumed = rows.is_empty();
                }
                State::Buffered(CurrentPage {
                    rows: rows.into_iter(),
                    next: page.continuation,
                    pages,
                })
            }
            Some(Err(error)) => State::Failed(error),
            None => {
                self.open.remove(&number);
                return;
            }
        };
        self.line_up(number);
    }

    /// Enqueues a query for returning its entities; if its page is used up, it requests the next one.
    fn line_up(&mut self, number: usize) {
        let order = self.settings.order;
        let Some(branch) = self.open.get_mut(&number) else { return };
        let State::Buffered(page) = &branch.state else {
            return self.came.push_back(number);
        };
        let Some(row) = page.rows.as_slice().first() else {
            return self.used_up(number);
        };
        match order {
            Order::AsItComes => self.came.push_back(number),
            Order::Given => {}
            Order::Key | Order::RowKey => {
                let rank = rank(order, &row.entity);
                if rank < branch.last {
                    branch.state = State::Failed(out_of_order(&branch.table));
                    self.came.push_back(number);
                } else {
                    branch.last.clone_from(&rank);
                    self.heads.push(Reverse((rank, number)));
                }
            }
        }
    }

    fn used_up(&mut self, number: usize) {
        let Some(branch) = self.open.get_mut(&number) else { return };
        match std::mem::replace(&mut branch.state, State::Requesting) {
            State::Buffered(CurrentPage { next: Some(next), pages, .. }) => {
                let part = branch.position.page.as_ref().map_or(0, Continuation::part);
                // Pages may be smaller than those of the previous run.
                let goes_on = branch.resumed && next.part() == part;
                let after = branch.position.after.take().filter(|_| goes_on);
                branch.resumed = after.is_some();
                branch.position = QueryPosition { page: Some(next), after };
                self.waiting.push_back((number, pages));
            }
            _ => drop(self.open.remove(&number)),
        }
    }

    /// The query that returns the next entity, if it has one.
    fn turn(&mut self) -> Option<usize> {
        match self.settings.order {
            Order::AsItComes => self.came.pop_front(),
            Order::Given => {
                let (first, branch) = self.open.first_key_value()?;
                (!matches!(branch.state, State::Requesting)).then_some(*first)
            }
            Order::Key | Order::RowKey => self.came.pop_front().or_else(|| {
                // While a query is waiting for a page, its entity may be the first.
                let all_are_here = self.asked.is_empty() && self.waiting.is_empty();
                if !all_are_here || !self.list.is_terminated() || !self.held.is_empty() {
                    return None;
                }
                self.heads.pop().map(|Reverse((_, number))| number)
            }),
        }
    }

    fn hand_out(&mut self) -> Option<Result<Found<P>, Failure>> {
        let number = self.turn()?;
        let branch = self.open.get_mut(&number)?;
        let State::Buffered(page) = &mut branch.state else {
            let branch = self.open.remove(&number)?;
            self.failed.insert(number, branch.position);
            let State::Failed(error) = branch.state else { return None };
            return Some(Err(Failure { query: number, row: None, error }));
        };
        let Stored { entity, etag, timestamp, receipt } = page.rows.next()?;
        let Keyed { partition_key, row_key, entity } = entity;
        branch.position.after = Some((partition_key.clone(), row_key.clone()));
        let table = branch.table.clone();
        let more = !page.rows.as_slice().is_empty();
        if more && self.settings.order == Order::AsItComes {
            // A page is returned as a whole.
            self.came.push_front(number);
        } else {
            self.line_up(number);
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        Some(match entity {
            Ok(entity) => {
                let stored = Stored { entity, etag, timestamp, receipt };
                Ok(Found { query: number, partition_key, row_key, stored })
            }
            Err(row) => {
                let what = format!("a row does not decode: {row}");
                let error = Error::refused(ErrorKind::Decode, what).of(OPERATION, table.name());
                Err(Failure { query: number, row: Some(row), error })
            }
        })
    }

    fn is_merge(&self) -> bool {
        matches!(self.settings.order, Order::Key | Order::RowKey)
    }

    /// Cancels requests in flight. Open queries stay open, for the checkpoint.
    fn stop(&mut self) {
        self.stopped = true;
        self.asked.clear();
        self.waiting.clear();
        self.list = stream::empty().boxed().fuse();
        for branch in self.open.values_mut() {
            branch.state = State::Requesting;
        }
    }

    fn list_failed(&self, error: Error) -> Failure {
        Failure { query: self.begun, row: None, error }
    }

    fn other_list(&self) -> Failure {
        let what = "the checkpoint belongs to other queries: their number or order differs, or \
                    their tables or filters are";
        self.list_failed(Error::refused(ErrorKind::Invalid, what).of(OPERATION, ""))
    }
}

impl<P> Results<P> {
    /// The progress of each query, by the entities returned so far.
    pub fn checkpoint(&self) -> Checkpoint {
        if let Some(from) = &self.resuming {
            return from.clone();
        }
        let open = self.open.iter().map(|(query, branch)| (query, &branch.position));
        let held = self.held.iter().map(|(query, position, _)| (query, position));
        let places: BTreeMap<_, _> = open.chain(held).chain(&self.failed).collect();
        let open: Vec<_> = places
            .into_iter()
            .map(|(query, position)| Open { query: *query, position: position.clone() })
            .collect();
        Checkpoint {
            begun: self.begun,
            digest: self.digest,
            finished: self.left == Some(0)
                || (!self.stopped && self.list.is_terminated() && open.is_empty()),
            open,
            left: self.left,
        }
    }
}

impl<P: Projection + Send + 'static> Stream for Results<P> {
    type Item = Result<Found<P>, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while !this.stopped {
            if let Err(failure) = this.begin(cx) {
                this.stop();
                return Poll::Ready(Some(Err(failure)));
            }
            // Processes all responses on each poll, so that requests continue while a page is returned.
            let mut answered = false;
            while let Poll::Ready(Some(answer)) = this.asked.poll_next_unpin(cx) {
                this.settle(answer);
                answered = true;
            }
            if let Some(next) = this.hand_out() {
                // A row that does not decode ends neither its query nor the stream.
                let is_of_query = next.as_ref().is_err_and(|failure| failure.row.is_none());
                let failed = is_of_query && !this.settings.keep_going;
                if failed || this.left == Some(0) {
                    this.stop();
                }
                return Poll::Ready(Some(next));
            }
            if this.list.is_terminated() && this.open.is_empty() && this.held.is_empty() {
                return Poll::Ready(None);
            }
            if !answered {
                return Poll::Pending;
            }
        }
        Poll::Ready(None)
    }
}

/// Nothing in it is pinned.
impl<P> Unpin for Results<P> {}

/// A hash of a list of queries: combines the hash of the list before with what a query reads.
fn digest<P: Projection + Send + 'static>(before: u64, query: &Query<P>) -> u64 {
    let requests = query.explain().map(|explanation| explanation.requests).unwrap_or_default();
    let filters = requests.into_iter().map(|request| request.filter.unwrap_or_default());
    let text = [query.table().name().to_ascii_lowercase()].into_iter().chain(filters);
    // No hashed text contains this byte.
    let text = text.flat_map(|text| text.into_bytes().into_iter().chain([0xFF]));
    fnv1a(before.to_le_bytes().into_iter().chain(text))
}

fn rank<P>(order: Order, row: &Keyed<P>) -> Rank {
    let units = |key: &str| key.encode_utf16().collect();
    match order {
        Order::Key => (units(&row.partition_key), units(&row.row_key)),
        _ => (units(&row.row_key), Vec::new()),
    }
}

fn is_after<P>(row: &Keyed<P>, (partition_key, row_key): &(String, String)) -> bool {
    let by_row = || compare_keys(&row.row_key, row_key);
    compare_keys(&row.partition_key, partition_key).then_with(by_row).is_gt()
}

fn out_of_order(table: &Table) -> Error {
    let what = "a merged query returns rows that are not in the order of the merge";
    Error::refused(ErrorKind::Invalid, what)
        .of(OPERATION, table.name())
        .advise("merge by RowKey single partitions, by key whole tables, and no long lists")
}

impl<P> fmt::Debug for Results<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Results")
            .field("begun", &self.begun)
            .field("open", &self.open.len())
            .field("under_way", &self.asked.len())
            .finish_non_exhaustive()
    }
}
