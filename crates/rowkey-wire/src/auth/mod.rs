//! How requests are authorized: strings to sign, signatures, shared access signatures.
//!
//! - [`mac`]: [`SigningKey`], the account key that signs and verifies
//! - [`string_to_sign`](mod@string_to_sign): what Shared Key signs, and the `Authorization` header
//! - `header_order`: the order of the headers that it signs
//! - [`delegation`]: the keys that tokens get, to sign with
//! - [`sas`]: shared access signatures as a request's query carries them
//!
//! Whether a request is *allowed* (expiry, permissions, clock skew) is the server's business.
//!
//! Reference: [Authorize with Shared Key](https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key).

pub mod delegation;
mod header_order;
pub mod mac;
pub mod sas;
pub mod string_to_sign;

#[cfg(test)]
mod tests;

pub use mac::{InvalidKey, SIGNATURE_LEN, SigningKey};
pub use sas::Sas;
pub use string_to_sign::{
    Authorization, Scheme, Service, Unsigned, authorization, parse_authorization, string_to_sign,
};
