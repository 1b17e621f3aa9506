//! Access policies, service properties and statistics: the operations with XML documents.

use http::{StatusCode, header};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::{
    ServiceProperties, parse_acl, parse_properties, render_acl, render_properties,
};

use super::call::Call;
use crate::front::documents;
use crate::front::respond::{self, Failure, HttpResponse};
use crate::store::properties;

/// Get Table ACL.
pub(super) fn get_acl(call: &Call<'_>, table: &str) -> Result<HttpResponse, Failure> {
    let store = call.account.store();
    let table = store.table(table).map_err(Failure::front_end)?;
    Ok(respond::xml(StatusCode::OK, render_acl(table.policies())))
}

/// Set Table ACL. It takes effect at once; the service takes up to 30 s.
pub(super) fn set_acl(call: &Call<'_>, table: &str) -> Result<HttpResponse, Failure> {
    // Recorded: requests that accept anything are rejected; those that accept XML, or have no
    // `Accept`, are not.
    if call.headers.get(header::ACCEPT).is_some_and(|accept| accept == "*/*") {
        return Err(Failure::front_end(Rejection::new(ErrorCode::MEDIA_TYPE_NOT_SUPPORTED)));
    }
    call.change(|store| {
        let table = store.table_mut(table).map_err(Failure::front_end)?;
        let policies = parse_acl(call.body).map_err(|_| invalid_document())?;
        table.set_policies(policies);
        Ok::<_, Failure>(())
    })?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Get Table Service Properties.
pub(super) fn get_properties(call: &Call<'_>) -> HttpResponse {
    respond::xml(StatusCode::OK, render_properties(call.account.store().properties()))
}

/// Set Table Service Properties: sections that are not sent remain unchanged.
pub(super) fn set_properties(call: &Call<'_>) -> Result<HttpResponse, Failure> {
    let sent = parse_properties(call.body).map_err(|_| invalid_document())?;
    let sent = ServiceProperties { default_service_version: None, static_website: None, ..sent };
    call.change(|store| properties::update(store.properties_mut(), sent));
    Ok(respond::empty(StatusCode::ACCEPTED))
}

/// Get Table Service Stats. The secondary is the primary itself, so it never lags.
pub(super) fn get_stats(call: &Call<'_>) -> HttpResponse {
    documents::stats(call.account, call.context)
}

fn invalid_document() -> Failure {
    Failure::front_end(Rejection::new(ErrorCode::INVALID_XML_DOCUMENT))
}
