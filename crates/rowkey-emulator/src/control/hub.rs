//! [`Control`]: the features that a test has enabled, and their hooks around each request.

use std::io;
use std::sync::Arc;

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use http::request::Parts;
use rowkey_wire::auth::Service;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

use super::active::Active;
use super::cut::{self, SentResponse};
use super::fault::Action;
use super::injected::{Rule, Rules};
use super::journal::{Ended, Record, Refusal};
use super::pages::ChaosState;
use super::throttle::{Targets, Throttle};
use crate::clock::ServerClock;
use crate::front::operation::Operation;
use crate::front::respond::HttpResponse;
use crate::front::subject::Subject;
use crate::wire::table::batch;

/// All features for tests.
#[derive(Debug)]
pub(crate) struct Control {
    active: Arc<Active>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) record: Option<Arc<Record>>,
    pub(crate) throttle: Throttle,
    pub(crate) pages: Arc<ChaosState>,
}

/// Marks, in its extensions, a successful response to a request that changed nothing: the response
/// to a failed transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotCommitted;

impl Control {
    pub(crate) fn new(journal: bool, targets: Option<Targets>) -> Self {
        let active = Arc::new(Active::default());
        let record = journal.then(Arc::<Record>::default);
        if record.is_some() {
            active.enter();
        }
        let throttle = Throttle::new(Arc::clone(&active));
        throttle.set(targets);
        let rules = Rules::new(Arc::clone(&active));
        Self { active, rules, record, throttle, pages: Arc::default() }
    }

    /// Whether requests need none of these hooks.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.is_idle()
    }

    /// Removes faults and chaos, and clears the journal.
    pub(crate) fn clear(&self) {
        self.rules.discard();
        self.pages.clear();
        if let Some(record) = &self.record {
            record.clear();
        }
        self.throttle.clear();
    }

    /// Starts the visit of a request that has arrived and has not been executed. `batch` is the
    /// body of a batch request.
    pub(crate) fn arrive<'a>(
        &'a self,
        service: Service,
        request: &Parts,
        batch: Option<&[u8]>,
        now: DateTime,
    ) -> Visit<'a> {
        let mut subject = Subject::of(service, request);
        if let Some(table) = batch.and_then(batch::table) {
            subject.resource = table;
        }
        let entry = self.record.as_deref().map(|record| (record, record.begin(&subject, now)));
        let rule = self.rules.meet(&subject);
        let busy = match &rule {
            None => throttle_request(&self.throttle, &subject, now).err(),
            Some(_) => None,
        };
        Visit { arrived: now, operation: subject.operation, entry, rule, busy }
    }
}

fn throttle_request(
    throttle: &Throttle,
    subject: &Subject<'_>,
    now: DateTime,
) -> Result<(), Rejection> {
    use Operation as Op;
    if let Op::DeleteMessage
    | Op::GetMessages
    | Op::PeekMessages
    | Op::PutMessage
    | Op::UpdateMessage = subject.operation
    {
        throttle.message(subject.account, &subject.resource, now)?;
    }
    throttle.request(subject.account, now)
}

/// Sets `Retry-After` on a throttled response. One second is enough to refill every limit.
pub(crate) fn ask_to_wait(answer: &mut HttpResponse) {
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
}

/// A request between its arrival and its response.
#[derive(Debug)]
pub(crate) struct Visit<'a> {
    arrived: DateTime,
    entry: Option<(&'a Record, u64)>,
    rule: Option<Arc<Rule>>,
    busy: Option<Rejection>,
    operation: Operation,
}

impl Visit<'_> {
    /// Applies everything that happens before the request is executed. An error closes the
    /// connection; a rejection is the response.
    pub(crate) async fn before(&mut self) -> io::Result<Option<Rejection>> {
        match self.rule.as_deref().map(Rule::action) {
            Some(Action::CloseBeforeCommit) => Err(self.closed()),
            Some(Action::Reject(code)) => Ok(Some(Rejection::new(code.clone()))),
            Some(Action::Hold) => {
                if let Some(rule) = &self.rule
                    && !rule.hold().await
                {
                    return Err(self.closed());
                }
                Ok(None)
            }
            Some(Action::CloseAfterCommit | Action::Delay(_) | Action::Truncate(_)) => Ok(None),
            None => Ok(self.busy.take()),
        }
    }

    /// Records that the connection is closed without a response.
    fn closed(&mut self) -> io::Error {
        self.leave();
        cut::closed()
    }

    /// Records that the request ended without a response, unless its end is recorded already.
    fn leave(&mut self) {
        if let Some((record, number)) = self.entry.take() {
            let fault = self.rule.as_ref().map(|rule| rule.id());
            record.end(number, self.operation, Ended { fault, ..Ended::default() });
        }
    }

    /// Applies everything that happens to the response. An error closes the connection.
    pub(crate) async fn after(
        mut self,
        answer: HttpResponse,
        clock: &ServerClock,
    ) -> io::Result<SentResponse> {
        let status = answer.status();
        let committed = self.operation.is_write()
            && status.is_success()
            && answer.extensions().get::<NotCommitted>().is_none();
        let refusal = self.entry.and_then(|_| {
            let refused = answer.extensions().get::<Rejection>()?;
            Some(Refusal {
                code: refused.code.clone(),
                rule: refused.reason().into(),
                string_to_sign: refused.string_to_sign.as_deref().map(str::to_owned),
            })
        });
        let fault = self.rule.as_ref().map(|rule| rule.id());
        let ended = |status: Option<StatusCode>| Ended {
            status: status.map(|status| status.as_u16()),
            committed,
            fault,
            refusal: refusal.clone().map(Box::new),
        };
        let sent = match self.rule.as_deref().map(Rule::action) {
            Some(Action::CloseAfterCommit) => None,
            Some(Action::Truncate(bytes)) => cut::cut(answer, *bytes),
            Some(Action::Delay(duration)) => {
                if let Some((record, number)) = self.entry {
                    record.note(number, ended(None));
                }
                clock.sleep(self.arrived, *duration).await;
                Some(cut::whole(answer))
            }
            _ => Some(cut::whole(answer)),
        };
        if let Some((record, number)) = self.entry.take() {
            record.end(number, self.operation, ended(sent.as_ref().map(|_| status)));
        }
        sent.ok_or_else(cut::closed)
    }
}

impl Drop for Visit<'_> {
    /// The client has closed the connection: a request that was held, for example.
    fn drop(&mut self) {
        self.leave();
    }
}
