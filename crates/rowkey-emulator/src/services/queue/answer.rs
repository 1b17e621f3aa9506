//! Answers a request to the Queue service: parses its address, and calls the operation.

use rowkey_wire::auth::{Resource, Service};
use rowkey_wire::error::Rejection;
use rowkey_wire::limits::MAX_MESSAGE;

use super::call::Call;
use super::{message, permit, queues};
use crate::front::auth;
use crate::front::documents;
use crate::front::request_body::{RequestBody, too_large};
use crate::front::respond::{HttpResponse, RequestError};
use crate::front::route::Route;
use crate::op::queue::{Op, Target};
use crate::services::arrival::Arrival;
use crate::services::authorized::Authorized;
use crate::services::delegation;
use crate::wire::options::{Options, decode_path};
use crate::wire::queue::parse;

/// The longest body of a request: a message in which every character is escaped.
const MAX_BODY: usize = 8 * MAX_MESSAGE;

/// Authenticates, parses and authorizes a request by its head, reads its body and answers it.
pub(crate) async fn answer(
    arrival: Arrival<'_>,
    route: &Route<'_>,
    body: &mut RequestBody,
) -> Result<HttpResponse, RequestError> {
    let Arrival { state, request, context, receipts, .. } = arrival;
    let replica = state.account_at(route)?;
    let account = &*replica;
    let options = Options::parse(request.uri.query().unwrap_or_default())?;
    let path = decode_path(route.path)?;
    let queue = path.trim_start_matches('/').split('/').next().filter(|name| !name.is_empty());
    let caller = arrival.caller(route, queue.map(Resource::Queue));
    let access = auth::authenticate(account, caller, request)?;

    let target = parse::target(&path, &options)?;
    route.check(&request.method, target == Target::Stats)?;
    let version = context.version();
    let mut op = parse::op(&request.method, target, &options, &request.headers, version)?;
    if let (Some(metadata), Some(spelling)) = (op.metadata_mut(), request.extensions.get()) {
        metadata.spell(spelling);
    }
    permit::check(&access, &op)?;
    let body = body.read(MAX_BODY).await?;
    let body = &body.map_err(|_| too_large(MAX_BODY))?;
    let (headers, access) = (&request.headers, &access);
    let authorized =
        Authorized { state, account, receipts, route, headers, access, context, version };
    Ok(Call { authorized, body }.perform(op)?)
}

impl Call<'_> {
    fn perform(&self, op: Op<'_>) -> Result<HttpResponse, Rejection> {
        match op {
            Op::Put { queue, lifetime, visibility } => {
                message::put(self, queue, lifetime, visibility)
            }
            Op::Get { queue, count, visibility } => message::get(self, queue, count, visibility),
            Op::DeleteMessage(handle) => message::delete(self, &handle),
            Op::Update { handle, visibility } => message::update(self, &handle, visibility),
            Op::Peek { queue, count } => message::peek(self, queue, count),
            Op::Clear(queue) => message::clear(self, queue),
            Op::Create(queue, metadata) => queues::create(self, queue, metadata),
            Op::Delete(queue) => queues::delete(self, queue),
            Op::List(listing) => Ok(queues::list(self, &listing)),
            Op::GetMetadata(queue) => queues::get_metadata(self, queue),
            Op::SetMetadata(queue, metadata) => queues::set_metadata(self, queue, metadata),
            Op::GetAcl(queue) => queues::get_acl(self, queue),
            Op::SetAcl(queue) => queues::set_acl(self, queue),
            Op::GetProperties => Ok(documents::properties(self.account, Service::Queue)),
            Op::SetProperties => {
                let Self { authorized: Authorized { account, receipts, .. }, body } = self;
                documents::set_properties(account, receipts, Service::Queue, body)
            }
            Op::GetStats => Ok(documents::stats(self.account, self.context)),
            Op::GetUserDelegationKey => {
                delegation::check(self.access)?;
                delegation::key(self, self.body)
            }
        }
    }
}
