//! Continuation tokens, markers, receipts and tags; dates and numbers as text.

use rowkey::Continuation;
pub use rowkey_emulator::fuzzing::entity_token;
use rowkey_emulator::fuzzing::{marker, receipt, tag};
use rowkey_wire::edm::{DateTime, double};
use rowkey_wire::etag::ETag;
use rowkey_wire::headers::parse_http_date;

/// Every decoder of tokens.
pub fn all(input: &[u8]) {
    crate::text(input, |text| {
        let _ = (entity_token(text), continuation(text));
        let _ = (marker(text), receipt(text), tag(text), ETag::new(text).timestamp());
    });
}

/// Every decoder of dates and numbers.
pub fn dates(input: &[u8]) {
    crate::text(input, |text| {
        let _ = (date(text), parse_http_date(text), crate::auth::time(text), double::parse(text));
    });
}

/// Whether it is a stored continuation; asserts that it is read again as written.
pub fn continuation(text: &str) -> bool {
    let Ok(parsed) = text.parse::<Continuation>() else { return false };
    assert_eq!(parsed.to_string().parse::<Continuation>().expect("a printed one"), parsed);
    true
}

/// Whether it is a date; asserts that every form it is written in is read as the same date.
pub fn date(text: &str) -> bool {
    let Ok(time) = text.parse::<DateTime>() else { return false };
    assert_eq!(time.to_iso7().parse(), Ok(time));
    assert_eq!(time.iso().as_str().parse(), Ok(time));
    assert_eq!(DateTime::try_from(time.to_chrono()), Ok(time));
    let _ = time.to_http();
    true
}
