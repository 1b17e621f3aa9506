//! Rules for names of tables.

use std::fmt;

/// The error for an invalid table name. Valid names have 3 to 63 letters and digits, start with a
/// letter, and are not `tables`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameError {
    /// A character other than ASCII letters and digits, or a digit first.
    Characters,
    /// Shorter than 3 or longer than 63 characters.
    Length,
    /// `tables`, which the service reserves.
    Reserved,
}

/// Checks that a table name is valid. Names are compared without case.
pub(crate) fn check(name: &str) -> Result<(), NameError> {
    if !(3..=63).contains(&name.len()) {
        return Err(NameError::Length);
    }
    let mut bytes = name.bytes();
    if !bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        || !bytes.all(|b| b.is_ascii_alphanumeric())
    {
        return Err(NameError::Characters);
    }
    if name.eq_ignore_ascii_case("tables") {
        return Err(NameError::Reserved);
    }
    Ok(())
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Characters => "a table's name is ASCII letters and digits, a letter first",
            Self::Length => "a table's name has 3 to 63 characters",
            Self::Reserved => "no table can be called `tables`",
        })
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_data_model() {
        for name in ["abc", "A1b", &"x".repeat(63)] {
            assert_eq!(check(name), Ok(()));
        }
        assert_eq!(check("ab"), Err(NameError::Length));
        assert_eq!(check(&"x".repeat(64)), Err(NameError::Length));
        for name in ["1abc", "a-b", "a_bc", "täble", "a b"] {
            assert_eq!(check(name), Err(NameError::Characters), "{name}");
        }
        assert_eq!(check("Tables"), Err(NameError::Reserved));
    }
}
