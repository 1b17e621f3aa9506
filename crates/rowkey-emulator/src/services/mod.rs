//! The services: they turn requests into operations on the store, and results into responses.
//!
//! | module | contents |
//! |---|---|
//! | [`table`], [`queue`], [`blob`] | one service each |
//! | [`delegation`] | user delegation keys, of any service |

pub(crate) mod blob;
pub(crate) mod delegation;
pub(crate) mod queue;
pub(crate) mod table;
