//! Headers that a program adds to every request, and the policy that sees every attempt.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rowkey_wire::headers::{CLIENT_REQUEST_ID, MS_DATE, VERSION};
use rowkey_wire::shown;

use super::call::Call;
use crate::error::{Error, Result};

/// Sees every attempt of every request of an account, and may add headers to it.
///
/// Use it for headers that a gateway requires, for audit logs, and for the program's own limits.
/// Both methods do nothing by default. They run on the task that sends the request, so they must
/// not block.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use rowkey::{AttemptResult, Attempt, Policy, StorageAccount};
///
/// #[derive(Default)]
/// struct Gateway {
///     busy: AtomicU32,
/// }
///
/// impl Policy for Gateway {
///     fn before(&self, attempt: &mut Attempt<'_>) -> rowkey::Result<()> {
///         attempt.add_header("x-contoso-operation", attempt.operation)
///     }
///
///     fn after(&self, _: &Attempt<'_>, result: AttemptResult) {
///         if result.status == Some(503) {
///             self.busy.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let account = StorageAccount::builder()
///     .connection_string("UseDevelopmentStorage=true")?
///     .policy(Arc::new(Gateway::default()))
///     .build()?;
/// # Ok::<(), rowkey::Error>(())
/// ```
pub trait Policy: Send + Sync {
    /// Called before an attempt is signed. An error ends the operation, and this attempt is not
    /// sent.
    fn before(&self, attempt: &mut Attempt<'_>) -> Result<()> {
        let _ = attempt;
        Ok(())
    }

    /// Called when an attempt is over. Not called if the operation is dropped or times out
    /// meanwhile.
    fn after(&self, attempt: &Attempt<'_>, result: AttemptResult) {
        let _ = (attempt, result);
    }
}

/// One attempt of an operation, as a [`Policy`] sees it. It contains no key, no URL and no body.
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The REST operation's name, such as `InsertEntity`.
    pub operation: &'static str,
    /// The name of the table, queue or container; empty for operations on the account.
    pub resource: &'a str,
    /// The HTTP method.
    pub method: &'a str,
    /// The number of the attempt, counted from 1.
    pub number: u32,
    /// Whether it goes to the account's secondary.
    pub is_at_secondary: bool,
    id: HeaderValue,
    added: HeaderMap,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptResult {
    /// The status of the response, 202 for a refused transaction; `None` if there was no response.
    pub status: Option<u16>,
    /// The time from before the attempt was sent until its response was read.
    pub elapsed: Duration,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        call: &'a Call<'a>,
        method: &'a Method,
        number: u32,
        is_at_secondary: bool,
    ) -> Self {
        let id = const { HeaderValue::from_static("") };
        let (operation, resource, method) = (call.operation, call.resource, method.as_str());
        Self { operation, resource, method, number, is_at_secondary, id, added: HeaderMap::new() }
    }

    pub(super) fn is_named(&mut self, id: &HeaderValue) {
        self.id = id.clone();
    }

    pub(super) fn id(&self) -> &HeaderValue {
        &self.id
    }

    /// The client's id, when the attempt is over.
    pub(super) fn into_id(self) -> HeaderValue {
        self.id
    }

    /// Returns the attempt's `x-ms-client-request-id`, which is in the service's logs.
    pub fn client_request_id(&self) -> &str {
        self.id.to_str().unwrap_or_default()
    }

    /// Adds a header to this attempt. It replaces a header with the same name that the account
    /// adds.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the name or the value is not
    /// valid in a header, or if the client itself sends a header with this name.
    pub fn add_header(&mut self, name: &str, value: &str) -> Result<()> {
        let (name, value) = header(name, value)?;
        self.added.insert(name, value);
        Ok(())
    }
}

shown! {
    /// Does not show the values of headers.
    [] Attempt<'_>: operation, resource, number
}

/// The headers and the policy of an account.
#[derive(Clone, Default)]
pub(crate) struct Additions {
    pub(crate) headers: HeaderMap,
    pub(crate) policy: Option<Arc<dyn Policy>>,
    /// Replaces the library's own `User-Agent`.
    pub(crate) user_agent: Option<HeaderValue>,
}

impl fmt::Debug for Additions {
    /// Does not show the values of headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Additions")
            .field("has_policy", &self.policy.is_some())
            .finish_non_exhaustive()
    }
}

impl Additions {
    /// Adds the headers of the account, and those that the policy adds to the attempt. Headers that
    /// the client sends are not replaced.
    pub(super) fn add(&self, attempt: &mut Attempt<'_>, headers: &mut HeaderMap) -> Result<()> {
        if let Some(policy) = &self.policy {
            policy.before(attempt)?;
        }
        let own = self.headers.iter().filter(|(name, _)| !attempt.added.contains_key(*name));
        for (name, value) in own.chain(&attempt.added) {
            if headers.insert(name, value.clone()).is_some() {
                return Err(taken(name));
            }
        }
        Ok(())
    }

    /// Passes the result of the attempt to the policy.
    pub(super) fn after(&self, attempt: &Attempt<'_>, result: AttemptResult) {
        if let Some(policy) = &self.policy {
            policy.after(attempt, result);
        }
    }
}

/// Headers that the client or the connection sets with every operation.
const TAKEN: [HeaderName; 7] =
    [AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING, USER_AGENT];

/// Checks a header that a program adds. The value is not shown: it may be a secret.
pub(crate) fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue)> {
    let Ok(name) = HeaderName::try_from(name) else {
        return Err(Error::invalid("the name of an added header cannot be that of a header"));
    };
    let Ok(mut value) = HeaderValue::try_from(value) else {
        return Err(Error::invalid(format!("invalid header value for `{name}`")));
    };
    let own = [MS_DATE, VERSION, CLIENT_REQUEST_ID];
    if TAKEN.contains(&name) || own.contains(&name) {
        return Err(taken(&name));
    }
    value.set_sensitive(true);
    Ok((name, value))
}

#[cold]
fn taken(name: &HeaderName) -> Error {
    let what = format!("`{name}` cannot be added: the client sends this header itself");
    Error::invalid(what).advise("give the header another name")
}

/// The `User-Agent` of a program with this id.
pub(crate) fn user_agent(application: &str) -> Result<HeaderValue> {
    let is_id = (1..=MAX_APPLICATION_ID).contains(&application.len())
        && application.bytes().all(|byte| byte.is_ascii_graphic());
    let agent = format!("{application} {}", super::sign::AGENT);
    HeaderValue::try_from(agent).ok().filter(|_| is_id).ok_or_else(|| {
        Error::invalid("the application id must be 1 to 24 visible ASCII characters")
    })
}

/// The longest id that the guidelines for Azure's libraries allow.
const MAX_APPLICATION_ID: usize = 24;
