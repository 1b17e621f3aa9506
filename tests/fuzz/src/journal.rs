//! Data of the server on disk: journals, lists of files, and rows.

use rowkey_emulator::fuzzing;

/// The journal and the lists that name sorted files.
pub fn journal(input: &[u8]) {
    fuzzing::journal(input);
}

/// Rows, as a start reads them.
pub fn rows(input: &[u8]) {
    fuzzing::rows(input);
}
