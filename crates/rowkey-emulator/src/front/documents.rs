//! The XML documents shared by all services: properties, statistics and access policies.

mod stats;

use http::{StatusCode, header};
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::{
    GeoStatus, ServiceProperties, ServiceStats, SignedIdentifier, parse_acl, parse_properties,
    render_acl, render_properties,
};

use super::respond::{self, HttpResponse, NO_CACHE, ResponseContext};
use crate::account::Account;
use crate::op::rejection::invalid_document;

/// A response with an XML document, as the Queue and Blob services send it for a GET.
pub(crate) fn document(body: String) -> HttpResponse {
    let mut answer = respond::xml(StatusCode::OK, body);
    answer.headers_mut().insert(header::CACHE_CONTROL, NO_CACHE);
    answer
}

/// The response with a service's properties.
pub(crate) fn properties(properties: &ServiceProperties) -> HttpResponse {
    document(render_properties(properties))
}

/// Reads the properties in a request to the Queue or Blob service.
pub(crate) fn read_properties(body: &[u8]) -> Result<ServiceProperties, Rejection> {
    parse_properties(body).map_err(|error| invalid_document(&error, body))
}

/// The response with access policies.
pub(crate) fn policies(policies: &[SignedIdentifier]) -> HttpResponse {
    document(render_acl(policies))
}

/// Reads the access policies in a request to the Queue or Blob service.
pub(crate) fn read_policies(body: &[u8]) -> Result<Vec<SignedIdentifier>, Rejection> {
    parse_acl(body).map_err(|error| invalid_document(&error, body))
}

/// The response with statistics. The secondary is the primary itself, so it is in sync unless it is
/// held back.
pub(crate) fn stats(account: &Account, context: &ResponseContext) -> HttpResponse {
    let last_sync = Some(account.in_step.unwrap_or(context.now).to_chrono());
    let stats = ServiceStats { status: GeoStatus::Live, last_sync };
    respond::xml(StatusCode::OK, stats::render(&stats))
}
