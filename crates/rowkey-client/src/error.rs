//! Errors: [`Error`], the advice it gives ([`ErrorKind`]) and the effect of the operation
//! ([`Outcome`]).
//!
//! No message, `Debug` output or source of an [`Error`] shows a credential, the query string of a
//! URL, a key or the contents of an entity. The service's own text may quote any of these, so it is kept
//! separately in [`ErrorDetails::service_message`].

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use rowkey_entity::FailedRow;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::shown;

mod entity;
mod http;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed, and whether it may have been applied nevertheless.
///
/// Branch on [`kind`](Self::kind) and, after a write, on [`outcome`](Self::outcome). The service's
/// own, more specific error code is [`code`](Self::code).
pub struct Error(Box<Inner>);

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The entity, table, queue, container or blob exists. Read it, or write with an operation that
    /// may overwrite.
    AlreadyExists,
    /// The service rejected the credential, or the credential does not permit the operation.
    /// Correct the credential, the permission or this machine's clock; retrying does not help.
    Auth,
    /// The entity or blob was changed since it was read, or the message was received again. Read it
    /// again, decide again, write again.
    Conflict,
    /// The data was damaged in transit: its checksum does not match. Send or read it again.
    Damaged,
    /// The response, or an entity in it, is not what was expected: another type, another schema, or
    /// a response that does not come from a storage service. A 404 without an error code of the
    /// service is such a response, and not [`NotFound`](Self::NotFound).
    Decode,
    /// The request cannot succeed as it is. Change it.
    Invalid,
    /// A lease prevents the operation: another client holds one, or the caller's own has ended.
    /// Stop the work that the lease protects, and acquire a new one; reading again does not help.
    Leased,
    /// The resource does not exist. Create it, or treat it as absent.
    NotFound,
    /// The resource has not changed since it was read under this condition. Use the copy that you
    /// have.
    NotModified,
    /// The service asked for fewer requests. Slow down; the client has already waited and retried.
    Throttled,
    /// The entity, property, key, message, blob or request exceeds a documented limit. Split it.
    TooLarge,
    /// The service did not respond in time, or could not. Try again later; after a write check
    /// [`Error::outcome`] first.
    Unavailable,
    /// An error that the client does not know. Report it with the request id.
    Unexpected,
}

/// What is known about the effect of a failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing reached the service, so nothing has changed.
    NotSent,
    /// Nothing has changed: the service rejected the operation, or it was a read whose response
    /// cannot be decoded.
    Rejected,
    /// The effect is unknown: the service may have applied the operation before the connection or
    /// the response was lost. Read back before you decide.
    Unknown,
}

/// Details of an [`Error`] besides its kind, outcome and code.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ErrorDetails {
    /// The HTTP status of the last response, if there was one.
    pub status: Option<u16>,
    /// The service's id of the last request, which Microsoft support asks for.
    pub request_id: Option<Box<str>>,
    /// The number of attempts; 0 if the operation was refused before the first one.
    pub attempts: u32,
    /// How long the service asked to wait before the next request (`Retry-After` of its last
    /// response). The value is the service's own, and may be of any length.
    pub retry_after: Option<Duration>,
    /// The operation of a transaction that failed, counted from 0 in the order in which the caller added
    /// them; `None` if no single operation is the cause. In a transaction of a store, rows that the store
    /// adds count as part of the operation that requires them.
    pub operation_index: Option<usize>,
    /// The declared name of the index or unique value in which another entity has the same value,
    /// with [`ErrorKind::AlreadyExists`]; or of the list that is full, with
    /// [`ErrorKind::TooLarge`].
    pub index: Option<&'static str>,
    /// The service's own message. It may quote keys, values and the signed text: think before you
    /// log it.
    pub service_message: Option<Box<str>>,
    /// The rows that do not decode, with their keys ([`ErrorKind::Decode`]); empty for every other
    /// error.
    ///
    /// A stream yields an error for each such row and continues with the next one; it ends after an
    /// error without rows. [`Query::all`](crate::Query::all) lists all of them.
    pub failed_rows: Vec<FailedRow>,
}

shown! {
    /// Shows neither the service's message nor the keys of rows.
    ErrorDetails: status, request_id, attempts, retry_after, operation_index, index
}

struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    /// The larger operation during which it happened, in words that quote nothing.
    during: Option<Cow<'static, str>>,
    /// What happened, in words that quote nothing.
    what: Cow<'static, str>,
    /// What to do about it; `None` for the kind's own advice.
    advice: Option<Cow<'static, str>>,
    operation: Option<&'static str>,
    resource: Option<Box<str>>,
    code: Option<ErrorCode>,
    /// Whether the operation is a write.
    changes: bool,
    /// Whether the deadline of a pace came before the next attempt, or its patience ended.
    is_past_deadline: bool,
    details: ErrorDetails,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Makes an error of a layer above the client, such as a pattern of the design guide, which
    /// refuses a call and has sent nothing that would change anything.
    ///
    /// `what` says what is wrong and must not quote keys, values or credentials. The advice is that
    /// of the kind, unless [`advise`](Self::advise) replaces it.
    ///
    /// ```
    /// use rowkey::{Error, ErrorKind, Outcome};
    ///
    /// let error = Error::refused(ErrorKind::TooLarge, "the list has 9 rows; 8 are allowed")
    ///     .of("Insert", "staff")
    ///     .advise("keep it in a blob");
    /// assert_eq!(
    ///     error.to_string(),
    ///     "Insert on staff: the list has 9 rows; 8 are allowed; keep it in a blob"
    /// );
    /// assert_eq!(error.outcome(), Outcome::NotSent);
    /// ```
    #[cold]
    pub fn refused(kind: ErrorKind, what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(kind, Outcome::NotSent, what.into())
    }

    /// The request was refused before anything was sent. `what` must not quote keys or values.
    #[cold]
    pub(crate) fn invalid(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, Outcome::NotSent, what.into())
    }

    /// Like [`Error::invalid`], for a value or request over a limit.
    #[cold]
    pub(crate) fn too_large(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::TooLarge, Outcome::NotSent, what.into())
    }

    /// A read of several pages took too long.
    #[cold]
    pub(crate) fn late(what: String) -> Self {
        Self::new(ErrorKind::Unavailable, Outcome::Rejected, what.into())
    }

    /// No credential authorizes the request.
    #[cold]
    pub(crate) fn unauthorized(what: &'static str) -> Self {
        Self::new(ErrorKind::Auth, Outcome::NotSent, what.into())
    }

    /// The resource to change does not exist.
    #[cold]
    pub(crate) fn absent() -> Self {
        Self::new(ErrorKind::NotFound, Outcome::Rejected, "it does not exist".into())
    }

    /// The service or the connection failed an attempt at an operation. `changes` says whether it is a write.
    #[cold]
    pub(crate) fn failed(
        (kind, outcome): (ErrorKind, Outcome),
        what: Cow<'static, str>,
        code: Option<ErrorCode>,
        changes: bool,
        details: ErrorDetails,
    ) -> Self {
        let mut error = Self::new(kind, outcome, what);
        error.0.code = code;
        error.0.changes = changes;
        error.0.details = details;
        error
    }

    /// Data that cannot be decoded. If it is in a response, the transport adds what is known of that.
    ///
    /// `what` must not quote the data. (The errors of `serde_json` do, so they are never a source.)
    #[cold]
    pub(crate) fn decode(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Decode, Outcome::Rejected, what.into())
    }

    /// Makes an error for rows that do not decode, in the order in which they were read. Layers
    /// above the client use it, too.
    ///
    /// Without rows, the message says that no row decodes.
    #[cold]
    pub fn of_rows(rows: Vec<FailedRow>) -> Self {
        let mut error = Self::decode(match &*rows {
            [] => "no row can be read".to_owned(),
            [row] => row.to_string(),
            [row, ..] => format!("{} rows cannot be read, of the first: {row}", rows.len()),
        });
        error.0.details.failed_rows = rows;
        error
    }

    /// The data received differs from the data that the service sent.
    #[cold]
    pub(crate) fn damaged(what: &'static str) -> Self {
        Self::new(ErrorKind::Damaged, Outcome::Rejected, what.into())
    }

    /// Adds the details of the successful response with this status that cannot be decoded. A write may have
    /// been applied then; a read has changed nothing.
    #[cold]
    pub(crate) fn received(
        mut self,
        is_write: bool,
        status: u16,
        request_id: Option<&str>,
        attempts: u32,
    ) -> Self {
        if is_write {
            self.0.outcome = Outcome::Unknown;
            self.0.changes = true;
        }
        self.0.details.status = Some(status);
        self.0.details.request_id = request_id.map(Into::into);
        self.0.details.attempts = attempts;
        self
    }

    #[cold]
    fn new(kind: ErrorKind, outcome: Outcome, what: Cow<'static, str>) -> Self {
        Self(Box::new(Inner {
            kind,
            outcome,
            during: None,
            what,
            advice: None,
            operation: None,
            resource: None,
            code: None,
            changes: false,
            is_past_deadline: false,
            details: ErrorDetails::default(),
            source: None,
        }))
    }

    /// Names the operation and the table, queue or container, unless they are already named. A name
    /// that contains a control character is left out: no resource can have such a name, and it
    /// would break log lines.
    #[must_use = "the error itself is what tells the caller"]
    pub fn of(mut self, operation: &'static str, resource: &str) -> Self {
        if self.0.operation.is_none() {
            self.0.operation = Some(operation);
            let is_name = !resource.is_empty() && !resource.contains(char::is_control);
            self.0.resource = is_name.then(|| resource.into());
        }
        self
    }

    /// Replaces the advice at the end of the message, in words that quote nothing.
    #[must_use = "the error itself is what tells the caller"]
    pub fn advise(mut self, advice: impl Into<Cow<'static, str>>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    pub(crate) fn past_deadline(mut self) -> Self {
        self.0.is_past_deadline = true;
        self
    }

    /// Whether the deadline of a pace came before the next attempt, or its patience ended.
    #[doc(hidden)]
    pub fn is_past_deadline(&self) -> bool {
        self.0.is_past_deadline
    }

    /// Names the larger operation of which this one was a part, before the rest of the message. For
    /// layers that send several requests. `what` must not quote keys, values or credentials.
    ///
    /// ```
    /// use rowkey::{Error, ErrorKind};
    ///
    /// let error = Error::refused(ErrorKind::Invalid, "it is no file").during("step 2 of 3");
    /// assert_eq!(error.to_string(), "step 2 of 3: it is no file");
    /// assert_eq!(error.during("archiving").to_string(), "archiving: step 2 of 3: it is no file");
    /// ```
    #[must_use = "the error itself is what tells the caller"]
    pub fn during(mut self, what: impl Into<Cow<'static, str>>) -> Self {
        let what = what.into();
        self.0.during = Some(match self.0.during.take() {
            Some(inner) => format!("{what}: {inner}").into(),
            None => what,
        });
        self
    }

    /// Sets the outcome of an operation that sends several requests or attempts.
    ///
    /// [`Outcome::Unknown`]: an earlier one may have applied the operation, at least in part.
    /// [`Outcome::Rejected`]: the operation failed before the decisive request, although an earlier
    /// one was not answered; an error without a request stays [`Outcome::NotSent`].
    ///
    /// ```
    /// use rowkey::{Error, ErrorKind, Outcome};
    ///
    /// let error = Error::refused(ErrorKind::Unavailable, "no answer");
    /// let error = error.with_outcome(Outcome::Unknown);
    /// assert_eq!(error.outcome(), Outcome::Unknown);
    /// assert_eq!(error.with_outcome(Outcome::Rejected).outcome(), Outcome::Rejected);
    /// ```
    #[must_use = "the error itself is what tells the caller"]
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        if outcome != Outcome::Rejected || self.0.outcome == Outcome::Unknown {
            self.0.outcome = outcome;
        }
        self.0.changes |= outcome == Outcome::Unknown;
        self
    }

    /// Names the operation of a transaction that caused the failure, counted from 0; `None` names none. For
    /// layers whose transactions have more operations than those of their caller.
    ///
    /// ```
    /// use rowkey::{Error, ErrorKind};
    ///
    /// let error = Error::refused(ErrorKind::Invalid, "invalid key").of("Transaction", "staff");
    /// let error = error.at_operation(Some(2));
    /// assert_eq!(error.to_string(), "Transaction (operation 2) on staff: invalid key");
    /// assert_eq!(error.at_operation(None).details().operation_index, None);
    /// ```
    #[must_use = "the error itself is what tells the caller"]
    pub fn at_operation(mut self, index: Option<usize>) -> Self {
        self.0.details.operation_index = index;
        self
    }

    /// Names the index, unique value or list that refused the write. For layers that maintain them.
    #[must_use = "the error itself is what tells the caller"]
    pub fn in_index(mut self, index: &'static str) -> Self {
        self.0.details.index = Some(index);
        self
    }

    /// Sets how long the service asked to wait.
    pub(crate) fn after(mut self, wait: Option<Duration>) -> Self {
        self.0.details.retry_after = wait;
        self
    }

    /// Adds the cause. Its messages must not quote credentials, keys or values.
    #[must_use = "the error itself is what tells the caller"]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What the caller should do about the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the operation may have been applied nevertheless.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The error code of the service, if it sent one.
    pub fn code(&self) -> Option<&ErrorCode> {
        self.0.code.as_ref()
    }

    /// Further details: of the response, the attempts and the rows.
    pub fn details(&self) -> &ErrorDetails {
        &self.0.details
    }

    /// Whether the same call may succeed later. If it is a write whose [`outcome`](Self::outcome)
    /// is unknown, a retry may apply it twice.
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Damaged | ErrorKind::Throttled | ErrorKind::Unavailable)
    }
}

impl fmt::Display for Error {
    /// One line: what happened, on which resource, what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(during) = &inner.during {
            write!(f, "{during}: ")?;
        }
        if let Some(operation) = inner.operation {
            write!(f, "{operation}")?;
            if let Some(index) = inner.details.operation_index {
                write!(f, " (operation {index})")?;
            }
            if let Some(resource) = &inner.resource {
                write!(f, " on {resource}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&inner.what)?;
        if inner.outcome == Outcome::Unknown && inner.changes {
            f.write_str(", and whether it was applied is unknown")?;
        }
        let advice = inner.advice.as_deref().unwrap_or_else(|| self.0.kind.advice());
        if !advice.is_empty() {
            write!(f, "; {advice}")?;
        }
        if let Some(id) = &inner.details.request_id {
            write!(f, " (request {id})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        f.debug_struct("Error")
            .field("kind", &inner.kind)
            .field("outcome", &inner.outcome)
            .field("message", &format_args!("\"{self}\""))
            .field("code", &inner.code)
            .field("status", &inner.details.status)
            .field("attempts", &inner.details.attempts)
            .field("source", &inner.source)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

impl ErrorKind {
    fn advice(self) -> &'static str {
        match self {
            Self::AlreadyExists => "read it, or upsert",
            Self::Auth => "check the credential and what it permits",
            Self::Conflict => "read it again and decide again",
            Self::Damaged => "send or read it again",
            Self::Leased => "wait for the lease, or acquire it",
            Self::Throttled => "send fewer requests",
            Self::TooLarge => "split it",
            Self::Unavailable => "try again later",
            Self::Unexpected => "report it with the request id",
            Self::Decode | Self::Invalid | Self::NotFound | Self::NotModified => "",
        }
    }
}
