//! What the Table, Queue and Blob services have in common: properties, statistics, and listings that
//! come page by page.

pub(crate) mod listing;
pub(crate) mod policies;

pub use listing::{Listing, ListingContinuation, ListingPage};
use rowkey_wire::request::Request;
use rowkey_wire::xml;
pub use rowkey_wire::xml::{
    CorsRule, GeoStatus, Logging, Metrics, ServiceProperties, ServiceStats,
};

use crate::account::StorageAccount;
use crate::error::{Error, Result};
use crate::transport::{Call, Host, Reply, Safety};

pub(crate) async fn properties(
    account: &StorageAccount,
    operation: &'static str,
    request: Request,
) -> Result<ServiceProperties> {
    let call = Call::new(operation, "", Safety::Read);
    let reply = account.pipeline().send(request, call).await?;
    xml::decode_properties(&reply.body).map_err(|error| unreadable(error, &call, &reply))
}

/// `request` makes the request of the document.
pub(crate) async fn set_properties(
    account: &StorageAccount,
    operation: &'static str,
    request: fn(String) -> Request,
    properties: &ServiceProperties,
) -> Result<()> {
    let call = Call::new(operation, "", Safety::Conditional);
    account.pipeline().send(request(xml::encode_properties(properties)), call).await?;
    Ok(())
}

/// Only the secondary knows.
pub(crate) async fn statistics(
    account: &StorageAccount,
    operation: &'static str,
    request: Request,
) -> Result<ServiceStats> {
    let call = Call::new(operation, "", Safety::Read).at(Host::Secondary);
    let reply = account.pipeline().send(request, call).await?;
    xml::decode_stats(&reply.body).map_err(|error| unreadable(error, &call, &reply))
}

#[cold]
pub(crate) fn unreadable(error: xml::XmlError, call: &Call<'_>, reply: &Reply) -> Error {
    Error::decode("the answer's XML cannot be read").with_source(error).of_answer(call, reply)
}
