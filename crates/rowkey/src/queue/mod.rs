//! Queues: messages, and the queues themselves.
//!
//! - `handle`: [`Queue`], made, described, emptied and deleted
//! - `messages`: putting, receiving, peeking at, updating and deleting messages
//! - `message`: [`Message`], [`Peeked`], and [`Body`], how a message's text is written
//! - `reference`: [`MessageRef`], a message by its id and pop receipt
//! - `service`: the account's queues

pub(crate) mod handle;
mod message;
mod messages;
mod reference;
mod service;
pub(crate) mod wire;

pub(crate) use handle::Queue;
pub use message::{Body, Message, Peeked};
pub use messages::{Put, Update};
pub use reference::MessageRef;
pub use service::QueueItem;
