//! Answers a request to the Blob service: parses its address, and calls the operation.

use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};
use hyper::body::Incoming;
use rowkey_wire::auth::{Resource, Service};
use rowkey_wire::blob::checksum::Checksum;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers;

use super::call::{Call, Names};
use super::{batch, change, containers, copy, permit, read, write};
use crate::account::Account;
use crate::front::auth::{self, Access};
use crate::front::documents;
use crate::front::respond::{self, HttpResponse, RequestError};
use crate::front::route::Route;
use crate::op::blob::{AccountOp, BlobOp, ContainerOp, Op, Target};
use crate::services::arrival::Arrival;
use crate::services::authorized::Authorized;
use crate::services::delegation;
use crate::wire::blob::parse;
use crate::wire::options::{Options, decode_path};

/// Authenticates, parses, authorizes and answers a request. Its body is read only if everything
/// before it is valid.
pub(crate) async fn answer(
    arrival: Arrival<'_>,
    route: &Route<'_>,
    body: &mut Incoming,
) -> Result<HttpResponse, RequestError> {
    let Arrival { state, address, request, context, receipts } = arrival;
    let replica = state.account_at(route)?;
    let account = &*replica;
    let options = Options::parse(request.uri.query().unwrap_or_default())?;
    let path = decode_path(route.path)?;
    let target = parse::target(&path, &options);
    let resource = match target {
        Target::Account => None,
        Target::Container(container) => Some(Resource::Container(container)),
        Target::Blob { container, blob } => Some(Resource::Blob { container, name: blob }),
    };
    let access = auth::authenticate(account, arrival.caller(route, resource), request)?;
    let mut op = parse::op(&request.method, target, &options, &request.headers)?;
    if let (Some(metadata), Some(spelling)) = (op.metadata_mut(), request.extensions.get()) {
        metadata.spell(spelling);
    }
    route.check(&request.method, op == Op::Account(AccountOp::GetStats))?;
    permit::check(&access, account, target, &op)?;
    let default = default_version(account, request, &options);
    let version = default.as_deref().unwrap_or_else(|| context.version());
    let access = &access;
    let headers = &request.headers;
    let authorized =
        Authorized { state, account, receipts, route, headers, access, context, version };
    let call = Call { authorized, request, address };
    let is_read = matches!(op, Op::Blob(BlobOp::Read(..)));
    let mut answer = call.perform(target, op, body).await?;
    if is_read && matches!(access, Access::Sas(_)) && answer.status().is_success() {
        override_headers(&options, answer.headers_mut());
    }
    if let Some(version) = default {
        answer.headers_mut().insert(headers::VERSION, respond::value(version));
    }
    Ok(answer)
}

impl Call<'_> {
    async fn perform(
        &self,
        target: Target<'_>,
        op: Op<'_>,
        body: &mut Incoming,
    ) -> Result<HttpResponse, RequestError> {
        match (target, op) {
            (_, Op::Account(op)) => self.perform_on_account(op, body).await,
            (Target::Container(name) | Target::Blob { container: name, .. }, Op::Container(op)) => {
                self.perform_on_container(name, op, body).await
            }
            (Target::Blob { container, blob }, Op::Blob(op)) => {
                self.perform_on_blob((container, blob), op, body).await
            }
            // The target of an operation is the one in its address.
            (Target::Account, Op::Container(_) | Op::Blob(_))
            | (Target::Container(_), Op::Blob(_)) => {
                Err(Rejection::new(ErrorCode::INVALID_URI).into())
            }
        }
    }

    async fn perform_on_account(
        &self,
        op: AccountOp,
        body: &mut Incoming,
    ) -> Result<HttpResponse, RequestError> {
        match op {
            AccountOp::Batch => batch::submit(self, None, body).await,
            AccountOp::FindByTags(options) => Ok(containers::find_by_tags(self, None, &options)?),
            AccountOp::GetInformation => Ok(containers::account_information()),
            AccountOp::GetProperties => Ok(documents::properties(self.account, Service::Blob)),
            AccountOp::GetStats => Ok(documents::stats(self.account, self.context)),
            AccountOp::GetUserDelegationKey => {
                delegation::check(self.access)?;
                let (document, _) = self.read_document(body, Checksum::default()).await?;
                Ok(delegation::key(self, &document)?)
            }
            AccountOp::ListContainers(options) => Ok(containers::list(self, &options)),
            AccountOp::SetProperties => {
                let (document, _) = self.read_document(body, Checksum::default()).await?;
                let Authorized { account, receipts, .. } = self.authorized;
                Ok(documents::set_properties(account, receipts, Service::Blob, &document)?)
            }
        }
    }

    async fn perform_on_container(
        &self,
        container: &str,
        op: ContainerOp,
        body: &mut Incoming,
    ) -> Result<HttpResponse, RequestError> {
        let answer = match op {
            ContainerOp::Batch => return batch::submit(self, Some(container), body).await,
            ContainerOp::FindByTags(options) => {
                containers::find_by_tags(self, Some(container), &options)
            }
            ContainerOp::Create(access, metadata) => {
                containers::create(self, container, access, metadata)
            }
            ContainerOp::Delete(guard) => containers::delete(self, container, &guard),
            ContainerOp::GetAcl(guard) => containers::get_acl(self, container, &guard),
            ContainerOp::GetMetadata(guard) => containers::get_metadata(self, container, &guard),
            ContainerOp::GetProperties(guard) => {
                containers::get_container_properties(self, container, &guard)
            }
            ContainerOp::Lease(action, conditions) => {
                containers::lease(self, container, action, &conditions)
            }
            ContainerOp::ListBlobs(options) => containers::list_blobs(self, container, &options),
            ContainerOp::SetAcl(access, guard) => {
                return containers::set_acl(self, container, access, &guard, body).await;
            }
            ContainerOp::SetMetadata(metadata, guard) => {
                containers::set_metadata(self, container, metadata, &guard)
            }
        };
        Ok(answer?)
    }

    async fn perform_on_blob(
        &self,
        names: Names<'_>,
        op: BlobOp<'_>,
        body: &mut Incoming,
    ) -> Result<HttpResponse, RequestError> {
        let answer = match op {
            BlobOp::Read(what, guard) => read::read(self, names, what, &guard),
            BlobOp::Put(put, guard) => return write::put(self, names, put, guard, body).await,
            BlobOp::PutBlock(id, sums, guard) => {
                return write::put_block(self, names, &id, sums, guard, body).await;
            }
            BlobOp::PutBlockList(description, sums, guard) => {
                return write::put_block_list(self, names, description, sums, guard, body).await;
            }
            BlobOp::AppendBlock(limits, sums, guard) => {
                return write::append(self, names, limits, sums, guard, body).await;
            }
            BlobOp::GetBlockList(lists, snapshot, guard) => {
                read::block_list(self, names, lists, snapshot, &guard)
            }
            BlobOp::GetTags(snapshot, guard) => {
                read::part(self, names, snapshot, &guard, read::tags).map_err(read::not_met)
            }
            BlobOp::SetTags(sums, guard) => {
                return change::set_tags(self, names, sums, &guard, body).await;
            }
            BlobOp::SetTier(tier, guard) => change::set_tier(self, names, tier, &guard),
            BlobOp::GetMetadata(snapshot, guard) => {
                read::part(self, names, snapshot, &guard, read::metadata)
            }
            BlobOp::SetMetadata(metadata, guard) => {
                change::set_metadata(self, names, metadata, &guard)
            }
            BlobOp::SetProperties(headers, guard) => {
                change::set_properties(self, names, headers, &guard)
            }
            BlobOp::Snapshot(metadata, guard) => change::snapshot(self, names, metadata, &guard),
            BlobOp::Delete(what, guard) => change::delete(self, names, what, &guard),
            BlobOp::Lease(action, conditions) => change::lease(self, names, action, &conditions),
            BlobOp::Seal(limits, guard) => change::seal(self, names, &limits, &guard),
            BlobOp::Copy(copy, guard) => copy::copy(self, names, copy, &guard),
            BlobOp::AbortCopy(guard) => copy::abort(self, names, &guard),
            BlobOp::GetAccountInformation => Ok(containers::account_information()),
        };
        Ok(answer?)
    }
}

/// Applies the response headers in a shared access signature, which override the blob's.
fn override_headers(options: &Options<'_>, headers: &mut HeaderMap) {
    for (option, name) in [
        ("rscc", header::CACHE_CONTROL),
        ("rscd", header::CONTENT_DISPOSITION),
        ("rsce", header::CONTENT_ENCODING),
        ("rscl", header::CONTENT_LANGUAGE),
        ("rsct", header::CONTENT_TYPE),
    ] {
        let text = options.get(option).filter(|text| !text.is_empty());
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
            headers.insert(name, value);
        }
    }
}

/// The version for a request that names none: the account's default, if set.
fn default_version(account: &Account, request: &Parts, options: &Options<'_>) -> Option<String> {
    let named = request.headers.contains_key(headers::VERSION)
        || options.get("api-version").is_some()
        || options.get("sv").is_some();
    if named {
        return None;
    }
    account.blobs().properties().default_service_version.clone()
}
