//! What the Table, Queue and Blob services have in common: properties, statistics, and listings that
//! come page by page.

pub(crate) mod policies;

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey_wire::request::Request;
use rowkey_wire::xml;
pub use rowkey_wire::xml::{
    CorsRule, GeoStatus, Logging, Metrics, ServiceProperties, ServiceStats,
};

use crate::account::StorageAccount;
use crate::error::{Error, Result};
use crate::table::Stream;
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

/// Where a listing goes on, and which endpoint has to be asked: markers are good only where they
/// came from.
#[derive(Clone, Debug)]
pub(crate) struct Next {
    pub(crate) marker: String,
    host: Host,
}

impl Next {
    /// Where the listing that `reply` is a page of goes on, if it does.
    pub(crate) fn after(reply: &Reply, marker: Option<String>) -> Option<Self> {
        marker.map(|marker| Self { marker, host: reply.host() })
    }

    /// Where to ask for a page.
    pub(crate) fn host(next: Option<&Self>) -> Host {
        next.map_or(Host::Any, |next| next.host)
    }

    /// The marker to ask with.
    pub(crate) fn marker(next: Option<&Self>) -> Option<&str> {
        next.map(|next| next.marker.as_str())
    }
}

/// The entries of a listing, one by one: `page` reads those of one page and tells where it goes on.
pub(crate) fn entries<L, T, F>(
    listing: Result<L>,
    page: impl Fn(Arc<L>, Option<Next>) -> F + Send + Sync + 'static,
) -> Stream<T>
where
    L: Send + Sync + 'static,
    T: Send + 'static,
    F: Future<Output = Result<(Vec<T>, Option<Next>)>> + Send + 'static,
{
    let listing = match listing {
        Ok(listing) => Arc::new(listing),
        Err(error) => return stream::once(async { Err(error) }).boxed(),
    };
    stream::try_unfold(Some(None), move |next| {
        let page = next.map(|next| page(Arc::clone(&listing), next));
        async move {
            let Some(page) = page else { return Ok(None) };
            let (entries, next) = page.await?;
            Ok(Some((entries, next.map(Some))))
        }
    })
    .map_ok(|entries| stream::iter(entries.into_iter().map(Ok)))
    .try_flatten()
    .boxed()
}

#[cold]
pub(crate) fn unreadable(error: xml::XmlError, call: &Call<'_>, reply: &Reply) -> Error {
    Error::decode("the answer's XML cannot be read").with_source(error).of_answer(call, reply)
}
