//! Requests the pages of a query: each page when it is needed, or one page ahead, so that the next
//! page is in transit while the current one is used.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;
use futures_util::StreamExt as _;

use super::continuation::Continuation;
use super::pages::{Page, Reader, Source, Stream, Wanted, failed};
use crate::entity::Projection;
use crate::error::Result;
use crate::service::progress::Progress;
use crate::transport::Reply;

/// A response, and the place where its page begins.
pub(super) type Answer = (Continuation, Reply);

/// The responses to a query, one after the other.
///
/// With prefetch, it sends the next request as soon as a response has arrived, before decoding it,
/// so that the service works at the same time. At most one page is in use, and one is in transit.
pub(super) struct Ahead<P> {
    source: Arc<Source<P>>,
    prefetch: bool,
    /// Where the next page begins, until it is requested.
    next: Option<Continuation>,
    /// How many entities are wanted from the pages that have not been read yet.
    pub(super) wanted: Wanted,
    progress: Progress<Continuation>,
    asked: Option<BoxFuture<'static, Result<Answer>>>,
    answered: Option<Result<Answer>>,
}

impl<P: Projection + Send + 'static> Ahead<P> {
    pub(super) fn new(reader: Reader<P>, prefetch: bool) -> Self {
        let Reader { source, next, wanted, progress } = reader;
        Self { source, prefetch, next, wanted, progress, asked: None, answered: None }
    }

    /// Whether a request is in progress.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Sets where the page after the one at `from` begins.
    pub(super) fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        from: &Continuation,
        next: Option<Continuation>,
    ) {
        self.progress.advance(Some(from), next.as_ref());
        self.next = next;
        if self.prefetch {
            self.ask();
            self.look(cx);
        }
    }

    /// Discards pending requests and sends no more.
    pub(super) fn stop(&mut self) {
        (self.next, self.asked, self.answered) = (None, None, None);
    }

    /// Prepares the request for the next page. Nothing is sent before [`look`](Self::look).
    fn ask(&mut self) {
        let Some(from) = self.next.take().filter(|_| !self.wanted.is_nothing()) else { return };
        let top = self.wanted.top();
        let source = Arc::clone(&self.source);
        let admitted = match self.progress.admit() {
            Ok(admitted) => admitted,
            Err(error) => {
                self.answered = Some(Err(source.named(error)));
                return;
            }
        };
        self.asked = Some(Box::pin(async move {
            let reply = admitted.wait(source.ask(&from, top)).await;
            Ok((from, reply.map_err(|error| source.named(error))?))
        }));
    }

    /// Polls the pending request, and takes its response if it has arrived.
    pub(super) fn look(&mut self, cx: &mut Context<'_>) {
        if let Some(asked) = &mut self.asked
            && let Poll::Ready(answer) = asked.as_mut().poll(cx)
        {
            self.asked = None;
            self.answered = Some(answer);
        }
    }

    /// The next response; `None` when there are no more.
    pub(super) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Answer>>> {
        if self.asked.is_none() && self.answered.is_none() {
            self.ask();
        }
        self.look(cx);
        match self.answered.take() {
            Some(answer) => Poll::Ready(Some(answer)),
            None if self.asked.is_some() => Poll::Pending,
            None => Poll::Ready(None),
        }
    }

    /// The next page; `None` when everything has been read.
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Page<P>>>> {
        let answer = self.poll_answer(cx);
        answer.map(|answer| Some(answer?.and_then(|(from, reply)| self.page(cx, &from, &reply))))
    }

    fn page(
        &mut self,
        cx: &mut Context<'_>,
        from: &Continuation,
        reply: &Reply,
    ) -> Result<Page<P>> {
        // The number still missing is known only after the page is decoded.
        let is_limited = self.wanted.is_limited();
        if !is_limited {
            self.go_on(cx, from, self.source.after(from.part, reply));
        }
        let page = self.source.page(from, reply, &mut self.wanted);
        match &page {
            Ok(page) if is_limited => self.go_on(cx, from, page.continuation.clone()),
            Ok(_) => {}
            Err(error) if self.source.goes_on_after(error) => {
                if is_limited {
                    self.go_on(cx, from, self.source.after(from.part, reply));
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
            let mut ahead = Ahead::new(reader, true);
            futures_util::stream::poll_fn(move |cx| ahead.poll_page(cx)).boxed()
        }
        Err(error) => failed(error),
    }
}
