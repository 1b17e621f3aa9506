//! One request to the Table service, and what its operations share.

use std::ops::Deref;

use bytes::Bytes;
use rowkey_wire::error::Rejection;
use rowkey_wire::odata::render::Origin;

use crate::op::table::Address;
use crate::services::authorized::Authorized;
use crate::store::query::Cut;
use crate::wire::table::parse::ResponseFormat;

/// An authorized request to the Table service, or a part of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(super) authorized: Authorized<'a>,
    pub(super) body: &'a Bytes,
    pub(super) format: ResponseFormat,
}

impl<'a> Deref for Call<'a> {
    type Target = Authorized<'a>;

    fn deref(&self) -> &Authorized<'a> {
        &self.authorized
    }
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
        if self.context.is_owner {
            return Ok(());
        }
        let route = (&*self.account.name, address.table, &*address.partition_key);
        self.state.control.throttle.entities(route, count, self.context.now)
    }

    /// Where the page ends, if it ends early. `resumes` is whether the request has a token.
    pub(super) fn cut(&self, resumes: bool) -> Option<Cut> {
        if self.context.is_owner { None } else { self.state.control.pages.next(resumes) }
    }

    /// The base of the addresses in the response.
    pub(super) fn origin(&self) -> Origin<'_> {
        Origin { account: &self.account.name, endpoint: &self.route.endpoint }
    }
}
