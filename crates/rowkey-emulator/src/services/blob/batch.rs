//! Blob batches: up to 256 deletions or tier changes in one request.
//!
//! Each request in a batch is authorized and answered separately: some may fail while others
//! succeed. As in the service, a batch that cannot be parsed is answered with one part that belongs
//! to none of its requests.

use std::borrow::Cow;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header};
use hyper::body::Incoming;
use rowkey_wire::auth::{Resource, Service};
use rowkey_wire::blob::checksum::Checksum;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers;
use rowkey_wire::multipart::boundary;

use super::call::Call;
use super::change;
use super::{permit, upload};
use crate::front::auth::{self, Caller};
use crate::front::head;
use crate::front::respond::{self, HttpResponse, RequestError, ResponseContext};
use crate::front::route::{self, Route};
use crate::op::blob::{BlobOp, Op, Target};
use crate::services::authorized::Authorized;
use crate::tls::Https;
use crate::wire::blob::batch::{
    MAX_BYTES, MAX_SUBREQUESTS, ResponseWriter, Subrequest, parse as parse_batch,
};
use crate::wire::blob::parse;
use crate::wire::error_body::render_xml_plain;
use crate::wire::options::{Options, decode_path};

const SERVER: HeaderValue = HeaderValue::from_static("Windows-Azure-Blob/1.0");
const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// Blob Batch, on the account or on a container. On a container, all its requests must be for that
/// container.
pub(super) async fn submit(
    call: &Call<'_>,
    container: Option<&str>,
    body: &mut Incoming,
) -> Result<HttpResponse, RequestError> {
    let headers = &call.request.headers;
    let content_type = headers.get(header::CONTENT_TYPE).ok_or_else(|| {
        Rejection::new(ErrorCode::MISSING_REQUIRED_HEADER).detail("HeaderName", "Content-Type")
    })?;
    let text = content_type.to_str().unwrap_or_default();
    let boundary = boundary(text).ok_or_else(|| {
        Rejection::new(ErrorCode::INVALID_HEADER_VALUE)
            .detail("HeaderName", "Content-Type")
            .detail("HeaderValue", text)
    })?;
    let checksum = Checksum::default();
    let upload = upload::receive(body, headers, MAX_BYTES, checksum).await?;
    let body: Bytes = upload.content.pieces().flatten().collect();
    let id = call.state.ids.next();
    let mut writer = ResponseWriter::new(id.to_str().unwrap_or_default());
    match read(&body, boundary) {
        Ok(subrequests) => {
            for subrequest in subrequests {
                answer(call, container, subrequest, &mut writer);
            }
        }
        Err(rejection) => {
            let context = ResponseContext { client_id: None, ..call.context.clone() };
            write(&mut writer, None, Err(rejection), &context);
        }
    }
    let (content_type, body) = writer.finish();
    let mut answer = respond::with_body(StatusCode::ACCEPTED, body);
    answer.headers_mut().insert(header::CONTENT_TYPE, respond::value(content_type));
    Ok(answer)
}

/// Parses the requests in a batch, all of one operation.
fn read<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<Subrequest<'a>>, Rejection> {
    let subrequests = parse_batch(body, boundary).map_err(|error| {
        let message = format!("One of the request inputs is not valid: {error}.");
        Rejection::with_message(ErrorCode::INVALID_INPUT, message)
    })?;
    if subrequests.len() > MAX_SUBREQUESTS {
        return Err(Rejection::new(ErrorCode::EXCEEDS_MAX_BATCH_REQUEST_COUNT));
    }
    let mut methods = subrequests.iter().map(|subrequest| &subrequest.method);
    let first = methods.next();
    if methods.any(|method| Some(method) != first) {
        return Err(Rejection::new(ErrorCode::ALL_BATCH_SUB_REQUESTS_SHOULD_BE_SAME_API));
    }
    Ok(subrequests)
}

/// Answers one request of a batch.
fn answer(
    call: &Call<'_>,
    container: Option<&str>,
    subrequest: Subrequest<'_>,
    writer: &mut ResponseWriter,
) {
    let client_id = subrequest.headers.get(headers::CLIENT_REQUEST_ID);
    let client_id = client_id.filter(|id| id.len() <= head::MAX_CLIENT_REQUEST_ID).cloned();
    let context = ResponseContext { id: call.state.ids.next(), client_id, ..call.context.clone() };
    let content_id = subrequest.content_id;
    let outcome = perform(call, container, subrequest, &context);
    write(writer, Some(content_id), outcome, &context);
}

fn perform(
    call: &Call<'_>,
    container: Option<&str>,
    subrequest: Subrequest<'_>,
    context: &ResponseContext,
) -> Result<HttpResponse, Rejection> {
    let request = request(call, subrequest);
    head::check_repeated(&request.headers)?;
    let target = request.uri.path_and_query().map_or("", |target| target.as_str());
    let (path, query) = route::inner(target, call.route.prefix)?;
    let options = Options::parse(query)?;
    let decoded: Cow<'_, str> = decode_path(path)?;
    let target = parse::target(&decoded, &options);
    let Target::Blob { container: holder, blob } = target else { return Err(not_allowed()) };
    if container.is_some_and(|container| container != holder) {
        return Err(Rejection::with_message(
            ErrorCode::INVALID_INPUT,
            "One of the request inputs is not valid: the blob is not in the batch's container.",
        ));
    }
    let caller = Caller {
        service: Service::Blob,
        resource: Some(Resource::Blob { container: holder, name: blob }),
        address: call.address,
        now: context.now,
        secondary: call.route.secondary,
        signing_log: call.state.debug_signing.then_some(&context.id),
    };
    let access = auth::authenticate(call.account, caller, &request)?;
    let op = parse::op(&request.method, target, &options, &request.headers)?;
    permit::check(&access, call.account, target, &op)?;
    let route = Route { path, ..call.route.clone() };
    let headers = &request.headers;
    let authorized =
        Authorized { route: &route, headers, access: &access, context, ..call.authorized };
    let call = Call { authorized, request: &request, ..*call };
    let names = (holder, blob);
    match op {
        Op::Blob(BlobOp::Delete(what, guard)) => change::delete(&call, names, what, &guard),
        Op::Blob(BlobOp::SetTier(tier, guard)) => change::set_tier(&call, names, tier, &guard),
        _ => Err(not_allowed()),
    }
}

/// The request as if it had been sent separately.
fn request(call: &Call<'_>, subrequest: Subrequest<'_>) -> Parts {
    let Subrequest { method, uri, headers, .. } = subrequest;
    let (mut parts, ()) = Request::new(()).into_parts();
    (parts.method, parts.uri, parts.headers) = (method, uri, headers);
    if let Some(https) = call.request.extensions.get::<Https>() {
        parts.extensions.insert(*https);
    }
    // The version is the batch's. A token requires a version and does not sign it; a Shared Key
    // signature would cover it.
    let scheme = parts.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let is_token = scheme
        .and_then(|text| text.get(..7))
        .is_some_and(|text| text.eq_ignore_ascii_case(b"Bearer "));
    if let Some(version) = call.context.version.clone().filter(|_| is_token) {
        parts.headers.insert(headers::VERSION, version);
    }
    parts
}

fn not_allowed() -> Rejection {
    Rejection::with_message(
        ErrorCode::INVALID_INPUT,
        "One of the request inputs is not valid: a batch holds requests for Delete Blob or Set Blob \
         Tier.",
    )
}

/// Writes a part, with its headers in the service's order.
fn write(
    writer: &mut ResponseWriter,
    content_id: Option<&str>,
    outcome: Result<HttpResponse, Rejection>,
    context: &ResponseContext,
) {
    let mut headers = HeaderMap::new();
    let (status, reason, body): (_, Cow<'_, str>, _) = match outcome {
        Ok(answer) => {
            let (parts, _) = answer.into_parts();
            headers = parts.headers;
            let reason = parts.status.canonical_reason().unwrap_or_default();
            (parts.status, reason.into(), String::new())
        }
        Err(rejection) => {
            let code = respond::value(rejection.code.as_str().to_owned());
            headers.insert(headers::ERROR_CODE, code);
            let message = respond::message(&rejection.message, context);
            let body = render_xml_plain(&rejection.code, &message, &rejection.details);
            (rejection.status, rejection.message, body)
        }
    };
    headers.insert(headers::REQUEST_ID, context.id.clone());
    let optional: [(HeaderName, _); 2] =
        [(headers::VERSION, &context.version), (headers::CLIENT_REQUEST_ID, &context.client_id)];
    for (name, value) in optional {
        if let Some(value) = value {
            headers.insert(name, value.clone());
        }
    }
    if !body.is_empty() {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        headers.insert(header::CONTENT_TYPE, XML);
    }
    headers.insert(header::SERVER, SERVER);
    // The message may have several lines; the reason phrase is one line.
    let reason = reason.lines().next().unwrap_or_default();
    writer.add(content_id, status, reason, &headers, body.as_bytes());
}
