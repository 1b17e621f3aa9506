//! What a server does for ten minutes under everything at once, and beside long queries.
//!
//! - [`beside`]: point gets beside somebody who reads a million entities
//! - [`socket`]: connections for threads that block

pub mod beside;
pub(crate) mod socket;
