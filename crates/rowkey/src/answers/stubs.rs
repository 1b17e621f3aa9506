//! Stubs that learn their answers from the writes themselves.
//!
//! A write is run once in memory: the code of the program plans and sends it, and [`Contents`] answers. That
//! shows which entities, messages and blobs the write touches, and no list of requests has to be kept in step
//! with the code.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Method};
use rowkey_wire::code::ErrorCode;

use super::contents::Contents;
use super::exchange::{Exchange, Subject, pattern, shown};
use super::objects;
use super::{Answer, data, stamped};
use crate::error::{ErrorKind, Result};
use crate::{Entity, Key};

tokio::task_local! {
    static STAND_IN: Arc<Mutex<State>>;
}

/// Stubs for whole operations: they hold entities, messages and blobs, and answer as the service would.
///
/// What they hold, and which writes they answer, comes from running the program's own code in memory:
///
/// - [`holding`](Self::holding) runs writes whose results exist when the test begins.
/// - [`planning`](Self::planning) runs writes that the test will see. Their results do not exist yet.
///
/// The stubs answer every read of the tables, queues and containers that these writes used, the deletion and
/// update of messages, and every write to the rows, queues and blobs that the planned writes touched, in any
/// order and number. Times and random parts of names may differ. Nothing answers other requests: they fail with 400 and the code `NoStubAnswers`.
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

#[derive(Clone, Debug, Default)]
struct State {
    contents: Contents,
    /// What the stubs hold after the planned writes.
    planned: Option<Contents>,
    /// The rows, queues and blobs that may be written, as patterns.
    writable: BTreeSet<String>,
    /// The tables, queues and containers that may be read.
    places: BTreeSet<String>,
    /// The requests of the planned writes, in their order.
    plan: Vec<String>,
    failures: Vec<Failure>,
    unanswered: Vec<String>,
    /// Whether a planned write is being run.
    plans: bool,
}

/// One answer that is not the regular one.
#[derive(Clone, Debug)]
struct Failure {
    /// The row whose write fails.
    row: [String; 3],
    /// `None` if the write is applied and its answer is lost.
    code: Option<ErrorCode>,
}

impl Stubs {
    /// Returns stubs that hold nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs writes in memory, whose results the stubs then hold. Sends nothing. Requests of tasks that the
    /// writes spawn are sent all the same.
    ///
    /// Every entity gets the Timestamp [`WRITTEN_AT`](super::WRITTEN_AT). Fails with the error of the writes.
    pub async fn holding<T>(self, writes: impl Future<Output = Result<T>>) -> Result<Self> {
        STAND_IN.scope(Arc::clone(&self.state), writes).await?;
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
        let ran = STAND_IN.scope(Arc::clone(&self.state), writes).await;
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

    /// Returns stubs that hold and plan the same, and change on their own.
    #[doc(hidden)]
    pub fn fork(&self) -> Self {
        Self { state: Arc::new(Mutex::new(self.locked().clone())) }
    }

    /// Holds what an earlier run of the same writes stored and this one did not store again, because the
    /// program remembers it, such as a key record.
    #[doc(hidden)]
    pub fn remembering(self, earlier: &Self) -> Self {
        let earlier = earlier.locked().clone();
        {
            let mut state = self.locked();
            let is_new = |row: &[String; 3]| {
                let row = pattern(&shown(row));
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
    pub fn and(self, other: Self) -> Self {
        {
            let mut state = self.locked();
            let other = std::mem::take(&mut *other.locked());
            if let Some(planned) = other.planned {
                let mut before = state.planned.take().unwrap_or_else(|| state.contents.clone());
                before.extend(planned);
                state.planned = Some(before);
            }
            state.contents.extend(other.contents);
            state.writable.extend(other.writable);
            state.places.extend(other.places);
            state.plan.extend(other.plan);
            state.failures.extend(other.failures);
        }
        self
    }

    /// Refuses the next write of this row with an error, alone or in a transaction, and changes nothing. Each
    /// call is for one write.
    pub fn refusing<E: Entity>(self, table: &str, key: &Key<E>, code: ErrorCode) -> Self {
        self.failing(table, key, Some(code))
    }

    /// Applies the next write of this row, and closes the connection without an answer.
    #[cfg(feature = "wiremock-0_6")]
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
    #[doc(hidden)]
    pub fn allowing(self, table: &str, partition: &str, row: &str) -> Self {
        let row = [table, partition, row].map(str::to_owned);
        self.locked().writable.insert(pattern(&shown(&row)));
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
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut state = self.locked();
        let request = Exchange { method, path, query, headers, body };
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
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        self.locked().refuse(&Exchange { method, path, query, headers, body })
    }

    /// Returns the rows of a table that these stubs hold and `with` chooses by keys and properties, as the
    /// response to a query.
    #[doc(hidden)]
    pub fn rows(
        &self,
        table: &str,
        with: impl FnMut(&(String, String), &[(String, crate::edm::Value)]) -> bool,
    ) -> Answer {
        self.locked().contents.list(table, with)
    }

    /// Returns the row with these keys, as the response to Get Entity.
    #[doc(hidden)]
    pub fn row(&self, table: &str, keys: &(String, String)) -> Answer {
        self.locked().contents.one(table, keys)
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the stubs give the same answer in the test.
fn is_answered(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::AlreadyExists | ErrorKind::Conflict | ErrorKind::NotFound)
}

impl State {
    /// Whether these stubs answer a request.
    fn covers(&self, request: &Exchange<'_>) -> bool {
        if request.subject() == Subject::Batch {
            let operations = request.operations().unwrap_or_default();
            return !operations.is_empty()
                && operations.iter().all(|operation| self.covers(&operation.exchange()));
        }
        // A message that was received may be deleted or hidden for longer.
        let received = matches!(request.subject(), Subject::Messages(_, Some(_)));
        if request.reads() || received {
            return place(request).is_some_and(|place| self.places.contains(&place));
        }
        let resource = resource(request);
        resource.is_some_and(|resource| self.writable.contains(&resource))
    }

    /// Answers a request, unless the next failure is about it.
    fn answer(&mut self, request: &Exchange<'_>) -> Option<Answer> {
        let failing = self.failing(request);
        if let Some((at, index)) = failing
            && let Some(code) = self.failures[at].code.clone()
        {
            self.failures.remove(at);
            return Some(match request.subject() {
                Subject::Batch => super::refused_transaction(index, code),
                _ => super::error(code),
            });
        }
        self.contents.answer(request)
    }

    /// The first failure of a row that a request writes, and the number of the operation that does.
    fn failing(&self, request: &Exchange<'_>) -> Option<(usize, usize)> {
        let rows = written(request);
        let mut failures = self.failures.iter().enumerate();
        failures.find_map(|(at, failure)| {
            rows.iter().position(|row| *row == failure.row).map(|index| (at, index))
        })
    }

    /// Notes what a request of a run is about, and answers it.
    fn record(&mut self, request: &Exchange<'_>) -> Answer {
        let operations = request.operations().filter(|_| request.subject() == Subject::Batch);
        let operations = operations.unwrap_or_default();
        let single = operations.is_empty().then_some(*request);
        let all = operations.iter().map(|operation| operation.exchange()).chain(single);
        for one in all {
            self.places.extend(place(&one));
            if self.plans && !one.reads() {
                self.writable.extend(resource(&one));
            }
        }
        if self.plans {
            self.plan.push(request.line());
        }
        self.contents.answer(request).unwrap_or_else(|| self.refuse(request))
    }

    fn refuse(&mut self, request: &Exchange<'_>) -> Answer {
        let line = request.line();
        let message = format!(
            "no stub answers {line}; the planned requests are: {}",
            if self.plan.is_empty() { "none".to_owned() } else { self.plan.join("; ") }
        );
        // Errors show the id of the request, and not the message of the service.
        let shown = line.chars().take(2000);
        let id: String = shown.map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
        self.unanswered.push(line);
        let code = ErrorCode::new("NoStubAnswers");
        let body = rowkey_wire::error::render_json(&code, &stamped(&message));
        data(400, body.into_bytes())
            .header("x-ms-error-code", code.as_str())
            .header("x-ms-request-id", &id)
    }
}

/// The rows that a request writes, by the number of the operation.
fn written(request: &Exchange<'_>) -> Vec<[String; 3]> {
    match request.subject() {
        Subject::Row(row) if !request.reads() => vec![row],
        Subject::Batch => {
            let operations = request.operations().unwrap_or_default();
            let rows = operations.iter().map(|operation| match operation.exchange().subject() {
                Subject::Row(row) if !operation.exchange().reads() => row,
                _ => Default::default(),
            });
            rows.collect()
        }
        _ => Vec::new(),
    }
}

/// The table, queue or container of a request.
fn place(request: &Exchange<'_>) -> Option<String> {
    match request.subject() {
        Subject::Row([table, ..]) | Subject::Rows(table) => Some(table),
        Subject::Messages(queue, _) => Some(queue),
        Subject::Blob(path) => objects::container(&path),
        Subject::Whole | Subject::Batch | Subject::Other => None,
    }
}

/// The row, queue or blob that a request writes, as a pattern.
fn resource(request: &Exchange<'_>) -> Option<String> {
    match request.subject() {
        Subject::Row(row) => Some(pattern(&shown(&row))),
        Subject::Messages(queue, _) => Some(format!("queue {queue}")),
        Subject::Blob(path) => Some(pattern(&path)),
        Subject::Whole => Some(request.path.to_owned()),
        Subject::Rows(_) | Subject::Batch | Subject::Other => None,
    }
}

/// The answer to a request of a write that is run in memory; `None` elsewhere.
pub(crate) fn stand_in(request: &reqwest::Request) -> Option<reqwest::Response> {
    let answer = STAND_IN.try_with(|state| {
        let url = request.url();
        let exchange = Exchange {
            method: request.method(),
            path: url.path(),
            query: url.query().unwrap_or_default(),
            headers: request.headers(),
            body: request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default(),
        };
        state.lock().unwrap_or_else(PoisonError::into_inner).record(&exchange)
    });
    let Answer { status, headers, body } = answer.ok()?;
    let mut response = http::Response::builder().status(status);
    for (name, value) in &headers {
        response = response.header(name, value);
    }
    // As every server does. A response to HEAD has it already.
    if request.method() != Method::HEAD {
        response = response.header("Content-Length", body.len());
    }
    response.body(body).ok().map(Into::into)
}

#[cfg(feature = "wiremock-0_6")]
mod mounted {
    //! Stubs on a server of wiremock.

    use std::io;

    use wiremock::{Match, Mock, MockServer, Request, Respond, ResponseTemplate};

    use super::{Exchange, Stubs};

    /// Later than the mocks of a test, whose priority is 5.
    const PRIORITY: u8 = 6;

    impl Stubs {
        /// Mounts the stubs. Mocks that a test mounts with wiremock's own priority, before or after, take
        /// precedence.
        ///
        /// A request that nothing answers gets an error that names it. The server also expects no such
        /// request, so that the test fails when the server is dropped.
        pub async fn mount(&self, server: &MockServer) {
            let lost = |stubs: Self| move |request: &Request| stubs.lose(request);
            Mock::given(Lost(self.clone()))
                .respond_with_err(lost(self.clone()))
                .with_priority(PRIORITY)
                .mount(server)
                .await;
            Mock::given(Covered(self.clone()))
                .respond_with(Covered(self.clone()))
                .with_priority(PRIORITY)
                .mount(server)
                .await;
            Mock::given(wiremock::matchers::any())
                .respond_with(Unanswered(self.clone()))
                .with_priority(u8::MAX)
                .named("requests that no stub answers")
                .expect(0)
                .mount(server)
                .await;
        }

        /// Applies a write whose answer is lost.
        fn lose(&self, request: &Request) -> io::Error {
            let mut state = self.locked();
            let request = exchange(request);
            if let Some((at, _)) = state.failing(&request) {
                state.failures.remove(at);
            }
            let _ = state.contents.answer(&request);
            io::Error::new(io::ErrorKind::ConnectionReset, "the answer is lost")
        }
    }

    struct Lost(Stubs);
    struct Covered(Stubs);
    struct Unanswered(Stubs);

    impl Match for Lost {
        fn matches(&self, request: &Request) -> bool {
            let state = self.0.locked();
            let failing = state.failing(&exchange(request));
            failing.is_some_and(|(at, _)| state.failures[at].code.is_none())
        }
    }

    impl Match for Covered {
        fn matches(&self, request: &Request) -> bool {
            self.0.locked().covers(&exchange(request))
        }
    }

    impl Respond for Covered {
        fn respond(&self, request: &Request) -> ResponseTemplate {
            let mut state = self.0.locked();
            let request = exchange(request);
            state.answer(&request).unwrap_or_else(|| state.refuse(&request)).into()
        }
    }

    impl Respond for Unanswered {
        fn respond(&self, request: &Request) -> ResponseTemplate {
            self.0.locked().refuse(&exchange(request)).into()
        }
    }

    fn exchange(request: &Request) -> Exchange<'_> {
        Exchange {
            method: &request.method,
            path: request.url.path(),
            query: request.url.query().unwrap_or_default(),
            headers: &request.headers,
            body: &request.body,
        }
    }
}
