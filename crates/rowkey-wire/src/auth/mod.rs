//! How requests are authorized: strings to sign, signatures, shared access signatures.
//!
//! - [`SigningKey`]: the account key that signs and verifies
//! - [`string_to_sign`]: what Shared Key signs, in the order of `header_order`
//! - [`authorization`], [`parse_authorization`]: the `Authorization` header
//! - [`delegation`]: the keys that tokens get, to sign with
//! - [`Sas`]: a shared access signature as a request's query carries it
//!
//! Whether a request is *allowed* (expiry, permissions, clock skew) is the server's business.
//!
//! Reference: [Authorize with Shared Key](https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key).

pub mod delegation;
mod header_order;
mod mac;
mod sas;
mod string_to_sign;

#[cfg(test)]
mod tests;

pub use mac::{InvalidKey, SIGNATURE_LEN, SigningKey};
pub use sas::{Delegation, IpRange, PARTS, Protocols, Resource, Sas, UnsafePart, parse_time};
pub use string_to_sign::{
    Authorization, Scheme, Service, Unsigned, authorization, parse_authorization, string_to_sign,
};
