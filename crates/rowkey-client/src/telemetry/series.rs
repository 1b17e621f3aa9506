//! Keeps the number of time series small: of the names that programs and servers choose, the first ones
//! have series of their own, and all others share one.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use rowkey_wire::code::ErrorCode;

use crate::error::{Error, ErrorKind};

/// How many values of an attribute with names that the program chooses have series of their own: tables,
/// queues, containers, declarations, jobs and chores. All further ones are [`OTHER`].
pub const MAX_NAMES: usize = 100;

/// The value of an attribute for everything that has no series of its own, as in OpenTelemetry's
/// conventions.
pub const OTHER: &str = "_OTHER";

/// The attributes whose values are names that programs choose.
const NAMED: [&str; 6] = [
    "db.collection.name",
    "messaging.destination.name",
    "rowkey.container.name",
    "rowkey.declaration",
    "rowkey.job",
    "rowkey.chore",
];

/// The names that have series of their own.
#[derive(Debug, Default)]
pub(crate) struct Series([Names; NAMED.len()]);

/// The first names of an attribute.
#[derive(Debug, Default)]
struct Names(RwLock<HashSet<Box<str>>>);

impl Series {
    /// The value to report for this one.
    pub(crate) fn bounded<'a>(&self, attribute: &str, value: &'a str) -> &'a str {
        match NAMED.iter().position(|named| *named == attribute) {
            Some(at) => self.0[at].admit(value),
            None => value,
        }
    }
}

impl Names {
    fn admit<'a>(&self, name: &'a str) -> &'a str {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.contains(name) {
            return name;
        }
        let is_full = known.len() >= MAX_NAMES;
        drop(known);
        if is_full {
            return OTHER;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_NAMES {
            known.insert(name.into());
        }
        if known.contains(name) { name } else { OTHER }
    }
}

/// Attributes of a value, without an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    all: [(&'static str, &'a str); MAX_ATTRIBUTES],
    length: usize,
}

/// No metric has more attributes.
const MAX_ATTRIBUTES: usize = 8;

impl<'a> Attributes<'a> {
    pub(crate) fn new() -> Self {
        Self { all: [("", ""); MAX_ATTRIBUTES], length: 0 }
    }

    /// Adds an attribute.
    pub(crate) fn push(&mut self, name: &'static str, value: &'a str) {
        debug_assert!(self.length < MAX_ATTRIBUTES, "room for {name}");
        if let Some(next) = self.all.get_mut(self.length) {
            *next = (name, value);
            self.length += 1;
        }
    }

    /// Adds an attribute that has a value.
    pub(crate) fn push_some(&mut self, name: &'static str, value: Option<&'a str>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    pub(crate) fn as_slice(&self) -> &[(&'static str, &'a str)] {
        &self.all[..self.length]
    }
}

/// Returns the value of `error.type` for a failed operation: the service's error code if it is a known one,
/// [`OTHER`] for other codes, the HTTP status if there was no code, and the name of the [`ErrorKind`] if there
/// was no response.
///
/// ```
/// use rowkey::telemetry::error_type;
/// use rowkey::{Error, ErrorKind};
///
/// assert_eq!(error_type(&Error::refused(ErrorKind::TooLarge, "9 rows; 8 are allowed")), "TooLarge");
/// ```
pub fn error_type(error: &Error) -> &str {
    match (error.code(), error.details().status) {
        (Some(code), _) => known(code),
        (None, Some(status)) => status_text(status),
        (None, None) => kind_text(error.kind()),
    }
}

fn known(code: &ErrorCode) -> &str {
    if code.status().is_some() { code.as_str() } else { OTHER }
}

/// The text of a registered HTTP status; of any other, that of the class, as RFC 9110 treats it.
pub(crate) fn status_text(status: u16) -> &'static str {
    macro_rules! texts {
        ($($known:literal)*) => {
            match status {
                $($known => stringify!($known),)*
                0..200 => "100",
                200..300 => "200",
                300..400 => "300",
                400..500 => "400",
                _ => "500",
            }
        };
    }
    texts! {
        100 101 102 103
        200 201 202 203 204 205 206 207 208 226
        300 301 302 303 304 305 307 308
        400 401 402 403 404 405 406 407 408 409 410 411 412 413 414 415 416 417 421 422 423 424 425 426
        428 429 431 451
        500 501 502 503 504 505 506 507 508 510 511
    }
}

pub(crate) fn kind_text(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AlreadyExists => "AlreadyExists",
        ErrorKind::Auth => "Auth",
        ErrorKind::Conflict => "Conflict",
        ErrorKind::Damaged => "Damaged",
        ErrorKind::Decode => "Decode",
        ErrorKind::Invalid => "Invalid",
        ErrorKind::Leased => "Leased",
        ErrorKind::NotFound => "NotFound",
        ErrorKind::NotModified => "NotModified",
        ErrorKind::Throttled => "Throttled",
        ErrorKind::TooLarge => "TooLarge",
        ErrorKind::Unavailable => "Unavailable",
        ErrorKind::Unexpected => "Unexpected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_share_a_series() {
        let series = Series::default();
        let names: Vec<_> = (0..MAX_NAMES + 5).map(|number| format!("table{number}")).collect();
        for _ in 0..2 {
            for (number, name) in names.iter().enumerate() {
                let expected = if number < MAX_NAMES { name } else { OTHER };
                assert_eq!(series.bounded("db.collection.name", name), expected);
            }
        }
        assert_eq!(series.bounded("rowkey.job", "table101"), "table101", "each has its own limit");
        assert_eq!(series.bounded("error.type", "404"), "404");
    }

    #[test]
    fn names_that_threads_add_at_once_stay_within_the_limit() {
        let series = Series::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let series = &series;
                scope.spawn(move || {
                    for number in 0..MAX_NAMES {
                        let _ = series.bounded("rowkey.job", &format!("{thread}-{number}"));
                    }
                });
            }
        });
        assert_eq!(series.0[4].0.read().unwrap().len(), MAX_NAMES);
    }

    #[test]
    fn statuses_have_few_texts() {
        assert_eq!(
            [404, 503, 418, 299, 999, 0].map(status_text),
            ["404", "503", "400", "200", "500", "100"]
        );
        let all: HashSet<_> = (0..=u16::MAX).map(status_text).collect();
        assert!(all.len() < 70, "{}", all.len());
    }

    #[test]
    fn unknown_error_codes_share_a_series() {
        assert_eq!(known(&ErrorCode::SERVER_BUSY), "ServerBusy");
        assert_eq!(known(&ErrorCode::new("Code4711")), OTHER);
    }
}
