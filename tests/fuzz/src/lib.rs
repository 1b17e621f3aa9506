//! Fuzz targets: for each family of decoders a function that feeds it bytes and asserts what must hold.
//!
//! A target must return from every input, and what a decoder accepts must survive being written and read
//! again. `tests/robustness` calls the same functions with damaged recordings in `cargo test`; the program
//! of this package, which `cargo xtask fuzz` builds and runs, searches for new inputs by coverage.

pub mod auth;
pub mod batch;
pub mod dead_letters;
pub mod entity;
pub mod filter;
pub mod headers;
#[cfg(all(fuzzing, feature = "libfuzzer"))]
pub mod journal;
pub mod keys;
pub mod requests;
pub mod sealed;
pub mod store_rows;
pub mod tokens;
pub mod xml;

/// A fuzz target: its name, which is also that of its folder in `corpus`, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("auth", auth::all),
    ("batch", batch::all),
    ("dates", tokens::dates),
    ("dead_letters", dead_letters::all),
    ("entity", entity::all),
    ("filter", filter::all),
    ("headers", headers::all),
    #[cfg(all(fuzzing, feature = "libfuzzer"))]
    ("journal", journal::journal),
    ("keys", keys::all),
    ("requests", requests::all),
    #[cfg(all(fuzzing, feature = "libfuzzer"))]
    ("rows", journal::rows),
    ("sealed", sealed::all),
    ("store_rows", store_rows::all),
    ("tokens", tokens::all),
    ("xml", xml::all),
];

/// Passes the input to `read` as text, with replacement characters for invalid UTF-8.
fn text(input: &[u8], read: impl FnOnce(&str)) {
    read(&String::from_utf8_lossy(input));
}
