//! Queues and their messages.
//!
//! | module | contents |
//! |---|---|
//! | [`account`] | [`Queues`]: an account's queues by name; creates and deletes them |
//! | [`messages`] | [`Queue`]: messages in order, their pop receipts and their expiry |

pub(crate) mod account;
pub(crate) mod messages;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub(crate) use account::Queues;
pub(crate) use messages::{Message, Queue};
