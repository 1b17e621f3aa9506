//! Requests the pages of a query: each page on demand, or one page ahead, so that the next page is in
//! transit while the current one is processed.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;
use futures_util::StreamExt as _;
use rowkey_entity::Projection;

use super::pages::{Page, Reader, RowLimits, Source, failed};
use crate::error::Result;
use crate::paging::progress::Progress;
use crate::paging::{Continuation, Stream};
use crate::transport::Reply;

/// A response, and the continuation at which its page begins.
pub(super) type Response = (Continuation, Reply);

/// The responses to a query, one after the other.
///
/// With prefetch, the next request is sent as soon as a response arrives, before the response is
/// decoded, so that the service works at the same time. At most one page is in use, and one is in transit.
pub(super) struct Responses<P> {
    source: Arc<Source<P>>,
    prefetch: bool,
    /// Where the next page begins, until it is requested.
    next: Option<Continuation>,
    /// How many entities are wanted from the pages that have not been read yet.
    pub(super) row_limits: RowLimits,
    progress: Progress<Continuation>,
    pending: Option<BoxFuture<'static, Result<Response>>>,
    ready: Option<Result<Response>>,
}

impl<P: Projection + Send + 'static> Responses<P> {
    pub(super) fn new(reader: Reader<P>, prefetch: bool) -> Self {
        let Reader { source, next, row_limits, progress, .. } = reader;
        Self { source, prefetch, next, row_limits, progress, pending: None, ready: None }
    }

    /// Whether a request is in progress.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Sets the continuation of the page after the one at `from`.
    pub(super) fn advance(
        &mut self,
        cx: &mut Context<'_>,
        from: &Continuation,
        next: Option<Continuation>,
    ) {
        self.progress.advance(Some(from), next.as_ref());
        self.next = next;
        if self.prefetch {
            self.request();
            self.poll_pending(cx);
        }
    }

    /// Discards pending requests and sends no more.
    pub(super) fn stop(&mut self) {
        (self.next, self.pending, self.ready) = (None, None, None);
    }

    /// Prepares the request for the next page; [`poll_pending`](Self::poll_pending) sends it.
    fn request(&mut self) {
        let Some(from) = self.next.take().filter(|_| !self.row_limits.is_done()) else { return };
        let top = self.row_limits.top();
        let source = Arc::clone(&self.source);
        let permit = match source.admit(&mut self.progress) {
            Ok(permit) => permit,
            Err(error) => {
                self.ready = Some(Err(error));
                return;
            }
        };
        self.pending = Some(Box::pin(async move {
            let reply = permit.wait(source.request(&from, top)).await;
            Ok((from, reply.map_err(|error| source.named(error))?))
        }));
    }

    /// Polls the pending request, and takes its response if it has arrived.
    pub(super) fn poll_pending(&mut self, cx: &mut Context<'_>) {
        if let Some(pending) = &mut self.pending
            && let Poll::Ready(response) = pending.as_mut().poll(cx)
        {
            self.pending = None;
            self.ready = Some(response);
        }
    }

    /// The next response; `None` when there are no more.
    pub(super) fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Response>>> {
        if self.pending.is_none() && self.ready.is_none() {
            self.request();
        }
        self.poll_pending(cx);
        match self.ready.take() {
            Some(response) => Poll::Ready(Some(response)),
            None if self.pending.is_some() => Poll::Pending,
            None => Poll::Ready(None),
        }
    }

    /// The next page; `None` at the end.
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Page<P>>>> {
        let response = self.poll_response(cx);
        response
            .map(|response| Some(response?.and_then(|(from, reply)| self.page(cx, &from, &reply))))
    }

    fn page(
        &mut self,
        cx: &mut Context<'_>,
        from: &Continuation,
        reply: &Reply,
    ) -> Result<Page<P>> {
        // The number still missing is known only after the page is decoded.
        let is_limited = self.row_limits.is_limited();
        if !is_limited {
            self.advance(cx, from, self.source.after(from.part, reply));
        }
        let page = self.source.page(from, reply, &mut self.row_limits);
        match &page {
            Ok(page) if is_limited => self.advance(cx, from, page.continuation.clone()),
            Ok(_) => {}
            Err(error) if self.source.continues_after(error) => {
                if is_limited {
                    self.advance(cx, from, self.source.after(from.part, reply));
                }
            }
            // Any other error ends the stream.
            Err(_) => self.stop(),
        }
        page
    }
}

/// Pages of `reader`, each requested when the one before it has arrived. An error ends the stream,
/// unless it is about rows.
pub(super) fn pages<P: Projection + Send + 'static>(reader: Result<Reader<P>>) -> Stream<Page<P>> {
    match reader {
        Ok(reader) => {
            let mut responses = Responses::new(reader, true);
            futures_util::stream::poll_fn(move |cx| responses.poll_page(cx)).boxed()
        }
        Err(error) => failed(error),
    }
}
