//! The client's half of entities as JSON.
//!
//! - [`encode`]: an entity as the body of a request
//! - [`decode`]: entities and names of tables out of the bodies of responses

pub(crate) mod decode;
pub(crate) mod encode;
