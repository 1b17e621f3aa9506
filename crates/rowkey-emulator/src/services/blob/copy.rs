//! Copies within an account. Both kinds of copy are complete when the response is sent.

use http::uri::Uri;
use http::{HeaderValue, Request, StatusCode, header};
use percent_encoding::percent_decode_str;
use rowkey_wire::auth::{Resource, Service};
use rowkey_wire::blob::headers as names;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

use super::call::{Call, Names, versioned};
use super::permit;
use super::write::check_overwrite;
use crate::front::auth::{self, Access, Caller};
use crate::front::respond::{self, HttpResponse};
use crate::front::route;
use crate::op::blob::{BlobOp, Copy, Guard, Op, Read, Target};
use crate::store::blob::entry::Copied;
use crate::store::blob::write::copy_source;
use crate::tls::Https;
use crate::wire::blob::parse;
use crate::wire::blob::unsupported::unsupported;
use crate::wire::options::Options;

pub(super) const SUCCESS: HeaderValue = HeaderValue::from_static("success");

/// Copy Blob and Copy Blob From URL.
pub(super) fn copy(
    call: &Call<'_>,
    (container, name): Names<'_>,
    copy: Copy<'_>,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    let source = Source::find(call, copy.source)?;
    let now = call.context.now;
    let (id, version) = call.change(|blobs| {
        let id = blobs.fresh_id(now).to_string();
        let original = copy_source(
            blobs.container(&source.container)?,
            &source.blob,
            source.snapshot,
            &copy.source_guard,
            now,
        )?;
        // The content is shared, not copied.
        let original = original.clone();
        let Copy { source: address, .. } = copy;
        let copied = Copied {
            id: id.clone(),
            // The query is dropped, because the signature in it is a secret.
            source: address.split('?').next().unwrap_or_default().to_owned(),
            completed: now,
            length: original.content.len(),
        };
        let (container, version) = blobs.container_mut(container, now)?;
        check_overwrite(call, container, name)?;
        container.put_copy(name, &original, copied, copy, guard, version)?;
        Ok::<_, Rejection>((id, version))
    })?;
    let mut answer = versioned(StatusCode::ACCEPTED, version);
    let headers = answer.headers_mut();
    headers.insert(names::COPY_ID, respond::value(id));
    headers.insert(names::COPY_STATUS, SUCCESS);
    Ok(answer)
}

/// Abort Copy Blob: there is never a pending copy.
pub(super) fn abort(
    call: &Call<'_>,
    (container, name): Names<'_>,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    let blobs = call.account.blobs();
    blobs.container(container)?.read(name, None, guard, call.context.now)?;
    Err(Rejection::new(ErrorCode::NO_PENDING_COPY_OPERATION))
}

/// The source of a copy.
struct Source {
    container: String,
    blob: String,
    snapshot: Option<DateTime>,
}

impl Source {
    /// Parses the address of the source, and checks that the caller may read it.
    fn find(call: &Call<'_>, address: &str) -> Result<Self, Rejection> {
        let invalid = || {
            Rejection::new(ErrorCode::INVALID_HEADER_VALUE)
                .detail("HeaderName", names::COPY_SOURCE.as_str())
        };
        let uri: Uri = address.parse().map_err(|_| invalid())?;
        let host = uri.host().ok_or_else(invalid)?.to_owned();
        let is_https = uri.scheme_str() == Some("https");
        let (mut parts, ()) = Request::get(uri)
            .header(header::HOST, host)
            .body(())
            .map_err(|_| invalid())?
            .into_parts();
        if is_https {
            parts.extensions.insert(Https);
        }
        let route = route::parse(&parts)?;
        if route.account != call.account.name {
            return Err(unsupported("copies from other accounts"));
        }
        let options = Options::parse(parts.uri.query().unwrap_or_default())?;
        let path = percent_decode_str(route.path).decode_utf8().map_err(|_| invalid())?;
        let target = parse::target(&path, &options);
        let Target::Blob { container, blob } = target else { return Err(invalid()) };
        let op = parse::op(&parts.method, target, &options, &parts.headers)?;
        let Op::Blob(BlobOp::Read(Read { snapshot, .. }, _)) = op else { return Err(invalid()) };
        let unverified = || Rejection {
            status: StatusCode::FORBIDDEN,
            ..Rejection::with_message(
                ErrorCode::CANNOT_VERIFY_COPY_SOURCE,
                "This request is not authorized to perform this operation.",
            )
        };
        // A caller with the account's key may read the whole account, and one with a token what its
        // identity may read. Others need a signature or a public container for the source, too.
        if let Access::Token(_) = call.access {
            permit::check(call.access, call.account, target, &op).map_err(|_| unverified())?;
        } else if !matches!(call.access, Access::Key) {
            let caller = Caller {
                service: Service::Blob,
                resource: Some(Resource::Blob { container, name: blob }),
                address: call.address,
                now: call.context.now,
                secondary: route.secondary,
                signing_log: call.state.debug_signing.then_some(&call.context.id),
            };
            let access =
                auth::authenticate(call.account, caller, &parts).map_err(|_| unverified())?;
            permit::check(&access, call.account, target, &op).map_err(|_| unverified())?;
        }
        Ok(Self { container: container.to_owned(), blob: blob.to_owned(), snapshot })
    }
}
