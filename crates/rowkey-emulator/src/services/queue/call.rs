//! One request to the Queue service, and what its operations share.

use bytes::Bytes;
use http::HeaderMap;

use crate::account::{Account, Receipts};
use crate::front::auth::Access;
use crate::front::respond::ResponseContext;
use crate::front::route::Route;
use crate::state::State;
use crate::store::queue::Queues;

/// A request that is authenticated and authorized.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) state: &'a State,
    pub(super) account: &'a Account,
    pub(super) receipts: &'a Receipts,
    pub(super) route: &'a Route<'a>,
    pub(super) headers: &'a HeaderMap,
    pub(super) access: &'a Access,
    pub(super) body: &'a Bytes,
    pub(super) context: &'a ResponseContext,
    /// The version used for the response.
    pub(super) version: &'a str,
}

impl Call<'_> {
    /// Changes the queues. If they are kept on disk, the response waits until the change is written.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Queues) -> R) -> R {
        let (result, receipt) = self.account.change_queues(change);
        self.receipts.keep(receipt);
        result
    }
}
