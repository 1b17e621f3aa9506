//! The services: they turn requests into operations on the store, and results into responses.
//!
//! | module | contents |
//! |---|---|
//! | [`table`], [`queue`], [`blob`] | one service each |
//! | [`authorized`] | [`Authorized`](authorized::Authorized): what the operations of all services need |
//! | [`arrival`] | [`Arrival`](arrival::Arrival): what all steps of an answer share |
//! | [`delegation`] | user delegation keys, of any service |

pub(crate) mod arrival;
pub(crate) mod authorized;
pub(crate) mod blob;
pub(crate) mod delegation;
pub(crate) mod queue;
pub(crate) mod table;
