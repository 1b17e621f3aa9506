//! Stubs that learn their answers from the writes themselves.
//!
//! A write is run once in memory: the code of the program plans and sends it, and [`State`] answers. That
//! shows which entities, messages and blobs the write touches, and no list of requests has to be kept in step
//! with the code.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Method, Request, Response};
use rowkey_entity::{Entity, Key};
use rowkey_wire::code::ErrorCode;

use super::Answer;
use super::exchange::{Exchange, TableId};
use super::state::{Failure, State, resource_of};
use crate::error::{ErrorKind, Result};
use crate::table::handle::Table;
use crate::transport::stand_in::{Responder, answered_by};

/// Stubs for whole operations: they hold entities, messages and blobs, and answer as the service would.
///
/// What they hold, and which writes they answer, comes from running the program's own code in memory:
///
/// - [`holding`](Self::holding) runs writes whose results exist when the test begins.
/// - [`planning`](Self::planning) runs writes that the test will see. Their results do not exist yet.
///
/// The stubs answer every read of the tables, queues and containers that these writes used, the deletion and
/// update of messages, and every write to the rows, queues and blobs that the planned writes touched, in any
/// order and number. Times and random parts of names may differ. Tables of one name in two accounts are two tables,
/// if the addresses of the accounts differ, in the host, the port or the path. Nothing answers other requests: they fail with 400 and the code `NoStubAnswers`.
/// The error shows the request, and [`ErrorDetails::service_message`](crate::ErrorDetails::service_message) the
/// plan.
///
/// ```
/// use rowkey::answers::Stubs;
/// use rowkey::service::Service;
/// use rowkey::{Credential, Entity, ErrorCode, ErrorKind, Outcome, StorageAccount};
/// use wiremock::MockServer;
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{department}", row = "{id:6}")]
/// struct Employee { department: String, id: u32, salary: f64 }
///
/// # #[cfg(feature = "wiremock-0_6")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let employee = |id| Employee { department: "sales".into(), id, salary: 1.5 };
/// let server = MockServer::start().await;
/// let account = StorageAccount::builder()
///     .endpoint(Service::Table, &server.uri())?
///     .credential(Credential::anonymous())
///     .build()?;
/// let staff = account.table("staff");
///
/// let stubs = Stubs::new()
///     .holding(staff.insert(&employee(1)))
///     .await?
///     .planning(staff.update(Employee::key("sales", 1), |employee| employee.salary = 2.0))
///     .await?
///     // Another writer comes first, once.
///     .refusing("staff", &Employee::key("sales", 1), ErrorCode::UPDATE_CONDITION_NOT_SATISFIED);
/// println!("{}", stubs.plan().join("\n"));
/// // The service applies this write, and the connection dies before the answer.
/// let key = Employee::key("sales", 3);
/// let lost = Stubs::new().planning(staff.insert(&employee(3))).await?.losing("staff", &key);
/// let stubs = stubs.and(lost);
/// stubs.mount(&server).await;
///
/// let raised = staff.update(Employee::key("sales", 1), |employee| employee.salary += 1.0).await?;
/// assert_eq!(raised.entity.salary, 2.5);
/// assert!(staff.get(Employee::key("sales", 2)).await?.is_none());
/// let taken = staff.insert(&employee(1)).await.unwrap_err();
/// assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
/// let lost = staff.insert(&employee(3)).await.unwrap_err();
/// assert_eq!(lost.outcome(), Outcome::Unknown);
/// assert!(staff.get(key).await?.is_some());
/// assert!(stubs.unanswered().is_empty());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "wiremock-0_6"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stubs {
    state: Arc<Mutex<State>>,
}

impl Stubs {
    /// Returns stubs that hold nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs writes in memory, whose results the stubs then hold. Sends nothing. Requests of tasks that the writes
    /// spawn are still sent.
    ///
    /// Every entity gets the Timestamp [`WRITTEN_AT`](super::WRITTEN_AT). Fails with the error of the writes.
    pub async fn holding<T>(self, writes: impl Future<Output = Result<T>>) -> Result<Self> {
        answered_by(self.responder(), writes).await?;
        self.locked().contents.settle();
        Ok(self)
    }

    /// Runs writes in memory to learn which requests they need. Sends nothing.
    ///
    /// Several planned writes follow each other. If they fail because something exists, does not exist or has
    /// changed, the stubs give the same answers in the test. Fails with other errors of the writes.
    pub async fn planning<T>(self, writes: impl Future<Output = Result<T>>) -> Result<Self> {
        let before = {
            let mut state = self.locked();
            let before = state.contents.clone();
            if let Some(planned) = state.planned.take() {
                state.contents = planned;
            }
            state.plans = true;
            before
        };
        let ran = answered_by(self.responder(), writes).await;
        {
            let mut state = self.locked();
            state.plans = false;
            state.planned = Some(std::mem::replace(&mut state.contents, before));
        }
        match ran {
            Err(error) if !is_answered(error.kind()) => Err(error),
            _ => Ok(self),
        }
    }

    /// Returns stubs that hold and plan the same, and change independently.
    #[must_use = "use the returned stubs"]
    #[doc(hidden)]
    pub fn fork(&self) -> Self {
        Self { state: Arc::new(Mutex::new(self.locked().clone())) }
    }

    /// Holds what an earlier run of the same writes stored and this one did not store again, because the
    /// program remembers it, such as a key record.
    #[must_use = "use the returned stubs"]
    #[doc(hidden)]
    pub fn remembering(self, earlier: &Self) -> Self {
        let earlier = earlier.locked().clone();
        {
            let mut state = self.locked();
            let is_new = |table: &TableId, keys: &(String, String)| {
                let row = resource_of(table, keys);
                earlier.writable.contains(&row) && !state.writable.contains(&row)
            };
            let remembered = earlier.planned.map(|planned| planned.choose(is_new));
            let remembered = remembered.unwrap_or_default();
            if let Some(planned) = &mut state.planned {
                planned.extend(remembered.clone());
            }
            state.contents.extend(remembered);
            state.contents.settle();
        }
        self
    }

    /// Adds all that other stubs hold and plan.
    #[must_use = "use the returned stubs"]
    pub fn and(self, other: Self) -> Self {
        {
            let mut state = self.locked();
            let Self { state: other } = other;
            let other = other.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(planned) = other.planned {
                let mut before = state.planned.take().unwrap_or_else(|| state.contents.clone());
                before.extend(planned);
                state.planned = Some(before);
            }
            state.contents.extend(other.contents);
            state.tables.extend(other.tables);
            state.writable.extend(other.writable);
            state.places.extend(other.places);
            state.plan.extend(other.plan);
            state.failures.extend(other.failures);
        }
        self
    }

    /// Refuses the next write of this row with an error, alone or in a transaction, and changes nothing. Each
    /// call is for one write.
    #[must_use = "use the returned stubs"]
    pub fn refusing<E: Entity>(self, table: &str, key: &Key<E>, code: ErrorCode) -> Self {
        self.failing(table, key, Some(code))
    }

    /// Applies the next write of this row, and closes the connection without an answer.
    #[cfg(feature = "wiremock-0_6")]
    #[must_use = "use the returned stubs"]
    pub fn losing<E: Entity>(self, table: &str, key: &Key<E>) -> Self {
        self.failing(table, key, None)
    }

    fn failing<E: Entity>(self, table: &str, key: &Key<E>, code: Option<ErrorCode>) -> Self {
        // An invalid key is refused by the client, and no stub sees it.
        if let Ok((partition, row)) = key.parts() {
            let row = [table, partition, row].map(str::to_owned);
            self.locked().failures.push(Failure { row, code });
        }
        self
    }

    /// Allows writes of this row. A run of 16 and more hexadecimal digits in a key stands for any other one.
    #[must_use = "use the returned stubs"]
    #[doc(hidden)]
    pub fn allowing(self, table: &Table, partition: &str, row: &str) -> Self {
        let keys = (partition.to_owned(), row.to_owned());
        self.locked().writable.insert(resource_of(&id_of(table), &keys));
        self
    }

    /// Returns the requests of the planned writes, each with what it is about, in the order of the plan.
    pub fn plan(&self) -> Vec<String> {
        self.locked().plan.clone()
    }

    /// Returns the requests that no stub answered.
    pub fn unanswered(&self) -> Vec<String> {
        self.locked().unanswered.clone()
    }

    /// Answers a request, for other stub servers than wiremock. `None` if these stubs do not answer it;
    /// [`refusal`](Self::refusal) is then the response.
    ///
    /// `target` is the path and the query of the URL, encoded.
    pub fn answer(
        &self,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<Answer> {
        let mut state = self.locked();
        let request = received(method, target, headers, body);
        if !state.covers(&request) {
            return None;
        }
        state.answer(&request)
    }

    /// Returns the response to a request that no stub answers, and notes the request.
    pub fn refusal(
        &self,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Answer {
        self.locked().refuse(&received(method, target, headers, body))
    }

    /// Returns the rows of a table that these stubs hold and `with` chooses by keys and properties, as the
    /// response to a query.
    #[doc(hidden)]
    pub fn rows(
        &self,
        table: &Table,
        with: impl FnMut(&(String, String), &[(String, rowkey_entity::edm::Value)]) -> bool,
    ) -> Answer {
        self.locked().contents.list(&id_of(table), with)
    }

    /// Returns the row with these keys, as the response to Get Entity.
    #[doc(hidden)]
    pub fn row(&self, table: &Table, keys: &(String, String)) -> Answer {
        self.locked().contents.one(&id_of(table), keys)
    }

    fn responder(&self) -> Responder {
        let state = Arc::clone(&self.state);
        Arc::new(move |request| stand_in(&state, request))
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A table as its requests name it.
fn id_of(table: &Table) -> TableId {
    let base = table.endpoint();
    let origin = base.split_once("://").map_or(base, |(_, rest)| rest);
    TableId { origin: origin.trim_end_matches('/').to_owned(), name: table.name().to_owned() }
}

/// A request that a stub server passes on.
fn received<'a>(
    method: &'a Method,
    target: &'a str,
    headers: &'a HeaderMap,
    body: &'a [u8],
) -> Exchange<'a> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Exchange { authority: authority(headers), method, path, query, headers, body }
}

/// The host and the port that a request was sent to.
pub(super) fn authority(headers: &HeaderMap) -> &str {
    headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

/// Whether the stubs give the same answer in the test.
fn is_answered(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::AlreadyExists | ErrorKind::Conflict | ErrorKind::NotFound)
}

/// The answer to a request of a write that is run in memory.
fn stand_in(state: &Mutex<State>, request: &Request<Bytes>) -> Option<Response<Bytes>> {
    let url = request.uri();
    let exchange = Exchange {
        authority: url.authority().map_or("", Authority::as_str),
        method: request.method(),
        path: url.path(),
        query: url.query().unwrap_or_default(),
        headers: request.headers(),
        body: request.body(),
    };
    let answer = state.lock().unwrap_or_else(PoisonError::into_inner).record(&exchange);
    let Answer { status, headers, body } = answer;
    let mut response = Response::builder().status(status);
    for (name, value) in &headers {
        response = response.header(name, value);
    }
    // As every server does. A response to HEAD has it already.
    if request.method() != Method::HEAD {
        response = response.header("Content-Length", body.len());
    }
    response.body(body).ok()
}
