//! Secrets as input: from stdin or an environment variable, never from the arguments.

use std::env;
use std::io::{self, IsTerminal as _, Read as _};

use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Reads `what`, such as `the connection string`, and says where it comes from.
pub(crate) fn read(variable: Option<&str>, what: &str) -> Result<(Zeroizing<String>, String)> {
    if let Some(name) = variable {
        let text = required(name, what)?;
        return Ok((text, format!("the environment variable {name}")));
    }
    let mut stdin = io::stdin().lock();
    if stdin.is_terminal() {
        return Err(Error::usage(format!(
            "a terminal would show {what}; redirect stdin from a file or a program, or use --from-env \
             VARIABLE"
        )));
    }
    let mut text = Zeroizing::new(String::new());
    // The error does not quote what was read.
    stdin.read_to_string(&mut text)?;
    Ok((text, "stdin".to_owned()))
}

/// The value of an environment variable that a flag names, and that holds `what`.
pub(crate) fn required(name: &str, what: &str) -> Result<Zeroizing<String>> {
    variable(name)?.ok_or_else(|| {
        Error::usage(format!("the environment variable {name} is not set; set it to {what}"))
    })
}

/// The value of an environment variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Result<Option<Zeroizing<String>>> {
    match env::var(name) {
        Ok(text) => Ok(Some(Zeroizing::new(text)).filter(|text| !text.trim().is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        // The error would quote the value.
        Err(env::VarError::NotUnicode(_)) => {
            Err(Error::usage(format!("the environment variable {name} is not UTF-8; set it again")))
        }
    }
}
