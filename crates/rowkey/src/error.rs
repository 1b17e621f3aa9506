//! What can go wrong, and what the caller can still know: [`Error`], [`ErrorKind`], [`Outcome`].
//!
//! No message, `Debug` output or source of an [`Error`] shows a credential, the query of an
//! address, a key or what is in an entity. The service's own text may quote all of that, so it is
//! kept apart in [`ErrorDetails::service_message`].

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use rowkey_wire::code::ErrorCode;

use crate::table::FailedRow;

mod answer;
#[cfg(test)]
mod tests;

pub(crate) use answer::{Failure, is_being_deleted, outcome_of};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed, and whether it may have happened nevertheless.
///
/// Branch on [`kind`](Self::kind) and, after a write, on [`outcome`](Self::outcome); the finer
/// reason that the service gave is [`code`](Self::code).
pub struct Error(Box<Inner>);

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The entity, table, queue, container or blob exists. Read it, or write with an operation
    /// that may overwrite.
    AlreadyExists,
    /// The service refused the credential, or what it is allowed to do. Correct the credential,
    /// the permission or this machine's clock; repeating does not help.
    Auth,
    /// The entity or blob was changed since it was read, or the message was received
    /// again. Read it again, decide again, write again.
    Conflict,
    /// What was sent or read did not arrive as it was: its checksum is another. Send or read it
    /// again.
    Damaged,
    /// The answer, or an entity in it, is not what was expected: another type, another schema, or
    /// something that is no storage service and answers in its place: a 404 without a code of the
    /// service is such an answer, and not [`NotFound`](Self::NotFound).
    Decode,
    /// The request cannot succeed as it is. Change it.
    Invalid,
    /// A lease stands in the way: another client holds one, or the caller's own has ended. Stop
    /// what the lease protects, and acquire one; reading again does not help.
    Leased,
    /// It does not exist. Create it, or treat it as absent.
    NotFound,
    /// What was read under a condition is still what the caller has. Use that.
    NotModified,
    /// The service asked for fewer requests. Slow down; the client has already waited and retried.
    Throttled,
    /// The entity, property, key, message, blob or request is over a documented limit. Split it.
    TooLarge,
    /// The service did not answer in time, or could not. Try again later; after a write look at
    /// [`Error::outcome`] first.
    Unavailable,
    /// Something the client does not know. Report it with the request id.
    Unexpected,
}

/// What is known about the effect of a failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing reached the service, so nothing has changed.
    NotSent,
    /// The service refused it, or it was a read whose answer cannot be understood: nothing has
    /// changed.
    Rejected,
    /// It is unknown: the service may have applied it before the connection or the answer was lost.
    /// Read back before you decide.
    Unknown,
}

/// What is known of an [`Error`] besides its kind, its outcome and its code.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ErrorDetails {
    /// The HTTP status of the last answer, when there was one.
    pub status: Option<u16>,
    /// The service's id of the last request, which Microsoft's support asks for.
    pub request_id: Option<Box<str>>,
    /// How many times the operation was tried; 0 when it was refused before the first attempt.
    pub attempts: u32,
    /// How long the service asked to wait before the next request (`Retry-After`), as its last
    /// response said: the value is the service's own, and may be of any length.
    pub retry_after: Option<Duration>,
    /// Which operation of a transaction failed, counted from 0, when the service said so.
    pub operation_index: Option<usize>,
    /// The index or the unique value, by the name that the entity declares, whose value another entity
    /// has, with [`ErrorKind::AlreadyExists`]; or the list that is full, with [`ErrorKind::TooLarge`].
    pub index: Option<&'static str>,
    /// What the service wrote about it. May quote keys, values and the signed text: think before
    /// you log it.
    pub service_message: Option<Box<str>>,
    /// The rows that it is about, with their keys, if it is that rows do not decode
    /// ([`ErrorKind::Decode`]); empty for every other error.
    ///
    /// A stream yields an error for each such row and goes on with the next one; after an error without
    /// rows it ends. [`Query::all`](crate::Query::all) names all of them.
    pub failed_rows: Vec<FailedRow>,
}

impl fmt::Debug for ErrorDetails {
    /// Shows neither what the service wrote nor the keys of rows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorDetails")
            .field("status", &self.status)
            .field("request_id", &self.request_id)
            .field("attempts", &self.attempts)
            .field("retry_after", &self.retry_after)
            .field("operation_index", &self.operation_index)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    /// As a part of what it happened, in words that quote nothing.
    during: Option<Cow<'static, str>>,
    /// What happened, in words that quote nothing.
    what: Cow<'static, str>,
    /// What to do about it; the kind's own advice when there is none.
    advice: Option<Cow<'static, str>>,
    operation: Option<&'static str>,
    resource: Option<Box<str>>,
    code: Option<ErrorCode>,
    /// Whether the operation would have changed something.
    changes: bool,
    details: ErrorDetails,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of a layer above the client, such as a pattern of the design guide: it refuses what
    /// it was asked for, and has sent nothing that would change anything.
    ///
    /// `what` says what is wrong and must not quote keys, values or credentials. What to do about it
    /// is the kind's own advice, or that of [`advise`](Self::advise).
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

    /// Like [`Error::invalid`], for something over a limit.
    #[cold]
    pub(crate) fn too_large(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::TooLarge, Outcome::NotSent, what.into())
    }

    /// A reading of several pages took too long.
    #[cold]
    pub(crate) fn late(what: String) -> Self {
        Self::new(ErrorKind::Unavailable, Outcome::Rejected, what.into())
    }

    /// There is nothing to authorize the request with.
    #[cold]
    pub(crate) fn unauthorized(what: &'static str) -> Self {
        Self::new(ErrorKind::Auth, Outcome::NotSent, what.into())
    }

    /// What was to be changed is not there.
    #[cold]
    pub(crate) fn absent() -> Self {
        Self::new(ErrorKind::NotFound, Outcome::Rejected, "it does not exist".into())
    }

    /// Something that was read and cannot be understood; of an answer see
    /// [`of_answer`](Self::of_answer), too.
    ///
    /// `what` must not quote it. (The errors of `serde_json` do, so they are no sources.)
    #[cold]
    pub(crate) fn decode(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Decode, Outcome::Rejected, what.into())
    }

    /// Rows that do not decode, in the order in which they were read. For layers above the client, too.
    ///
    /// Without a row it says that no row decodes.
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

    /// What came is not what the service sent.
    #[cold]
    pub(crate) fn damaged(what: &'static str) -> Self {
        Self::new(ErrorKind::Damaged, Outcome::Rejected, what.into())
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
            details: ErrorDetails::default(),
            source: None,
        }))
    }

    /// Names the operation and the table, queue or container, unless they are named already. A name
    /// that no resource can have, because of a control character, is left out: it would break lines
    /// of a log.
    #[must_use = "the error itself is what tells the caller"]
    pub fn of(mut self, operation: &'static str, resource: &str) -> Self {
        if self.0.operation.is_none() {
            self.0.operation = Some(operation);
            let is_name = !resource.is_empty() && !resource.contains(char::is_control);
            self.0.resource = is_name.then(|| resource.into());
        }
        self
    }

    /// Replaces the advice at the end of the message: what to do about it, in words that quote
    /// nothing.
    #[must_use = "the error itself is what tells the caller"]
    pub fn advise(mut self, advice: impl Into<Cow<'static, str>>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// Says as a part of what it happened, before everything else in the message: for layers above
    /// that make several requests. `what` must not quote keys, values or credentials.
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

    /// Says that what was asked for may have been applied, at least in part: by an earlier attempt, or
    /// by an earlier request of an operation that makes several.
    #[must_use = "the error itself is what tells the caller"]
    pub fn after_unknown(mut self) -> Self {
        self.0.outcome = Outcome::Unknown;
        self.0.changes = true;
        self
    }

    /// Says that nothing of what was asked for was applied or will be: of an operation of several requests
    /// that failed before the one that counts, although a request before it was not answered.
    ///
    /// ```
    /// use rowkey::{Error, ErrorKind, Outcome};
    ///
    /// let error = Error::refused(ErrorKind::Unavailable, "no answer").after_unknown();
    /// assert_eq!(error.not_applied().outcome(), Outcome::Rejected);
    /// ```
    #[must_use = "the error itself is what tells the caller"]
    pub fn not_applied(mut self) -> Self {
        if self.0.outcome == Outcome::Unknown {
            self.0.outcome = Outcome::Rejected;
        }
        self
    }

    /// Names the operation of a transaction that made it fail, counted from 0.
    pub(crate) fn at_operation(mut self, index: usize) -> Self {
        self.0.details.operation_index = Some(index);
        self
    }

    /// Names the index, the unique value or the list that refuses, for layers that keep such.
    #[must_use = "the error itself is what tells the caller"]
    pub fn in_index(mut self, index: &'static str) -> Self {
        self.0.details.index = Some(index);
        self
    }

    /// Notes how long the service asked to wait.
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

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the operation may have happened nevertheless.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The code of the service, when it gave one.
    pub fn code(&self) -> Option<&ErrorCode> {
        self.0.code.as_ref()
    }

    /// What else is known: of the response, of the attempts, and of what it is about.
    pub fn details(&self) -> &ErrorDetails {
        &self.0.details
    }

    /// Whether the same call may succeed later. After a write whose [`outcome`](Self::outcome) is
    /// unknown, repeating may apply it twice.
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Damaged | ErrorKind::Throttled | ErrorKind::Unavailable)
    }
}

impl fmt::Display for Error {
    /// One line: what happened, to what, what to do.
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
