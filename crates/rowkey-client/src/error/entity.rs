//! Errors of entities, keys and filters as errors of the client.

use rowkey_entity::internals::decode::BodyError;
use rowkey_entity::key::KeyError;
use rowkey_entity::{EncodeError, FailedRow, FilterError};

use super::Error;

impl Error {
    /// The error of an operation whose key is invalid: nothing was sent.
    #[cold]
    pub fn no_such_key(error: &KeyError) -> Self {
        EncodeError::Key(error.clone()).into()
    }
}

impl From<EncodeError> for Error {
    #[cold]
    fn from(error: EncodeError) -> Self {
        let what = error.to_string();
        match error {
            _ if error.is_too_large() => Self::too_large(what),
            EncodeError::ReservedName { .. } => {
                Self::invalid(what).advise("give the property another name")
            }
            _ => Self::invalid(what),
        }
    }
}

impl From<FailedRow> for Error {
    #[cold]
    fn from(row: FailedRow) -> Self {
        Self::of_rows(vec![row])
    }
}

impl From<FilterError> for Error {
    #[cold]
    fn from(error: FilterError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<BodyError> for Error {
    #[cold]
    fn from(error: BodyError) -> Self {
        Self::decode(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use rowkey_entity::Filter;
    use rowkey_entity::entity::PropertyError;
    use rowkey_wire::key;

    use super::*;
    use crate::error::{ErrorKind, Outcome};

    #[test]
    fn what_exceeds_a_limit_is_too_large_and_the_rest_is_invalid() {
        let name = || "Age".to_owned();
        for error in [
            EncodeError::Key(KeyError::Invalid(key::KeyError::TooLong { units: 2000 })),
            EncodeError::TooLarge { size: 2 << 20 },
            EncodeError::TooManyProperties { count: 300 },
            EncodeError::ValueTooLarge { name: name(), size: 70_000 },
        ] {
            let error = Error::from(error);
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
        }
        for error in [
            EncodeError::Key(KeyError::ControlCharacter),
            EncodeError::Property { name: name(), error: PropertyError::new("out of range") },
            EncodeError::InvalidName { name: name() },
            EncodeError::ReservedName { name: name() },
        ] {
            let error = Error::from(error);
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        }
    }

    #[test]
    fn the_text_of_a_filter_is_not_shown() {
        let error = Error::from(Filter::raw("Name eq 'secret").unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("no closing quote"), "{error}");
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    #[test]
    fn a_row_that_does_not_decode_is_in_the_details() {
        let row = FailedRow::new("p", "r", &"property `Age`: it is absent");
        let error = Error::from(row.clone());
        assert_eq!((error.kind(), &*error.details().failed_rows), (ErrorKind::Decode, &[row][..]));
    }
}
