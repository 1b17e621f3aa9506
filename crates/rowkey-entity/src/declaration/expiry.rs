//! The time from which on an entity is expired: `#[entity(expiry)]`.

use rowkey_wire::edm::DateTime;

/// A type that a field with `#[entity(expiry)]` may have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a time at which an entity can expire",
    note = "the type of a field with `expiry` is `DateTime<Utc>`, `edm::DateTime` or an `Option` of one of them"
)]
pub trait Expiry {
    /// The time; `None` for never.
    fn expires_at(&self) -> Option<DateTime>;
}

impl Expiry for DateTime {
    fn expires_at(&self) -> Option<DateTime> {
        Some(*self)
    }
}

impl Expiry for chrono::DateTime<chrono::Utc> {
    /// A time that cannot be stored is outside of the years 1601 to 9999; writing it fails.
    fn expires_at(&self) -> Option<DateTime> {
        DateTime::try_from(*self).ok()
    }
}

impl<T: Expiry> Expiry for Option<T> {
    fn expires_at(&self) -> Option<DateTime> {
        self.as_ref().and_then(T::expires_at)
    }
}
