//! Plans for a cluster such as [Ballista](https://datafusion.apache.org/ballista): scans and writes of tables as messages.
//!
//! The client plans: it knows the columns of tables and their ranges of keys. [`TableCodec`] makes messages of the plan, with the names of
//! accounts and no credential. A scheduler divides it; it needs no account. Each executor gives the scans and writes of its part the
//! accounts of its own environment by [`resolve`].
//!
//! - `codec`: nodes of plans as messages · `messages`: their fields · `resolve`: accounts by name ·
//!   `pruning`: scans that wait for joins

mod codec;
mod messages;
pub(crate) mod pruning;
mod resolve;

pub use codec::TableCodec;
pub use pruning::{link, prepare};
use resolve::unresolved;
pub use resolve::{is_of_tables, resolve};
