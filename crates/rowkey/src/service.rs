//! What the Table, Queue and Blob services have in common: properties, statistics, and listings that
//! come page by page.

pub(crate) mod listing;
pub(crate) mod policies;
pub(crate) mod progress;
pub(crate) mod wire;

use std::time::Duration;

pub use listing::{Listing, ListingContinuation, ListingPage};
use rowkey_wire::xml;
pub use rowkey_wire::xml::{
    CorsRule, GeoStatus, Logging, Metrics, ServiceProperties, ServiceStats,
};

use crate::account::StorageAccount;
use crate::error::{Error, Result, is_being_deleted};
use crate::transport::Request;
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
    wire::stats::decode(&reply.body).map_err(|error| unreadable(error, &call, &reply))
}

/// The first wait for a name that is blocked, and the longest. They double.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Creates something whose name may be blocked because what had it was deleted: again and again, with
/// waits that are `longest` in all.
pub(crate) async fn create_within<F>(
    account: &StorageAccount,
    longest: Duration,
    create: impl Fn() -> F,
) -> Result<bool>
where
    F: Future<Output = Result<bool>>,
{
    let (mut left, mut wait) = (longest, FIRST_WAIT);
    loop {
        let result = create().await;
        let blocked = |error: &Error| error.code().is_some_and(is_being_deleted);
        if left.is_zero() || !result.as_ref().is_err_and(blocked) {
            return result;
        }
        let pause = wait.min(left);
        account.clock().sleep(pause).await;
        left -= pause;
        wait = (2 * wait).min(LONGEST_WAIT);
    }
}

#[cold]
pub(crate) fn unreadable(error: xml::XmlError, call: &Call<'_>, reply: &Reply) -> Error {
    Error::decode("the answer's XML cannot be read").with_source(error).of_answer(call, reply)
}
