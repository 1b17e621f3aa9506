//! The Table service's formats: parses requests into operations, and renders parts of responses.
//!
//! | module | contents |
//! |---|---|
//! | [`op`] | [`Op`](op::Op): the operations, as a closed set |
//! | [`parse`] | requests to operations, or to the service's errors |
//! | [`batch`] | entity group transactions |
//! | [`entity`] | entities in request bodies, with the service's checks |
//! | [`location`] | addresses of tables and entities |
//! | [`render`] | tables; entities are rendered by `rowkey_wire::odata` |
//! | [`token`] | continuation tokens |

pub(crate) mod batch;
pub(crate) mod entity;
pub(crate) mod location;
pub(crate) mod op;
pub(crate) mod parse;
pub(crate) mod render;
pub(crate) mod token;
