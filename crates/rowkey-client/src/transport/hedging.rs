//! The second request of a slow read: which reads have one, and which of the two answers counts.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::time::Instant;

use super::Request;
use super::call::{Call, Safety};
use super::http::{HttpResponse, ReadMode, TransportError};
use super::pacing::asking;
use super::pipeline::Pipeline;
use super::policy::Attempt;
use super::report::AttemptReport;
use super::retry;
use super::sign::Signed;
use crate::endpoint::Endpoint;
use crate::telemetry::Telemetry as _;
use crate::telemetry::metrics::HEDGES;

/// An attempt that is about to be sent.
#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) request: &'a Request,
    pub(super) call: &'a Call<'a>,
    pub(super) mode: ReadMode,
    pub(super) limit: Duration,
    pub(super) number: u32,
}

type Sent = Result<HttpResponse, TransportError>;

/// The result of an attempt that may have been sent twice.
pub(super) struct Raced {
    pub(super) result: Sent,
    /// Whether it is that of the second request.
    pub(super) is_second: bool,
    /// Whether the second request went to another endpoint.
    pub(super) is_other: bool,
}

impl Sending<'_> {
    /// Whether it is a whole read that changes nothing, and the first attempt. Received messages are hidden
    /// from others, so receiving is no read.
    pub(super) fn may_be_hedged(&self) -> bool {
        self.call.safety == Safety::Read
            && self.mode == ReadMode::Whole
            && self.number == 1
            && self.call.operation != "GetMessages"
    }
}

impl Pipeline {
    /// Sends an attempt, and after the delay a second one to `endpoint`. Returns the first good answer; the
    /// other request is dropped, which closes its connection.
    pub(super) async fn race<'a>(
        &self,
        signed: Signed,
        sending: Sending<'a>,
        [primary, endpoint]: [&Endpoint; 2],
        attempt: &mut Attempt<'a>,
    ) -> Raced {
        let is_point = sending.call.operation == "GetEntity";
        let hedging = self.hedging();
        let delay = self.options().hedge.as_ref().and_then(|hedge| hedging.delay(hedge, is_point));
        let begun = self.clock().elapsed();
        let is_other = !std::ptr::eq(primary, endpoint);
        let first = pin!(self.attempt(signed, &sending, primary));
        let (result, is_second) = match delay {
            None => (first.await, false),
            Some(delay) => match select(first, self.clock().sleep(delay)).await {
                Either::Left((result, _)) => (result, false),
                Either::Right(((), first)) => {
                    self.both(first, sending, endpoint, is_other, attempt).await
                }
            },
        };
        hedging.record(is_point, self.clock().elapsed().saturating_sub(begun));
        Raced { result, is_second, is_other }
    }

    /// Sends the second request while the first is on its way.
    async fn both<'a>(
        &self,
        first: Pin<&mut impl Future<Output = Sent>>,
        sending: Sending<'a>,
        endpoint: &Endpoint,
        is_other: bool,
        attempt: &mut Attempt<'a>,
    ) -> (Sent, bool) {
        let Sending { request, call, limit, number, .. } = sending;
        if !self.hedging().take() {
            return (first.await, false);
        }
        let Ok(authority) = self.settle(endpoint, limit).await else {
            return (first.await, false);
        };
        let is_at_secondary = attempt.is_at_secondary != is_other;
        let mut again = Attempt::new(call, &request.method, number + 1, is_at_secondary);
        let Ok(signed) = self.sign(endpoint, (request, call), &authority, &mut again) else {
            return (first.await, false);
        };
        let asked = asking(request.service, call);
        let permit = self.governor().note(asked);
        self.telemetry().count(HEDGES.name, &[asked.label()], 1);
        let begun = Instant::now();
        let second = pin!(self.attempt(signed, &sending, endpoint));
        let (result, is_second, other) = match select(first, second).await {
            Either::Left((result, _)) if is_good(&result, attempt.is_at_secondary) => {
                (result, false, None)
            }
            Either::Right((result, _)) if is_good(&result, is_at_secondary) => (result, true, None),
            // The first answer was no good, so the other decides, unless it is no better.
            Either::Left((failed, second)) => match second.await {
                result if is_good(&result, is_at_secondary) => (result, true, Some(failed)),
                other => (failed, false, Some(other)),
            },
            Either::Right((failed, first)) => (first.await, false, Some(failed)),
        };
        if let Some(permit) = permit {
            permit.answered();
        }
        // The caller reports the one whose answer counts. The other is billed as well.
        if is_second {
            std::mem::swap(attempt, &mut again);
        }
        let report = AttemptReport {
            call,
            status: other.and_then(|other| Some(other.ok()?.status)),
            received: 0,
            elapsed: begun.elapsed(),
        };
        self.observe(&report, &again);
        (result, is_second)
    }
}

/// Whether an answer decides the race: anything that a retry would not change. The secondary may lack what the
/// primary has.
fn is_good(result: &Sent, is_at_secondary: bool) -> bool {
    result.as_ref().is_ok_and(|answer| {
        let is_behind = is_at_secondary && matches!(answer.status.as_u16(), 404 | 412);
        answer.body.is_ok() && !retry::is_transient(answer.status.as_u16()) && !is_behind
    })
}
