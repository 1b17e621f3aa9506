//! HTTP: from a socket to a request that is answered.
//!
//! | module | contents |
//! |---|---|
//! | [`listener`] | the accept loops, and the threads that serve connections |
//! | [`connection`] | one connection: from bytes to requests and back |
//! | `tokens` | a connection to the authority, with the feature `oauth` |
//! | [`spelling`] | the case of the names of metadata, which the HTTP library drops |
//! | [`answer`] | the steps that all requests have in common |
//! | [`redact`] | addresses as the log shows them |

pub(crate) mod answer;
pub(crate) mod connection;
pub(crate) mod listener;
mod redact;
mod spelling;
#[cfg(feature = "oauth")]
mod tokens;
