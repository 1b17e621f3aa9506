//! From an HTTP request to its answer: what every request has, whatever it asks for.

use std::io;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http::Request;
use http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
pub(crate) use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers;
use rowkey_wire::limits::{MAX_BATCH_BYTES, MAX_CLIENT_REQUEST_ID, MAX_MESSAGE};
use rowkey_wire::table::parse::{self, Options};
use tracing::{debug, error};

use crate::blob::upload::{Refused, discard};
use crate::control::cut::{self, Sent};
use crate::control::hub;
use crate::durable::{self, Refused as NotKept};
use crate::respond::{self, Answer, Failure, Layer, Stamps};
use crate::state::State;
use crate::{blob, cors, queue, route, table};

/// The longest body of a request to the Queue service: a message all of whose characters are
/// escaped.
const MAX_QUEUE_BODY: usize = 8 * MAX_MESSAGE;
/// The first version that repeats the client's request id.
const REPEATS_CLIENT_ID: &str = "2019-02-02";

/// Answers a request. Whatever is wrong with it, there is an answer; only a broken connection is
/// an error, or one that is to be broken.
pub(crate) async fn answer(
    state: &State,
    service: Service,
    address: IpAddr,
    request: Request<Incoming>,
) -> Result<Sent, io::Error> {
    let (mut parts, mut body) = request.into_parts();
    let stamps = stamps(state, service, &parts);
    if state.control.is_idle() {
        let answer = execute(state, service, address, &parts, &mut body, stamps, None).await?;
        return Ok(cut::whole(answer));
    }
    // A batch names its table in its body alone.
    if service == Service::Table && parts.uri.path().ends_with("/$batch") {
        let batch = read(&mut body, max_body(service)).await?;
        parts.extensions.insert(Early(batch));
    }
    let batch = parts.extensions.get::<Early>().and_then(|Early(batch)| batch.as_deref());
    let mut visit = state.control.arrive(service, &parts, batch, stamps.now);
    let refusal = visit.before().await?;
    let answer = execute(state, service, address, &parts, &mut body, stamps, refusal).await?;
    visit.after(answer, &state.clock).await
}

/// A body that was read before anything else, in the extensions of its request; `None` if it is too
/// long.
#[derive(Clone, Debug)]
struct Early(Option<Bytes>);

/// Executes a request and makes its whole answer. With a `refusal` that is the answer. An error is
/// a connection that broke.
async fn execute(
    state: &State,
    service: Service,
    address: IpAddr,
    parts: &Parts,
    body: &mut Incoming,
    stamps: Stamps,
    refusal: Option<Rejection>,
) -> io::Result<Answer> {
    let outcome = match (refusal, &state.durable) {
        (Some(rejection), _) => Err(Failure::front_end(rejection)),
        (None, None) => attempt(state, service, address, parts, body, &stamps).await?,
        (None, Some(durable)) => {
            let request = durable::Request { service, parts };
            loop {
                let begun = match durable.admit(state, &request) {
                    Ok(begun) => begun,
                    Err(refused) => break Err(not_kept(refused)),
                };
                let attempt = attempt(state, service, address, parts, body, &stamps);
                let (outcome, handed) = durable::follow(attempt).await;
                // Whatever the answer is, it must not rest on what can still be lost.
                match durable.settle(state, &request, begun, handed).await {
                    Ok(true) => break outcome?,
                    Ok(false) => {}
                    Err(refused) => break Err(not_kept(refused)),
                }
            }
        }
    };
    if outcome.is_err() {
        // Clients see why they are refused when all that they send is taken.
        discard(body, &parts.headers).await;
    }
    let mut answer = outcome.unwrap_or_else(|failure| {
        debug!(id = ?stamps.id, code = %failure.rejection.code, "a request is refused");
        let options = Options::parse(parts.uri.query().unwrap_or_default()).unwrap_or_default();
        let wanted = parse::wanted(&options, &parts.headers);
        let mut answer = respond::failure(&failure, wanted, &stamps);
        if failure.rejection.code == ErrorCode::SERVER_BUSY && state.control.throttle.is_some() {
            hub::ask_to_wait(&mut answer);
        }
        if service == Service::Table
            && failure.layer == Layer::Data
            && parts.method == http::Method::POST
        {
            // Recorded: a wish counts as fulfilled even when nothing was inserted.
            respond::apply_prefer(&mut answer, parse::prefer(&parts.headers));
        }
        answer
    });
    cors::apply(state, service, parts, &mut answer);
    respond::finish(&mut answer, stamps);
    Ok(answer)
}

/// The answer to a request, even to one that makes the server panic.
async fn attempt(
    state: &State,
    service: Service,
    address: IpAddr,
    parts: &Parts,
    body: &mut Incoming,
    stamps: &Stamps,
) -> io::Result<Result<Answer, Failure>> {
    let answer = respond_to(state, service, address, parts, body, stamps);
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        error!(id = ?stamps.id, method = %parts.method, "a request made the server panic");
        Ok(Err(Failure::front_end(Rejection::new(ErrorCode::INTERNAL_ERROR))))
    })
}

/// The disk refuses changes.
fn not_kept(refused: NotKept) -> Failure {
    let (code, message) = match refused {
        NotKept::Full => (
            ErrorCode::INSUFFICIENT_STORAGE,
            "The disk that holds the server's data takes no changes, because it is full or fails: \
             the request has changed nothing. Make room; changes are then taken again.",
        ),
        NotKept::Unreadable => (
            ErrorCode::INTERNAL_ERROR,
            "The server encountered an internal error: its disk refused a change, and what is on \
             it cannot be read. The server's log says why.",
        ),
    };
    Failure::front_end(Rejection::with_message(code, message))
}

/// The answer, or why the request is refused. An error is a connection that broke.
async fn respond_to(
    state: &State,
    service: Service,
    address: IpAddr,
    request: &Parts,
    body: &mut Incoming,
    stamps: &Stamps,
) -> io::Result<Result<Answer, Failure>> {
    let whole = match service {
        // Blobs are as long as they like, and are taken a piece at a time.
        Service::Blob => Bytes::new(),
        Service::Queue | Service::Table => {
            let max = max_body(service);
            let body = match request.extensions.get::<Early>() {
                Some(Early(body)) => body.clone(),
                None => read(body, max).await?,
            };
            match body {
                Some(body) => body,
                None => {
                    return Ok(Err(Failure::front_end(
                        Rejection::new(ErrorCode::REQUEST_BODY_TOO_LARGE)
                            .detail("MaxLimit", max.to_string()),
                    )));
                }
            }
        }
    };
    let place = match check_version(request, stamps)
        .and_then(|()| route::place(request).map_err(Failure::front_end))
    {
        Ok(place) => place,
        Err(failure) => return Ok(Err(failure)),
    };
    if request.method == http::Method::OPTIONS {
        let preflight = cors::preflight(state, service, &place, request);
        return Ok(preflight.map_err(Failure::front_end));
    }
    Ok(match service {
        Service::Table => {
            table::call::answer(state, &place, address, request, &whole, stamps).await
        }
        Service::Queue => queue::call::answer(state, &place, address, request, &whole, stamps)
            .map_err(Failure::front_end),
        Service::Blob => {
            match blob::call::answer(state, &place, address, request, body, stamps).await {
                Ok(answer) => Ok(answer),
                Err(Refused::Rejected(rejection)) => Err(Failure::front_end(rejection)),
                Err(Refused::Broken(error)) => return Err(error),
            }
        }
    })
}

/// What the answer will say of the request. A version that is none is not repeated.
fn stamps(state: &State, service: Service, request: &Parts) -> Stamps {
    let version = request.headers.get(headers::VERSION);
    let version = version.filter(|version| is_version(version.as_bytes()));
    let repeats = version.is_some_and(|version| version.as_bytes() >= REPEATS_CLIENT_ID.as_bytes());
    let client_id = request
        .headers
        .get(headers::CLIENT_REQUEST_ID)
        .filter(|id| repeats && id.len() <= MAX_CLIENT_REQUEST_ID);
    Stamps {
        service,
        id: state.ids.next(),
        now: state.now(),
        version: version.cloned(),
        client_id: client_id.cloned(),
    }
}

/// Refuses a version that is no date, or from before JSON. Newer ones than are known may come.
fn check_version(request: &Parts, stamps: &Stamps) -> Result<(), Failure> {
    // Good ones are stamped.
    if stamps.version.is_some() {
        return Ok(());
    }
    let Some(version) = request.headers.get(headers::VERSION) else { return Ok(()) };
    Err(Failure {
        rejection: Rejection::new(ErrorCode::INVALID_HEADER_VALUE)
            .detail("HeaderName", "x-ms-version")
            .detail("HeaderValue", version.to_str().unwrap_or_default()),
        layer: Layer::Version,
    })
}

fn is_version(text: &[u8]) -> bool {
    let shape = text.len() == 10
        && text.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    shape && text >= b"2009-04-14".as_slice()
}

/// The longest body that is read into memory. Longer ones are refused, but read to their end, so
/// that the client gets to see why.
const fn max_body(service: Service) -> usize {
    match service {
        Service::Blob | Service::Queue => MAX_QUEUE_BODY,
        Service::Table => MAX_BATCH_BYTES,
    }
}

/// The body; `None` for one that is longer than `max`.
async fn read(body: &mut Incoming, max: usize) -> io::Result<Option<Bytes>> {
    if body.is_end_stream() {
        return Ok(Some(Bytes::new()));
    }
    let mut first = Bytes::new();
    let mut all: Option<BytesMut> = None;
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        length += data.len();
        if length > max {
            // What was kept is not needed any more.
            (first, all) = (Bytes::new(), None);
        } else if first.is_empty() {
            // Most bodies come in one piece, which is then not copied.
            first = data;
        } else {
            let expected = usize::try_from(body.size_hint().lower()).unwrap_or_default();
            let all = all.get_or_insert_with(|| {
                let mut all = BytesMut::with_capacity(expected.min(max) + length);
                all.extend_from_slice(&first);
                all
            });
            all.extend_from_slice(&data);
        }
    }
    Ok((length <= max).then(|| all.map_or(first, BytesMut::freeze)))
}
