//! The second request of a slow read: which reads have one, and which of the two answers counts.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey_wire::auth::Service;
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
use crate::error::Outcome;
use crate::pace::permit::Permit;
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
    /// The request whose result does not count; `None` if only one was sent.
    pub(super) loser: Option<Loser>,
}

/// What the request used whose result does not count.
#[derive(Clone, Copy)]
pub(super) struct Loser {
    /// Whether it could not connect.
    pub(super) is_unsent: bool,
    /// The bytes of its answer, if there was one.
    pub(super) received: u64,
}

impl Sending<'_> {
    /// Whether it is the first attempt of a read whose answer is small and that changes nothing: receiving messages hides
    /// them from others.
    pub(super) fn may_be_hedged(&self) -> bool {
        let Call { safety, operation, .. } = *self.call;
        let is_small = match self.request.service {
            Service::Table => true,
            Service::Queue => operation == "PeekMessages",
            Service::Blob => false,
        };
        is_small && safety == Safety::Read && self.mode == ReadMode::Whole && self.number == 1
    }
}

/// The second request of a race, once it is sent.
struct Second<'a> {
    attempt: Attempt<'a>,
    permit: Option<Permit<'a>>,
    begun: Instant,
}

impl Pipeline {
    /// Sends an attempt, and after the delay a second one to `endpoint`. Returns the first good answer; the
    /// other request is dropped, which closes its connection.
    pub(super) async fn race<'a>(
        &'a self,
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
        let alone = |result| Raced { result, is_second: false, is_other, loser: None };
        let raced = match delay {
            None => alone(first.await),
            Some(delay) => match select(first, self.clock().sleep(delay)).await {
                Either::Left((result, _)) => alone(result),
                Either::Right(((), first)) if !hedging.take() => alone(first.await),
                Either::Right(((), first)) => {
                    self.both(first, sending, endpoint, is_other, attempt).await
                }
            },
        };
        hedging.record(is_point, self.clock().elapsed().saturating_sub(begun));
        raced
    }

    /// Sends the second request while the first is on its way.
    async fn both<'a>(
        &'a self,
        first: Pin<&mut impl Future<Output = Sent>>,
        sending: Sending<'a>,
        endpoint: &Endpoint,
        is_other: bool,
        attempt: &mut Attempt<'a>,
    ) -> Raced {
        let is_at_secondary = attempt.is_at_secondary != is_other;
        let mut sent = None;
        // Its credential is fetched while the first request is on its way. `None` if it could not be sent.
        let second = self.second(sending, endpoint, is_at_secondary, &mut sent);
        let (result, is_second, other) = match select(first, pin!(second)).await {
            Either::Left((result, _)) if is_good(&result, attempt.is_at_secondary) => {
                (result, false, None)
            }
            Either::Right((Some(result), _)) if is_good(&result, is_at_secondary) => {
                (result, true, None)
            }
            // The first answer was no good, so the other decides, unless it is no better.
            Either::Left((failed, second)) => match second.await {
                Some(result) if is_good(&result, is_at_secondary) => (result, true, Some(failed)),
                other => (failed, false, other),
            },
            Either::Right((failed, first)) => (first.await, false, failed),
        };
        let Some(Second { attempt: mut again, permit, begun }) = sent else {
            return Raced { result, is_second, is_other, loser: None };
        };
        // The place of a request that lost is given back without saying that it was answered.
        if let Some(permit) = permit.filter(|_| is_second) {
            permit.answered();
        }
        let answer = other.as_ref().and_then(|other| other.as_ref().ok());
        let loser = Loser {
            is_unsent: is_unsent(other.as_ref()),
            received: answer.map_or(0, HttpResponse::length),
        };
        // The caller reports the one whose answer counts. The other is billed as well.
        if is_second {
            std::mem::swap(attempt, &mut again);
        }
        let status = answer.map(|answer| answer.status);
        let (call, elapsed) = (sending.call, begun.elapsed());
        self.observe(&AttemptReport { call, status, received: loser.received, elapsed }, &again);
        Raced { result, is_second, is_other, loser: Some(loser) }
    }

    /// Sends the second request. Returns `None` if it cannot be authorized.
    async fn second<'a>(
        &'a self,
        sending: Sending<'a>,
        endpoint: &Endpoint,
        is_at_secondary: bool,
        sent: &mut Option<Second<'a>>,
    ) -> Option<Sent> {
        let Sending { request, call, limit, number, .. } = sending;
        let authority = self.settle(endpoint, limit).await.ok()?;
        let mut again = Attempt::new(call, &request.method, number + 1, is_at_secondary);
        let signed = self.sign(endpoint, (request, call), &authority, &mut again).ok()?;
        let asked = asking(request.service, call);
        let permit = self.governor().note(asked);
        self.telemetry().count(HEDGES.name, &[asked.label()], 1);
        *sent = Some(Second { attempt: again, permit, begun: Instant::now() });
        Some(self.attempt(signed, &sending, endpoint).await)
    }
}

/// Whether a request could not connect.
pub(super) fn is_unsent(result: Option<&Sent>) -> bool {
    matches!(result, Some(Err(error)) if error.outcome == Outcome::NotSent)
}

/// Whether an answer decides the race: anything that a retry would not change. The secondary may lack what the
/// primary has.
fn is_good(result: &Sent, is_at_secondary: bool) -> bool {
    result.as_ref().is_ok_and(|answer| {
        let is_behind = is_at_secondary && matches!(answer.status.as_u16(), 404 | 412);
        answer.body.is_ok() && !retry::is_transient(answer.status.as_u16()) && !is_behind
    })
}
