//! Rules for names of queues.

use std::fmt;

/// The error for an invalid queue name. Valid names have 3 to 63 lower-case letters, digits and
/// single dashes between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// A character other than lower-case ASCII letters, digits and dashes; or a dash at either
    /// end, or next to another.
    Characters,
    /// Shorter than 3 or longer than 63 characters.
    Length,
}

/// Checks that a queue name is valid.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !name.bytes().all(allowed)
        || name.starts_with('-')
        || name.ends_with('-')
        || name.contains("--")
    {
        return Err(NameError::Characters);
    }
    if (3..=63).contains(&name.len()) { Ok(()) } else { Err(NameError::Length) }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Characters => {
                "a queue's name is lower-case letters, digits and single dashes between them"
            }
            Self::Length => "a queue's name has 3 to 63 characters",
        })
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_documentation() {
        for name in ["abc", "1-a", "a-b-c", &"x".repeat(63)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["ab", &"x".repeat(64), ""] {
            assert_eq!(check_name(name), Err(NameError::Length), "{name}");
        }
        for name in ["Abc", "a_bc", "-abc", "abc-", "a--b", "äbc", "a b", "$root"] {
            assert_eq!(check_name(name), Err(NameError::Characters), "{name}");
        }
    }
}
