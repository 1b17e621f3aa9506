//! Arguments of key constructors and filters: a value, a reference to one, or `&str` for a string.

/// An argument that converts to a `T`. Implemented for all `T` and `&T`, and for `&str` as
/// `String`; not meant to be implemented elsewhere.
#[diagnostic::on_unimplemented(
    message = "a `{T}` is wanted here, not a `{Self}`",
    label = "give a `{T}` or a reference to one",
    note = "a `String` may also be given as `&str`"
)]
pub trait Arg<T> {
    /// Converts the argument to the value.
    fn into_arg(self) -> T;
}

impl<T> Arg<T> for T {
    fn into_arg(self) -> T {
        self
    }
}

impl<T: Clone> Arg<T> for &T {
    fn into_arg(self) -> T {
        self.clone()
    }
}

impl Arg<String> for &str {
    fn into_arg(self) -> String {
        self.to_owned()
    }
}
