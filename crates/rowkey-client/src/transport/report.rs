//! What an attempt and an operation used: the input of metrics, meters and logs.

use std::time::Duration;

use http::StatusCode;

use super::call::Call;
use crate::clock::Clock;
use crate::hot_partitions::tracker::Touch;
use crate::pace::load::Load;

/// One request that was sent, when it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptReport<'a> {
    /// The operation that it is an attempt of.
    pub(crate) call: &'a Call<'a>,
    /// The status of the response; `None` if there was none.
    pub(crate) status: Option<StatusCode>,
    /// The bytes of the response's body; of one that is read later, those that its head announces. What is read of it
    /// is counted by `metered`.
    pub(crate) received: u64,
    /// From before the attempt was sent until its response was read.
    pub(crate) elapsed: Duration,
}

impl<'a> AttemptReport<'a> {
    /// What it did in a partition of a table, if it was about one.
    pub(crate) fn touch(&self, clock: &dyn Clock) -> Option<Touch<'a>> {
        let Load::Partition { key, entities, written } = self.call.load else { return None };
        Some(Touch {
            table: self.call.resource,
            partition_key: key,
            written,
            // A page of a query counts as one here, and its other rows when it is decoded.
            entities: u64::from(entities).max(1),
            is_throttled: self.status == Some(StatusCode::SERVICE_UNAVAILABLE),
            second: clock.now().timestamp(),
        })
    }
}
