//! What a server does for ten minutes under everything at once, and beside long queries.
//!
//! - [`run`]: a thousand idle connections, busy ones and odd ones; what is measured, and the verdict
//! - [`work`]: the busy ones; [`odd`]: slow, half-closed, short-lived ones
//! - [`beside`]: point gets beside a client that reads a million entities
//! - [`requests`], [`socket`], [`figures`]: what is sent, how, and what is counted

pub mod beside;
pub(crate) mod figures;
pub(crate) mod odd;
pub(crate) mod requests;
pub mod run;
pub(crate) mod socket;
pub(crate) mod work;
