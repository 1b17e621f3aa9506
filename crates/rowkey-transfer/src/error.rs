//! What was wrong with a file, and where.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// The result of an operation on a file.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an [`Error`], for programs that treat some apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Reading or writing failed, as [`Error::io`] says.
    Io,
    /// The file ends too early.
    Truncated,
    /// The file is not in its format.
    Malformed,
    /// A line, a record or an entity is longer than any entity of the service.
    TooLong,
    /// A value is not one of its type, or its type is unknown.
    InvalidValue,
    /// A value has no type, and the options do not say which it gets.
    Untyped,
    /// PartitionKey or RowKey is absent.
    MissingKey,
    /// A property, a column or a file is there twice.
    Duplicate,
    /// A property has a name that the service or the format uses for something else.
    ReservedName,
    /// An entity has a property, or a type of one, that was not announced to the encoder.
    UnknownColumn,
    /// The file uses a part of its format that this version does not read.
    Unsupported,
    /// The count or the checksum of a file differs from its manifest.
    Mismatch,
    /// The storage service refused a request, as [`Error::service`] says.
    #[cfg(feature = "jobs")]
    Service,
}

/// Where in a file an error was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Position {
    /// A line, from 1, and a byte in that line, from 1; 0 if it is unknown.
    Line(u64, u64),
    /// A row, from 1, of a format without lines.
    Row(u64),
}

/// An error in a file.
///
/// Its text names the file, if the caller has [named it](Self::in_file), the position and the property,
/// and says what to do. It shows neither keys nor values.
pub struct Error {
    kind: ErrorKind,
    what: Cow<'static, str>,
    position: Option<Position>,
    file: Option<String>,
    /// What the name of the file follows: a folder, or a container and a prefix, with the separator.
    place: Option<Box<str>>,
    io: Option<io::Error>,
    #[cfg(feature = "jobs")]
    service: Option<Box<rowkey_client::Error>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            what: what.into(),
            position: None,
            file: None,
            place: None,
            io: None,
            #[cfg(feature = "jobs")]
            service: None,
        }
    }

    /// An error at a line and a byte in it; an earlier position stays.
    pub(crate) fn at_line(mut self, line: u64, column: u64) -> Self {
        self.position.get_or_insert(Position::Line(line, column));
        self
    }

    /// An error at a row; an earlier position stays.
    pub(crate) fn at_row(mut self, row: u64) -> Self {
        self.position.get_or_insert(Position::Row(row));
        self
    }

    /// Names the file in the text of the error, unless it has a name already.
    ///
    /// ```
    /// use rowkey_transfer::json_lines;
    ///
    /// let error = json_lines::Decoder::new(&b"{\"RowKey\":\"7\"}"[..]).next().ok_or("no line")?;
    /// let error = error.err().ok_or("a row")?.in_file("orders.jsonl");
    /// assert!(error.to_string().starts_with("orders.jsonl, line 1: PartitionKey"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_file(mut self, name: impl Into<String>) -> Self {
        self.file.get_or_insert(name.into());
        self
    }

    /// Names what the file is in, unless it is named already. It has no effect before the file is named.
    #[cfg(feature = "jobs")]
    pub(crate) fn in_place(mut self, place: impl Into<Box<str>>) -> Self {
        if self.file.is_some() {
            self.place.get_or_insert_with(|| place.into());
        }
        self
    }

    /// The kind.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Where it was found, if that is known.
    pub const fn position(&self) -> Option<Position> {
        self.position
    }

    /// The name of the file, if it is known, without its folder.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Why reading or writing failed, for [`ErrorKind::Io`].
    pub const fn io(&self) -> Option<&io::Error> {
        self.io.as_ref()
    }

    /// Why the storage service refused a request, for [`ErrorKind::Service`].
    #[cfg(feature = "jobs")]
    pub fn service(&self) -> Option<&rowkey_client::Error> {
        self.service.as_deref()
    }
}

#[cfg(feature = "jobs")]
impl From<rowkey_client::Error> for Error {
    fn from(error: rowkey_client::Error) -> Self {
        let text = error.to_string();
        Self { service: Some(Box::new(error)), ..Self::new(ErrorKind::Service, text) }
    }
}

/// For steps of jobs, whose errors are those of the client.
#[cfg(feature = "jobs")]
impl From<Error> for rowkey_client::Error {
    fn from(error: Error) -> Self {
        use rowkey_client::ErrorKind as Kind;
        let text = error.to_string();
        match error {
            Error { service: Some(service), file, place, .. } => match file {
                Some(file) => service.during(place.unwrap_or_default().into_string() + &file),
                None => *service,
            },
            Error { kind: ErrorKind::Io, .. } => Self::refused(Kind::Unexpected, text),
            Error { kind: ErrorKind::TooLong, .. } => Self::refused(Kind::TooLarge, text),
            _ => Self::refused(Kind::Invalid, text),
        }
    }
}

/// The end of a file inside something is [`ErrorKind::Truncated`], damaged compression
/// [`ErrorKind::Malformed`].
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        let (kind, what) = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                (ErrorKind::Truncated, "the file ends too early; fetch or write it again")
            }
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                (ErrorKind::Malformed, "the file is damaged; fetch or write it again")
            }
            io::ErrorKind::FileTooLarge => (ErrorKind::TooLong, TOO_LONG),
            _ => (ErrorKind::Io, "the file cannot be read or written"),
        };
        let io = (kind == ErrorKind::Io).then_some(error);
        Self { io, ..Self::new(kind, what) }
    }
}

/// What is wrong with a line of more than [`MAX_ENTITY`] bytes.
pub(crate) const TOO_LONG: &str =
    "it is longer than 16 MiB, and no entity is that large; check whether the file has this format";

/// The longest text of one entity that is read, in bytes. The service stores 1 MiB, Cosmos DB 2 MB; escapes and
/// base64 make it longer by up to three times.
pub(crate) const MAX_ENTITY: usize = 16 << 20;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.place.as_deref().unwrap_or_default())?;
        match (&self.file, self.position) {
            (Some(file), None) => write!(f, "{file}: ")?,
            (Some(file), Some(position)) => write!(f, "{file}, {position}: ")?,
            (None, Some(position)) => write!(f, "{position}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.what)?;
        match &self.io {
            Some(io) => write!(f, ": {io}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line, 0) => write!(f, "line {line}"),
            Self::Line(line, column) => write!(f, "line {line}, column {column}"),
            Self::Row(row) => write!(f, "row {row}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind)
            .field("text", &self.to_string())
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        #[cfg(feature = "jobs")]
        if let Some(error) = &self.service {
            return Some(error);
        }
        self.io.as_ref().map(|error| error as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_what_is_known() {
        let error = || Error::new(ErrorKind::Malformed, "it is not JSON");
        assert_eq!(error().to_string(), "it is not JSON");
        assert_eq!(error().at_row(7).to_string(), "row 7: it is not JSON");
        assert_eq!(error().at_line(3, 0).to_string(), "line 3: it is not JSON");
        let error = error().at_line(3, 5).at_row(9).in_file("a.jsonl").in_file("b");
        assert_eq!(error.to_string(), "a.jsonl, line 3, column 5: it is not JSON");
        assert_eq!(error.position(), Some(Position::Line(3, 5)));
        assert_eq!((error.file(), error.kind()), (Some("a.jsonl"), ErrorKind::Malformed));
    }

    #[test]
    fn errors_of_files_are_sorted_by_what_they_mean() {
        for (io, kind) in [
            (io::ErrorKind::UnexpectedEof, ErrorKind::Truncated),
            (io::ErrorKind::InvalidData, ErrorKind::Malformed),
            (io::ErrorKind::FileTooLarge, ErrorKind::TooLong),
            (io::ErrorKind::PermissionDenied, ErrorKind::Io),
        ] {
            let error = Error::from(io::Error::from(io));
            assert_eq!(error.kind(), kind);
            assert_eq!(error.io().is_some(), kind == ErrorKind::Io);
        }
    }
}
