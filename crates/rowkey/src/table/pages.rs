//! Reading a query: a page a request, until nothing is left.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_core::stream::BoxStream;
use futures_util::{StreamExt as _, stream};
use rowkey_wire::odata::decode::{self, PageError};
use rowkey_wire::table::{decode as headers, encode};

use super::continuation::Continuation;
use super::handle::{Table, body_error};
use super::plan::Plan;
use crate::entity::{DecodeError, Projection, Stored};
use crate::error::{Error, Result};
use crate::service::progress::{Limits, Progress};
use crate::transport::{Call, Host, Reply, Safety};

const OPERATION: &str = "QueryEntities";

/// A stream that can be stored, sent to another task and polled there.
pub type Stream<T> = BoxStream<'static, Result<T>>;

/// One answer of the service: the end of some page, not of the query.
#[derive(Clone, Debug)]
pub struct Page<P> {
    /// The entities in key order. May be empty although there are more.
    pub entities: Vec<Stored<P>>,
    /// Where the query goes on; `None` at its end.
    pub continuation: Option<Continuation>,
}

/// Where a running query stands.
pub(crate) struct Reader<P> {
    pub(super) source: Arc<Source<P>>,
    /// Where the next page begins; `None` when all is read.
    pub(super) next: Option<Continuation>,
    pub(super) progress: Progress<Continuation>,
}

/// What is read, wherever the reading stands.
pub(crate) struct Source<P> {
    table: Table,
    plan: Plan,
    fingerprint: u64,
    page_size: Option<u32>,
    projection: PhantomData<fn() -> P>,
}

impl<P: Projection> Reader<P> {
    pub(crate) fn new(
        table: Table,
        plan: Plan,
        page_size: Option<u32>,
        take: Option<u64>,
        resume: Option<Continuation>,
        limits: Limits,
    ) -> Result<Self> {
        let next = begin(&table, &plan, take, resume)?;
        let fingerprint = plan.fingerprint(table.name());
        let source = Source { table, plan, fingerprint, page_size, projection: PhantomData };
        let progress = Progress::new(limits, next.as_ref());
        Ok(Self { source: Arc::new(source), next, progress })
    }

    /// The next page, or `None` when all is read. After an error the same page is asked for again.
    pub(crate) async fn next(&mut self) -> Result<Option<Page<P>>> {
        let Some(from) = &self.next else { return Ok(None) };
        let source = &self.source;
        let admitted = self.progress.admit().map_err(|error| source.named(error))?;
        let reply = admitted.wait(source.ask(from)).await.map_err(|error| source.named(error))?;
        let page = source.read(from, &reply)?;
        self.progress.advance(Some(from), page.continuation.as_ref());
        self.next.clone_from(&page.continuation);
        Ok(Some(page))
    }
}

impl<P: Projection> Source<P> {
    /// Asks for the page that begins there.
    pub(super) async fn ask(&self, from: &Continuation) -> Result<Reply> {
        let select: Option<Vec<&str>> =
            self.plan.select.as_ref().map(|names| names.iter().map(String::as_str).collect());
        let query = encode::Query {
            filter: self.plan.filters[from.part].as_deref(),
            select: select.as_deref(),
            top: page_top(self.page_size, from.left),
            next: from.token.as_ref(),
        };
        let request = encode::query(self.table.name(), &query);
        self.table.pipeline().send(request, self.call(from)).await
    }

    /// What the answer says.
    pub(super) fn read(&self, from: &Continuation, reply: &Reply) -> Result<Page<P>> {
        let mut entities = Vec::new();
        decode::page(&reply.body, |fields| {
            match Stored::decode(fields) {
                Ok(stored) => entities.push(stored),
                Err(error) if error.is_index_copy() => {}
                Err(error) => return Err(error),
            }
            Ok::<_, DecodeError>(())
        })
        .map_err(|error| match error {
            PageError::Body(error) => body_error(error),
            PageError::Entity(error) => Error::decode(error.to_string()),
        })
        .map_err(|error| error.of_answer(&self.call(from), reply))?;

        let mut left = from.left;
        if let Some(left) = &mut left {
            // A service that sends more than it was asked for must not make `take` lie.
            entities.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= entities.len() as u64;
        }
        Ok(Page { entities, continuation: self.after(from.part, reply, left) })
    }

    /// Where the page after this answer begins, if `left` of a `take` are left then.
    pub(super) fn after(
        &self,
        part: usize,
        reply: &Reply,
        left: Option<u64>,
    ) -> Option<Continuation> {
        let query = self.fingerprint;
        let token = headers::continuation(&reply.headers);
        if left == Some(0) {
            None
        } else if token.is_some() {
            let secondary = reply.host() == Host::Secondary;
            Some(Continuation { query, part, token, secondary, left })
        } else if part + 1 < self.plan.filters.len() {
            Some(Continuation { query, part: part + 1, token: None, secondary: false, left })
        } else {
            None
        }
    }

    /// The error of this query.
    #[cold]
    pub(super) fn named(&self, error: Error) -> Error {
        error.of(OPERATION, self.table.name())
    }

    pub(super) fn call(&self, from: &Continuation) -> Call<'_> {
        Call::new(OPERATION, self.table.name(), Safety::Read).at(from.host())
    }
}

/// Where a query begins; `None` if there is nothing to read.
pub(super) fn begin(
    table: &Table,
    plan: &Plan,
    take: Option<u64>,
    resume: Option<Continuation>,
) -> Result<Option<Continuation>> {
    let fingerprint = plan.fingerprint(table.name());
    let next = match resume {
        Some(from) if from.query != fingerprint || from.part >= plan.filters.len() => {
            let what =
                "the continuation token is not of this query: its table or filter is another";
            return Err(Error::invalid(what).of(OPERATION, table.name()));
        }
        Some(from) => Continuation { left: from.left.into_iter().chain(take).min(), ..from },
        None => {
            Continuation { query: fingerprint, part: 0, token: None, secondary: false, left: take }
        }
    };
    let nothing = next.left == Some(0) || plan.filters.is_empty();
    Ok((!nothing).then_some(next))
}

/// `$top`: the size of a page, or less when less is left.
pub(super) fn page_top(page_size: Option<u32>, left: Option<u64>) -> Option<u32> {
    let left = left.map(|left| u32::try_from(left).unwrap_or(u32::MAX));
    match (page_size, left) {
        (Some(size), Some(left)) => Some(size.min(left)),
        (Some(size), None) => Some(size),
        (None, Some(left)) => (left < rowkey_wire::limits::MAX_PAGE).then_some(left),
        (None, None) => None,
    }
}

/// Pages of `reader`. An error ends the stream.
pub(crate) fn pages<P: Projection + Send + 'static>(reader: Result<Reader<P>>) -> Stream<Page<P>> {
    match reader {
        Ok(reader) => stream::try_unfold(reader, |mut reader| async move {
            Ok(reader.next().await?.map(|page| (page, reader)))
        })
        .boxed(),
        Err(error) => failed(error),
    }
}

/// A stream that says why there is nothing to read.
pub(super) fn failed<T: Send + 'static>(error: Error) -> Stream<T> {
    stream::once(async { Err(error) }).boxed()
}
