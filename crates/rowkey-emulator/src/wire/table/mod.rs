//! The Table service's formats: parses requests into [operations](crate::op), and renders parts of responses.
//!
//! | module | contents |
//! |---|---|
//! | [`parse`] | requests to operations, or to the service's errors |
//! | [`batch`] | entity group transactions |
//! | [`location`] | addresses of tables and entities |
//! | [`render`] | tables; entities are rendered by `rowkey_wire::odata` |
//! | [`token`] | continuation tokens |

pub(crate) mod batch;
pub(crate) mod location;
pub(crate) mod parse;
pub(crate) mod render;
pub(crate) mod token;
