//! Reading a query one page ahead: while a page is used, the next one is on its way.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use futures_core::future::BoxFuture;
use futures_util::StreamExt as _;

use super::continuation::Continuation;
use super::pages::{Page, Reader, Source, Stream, failed};
use crate::entity::{Projection, Stored};
use crate::error::Result;
use crate::transport::Reply;

/// After how many entities the next page is looked after: its answer comes in only while it is.
const TURN: usize = 16;

/// An answer, and where it was asked to begin.
type Answer = (Continuation, Reply);

/// A query whose next page is asked for before the last one is used up.
///
/// It asks as soon as the answer to the last request is there, before that is decoded, so that the
/// service works at the same time. At most one page is being used, and one is on its way.
struct Ahead<P> {
    source: Arc<Source<P>>,
    asked: Option<BoxFuture<'static, Result<Answer>>>,
    answered: Option<Result<Answer>>,
}

impl<P: Projection + Send + 'static> Ahead<P> {
    fn new(reader: Reader<P>) -> Self {
        let mut ahead = Self { source: reader.source, asked: None, answered: None };
        ahead.ask(reader.next);
        ahead
    }

    /// Asks for the page that begins there. Nothing is sent before [`look`](Self::look).
    fn ask(&mut self, from: Option<Continuation>) {
        self.asked = from.map(|from| {
            let source = self.source.clone();
            Box::pin(async move {
                let reply = source.ask(&from).await?;
                Ok((from, reply))
            }) as BoxFuture<'static, _>
        });
    }

    /// Sends what is to be sent, and takes what has come.
    fn look(&mut self, cx: &mut Context<'_>) {
        if let Some(asked) = &mut self.asked
            && let Poll::Ready(answer) = asked.as_mut().poll(cx)
        {
            self.asked = None;
            self.answered = Some(answer);
        }
    }

    /// The next page; `None` when all is read.
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Page<P>>>> {
        self.look(cx);
        let Some(answer) = self.answered.take() else {
            return if self.asked.is_some() { Poll::Pending } else { Poll::Ready(None) };
        };
        Poll::Ready(Some(answer.and_then(|(from, reply)| self.page(cx, &from, &reply))))
    }

    fn page(
        &mut self,
        cx: &mut Context<'_>,
        from: &Continuation,
        reply: &Reply,
    ) -> Result<Page<P>> {
        // How much of a `take` is left is known only when the page is decoded.
        if from.left.is_none() {
            self.ask(self.source.after(from.part, reply, None));
            self.look(cx);
        }
        let page = self.source.read(from, reply);
        match &page {
            Ok(page) if from.left.is_some() => {
                self.ask(page.continuation.clone());
                self.look(cx);
            }
            Ok(_) => {}
            // An error ends the stream.
            Err(_) => (self.asked, self.answered) = (None, None),
        }
        page
    }
}

/// Pages of `reader`, each asked for when the one before it arrived. An error ends the stream.
pub(super) fn pages<P: Projection + Send + 'static>(reader: Result<Reader<P>>) -> Stream<Page<P>> {
    match reader {
        Ok(reader) => {
            let mut ahead = Ahead::new(reader);
            futures_util::stream::poll_fn(move |cx| ahead.poll_page(cx)).boxed()
        }
        Err(error) => failed(error),
    }
}

/// Entities of `reader`, one by one.
pub(super) fn entities<P: Projection + Send + 'static>(
    reader: Result<Reader<P>>,
) -> Stream<Stored<P>> {
    match reader {
        Ok(reader) => Entities { ahead: Ahead::new(reader), page: Vec::new().into_iter() }.boxed(),
        Err(error) => failed(error),
    }
}

struct Entities<P> {
    ahead: Ahead<P>,
    page: vec::IntoIter<Stored<P>>,
}

impl<P> Unpin for Entities<P> {}

impl<P: Projection + Send + 'static> futures_core::Stream for Entities<P> {
    type Item = Result<Stored<P>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.page.len() % TURN == 1 {
                self.ahead.look(cx);
            }
            if let Some(entity) = self.page.next() {
                return Poll::Ready(Some(Ok(entity)));
            }
            match self.ahead.poll_page(cx) {
                Poll::Ready(Some(Ok(page))) => self.page = page.entities.into_iter(),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
