//! `$filter`: what parses is printed as text that parses to the same.

use rowkey_wire::filter;

/// Every check of a filter.
pub fn all(input: &[u8]) {
    crate::text(input, |text| {
        is_printed_as_read(text);
    });
}

/// Whether `text` is a filter; asserts that the printed filter means the same.
pub fn is_printed_as_read(text: &str) -> bool {
    let Ok(parsed) = filter::parse(text) else { return false };
    let printed = filter::print(&parsed);
    let again = filter::parse(&printed).unwrap_or_else(|_| panic!("{text:?} prints {printed:?}"));
    assert_eq!(filter::print(&again), printed, "{text:?}");
    true
}
