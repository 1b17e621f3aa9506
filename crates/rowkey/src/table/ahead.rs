//! Asking for the pages of a query: each when it is needed, or one ahead, so that while a page is
//! used the next one is on its way.

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

/// An answer, and where it was asked to begin.
pub(super) type Answer = (Continuation, Reply);

/// The answers to a query, one after the other.
///
/// Ahead, it asks as soon as the answer to the last request is there, before that is decoded, so that
/// the service works at the same time. At most one page is being used, and one is on its way.
pub(super) struct Ahead<P> {
    source: Arc<Source<P>>,
    prefetch: bool,
    /// Where the next page begins, as long as it is not asked for.
    next: Option<Continuation>,
    /// How many entities are wanted of the pages that are not read yet.
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

    /// Whether an answer is on its way.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Says where the page after the one that began at `from` begins.
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

    /// Asks for nothing any more.
    pub(super) fn stop(&mut self) {
        (self.next, self.asked, self.answered) = (None, None, None);
    }

    /// Asks for the next page. Nothing is sent before [`look`](Self::look).
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

    /// Sends what is to be sent, and takes what has come.
    pub(super) fn look(&mut self, cx: &mut Context<'_>) {
        if let Some(asked) = &mut self.asked
            && let Poll::Ready(answer) = asked.as_mut().poll(cx)
        {
            self.asked = None;
            self.answered = Some(answer);
        }
    }

    /// The next answer; `None` when there is no more.
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

    /// The next page; `None` when all is read.
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
        // How many are missing is known only when the page is decoded.
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

/// Pages of `reader`, each asked for when the one before it arrived. An error ends the stream, unless it is
/// about rows.
pub(super) fn pages<P: Projection + Send + 'static>(reader: Result<Reader<P>>) -> Stream<Page<P>> {
    match reader {
        Ok(reader) => {
            let mut ahead = Ahead::new(reader, true);
            futures_util::stream::poll_fn(move |cx| ahead.poll_page(cx)).boxed()
        }
        Err(error) => failed(error),
    }
}
