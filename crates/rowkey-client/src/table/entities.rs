//! Reads a query entity by entity. A response is kept as received, and each entity is decoded when
//! it is requested, so that entities the program has finished with make room for the next ones.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::vec;

use futures_util::StreamExt as _;
use rowkey_entity::entity::RowReader;
use rowkey_entity::internals::decode;
use rowkey_entity::{FailedRow, Projection, Receipt, Stored};
use rowkey_wire::odata::Fields;
use tokio::task::coop;

use super::pages::{Reader, Source, failed};
use super::prefetch::{Response, Responses};
use crate::error::{Error, Result};
use crate::paging::Stream;
use crate::table::wire::page::{PageReader, Position};

/// The number of entities after which the next page is polled: its response is received only while
/// it is polled.
const TURN: usize = 16;

/// Entities of `reader`, one by one. An error ends the stream, unless it is about a row.
pub(crate) fn entities<P: Projection + Send + 'static>(
    reader: Result<Reader<P>>,
    prefetch: bool,
) -> Stream<Stored<P>> {
    match reader {
        Ok(reader) => Entities {
            source: Arc::clone(&reader.source),
            responses: Responses::new(reader, prefetch),
            page: None,
            fields: Fields::default(),
            decoded: Vec::new().into_iter(),
            failed: Vec::new().into_iter(),
            count: 0,
        }
        .boxed(),
        Err(error) => failed(error),
    }
}

struct Entities<P> {
    source: Arc<Source<P>>,
    responses: Responses<P>,
    page: Option<Unread>,
    /// Always empty; kept to reuse its allocation.
    fields: Fields<'static>,
    /// The remaining entities of a page that was decoded at once.
    decoded: vec::IntoIter<Stored<P>>,
    /// The errors of its other rows, each with the number of entities that follow it.
    failed: vec::IntoIter<(usize, Error)>,
    /// How many entities were read.
    count: usize,
}

/// The unread rest of a page.
struct Unread {
    text: String,
    position: Position,
    /// Without the body.
    answer: Response,
    receipt: Receipt,
    /// How many rows were read.
    rows: usize,
}

impl<P> Unpin for Entities<P> {}

impl<P: Projection + Send + 'static> futures_core::Stream for Entities<P> {
    type Item = Result<Stored<P>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let is_reading = this.page.is_some() || this.decoded.len() + this.failed.len() > 0;
            if is_reading && this.responses.is_pending() {
                // On a single-threaded runtime, the next response is received only while this task
                // yields.
                ready!(coop::poll_proceed(cx)).made_progress();
                if this.count.is_multiple_of(TURN) {
                    this.responses.poll_pending(cx);
                }
            }
            this.count += 1;
            match this.next() {
                Ok(Some(entity)) => return Poll::Ready(Some(Ok(entity))),
                Ok(None) => {}
                Err(error) if this.source.continues_after(&error) => {
                    return Poll::Ready(Some(Err(error)));
                }
                Err(error) => return Poll::Ready(Some(Err(this.stop(error)))),
            }
            match ready!(this.responses.poll_response(cx)) {
                Some(Ok(answer)) => {
                    if let Err(error) = this.begin(cx, answer) {
                        return Poll::Ready(Some(Err(this.stop(error))));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<P: Projection + Send + 'static> Entities<P> {
    /// Starts to read a response, and requests the next one if prefetch is on.
    fn begin(&mut self, cx: &mut Context<'_>, (from, mut reply): Response) -> Result<()> {
        if self.responses.row_limits.is_limited() {
            // The number still missing after this page is known only after it is decoded.
            let decoded = self.source.read(&from, &reply, self.responses.row_limits)?;
            self.responses.row_limits.note(&decoded);
            self.responses.advance(cx, &from, self.source.after(from.part, &reply));
            let (count, call) = (decoded.entities.len(), self.source.call(&from));
            let error = |row| Error::of_rows(vec![row]).of_answer(&call, &reply);
            let failed = decoded.failed.into_iter().map(|(at, row)| (count - at, error(row)));
            self.failed = failed.collect::<Vec<_>>().into_iter();
            self.decoded = decoded.entities.into_iter();
            return Ok(());
        }
        self.responses.advance(cx, &from, self.source.after(from.part, &reply));
        let receipt = reply.receipt();
        let body = std::mem::take(&mut reply.body);
        let text = decode::owned_text(body.into())
            .map_err(|error| Error::from(error).of_answer(&self.source.call(&from), &reply))?;
        let (position, answer) = (Position::default(), (from, reply));
        self.page = Some(Unread { text, position, answer, receipt, rows: 0 });
        Ok(())
    }

    /// The next entity of the current response.
    fn next(&mut self) -> Result<Option<Stored<P>>> {
        let Some(unread) = &mut self.page else {
            let is_next = |(left, _): &(usize, Error)| *left >= self.decoded.len();
            return if self.failed.as_slice().first().is_some_and(is_next) {
                self.failed.next().map_or(Ok(None), |(_, error)| Err(error))
            } else {
                Ok(self.decoded.next())
            };
        };
        let mut fields = std::mem::take(&mut self.fields).recycle();
        let mut page = PageReader::resume(&unread.text, unread.position);
        let entity = loop {
            let next = page.next(&mut fields);
            unread.rows += usize::from(matches!(next, Ok(true)));
            match next {
                Ok(true) if self.source.passes_over(&fields) => {}
                Ok(true) => match Stored::decode(&mut fields) {
                    Err(error) if error.is_index_copy() => {}
                    Err(error) => {
                        let row = FailedRow::of(&RowReader::new(&fields), &error);
                        break Err(Error::of_rows(vec![row]));
                    }
                    Ok(entity) => {
                        break Ok(Some(Stored { receipt: unread.receipt.clone(), ..entity }));
                    }
                },
                Ok(false) => break Ok(None),
                Err(error) => break Err(error.into()),
            }
        };
        unread.position = page.position();
        self.fields = fields.recycle();
        let (from, reply) = &unread.answer;
        let entity = entity.map_err(|error| error.of_answer(&self.source.call(from), reply));
        if let Ok(None) = entity {
            self.source.returned(from, reply, unread.rows);
            self.page = None;
        }
        entity
    }

    /// Ends the stream.
    fn stop(&mut self, error: Error) -> Error {
        self.page = None;
        (self.decoded, self.failed) = (Vec::new().into_iter(), Vec::new().into_iter());
        self.responses.stop();
        error
    }
}
