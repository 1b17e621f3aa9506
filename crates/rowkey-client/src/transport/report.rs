//! What an attempt and an operation used: the input of metrics, meters and logs.

use std::time::Duration;

use http::StatusCode;
use rowkey_wire::auth::Service;

use super::call::Call;

/// One request that was sent, when it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptReport<'a> {
    /// The operation that it is an attempt of.
    pub(crate) call: &'a Call<'a>,
    pub(crate) service: Service,
    /// Counted from 1.
    pub(crate) number: u32,
    /// The status of the response; `None` if there was none.
    pub(crate) status: Option<StatusCode>,
    /// The bytes of the request's body.
    pub(crate) sent: u64,
    /// The bytes of the response's body that were read. Those of a body that is read later are not
    /// among them.
    pub(crate) received: u64,
    /// From before the attempt was sent until its response was read.
    pub(crate) elapsed: Duration,
}
