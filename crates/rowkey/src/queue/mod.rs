//! Queues: messages, the queues themselves, and what the Queue service says of itself.
//!
//! - [`handle`]: [`Queue`], made, described, emptied and deleted
//! - [`messages`]: putting, receiving, peeking at, updating and deleting messages
//! - [`message`]: [`Message`], [`Peeked`], and [`Body`], how a message's text is written
//! - [`reference`](mod@reference): [`MessageRef`], a message by its id and pop receipt
//! - [`service`]: [`QueueService`], the account's queues, properties and statistics

pub mod handle;
pub mod message;
pub mod messages;
pub mod reference;
pub mod service;
pub(crate) mod wire;

pub use handle::Queue;
pub use message::{Body, Message, Peeked};
pub use messages::{Put, Update};
pub use reference::MessageRef;
pub use service::{QueueItem, QueueService, Queues};
