//! What services say alike in XML: properties, statistics, access policies.

use http::{StatusCode, header};
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::{
    GeoStatus, ServiceProperties, ServiceStats, SignedIdentifier, parse_acl, parse_properties,
    render_acl, render_properties, render_stats,
};

use crate::rejection::invalid_document;
use crate::respond::{self, Answer, NO_CACHE, Stamps};
use crate::state::Account;

/// An answer with an XML document, as the Queue and Blob services give it to a GET.
pub(crate) fn document(body: String) -> Answer {
    let mut answer = respond::xml(StatusCode::OK, body);
    answer.headers_mut().insert(header::CACHE_CONTROL, NO_CACHE);
    answer
}

/// The answer with a service's properties.
pub(crate) fn properties(properties: &ServiceProperties) -> Answer {
    document(render_properties(properties))
}

/// The properties in a request to the Queue or Blob service.
pub(crate) fn read_properties(body: &[u8]) -> Result<ServiceProperties, Rejection> {
    parse_properties(body).map_err(|error| invalid_document(&error, body))
}

/// The answer with access policies.
pub(crate) fn policies(policies: &[SignedIdentifier]) -> Answer {
    document(render_acl(policies))
}

/// The access policies in a request to the Queue or Blob service.
pub(crate) fn read_policies(body: &[u8]) -> Result<Vec<SignedIdentifier>, Rejection> {
    parse_acl(body).map_err(|error| invalid_document(&error, body))
}

/// The answer with statistics. The copy is the original, and in step, unless it is held back.
pub(crate) fn stats(account: &Account, stamps: &Stamps) -> Answer {
    let last_sync = Some(account.in_step.unwrap_or(stamps.now).to_chrono());
    let stats = ServiceStats { status: GeoStatus::Live, last_sync };
    respond::xml(StatusCode::OK, render_stats(&stats))
}
