//! The error of a test: it names the line of the `?` that it passed first.

use std::error::Error;
use std::fmt;
use std::panic::Location;

/// The result of a test, and of a function that a test calls.
pub type TestResult<T = ()> = Result<T, TestError>;

/// An error and the line at which a test met it.
///
/// A test that returns an error shows its `Debug`. That of the errors alone does not say which of the
/// requests of a test failed.
pub struct TestError {
    error: Box<dyn Error>,
    at: &'static Location<'static>,
}

// `TestError` is no `Error` itself, as it could not be converted from all errors then.
impl<E: Into<Box<dyn Error>>> From<E> for TestError {
    #[track_caller]
    fn from(error: E) -> Self {
        Self { error: error.into(), at: Location::caller() }
    }
}

impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {}", self.at, self.error)?;
        let mut source = self.error.source();
        while let Some(error) = source {
            write!(f, "\n  caused by: {error}")?;
            source = error.source();
        }
        write!(f, "\n{:?}", self.error)
    }
}

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {}", self.at, self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails() -> Result<(), fmt::Error> {
        Err(fmt::Error)
    }

    #[test]
    fn an_error_names_the_line_of_the_first_question_mark() {
        let inner = || -> TestResult {
            fails()?;
            Ok(())
        };
        let line = line!() - 3;
        let outer = || -> TestResult {
            inner()?;
            Ok(())
        };
        let shown = format!("{:?}", outer().unwrap_err());
        assert!(shown.starts_with(&format!("at {}:{line}:", file!())), "{shown}");
    }
}
