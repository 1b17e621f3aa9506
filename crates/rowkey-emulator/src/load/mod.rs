//! Data that a server gets other than by requests: seeds, and the data of Azurite.
//!
//! | module | contents |
//! |---|---|
//! | [`seed`] | [`Seed`]: tables, queues and blobs that a test or a person writes down |
//! | `azurite` | reads the files of Azurite, with the feature `durable` |

#[cfg(feature = "durable")]
pub(crate) mod azurite;
pub(crate) mod metadata;
pub(crate) mod seed;

pub use seed::{Seed, SeedError, Seeded};
