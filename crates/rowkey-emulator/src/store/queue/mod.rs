//! Queues and their messages.
//!
//! | module | what is in it |
//! |---|---|
//! | [`account`] | [`Queues`]: an account's queues by name, their life and death, its properties |
//! | [`messages`] | [`Queue`]: messages in order, who holds them, when they cease to be |

pub(crate) mod account;
pub(crate) mod messages;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub(crate) use account::Queues;
pub(crate) use messages::{Message, Queue};
