//! Authorization of requests: strings to sign, signatures, shared access signatures.
//!
//! - [`SigningKey`]: the account key that signs and verifies
//! - [`string_to_sign`](fn@string_to_sign): the text that Shared Key signs, with headers in the
//!   order of `header_order`
//! - [`authorization`](fn@authorization): the `Authorization` header
//! - [`DelegationKey`]: user delegation keys, with which token holders sign
//! - [`Sas`]: a shared access signature in a request's query
//!
//! The server decides whether a request is *allowed* (expiry, permissions, clock skew).
//!
//! Reference: [Authorize with Shared Key](https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key).

mod delegation;
mod header_order;
mod mac;
mod sas;
mod string_to_sign;

#[cfg(test)]
mod tests;

pub use delegation::{DelegationKey, KeyInfo};
pub use mac::{InvalidKey, SIGNATURE_LEN, SigningKey};
pub use sas::{Delegation, PARTS, Protocols, Resource, Sas, UnsafePart, parse_time};
pub use string_to_sign::{Scheme, Service, Unsigned, authorization, string_to_sign};
