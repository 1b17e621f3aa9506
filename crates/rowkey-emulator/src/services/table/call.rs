//! One request to the Table service, and what its operations share.

use bytes::Bytes;
use http::HeaderMap;
use rowkey_wire::error::Rejection;
use rowkey_wire::odata::render::Origin;

use crate::account::{Account, Receipts};
use crate::front::auth::Access;
use crate::front::respond::ResponseContext;
use crate::front::route::Route;
use crate::op::table::Address;
use crate::state::State;
use crate::wire::table::parse::ResponseFormat;

/// An authenticated request, with everything needed to answer it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(super) state: &'a State,
    pub(super) account: &'a Account,
    pub(super) receipts: &'a Receipts,
    pub(super) route: &'a Route<'a>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a Bytes,
    pub(super) context: &'a ResponseContext,
    pub(super) format: ResponseFormat,
    pub(super) access: &'a Access,
}

impl Call<'_> {
    /// Changes the tables. If they are kept on disk, the response waits until the change is written.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut crate::store::Account) -> R) -> R {
        let (result, receipt) = self.account.change_store(change);
        self.receipts.keep(receipt);
        result
    }

    /// Counts entities towards their partition's throughput target, if the server throttles.
    pub(super) fn take_entities(
        &self,
        address: &Address<'_>,
        count: usize,
    ) -> Result<(), Rejection> {
        let Some(throttle) = &self.state.control.throttle else { return Ok(()) };
        let route = (&*self.account.name, address.table, &*address.partition_key);
        throttle.entities(route, count, self.context.now)
    }

    /// The base of the addresses in the response.
    pub(super) fn origin(&self) -> Origin<'_> {
        Origin { account: &self.account.name, endpoint: &self.route.endpoint }
    }
}
