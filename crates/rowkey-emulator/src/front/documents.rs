//! The XML documents shared by all services: properties, statistics and access policies.

use http::{StatusCode, header};
use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::{
    GeoStatus, ServiceProperties, ServiceStats, SignedIdentifier, XmlError, parse_acl,
    parse_properties, render_acl, render_properties, render_stats,
};

use super::respond::{self, HttpResponse, NO_CACHE, ResponseContext};
use crate::account::{Account, Receipts};
use crate::op::rejection;
use crate::wire::blob::unsupported::check_properties;

/// A response with an XML document, as the Queue and Blob services send it for a GET.
pub(crate) fn document(body: String) -> HttpResponse {
    let mut answer = respond::xml(StatusCode::OK, body);
    answer.headers_mut().insert(header::CACHE_CONTROL, NO_CACHE);
    answer
}

/// The Table service says nothing about caches.
fn document_of(service: Service, body: String) -> HttpResponse {
    if service == Service::Table { respond::xml(StatusCode::OK, body) } else { document(body) }
}

/// The Table service does not say what is wrong with a document.
fn invalid_document(service: Service, error: &XmlError, body: &[u8]) -> Rejection {
    if service == Service::Table {
        Rejection::new(ErrorCode::INVALID_XML_DOCUMENT)
    } else {
        rejection::invalid_document(error, body)
    }
}

/// The response with a service's properties.
pub(crate) fn properties(account: &Account, service: Service) -> HttpResponse {
    document_of(service, account.read_properties(service, render_properties))
}

/// Sets a service's properties: sections that are not sent remain unchanged.
pub(crate) fn set_properties(
    account: &Account,
    receipts: &Receipts,
    service: Service,
    body: &[u8],
) -> Result<HttpResponse, Rejection> {
    let sent = parse_properties(body).map_err(|error| invalid_document(service, &error, body))?;
    let sent = match service {
        Service::Blob => {
            check_properties(body)?;
            sent
        }
        Service::Queue | Service::Table => {
            ServiceProperties { default_service_version: None, static_website: None, ..sent }
        }
    };
    receipts.keep(account.update_properties(service, sent));
    Ok(respond::empty(StatusCode::ACCEPTED))
}

/// The response with statistics. The secondary is the primary itself, so it is in sync unless it is
/// held back.
pub(crate) fn stats(account: &Account, context: &ResponseContext) -> HttpResponse {
    let last_sync = Some(account.in_step.unwrap_or(context.now).to_chrono());
    let stats = ServiceStats { status: GeoStatus::Live, last_sync };
    respond::xml(StatusCode::OK, render_stats(&stats))
}

/// The response with access policies.
pub(crate) fn policies(service: Service, policies: &[SignedIdentifier]) -> HttpResponse {
    document_of(service, render_acl(policies))
}

/// Reads the access policies in a request.
pub(crate) fn read_policies(
    service: Service,
    body: &[u8],
) -> Result<Vec<SignedIdentifier>, Rejection> {
    parse_acl(body).map_err(|error| invalid_document(service, &error, body))
}
