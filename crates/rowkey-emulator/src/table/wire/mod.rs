//! The Table service's half of the wire: requests to operations, and what the answers hold.
//!
//! | module | what is in it |
//! |---|---|
//! | [`op`] | [`Op`](op::Op): the closed set of operations |
//! | [`parse`] | a request to an operation, or the rejection that the service would give |
//! | [`batch`] | entity group transactions |
//! | [`entity`] | an entity out of a request's body, with the service's checks |
//! | [`location`] | addresses of tables and entities |

pub(crate) mod batch;
pub(crate) mod entity;
pub(crate) mod location;
pub(crate) mod op;
pub(crate) mod parse;
