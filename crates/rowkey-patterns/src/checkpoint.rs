//! Checkpoints as text that can be stored: JSON.

use std::fmt;

use rowkey::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes the text to store.
pub(crate) fn write(checkpoint: &impl Serialize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&serde_json::to_string(checkpoint).map_err(|_| fmt::Error)?)
}

/// Reads what was stored. The error does not show it.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|_| Error::refused(ErrorKind::Invalid, "the text is not that of a checkpoint"))
}
