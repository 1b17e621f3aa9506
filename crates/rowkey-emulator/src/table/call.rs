//! One request to the Table service: parses its address, and calls the operation that answers it.

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::limits::MAX_BATCH_BYTES;
use rowkey_wire::odata::Fields;
use rowkey_wire::odata::render::Origin;

use super::{batch, entity, page, permit, service, tables};
use crate::auth::{self, Access, Caller};
use crate::options::{self, Options};
use crate::request_body::RequestBody;
use crate::respond::{Answer, Failure, Refused, Stamps};
use crate::route::Place;
use crate::secondary::Served;
use crate::service::too_large;
use crate::state::{Account, State};
use crate::table::wire::entity as odata;
use crate::table::wire::op::{Address, Op, Target};
use crate::table::wire::parse::{self, Wanted};

/// An authenticated request, with everything needed to answer it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(super) state: &'a State,
    pub(super) account: &'a Account,
    pub(super) place: &'a Place<'a>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a Bytes,
    pub(super) stamps: &'a Stamps,
    pub(super) wanted: Wanted,
    pub(super) access: &'a Access,
}

/// A request that was authenticated by its head.
pub(crate) struct Admitted<'a> {
    served: Served<'a>,
    options: Options<'a>,
    access: Access,
}

/// Authenticates a request by its head.
pub(crate) fn admit<'a>(
    state: &'a State,
    place: &Place<'_>,
    address: std::net::IpAddr,
    request: &'a Parts,
    stamps: &Stamps,
) -> Result<Admitted<'a>, Rejection> {
    let served = state.account_at(place)?;
    let options = Options::parse(request.uri.query().unwrap_or_default())?;
    let caller = Caller {
        service: Service::Table,
        resource: None,
        address,
        now: stamps.now,
        secondary: place.secondary,
        signing_log: state.debug_signing.then_some(&stamps.id),
    };
    let access = auth::authenticate(&served, caller, request)?;
    Ok(Admitted { served, options, access })
}

/// Authenticates a request, reads its body, then parses, authorizes and answers it.
pub(crate) async fn answer(
    state: &State,
    place: &Place<'_>,
    address: std::net::IpAddr,
    request: &Parts,
    body: &mut RequestBody,
    stamps: &Stamps,
) -> Result<Answer, Refused> {
    let Admitted { served, options, access } = admit(state, place, address, request, stamps)?;
    let path = options::decode_path(place.path).map_err(Failure::front_end);
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
    let account = &*served;
    let wanted = parse::wanted(&options, &request.headers);
    let target = target?;
    let method = parse::method(&request.method, &request.headers).map_err(Failure::data)?;
    let layer = layer(&target);
    place.check(&method, target == Target::Stats).map_err(layer)?;
    let fields = if parse::has_json(&method, &target) {
        parse::check_json_type(&request.headers).map_err(layer)?;
        odata::fields(body).map_err(layer)?
    } else {
        Fields::default()
    };
    let table = if let Target::Entities(table) = target { Some(table) } else { None };
    let op = parse::op(&method, target, &options, &request.headers, &fields, state.strict);
    let op = op.map_err(|rejection| match table {
        // A missing table is reported before missing parts of the entity (recorded).
        Some(table) if rejection.code == ErrorCode::PROPERTIES_NEED_VALUE => {
            account.store().table(table).err().unwrap_or(rejection)
        }
        _ => rejection,
    });
    let op = op.map_err(layer)?;
    permit::check(&access, &op).map_err(layer)?;
    let headers = &request.headers;
    let call = Call { state, account, place, headers, body, stamps, wanted, access: &access };
    Ok(call.perform(op).await?)
}

impl Call<'_> {
    async fn perform(&self, op: Op<'_>) -> Result<Answer, Failure> {
        if self.wanted.atom && matches!(op, Op::GetEntity(..) | Op::QueryEntities(..)) {
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
            Op::GetAcl(table) => service::get_acl(self, table),
            Op::SetAcl(table) => service::set_acl(self, table),
            Op::GetProperties => Ok(service::get_properties(self)),
            Op::SetProperties => service::set_properties(self),
            Op::GetStats => Ok(service::get_stats(self)),
        }
    }

    /// Counts entities towards their partition's throughput target, if the server throttles.
    pub(super) fn take_entities(
        &self,
        address: &Address<'_>,
        count: usize,
    ) -> Result<(), Rejection> {
        let Some(throttle) = &self.state.control.throttle else { return Ok(()) };
        let place = (&*self.account.name, address.table, &*address.partition_key);
        throttle.entities(place, count, self.stamps.now)
    }

    /// The base of the addresses in the response.
    pub(super) fn origin(&self) -> Origin<'_> {
        Origin { account: &self.account.name, endpoint: &self.place.endpoint }
    }
}

/// The part of the service that rejects requests for this target.
fn layer(target: &Target<'_>) -> fn(Rejection) -> Failure {
    if is_document(target) { Failure::front_end } else { Failure::data }
}

/// Whether errors have the format used for XML documents rather than for entities.
fn is_document(target: &Target<'_>) -> bool {
    matches!(target, Target::Acl(_) | Target::Batch | Target::Properties | Target::Stats)
}
