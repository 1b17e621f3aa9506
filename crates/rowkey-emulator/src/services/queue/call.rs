//! One request to the Queue service, and what its operations share.

use std::ops::Deref;

use bytes::Bytes;

use crate::services::authorized::Authorized;
use crate::store::queue::Queues;

/// An authorized request to the Queue service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) authorized: Authorized<'a>,
    pub(super) body: &'a Bytes,
}

impl<'a> Deref for Call<'a> {
    type Target = Authorized<'a>;

    fn deref(&self) -> &Authorized<'a> {
        &self.authorized
    }
}

impl Call<'_> {
    /// Changes the queues. If they are kept on disk, the response waits until the change is written.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Queues) -> R) -> R {
        let (result, receipt) = self.account.change_queues(change);
        self.receipts.keep(receipt);
        result
    }
}
