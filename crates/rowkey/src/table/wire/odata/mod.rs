//! The client's encoding of entities as JSON.
//!
//! - [`encode`]: an entity as the body of a request
//! - [`decode`]: entities and table names from the bodies of responses

pub(crate) mod decode;
pub(crate) mod encode;
