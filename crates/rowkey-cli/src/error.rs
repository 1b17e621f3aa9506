//! What failed, in words for the user, and the exit code for scripts.

use std::fmt;
use std::io;
use std::process::ExitCode;

use rowkey::{ErrorCode, ErrorKind, Outcome};

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Exit codes. They are documented and do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did what it should. Also if the reader of its output has closed it.
    Ok = 0,
    /// It failed for a reason without a code of its own.
    Failed = 1,
    /// The command line, a file or the input is wrong, or a flag is missing. Nothing was changed.
    Usage = 2,
    /// The entity, table or profile does not exist.
    NotFound = 3,
    /// The entity has another ETag, or exists although it must not.
    Condition = 4,
    /// The service rejected the credential, or it does not permit the operation.
    Denied = 5,
    /// The service is busy or did not answer. The same command may succeed later.
    Unavailable = 6,
    /// Whether the change was applied is unknown.
    Unknown = 7,
    /// The command is done, but some entities failed, or differ.
    Partly = 8,
    /// Stopped because too many entities failed. The others may succeed once the cause is corrected.
    TooManyFailed = 9,
    /// Stopped by Ctrl-C.
    Interrupted = 130,
    /// Stopped by SIGTERM.
    Terminated = 143,
}

impl Exit {
    /// The name in the JSON of errors.
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Condition => "condition_not_met",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown_outcome",
            Self::Partly => "partly_failed",
            Self::TooManyFailed => "too_many_failed",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed. The text names no secret, and keys of entities only with `--show-keys`.
#[derive(Debug)]
pub(crate) struct Error {
    exit: Exit,
    text: String,
}

impl Error {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into() }
    }

    /// The command cannot be carried out as it is given.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// The client's error of a write, which may have been applied nevertheless.
    pub(crate) fn of_write(error: rowkey::Error) -> Self {
        let is_unknown = error.outcome() == Outcome::Unknown;
        let error = Self::from(error);
        if is_unknown { Self { exit: Exit::Unknown, ..error } } else { error }
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    /// Says before the text during what it happened.
    pub(crate) fn during(mut self, what: impl fmt::Display) -> Self {
        self.text = format!("{what}: {}", self.text);
        self
    }

    /// Adds what to do.
    pub(crate) fn and(mut self, what: impl fmt::Display) -> Self {
        self.text = format!("{}; {what}", self.text);
        self
    }

    /// Adds the keys that the command was called with, for `--show-keys`.
    pub(crate) fn with_keys(mut self, keys: Option<(&str, &str)>) -> Self {
        if let Some((partition_key, row_key)) = keys {
            self.text =
                format!("{} (PartitionKey {partition_key:?}, RowKey {row_key:?})", self.text);
        }
        self
    }

    /// The error as one line of JSON.
    pub(crate) fn json(&self) -> String {
        serde_json::json!({
            "error": {
                "exit": self.exit as u8,
                "kind": self.exit.name(),
                "message": self.text,
            }
        })
        .to_string()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Of a read; [`Error::of_write`] is for writes.
impl From<rowkey::Error> for Error {
    fn from(error: rowkey::Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::AlreadyExists | ErrorKind::Conflict | ErrorKind::NotModified => {
                Exit::Condition
            }
            ErrorKind::Auth => Exit::Denied,
            ErrorKind::Invalid | ErrorKind::TooLarge => Exit::Usage,
            ErrorKind::Throttled | ErrorKind::Unavailable => Exit::Unavailable,
            _ => Exit::Failed,
        };
        let error = match advice(error.code()) {
            Some(advice) => error.advise(advice),
            None => error,
        };
        let text = match reason(&error) {
            Some(reason) => format!("{error} ({reason})"),
            None => error.to_string(),
        };
        Self::new(exit, text)
    }
}

/// Why there is no token, in the words of what should give it, such as that the Azure CLI is not installed.
fn reason(error: &rowkey::Error) -> Option<String> {
    // What the service answers has a code.
    if error.kind() != ErrorKind::Auth || error.code().is_some() {
        return None;
    }
    let text = std::error::Error::source(error)?.to_string();
    let lines = text.split(['\r', '\n']).map(str::trim).filter(|line| !line.is_empty());
    Some(lines.collect::<Vec<_>>().join("; "))
}

/// What to do if it exists already.
pub(crate) const IF_MISSING: &str = "add --if-missing to accept that";

/// What to do, in commands and flags. For other codes the advice of the library fits.
fn advice(code: Option<&ErrorCode>) -> Option<&'static str> {
    let is = |known: ErrorCode| code == Some(&known);
    if is(ErrorCode::TABLE_NOT_FOUND) {
        Some("`rowkey tables` lists those that exist, `rowkey tables create` creates one")
    } else if is(ErrorCode::TABLE_ALREADY_EXISTS) {
        Some(IF_MISSING)
    } else if is(ErrorCode::QUEUE_NOT_FOUND) {
        Some("`rowkey queue list` lists those that exist, `rowkey queue create` creates one")
    } else if is(ErrorCode::ENTITY_ALREADY_EXISTS) {
        Some("to replace it, leave --insert out")
    } else {
        None
    }
}

impl From<rowkey_transfer::Error> for Error {
    fn from(error: rowkey_transfer::Error) -> Self {
        if error.service().is_some() {
            return rowkey::Error::from(error).into();
        }
        match error.io() {
            Some(io) if io.kind() == io::ErrorKind::BrokenPipe => Self::new(Exit::Ok, ""),
            Some(_) => Self::new(Exit::Failed, error.to_string()),
            None => Self::usage(error.to_string()),
        }
    }
}

/// Of the standard streams and the runtime. Errors of files name the file where they are opened.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Ok, "");
        }
        Self::new(Exit::Failed, format!("input or output failed: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_exit_code() {
        for (kind, exit) in [
            (ErrorKind::AlreadyExists, Exit::Condition),
            (ErrorKind::Auth, Exit::Denied),
            (ErrorKind::Conflict, Exit::Condition),
            (ErrorKind::Decode, Exit::Failed),
            (ErrorKind::Invalid, Exit::Usage),
            (ErrorKind::NotFound, Exit::NotFound),
            (ErrorKind::Throttled, Exit::Unavailable),
            (ErrorKind::TooLarge, Exit::Usage),
            (ErrorKind::Unavailable, Exit::Unavailable),
        ] {
            let error = rowkey::Error::refused(kind, "text");
            assert_eq!(Error::from(error).exit(), exit, "{kind:?}");
        }
        let lost = || {
            let lost = rowkey::Error::refused(ErrorKind::Unavailable, "no response");
            lost.with_outcome(Outcome::Unknown)
        };
        assert_eq!(Error::from(lost()).exit(), Exit::Unavailable, "a read can be repeated");
        let lost = Error::of_write(lost());
        assert_eq!(lost.exit(), Exit::Unknown);
        assert!(lost.to_string().contains("whether it was applied is unknown"), "{lost}");
    }

    #[test]
    fn a_closed_output_is_no_failure() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Error::from(closed()).exit(), Exit::Ok);
        assert_eq!(Error::from(rowkey_transfer::Error::from(closed())).exit(), Exit::Ok);
        assert_eq!(Error::from(io::Error::other("disk")).exit(), Exit::Failed);
    }

    #[test]
    fn a_request_about_a_file_has_the_exit_code_of_the_request() {
        let denied = rowkey::Error::refused(ErrorKind::Auth, "text");
        assert_eq!(Error::from(rowkey_transfer::Error::from(denied)).exit(), Exit::Denied);
    }

    #[test]
    fn the_json_of_an_error_has_the_exit_code_and_the_text() {
        let error = Error::new(Exit::NotFound, "no \"table\"").during("orders");
        assert_eq!(
            error.json(),
            r#"{"error":{"exit":3,"kind":"not_found","message":"orders: no \"table\""}}"#
        );
    }
}
