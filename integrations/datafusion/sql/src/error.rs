//! What failed, in words for the user, and the exit code for scripts: the same codes as those of `rowkey`.

use std::fmt;
use std::io;
use std::process::ExitCode;

use datafusion::common::DataFusionError;
use rowkey::ErrorKind;
use rowkey_datafusion::service_error;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Exit codes. They are documented and do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done. Also if the reader of the output has closed it.
    Ok = 0,
    /// It failed for a reason without a code of its own.
    Failed = 1,
    /// The command line or the SQL is wrong, or a flag is missing.
    Usage = 2,
    /// A table, a file or a column's table does not exist.
    NotFound = 3,
    /// An entity or a table exists although it must not.
    Condition = 4,
    /// The service rejected the credential, or it does not permit the operation.
    Denied = 5,
    /// The service is busy or did not answer.
    Unavailable = 6,
    /// Stopped by Ctrl-C.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a statement failed.
#[derive(Debug)]
pub(crate) struct Error {
    exit: Exit,
    text: String,
}

impl Error {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into() }
    }

    /// The statement cannot be run as it is given.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        if let Some(exit) = closed(&error) {
            return Self::new(exit, "");
        }
        let text = text(&error);
        let exit = match service_error(&error) {
            Some(service) => of_service(service.kind()),
            None => of_engine(error.find_root(), &text),
        };
        let text = match exit {
            Exit::NotFound if text.contains("not found") && !text.contains(';') => {
                format!("{text}; `SHOW TABLES` lists those that exist")
            }
            _ => text,
        };
        Self::new(exit, text)
    }
}

const fn of_service(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::NotFound => Exit::NotFound,
        ErrorKind::AlreadyExists | ErrorKind::Conflict | ErrorKind::NotModified => Exit::Condition,
        ErrorKind::Auth => Exit::Denied,
        ErrorKind::Invalid | ErrorKind::TooLarge => Exit::Usage,
        ErrorKind::Throttled | ErrorKind::Unavailable => Exit::Unavailable,
        _ => Exit::Failed,
    }
}

fn of_engine(root: &DataFusionError, text: &str) -> Exit {
    match root {
        // The engine has no kind of error for it.
        DataFusionError::Plan(_) if text.starts_with("table '") && text.contains("' not found") => {
            Exit::NotFound
        }
        DataFusionError::ObjectStore(error)
            if matches!(**error, datafusion::object_store::Error::NotFound { .. }) =>
        {
            Exit::NotFound
        }
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Configuration(_) => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// The exit code if the output is closed.
fn closed(error: &DataFusionError) -> Option<Exit> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        {
            return Some(Exit::Ok);
        }
        source = error.source();
    }
    None
}

/// The text without the engine's names of kinds.
fn text(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let mut text = text.as_str();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest;
    }
    text.trim_end().to_owned()
}

const PREFIXES: [&str; 6] = [
    "External error: ",
    "Error during planning: ",
    "Execution error: ",
    "Arrow error: ",
    "Schema error: ",
    "External: ",
];

/// Of the standard streams and the runtime. Errors of files name the file where they are opened.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Ok, "");
        }
        Self::new(Exit::Failed, format!("input or output failed: {error}"))
    }
}
