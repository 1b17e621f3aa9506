//! Parts of blobs' names.

use std::fmt::Write as _;

use rowkey::{Error, ErrorKind, Result};

/// 32 characters that were never part of a name, and never will be again.
pub(crate) fn unused() -> Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| {
        Error::refused(ErrorKind::Unavailable, "the system has no random bytes for a name")
    })?;
    Ok(hexadecimal(&random))
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
