//! Faults: which requests they match, and what happens to those requests.

use std::fmt;
use std::time::Duration;

use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::front::operation::Operation;
use crate::front::subject::Subject;

/// A failure of certain requests, for [`Server::inject`](crate::Server::inject).
///
/// Select the requests first, then what happens to them:
///
/// ```
/// # use rowkey_emulator::{Fault, Operation};
/// let lost = Fault::on(Operation::InsertEntity).resource("staff").nth(2).close_after_commit();
/// ```
///
/// As JSON, which the control plane of the program takes:
///
/// ```
/// # fn main() -> serde_json::Result<()> {
/// use rowkey_emulator::{Fault, Operation};
///
/// let json = r#"{"operation": "InsertEntity", "resource": "staff", "nth": 2, "action": "closeAfterCommit"}"#;
/// let lost = Fault::on(Operation::InsertEntity).resource("staff").nth(2).close_after_commit();
/// assert_eq!(serde_json::from_str::<Fault>(json)?, lost);
/// # Ok(()) }
/// ```
///
/// All members but `action` are optional. The actions are `"closeBeforeCommit"`, `"closeAfterCommit"`, `"hold"`,
/// `{"reject": "ServerBusy"}`, `{"delayMs": 1500}` and `{"truncate": 100}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
#[must_use = "inject the fault"]
pub struct Fault {
    pub(super) matching: Matching,
    pub(super) action: Action,
}

/// The requests that a [`Fault`] matches. Choosing an action turns it into a `Fault`.
///
/// ```
/// use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
///
/// # use std::io::{Read as _, Write as _};
/// # /// Lists the tables without a signature.
/// # fn tables(endpoint: &str) -> std::io::Result<String> {
/// #     let (host, account) = endpoint.trim_start_matches("http://").split_once('/').unwrap();
/// #     let mut connection = std::net::TcpStream::connect(host)?;
/// #     let head = format!("GET /{account}/Tables HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
/// #     connection.write_all(head.as_bytes())?;
/// #     let mut response = String::new();
/// #     connection.read_to_string(&mut response)?;
/// #     Ok(response)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = Server::start().await?;
/// let busy = Fault::on(Operation::QueryTables).nth(2).times(1).reject(ErrorCode::SERVER_BUSY);
/// let busy = server.inject(busy);
/// for is_busy in [false, true, false] {
///     assert_eq!(tables(server.table_endpoint())?.contains("ServerBusy"), is_busy);
/// }
/// busy.wait_until_hit(1).await;
/// assert_eq!(busy.hits(), 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "choose the fault for these requests"]
pub struct Matching {
    operation: Option<Operation>,
    service: Option<Service>,
    resource: Option<String>,
    pub(super) nth: Option<u64>,
    times: Option<u64>,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Action {
    CloseAfterCommit,
    CloseBeforeCommit,
    #[serde(rename = "delayMs", with = "milliseconds")]
    Delay(Duration),
    Hold,
    Reject(ErrorCode),
    Truncate(usize),
}

/// A fault as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Service>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nth: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
    action: Action,
}

impl From<Fault> for Written {
    fn from(Fault { matching, action }: Fault) -> Self {
        let Matching { operation, service, resource, nth, times } = matching;
        Self { operation, service, resource, nth, times, action }
    }
}

impl TryFrom<Written> for Fault {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { operation, service, resource, nth, times, action } = written;
        if nth == Some(0) {
            return Err("`nth` counts from 1: 0 matches no request".to_owned());
        }
        if times == Some(0) {
            return Err("`times` is at least 1: 0 matches no request".to_owned());
        }
        if let (Some(operation), Some(service)) = (operation, service)
            && operation.service() != service
        {
            return Err(format!(
                "{operation:?} is an operation of the {:?} service: leave out `service`",
                operation.service()
            ));
        }
        if let Action::Reject(code) = &action
            && code.status().is_none()
        {
            return Err(format!(
                "{} is no error code of the services; an example is ServerBusy",
                code.as_str()
            ));
        }
        Ok(Self { matching: Matching { operation, service, resource, nth, times }, action })
    }
}

/// A duration as a number of milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

impl Fault {
    /// Matches requests of one operation.
    pub fn on(operation: Operation) -> Matching {
        Matching { operation: Some(operation), ..Self::any() }
    }

    /// Matches requests to one service.
    pub fn service(service: Service) -> Matching {
        Matching { service: Some(service), ..Self::any() }
    }

    /// Matches all requests.
    pub fn any() -> Matching {
        Matching { operation: None, service: None, resource: None, nth: None, times: None }
    }
}

impl Matching {
    /// Matches only requests about this table, queue or container (including everything in it), or
    /// about this blob, written `container/name`. Names are compared without case.
    ///
    /// An entity group transaction is about the table that its first part names.
    pub fn resource(mut self, name: impl Into<String>) -> Self {
        self.resource = Some(name.into());
        self
    }

    /// Matches only the `k`-th of these requests, counted from 1; with [`times`](Self::times), from
    /// the `k`-th on.
    ///
    /// Requests that an earlier fault matched are not counted.
    pub fn nth(mut self, k: u64) -> Self {
        self.nth = Some(k);
        self
    }

    /// Matches at most `n` of them. Without this and without [`nth`](Self::nth), it matches all.
    pub fn times(mut self, n: u64) -> Self {
        self.times = Some(n);
        self
    }

    /// Rejects them with this code and its status. Nothing is changed.
    pub fn reject(self, code: ErrorCode) -> Fault {
        self.then(Action::Reject(code))
    }

    /// Delays their responses until the server's clock is this much past their arrival. Changes
    /// take effect at once, and no other request waits.
    pub fn delay(self, duration: Duration) -> Fault {
        self.then(Action::Delay(duration))
    }

    /// Closes the connection without executing them.
    pub fn close_before_commit(self) -> Fault {
        self.then(Action::CloseBeforeCommit)
    }

    /// Executes them, and closes the connection without sending the response.
    pub fn close_after_commit(self) -> Fault {
        self.then(Action::CloseAfterCommit)
    }

    /// Executes them, and closes the connection after the head of the response and this number of
    /// bytes of its body. If the response has no body, the connection is closed before the head.
    pub fn truncate(self, bytes: usize) -> Fault {
        self.then(Action::Truncate(bytes))
    }

    /// Holds them before they are executed, until [`Injected::release`](crate::Injected::release) or
    /// [`Injected::discard`](crate::Injected::discard).
    ///
    /// A held request whose client closes the connection is not executed, unless the server had
    /// neither a journal nor a fault when the connection was made.
    ///
    /// ```
    /// use rowkey_emulator::{Fault, Operation, Server};
    ///
    /// # use std::io::{Read as _, Write as _};
    /// # /// Lists the tables without a signature.
    /// # fn tables(endpoint: &str) -> std::io::Result<String> {
    /// #     let (host, account) = endpoint.trim_start_matches("http://").split_once('/').unwrap();
    /// #     let mut connection = std::net::TcpStream::connect(host)?;
    /// #     let head = format!("GET /{account}/Tables HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    /// #     connection.write_all(head.as_bytes())?;
    /// #     let mut response = String::new();
    /// #     connection.read_to_string(&mut response)?;
    /// #     Ok(response)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = Server::start().await?;
    /// let held = server.inject(Fault::on(Operation::QueryTables).hold());
    /// let endpoint = server.table_endpoint().to_owned();
    /// let client = std::thread::spawn(move || tables(&endpoint));
    /// held.wait_until_held().await;
    /// assert!(!client.is_finished());
    /// held.release();
    /// assert!(client.join().is_ok());
    /// # Ok(()) }
    /// ```
    pub fn hold(self) -> Fault {
        self.then(Action::Hold)
    }

    /// Whether the fault applies to the matching request number `count`, after it has applied
    /// `hits` times.
    pub(super) fn meets(&self, count: u64, hits: u64) -> bool {
        let times = self.times.unwrap_or(if self.nth.is_some() { 1 } else { u64::MAX });
        count >= self.nth.unwrap_or(1) && hits < times
    }

    pub(super) fn matches(&self, subject: &Subject<'_>) -> bool {
        self.operation.is_none_or(|operation| operation == subject.operation)
            && self.service.is_none_or(|service| service == subject.operation.service())
            && self.resource.as_deref().is_none_or(|name| is_about(&subject.resource, name))
    }

    fn then(self, action: Action) -> Fault {
        Fault { matching: self, action }
    }
}

impl fmt::Display for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.operation, self.service) {
            (Some(operation), _) => write!(f, "{operation:?}")?,
            (None, Some(service)) => write!(f, "any request to the {service:?} service")?,
            (None, None) => f.write_str("any request")?,
        }
        if let Some(resource) = &self.resource {
            write!(f, " about {resource}")?;
        }
        self.nth.map_or(Ok(()), |nth| write!(f, " (number {nth})"))
    }
}

/// Whether a resource is this one, or is contained in it.
pub(super) fn is_about(resource: &str, name: &str) -> bool {
    let (resource, name) = (resource.as_bytes(), name.as_bytes());
    resource.len() >= name.len()
        && resource[..name.len()].eq_ignore_ascii_case(name)
        && matches!(resource.get(name.len()), None | Some(b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_on_a_container_matches_its_blobs() {
        for (resource, name) in
            [("Staff", "staff"), ("c", "c"), ("c/a", "c"), ("c/a/b", "c/a/b"), ("", "")]
        {
            assert!(is_about(resource, name), "{resource} {name}");
        }
        for (resource, name) in [("staff2", "staff"), ("c", "c/a"), ("c/ab", "c/a"), ("c", "")] {
            assert!(!is_about(resource, name), "{resource} {name}");
        }
    }

    #[test]
    fn a_fault_as_json_comes_back_the_same() {
        for fault in [
            Fault::any().hold(),
            Fault::service(Service::Queue).times(3).delay(Duration::from_millis(1500)),
            Fault::on(Operation::GetBlob).resource("c/b").truncate(7),
            Fault::on(Operation::GetEntity).nth(2).reject(ErrorCode::SERVER_BUSY),
        ] {
            let json = serde_json::to_string(&fault).unwrap();
            assert_eq!(serde_json::from_str::<Fault>(&json).unwrap(), fault, "{json}");
        }
        let json = serde_json::to_value(Fault::any().delay(Duration::from_secs(1))).unwrap();
        assert_eq!(json, serde_json::json!({"action": {"delayMs": 1000}}));
    }

    #[test]
    fn a_fault_that_can_match_nothing_is_refused() {
        for (json, named) in [
            ("{}", "missing field `action`"),
            (r#"{"action":"explode"}"#, "unknown variant `explode`"),
            (r#"{"action":"hold","nth":0}"#, "counts from 1"),
            (r#"{"action":"hold","times":0}"#, "at least 1"),
            (r#"{"action":"hold","operations":"GetEntity"}"#, "unknown field `operations`"),
            (r#"{"action":"hold","operation":"Getentity"}"#, "unknown variant `Getentity`"),
            (r#"{"action":"hold","operation":"GetEntity","service":"blob"}"#, "Table service"),
            (r#"{"action":{"reject":"Busy"}}"#, "Busy is no error code"),
        ] {
            let error = serde_json::from_str::<Fault>(json).unwrap_err().to_string();
            assert!(error.contains(named), "{json}: {error}");
        }
    }

    #[test]
    fn nth_matches_one_request_unless_times_is_set() {
        let met = |matching: Matching| {
            let mut hits = 0;
            let mut is_met = |count: &u64| {
                let met = matching.meets(*count, hits);
                hits += u64::from(met);
                met
            };
            (1..=5).filter(&mut is_met).collect::<Vec<_>>()
        };
        assert_eq!(met(Fault::any()), [1, 2, 3, 4, 5]);
        assert_eq!(met(Fault::any().times(2)), [1, 2]);
        assert_eq!(met(Fault::any().nth(1)), [1]);
        assert_eq!(met(Fault::any().nth(3)), [3]);
        assert_eq!(met(Fault::any().nth(3).times(2)), [3, 4]);
    }
}
