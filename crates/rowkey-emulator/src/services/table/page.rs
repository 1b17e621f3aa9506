//! Entity queries: builds one page in steps, so that other requests are answered in between.

use http::StatusCode;
use rowkey_wire::edm::{DateTime, IsoWriter};
use rowkey_wire::headers;
use rowkey_wire::limits::MAX_PAGE;
use rowkey_wire::odata::render;
use rowkey_wire::token;

use super::call::Call;
use super::entity::View;
use crate::front::respond::{self, Failure, HttpResponse};
use crate::op::table::EntityQuery;
use crate::store::Key;
use crate::store::filter::Compiled;
use crate::store::query::{Cut, Scan, Step};

/// The time limit of the service for one page: 5 s, in ticks.
const PAGE_TIME: i64 = 5 * 10_000_000;

/// Query Entities.
pub(super) async fn query(
    call: &Call<'_>,
    table: &str,
    query: EntityQuery,
) -> Result<HttpResponse, Failure> {
    let from = query.next.as_ref().map(|(partition_key, row_key)| {
        (Key::from(partition_key.as_str()), Key::from(row_key.as_str()))
    });
    let room = query.top.unwrap_or(MAX_PAGE);
    let scan = Scan::new(Compiled::new(query.filter.as_ref()), call.access.window(), from, room);
    let cut = call.cut(query.next.is_some());
    let mut page = Page {
        scan: scan.cut(cut),
        body: Vec::new(),
        rows: 0,
        read: Vec::new(),
        instants: IsoWriter::default(),
    };
    let next = loop {
        match page.step(call, table, &query)? {
            Step::End => break None,
            Step::Page(position) => break Some(position),
            Step::Pause => {
                if is_late(call.context.now, call.state.now()) {
                    break page.scan.position();
                }
                tokio::task::yield_now().await;
            }
        }
    };
    for (partition_key, count) in page.read.iter().filter(|_| !call.context.is_owner) {
        let place = (&*call.account.name, table, partition_key.as_str());
        call.state.control.throttle.note_entities(place, *count, call.context.now);
    }
    page.body.extend_from_slice(b"]}");
    let mut answer = respond::data(StatusCode::OK, call.format.level, page.body);
    if let Some((partition_key, row_key)) = next {
        let headers = answer.headers_mut();
        let token = |key: &Key| respond::value(token::encode(key.as_str()));
        headers.insert(headers::NEXT_PARTITION_KEY, token(&partition_key));
        if cut != Some(Cut::Partition) || !row_key.as_str().is_empty() {
            headers.insert(headers::NEXT_ROW_KEY, token(&row_key));
        }
    }
    Ok(answer)
}

fn is_late(begun: DateTime, now: DateTime) -> bool {
    now.ticks() - begun.ticks() > PAGE_TIME
}

/// The number of rows of a short range.
const SHORT: usize = 128;

/// A page that is being built.
struct Page {
    scan: Scan,
    body: Vec<u8>,
    rows: usize,
    /// Partitions and the number of rows read from each, if the server throttles.
    read: Vec<(Key, usize)>,
    instants: IsoWriter,
}

impl Page {
    /// Adds rows. The tables are locked for one step, not for the whole page.
    fn step(&mut self, call: &Call<'_>, table: &str, query: &EntityQuery) -> Result<Step, Failure> {
        let store = call.account.store();
        let table = store.table(table).map_err(Failure::data)?;
        let select = query.select.as_ref();
        let (origin, level) = (call.origin(), call.format.level);
        let view = View { origin, level, table: table.name(), select };
        let Self { scan, body, rows, read, instants } = self;
        let counts = call.state.control.throttle.is_on();
        if body.is_empty() {
            let select = select.map(|select| select.text.as_str());
            render::begin_list(body, level, origin, table.name(), select);
        }
        Ok(scan.step(table, |partition_key, row_key, row| {
            // The length of a row is known now: reserve memory for a short range after the first
            // row, and for the whole page once the range is no longer short.
            if *rows == 1 || *rows == SHORT {
                let most = expected(query).min(table.rows());
                let room = if *rows == 1 { most.min(SHORT) } else { most };
                body.reserve(body.len() / *rows * (room.saturating_sub(*rows) + 1));
            }
            body.extend_from_slice(if *rows == 0 { b"{" } else { b",{" });
            let timestamp = instants.iso(row.timestamp());
            view.members(body, (partition_key.as_str(), row_key.as_str()), row, &timestamp);
            body.push(b'}');
            *rows += 1;
            if counts {
                match read.last_mut() {
                    Some((last, count)) if last == partition_key => *count += 1,
                    _ => read.push((partition_key.clone(), 1)),
                }
            }
        }))
    }
}

/// The maximum number of rows on the page.
fn expected(query: &EntityQuery) -> usize {
    query.top.unwrap_or(MAX_PAGE) as usize
}
