//! What failed, in words for the user, and the exit code for scripts: the same codes as those of `rowkey`.

use std::fmt;
use std::io;
use std::process::ExitCode;

use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::object_store::Error as FileError;
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
#[derive(Clone, Debug)]
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

    /// The engine refuses to plan the statement.
    pub(crate) fn of_plan(error: DataFusionError) -> Self {
        let is_refused = matches!(error.find_root(), DataFusionError::Execution(_));
        let error = Self::from(error);
        let exit = if is_refused && error.exit == Exit::Failed { Exit::Usage } else { error.exit };
        Self { exit, ..error }
    }

    /// The error of a statement behind which others were not run. A closed output is one then.
    pub(crate) fn with_left(self, statements: usize) -> Self {
        if statements == 0 {
            return self;
        }
        let noun = if statements == 1 { "statement was" } else { "statements were" };
        let (exit, text) = match self.exit {
            Exit::Ok => (Exit::Failed, "the output was closed".to_owned()),
            exit => (exit, self.text),
        };
        Self { exit, text: format!("{text}; {statements} further {noun} not run") }
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

/// It travels inside of errors of the engine.
impl std::error::Error for Error {}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        Self::from(&error)
    }
}

impl From<&DataFusionError> for Error {
    fn from(error: &DataFusionError) -> Self {
        if let DataFusionError::External(inner) = error.find_root()
            && let Some(error) = inner.downcast_ref::<Self>()
        {
            return error.clone();
        }
        if let Some(exit) = closed(error) {
            return Self::new(exit, "");
        }
        let is_planning = is_planning(error);
        let text = text(error);
        let exit = match service_error(error) {
            Some(service) => of_service(service.kind()),
            None => of_engine(error.find_root(), &text),
        };
        // A constant that cannot be computed.
        let exit = if is_planning && exit == Exit::Failed { Exit::Usage } else { exit };
        let text = match absent(&text) {
            Some(name) => match file(name) {
                Some(path) => format!(
                    "there is no file {path} that is a table, or its format is not known by its name"
                ),
                None => format!("{text}; `SHOW TABLES` lists those that exist"),
            },
            None if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {
                format!("{text}; allow more memory with --memory-limit, or select fewer rows")
            }
            None => text,
        };
        Self::new(exit, text)
    }
}

/// The path in the name of a table, if it is one: no table has such a name.
fn file(name: &str) -> Option<&str> {
    let path = name.split_once(".tables.").map_or(name, |(_, path)| path);
    (path.contains('/') || (path != name && path.contains('.'))).then_some(path)
}

/// Whether an error comes from a step before anything is executed.
fn is_planning(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::Context(step, error) => {
            step.starts_with("Optimizer rule '") || is_planning(error)
        }
        _ => false,
    }
}

/// The name of a table that the engine did not find. It has no kind of error for it.
fn absent(text: &str) -> Option<&str> {
    text.strip_prefix("table '")?.strip_suffix("' not found")
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
    if let Some(error) = of_files(root) {
        return match error {
            FileError::NotFound { .. } => Exit::NotFound,
            FileError::AlreadyExists { .. } | FileError::Precondition { .. } => Exit::Condition,
            FileError::PermissionDenied { .. } | FileError::Unauthenticated { .. } => Exit::Denied,
            // The library has no kind of error for a service that does not answer.
            _ if BUSY.iter().any(|busy| text.contains(busy)) => Exit::Unavailable,
            _ => Exit::Failed,
        };
    }
    match root {
        DataFusionError::Plan(_) if absent(text).is_some() => Exit::NotFound,
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Configuration(_) => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// What the errors of blob containers have that are busy or do not answer.
const BUSY: [&str; 4] =
    ["could not be reached", "ServerBusy", "OperationTimedOut", "InternalError"];

/// The error of a file, also inside of errors of input and output.
fn of_files<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e FileError> {
    if let Some(DataFusionError::ObjectStore(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(DataFusionError::IoError(error)) = error.downcast_ref() {
        return of_files(error);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return of_files(error.get_ref()?);
    }
    error.downcast_ref().or_else(|| of_files(error.source()?))
}

/// The exit code if the output is closed.
fn closed(error: &DataFusionError) -> Option<Exit> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        // A connection to the service, which may also be such a pipe.
        if error.is::<rowkey::Error>() {
            return None;
        }
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

/// The text without the engine's names of kinds and steps, its own settings, and values of entities.
fn text(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let mut text = text.rsplit(CAUSE).next().unwrap_or_default();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest;
    }
    let quoted = text.strip_prefix(PARSER).and_then(|text| text.strip_suffix("\")"));
    if let Some(quoted) = quoted {
        return quoted.replace("\\\"", "\"");
    }
    let lines = text.trim_end().lines().filter(|line| !line.starts_with(SETTING));
    let mut text = lines.collect::<Vec<_>>().join("\n");
    let is_of_values = matches!(
        error.find_root(),
        DataFusionError::ArrowError(kind, _) if matches!(
            **kind,
            ArrowError::CastError(_) | ArrowError::ParseError(_) | ArrowError::ArithmeticOverflow(_)
        )
    );
    let shown = VALUES.iter().any(|(before, _, _)| text.contains(before));
    if is_of_values && !shown {
        return "a value cannot be converted to the type that the query needs".to_owned();
    }
    if let Some((head, _)) = text.split_once(CSV_ROW) {
        text.truncate(head.len());
    }
    for (before, behind, instead) in VALUES {
        let parts = text.split_once(before).and_then(|(head, rest)| {
            let (_, tail) = rest.rsplit_once(behind)?;
            Some(format!("{head}{instead}{tail}"))
        });
        text = parts.unwrap_or(text);
    }
    text
}

/// Between an error and a step of the engine in which it happened.
const CAUSE: &str = "\ncaused by\n";

const PREFIXES: [&str; 14] = [
    "External error: ",
    "Error during planning: ",
    "Execution error: ",
    "Arrow error: ",
    "Schema error: ",
    "External: ",
    "IO error: ",
    "Object Store error: ",
    "Generic MicrosoftAzure error: ",
    "Generic LocalFileSystem error: ",
    "This feature is not implemented: ",
    "Invalid argument error: ",
    "Cast error: ",
    "Parser error: ",
];

/// Before the quoted words of the parser.
const PARSER: &str = "SQL error: ParserError(\"";

/// Before a row of a CSV file that does not fit.
const CSV_ROW: &str = " Row data: ";

/// Advice about a setting of the engine, which this program has set as it is right for tables.
const SETTING: &str = "Column names are case sensitive. You can use double quotes";

/// What the engine writes before and behind a value with which it cannot compute, and the words instead of all three.
const VALUES: [(&str, &str, &str); 5] = [
    ("Cannot cast value '", "' to value of ", "Cannot cast a value to a value of "),
    ("Cannot cast string '", "' to value of ", "Cannot cast a string to a value of "),
    ("Error parsing timestamp from '", "': ", "Error parsing a timestamp: "),
    ("Can't cast value ", " to type ", "Cannot cast a value to the type "),
    ("Arithmetic overflow: Overflow happened on: ", "", "Arithmetic overflow"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(error: ArrowError) -> (Exit, String) {
        let error = Error::from(DataFusionError::from(error));
        (error.exit(), error.to_string())
    }

    #[test]
    fn values_are_not_shown() {
        for (text, expected) in [
            (
                "Cannot cast string 'it's secret' to value of Int64 type",
                "Cannot cast a string to a value of Int64 type",
            ),
            ("Can't cast value 4711 to type Int8", "Cannot cast a value to the type Int8"),
        ] {
            assert_eq!(
                shown(ArrowError::CastError(text.to_owned())),
                (Exit::Failed, expected.to_owned())
            );
        }
        let text =
            "Error parsing timestamp from 'secret': timestamp must contain at least 10 characters";
        assert_eq!(
            shown(ArrowError::ParseError(text.to_owned())).1,
            "Error parsing a timestamp: timestamp must contain at least 10 characters"
        );
        for text in ["Invalid input syntax for type interval: \"secret\"", "Failed to convert 4711"]
        {
            let (_, shown) = shown(ArrowError::ParseError(text.to_owned()));
            assert_eq!(shown, "a value cannot be converted to the type that the query needs");
        }
        let text = "Overflow happened on: 9223372036854775807 + 4711";
        assert_eq!(shown(ArrowError::ArithmeticOverflow(text.to_owned())).1, "Arithmetic overflow");
    }

    #[test]
    fn a_constant_that_cannot_be_computed_is_wrong_usage() {
        let cause = DataFusionError::from(ArrowError::CastError(
            "Can't cast value 7 to type Int8".to_owned(),
        ));
        let error = Error::from(cause.context("Optimizer rule 'simplify_expressions' failed"));
        assert_eq!(
            (error.exit(), &*error.to_string()),
            (Exit::Usage, "Cannot cast a value to the type Int8")
        );
    }
}
