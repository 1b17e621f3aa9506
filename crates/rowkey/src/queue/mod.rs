//! Queues: messages, the queues themselves, and what the Queue service says of itself.
//!
//! - [`handle`]: [`Queue`], made, described, emptied and deleted
//! - [`messages`]: putting, receiving, peeking at, updating and deleting messages
//! - [`message`]: [`Message`], [`Peeked`], and [`Body`], how a message's text is written
//! - [`service`]: [`QueueService`], the account's queues, properties and statistics

pub mod handle;
pub mod message;
pub mod messages;
pub mod service;

pub use handle::Queue;
pub use message::{Body, Message, Peeked};
pub use messages::{Put, Update};
pub use service::{QueueItem, QueueService, Queues};
