//! Answers a request to the Table service: parses its address, and calls the operation.

use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::limits::MAX_BATCH_BYTES;
use rowkey_wire::odata::Fields;

use super::call::Call;
use super::{batch, entity, page, permit, policies, tables};
use crate::account::Replica;
use crate::front::auth::{self, Access};
use crate::front::documents;
use crate::front::request_body::{RequestBody, too_large};
use crate::front::respond::{Failure, HttpResponse, RequestError};
use crate::front::route::Route;
use crate::op::entity as odata;
use crate::op::table::{Op, Target};
use crate::services::arrival::Arrival;
use crate::services::authorized::Authorized;
use crate::services::delegation;
use crate::wire::options::{self, Options};
use crate::wire::table::parse;

/// A request that was authenticated by its head.
pub(crate) struct Admitted<'a> {
    route: Route<'a>,
    replica: Replica<'a>,
    options: Options<'a>,
    access: Access,
}

/// Authenticates a request by its head.
pub(crate) fn admit<'a>(arrival: Arrival<'a>, route: Route<'a>) -> Result<Admitted<'a>, Rejection> {
    let replica = arrival.state.account_at(&route)?;
    let options = Options::parse(arrival.request.uri.query().unwrap_or_default())?;
    let access = auth::authenticate(&replica, arrival.caller(&route, None), arrival.request)?;
    Ok(Admitted { route, replica, options, access })
}

/// Reads the body of an authenticated request, then parses, authorizes and answers it.
pub(crate) async fn answer(
    arrival: Arrival<'_>,
    admitted: Admitted<'_>,
    body: &mut RequestBody,
) -> Result<HttpResponse, RequestError> {
    let Arrival { state, request, context, receipts, .. } = arrival;
    let Admitted { route, replica, options, access } = admitted;
    let route = &route;
    let path = options::decode_path(route.path).map_err(Failure::front_end);
    let target = match &path {
        Ok(path) => parse::target(path, &options).map_err(Failure::data),
        Err(failure) => Err(failure.clone()),
    };
    if let Access::Sas(_) = access {
        // An unauthorized request is rejected by its head.
        let target = target.as_ref().map_err(Failure::clone)?;
        permit::check_target(&access, target).map_err(layer(target))?;
    }
    let body = body.read(MAX_BATCH_BYTES).await?;
    let body = &body.map_err(|_| too_large(MAX_BATCH_BYTES))?;
    let account = &*replica;
    let format = parse::response_format(&options, &request.headers);
    let target = target?;
    let method = parse::method(&request.method, &request.headers).map_err(Failure::data)?;
    let layer = layer(&target);
    route.check(&method, target == Target::Stats).map_err(layer)?;
    let fields = if parse::has_json(&method, &target) {
        parse::check_json_type(&request.headers).map_err(layer)?;
        odata::fields(body).map_err(layer)?
    } else {
        Fields::default()
    };
    let table = if let Target::Entities(table) = target { Some(table) } else { None };
    let op = parse::op(&method, target, &options, &request.headers, &fields, state.rules.strict);
    let op = op.map_err(|rejection| match table {
        // A missing table is reported before missing parts of the entity (recorded).
        Some(table) if rejection.code == ErrorCode::PROPERTIES_NEED_VALUE => {
            account.store().table(table).err().unwrap_or(rejection)
        }
        _ => rejection,
    });
    let op = op.map_err(layer)?;
    parse::check_version(&op, context.version()).map_err(layer)?;
    permit::check(&access, &op).map_err(layer)?;
    let headers = &request.headers;
    let access = &access;
    let version = context.version();
    let authorized =
        Authorized { state, account, receipts, route, headers, access, context, version };
    let call = Call { authorized, body, format };
    Ok(call.perform(op).await?)
}

impl Call<'_> {
    async fn perform(&self, op: Op<'_>) -> Result<HttpResponse, Failure> {
        if self.format.atom && matches!(op, Op::GetEntity(..) | Op::QueryEntities(..)) {
            return Err(Failure::data(Rejection::new(ErrorCode::ATOM_FORMAT_NOT_SUPPORTED)));
        }
        match op {
            Op::GetEntity(address, select) => {
                self.take_entities(&address, 1).map_err(Failure::data)?;
                entity::get(self, &address, select.as_ref())
            }
            Op::Change(change) => {
                self.take_entities(&change.address, 1).map_err(Failure::data)?;
                entity::change(self, &change)
            }
            Op::QueryEntities(table, query) => page::query(self, table, query).await,
            Op::Batch => batch::perform(self).await,
            Op::CreateTable { name, prefer } => tables::create(self, name, prefer),
            Op::DeleteTable(name) => tables::delete(self, &name),
            Op::GetTable(name) => tables::get(self, &name),
            Op::QueryTables(query) => Ok(tables::query(self, &query)),
            Op::GetAcl(table) => policies::get_acl(self, table).map_err(Failure::front_end),
            Op::SetAcl(table) => policies::set_acl(self, table).map_err(Failure::front_end),
            Op::GetProperties => Ok(documents::properties(self.account, Service::Table)),
            Op::SetProperties => {
                let Self { authorized: Authorized { account, receipts, .. }, body, .. } = self;
                documents::set_properties(account, receipts, Service::Table, body)
                    .map_err(Failure::front_end)
            }
            Op::GetStats => Ok(documents::stats(self.account, self.context)),
            Op::GetUserDelegationKey => {
                delegation::check(self.access).map_err(Failure::front_end)?;
                delegation::key(self, self.body).map_err(Failure::front_end)
            }
        }
    }
}

/// The part of the service that rejects requests for this target.
fn layer(target: &Target<'_>) -> fn(Rejection) -> Failure {
    if is_document(target) { Failure::front_end } else { Failure::data }
}

/// Whether errors have the format used for XML documents rather than for entities.
fn is_document(target: &Target<'_>) -> bool {
    matches!(
        target,
        Target::Acl(_) | Target::Batch | Target::DelegationKey | Target::Properties | Target::Stats
    )
}
