//! Queues and their messages.
//!
//! - `handle`: [`Queue`], to create, describe and delete it
//! - `messages`: put, receive, peek, update and delete messages, and clear the queue
//! - `message`: [`Message`], [`Peeked`], and [`Body`], the encoding of a message's text
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
