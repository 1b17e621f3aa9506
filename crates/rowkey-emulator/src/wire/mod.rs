//! The formats: requests to operations, and results to the parts of responses. They know neither stored
//! data nor accounts.
//!
//! | module | contents |
//! |---|---|
//! | [`table`], [`queue`], [`blob`] | the formats of each service |
//! | [`options`] | decoded query strings and paths |
//! | [`error_body`] | the bodies of errors |

pub(crate) mod blob;
pub(crate) mod error_body;
pub(crate) mod options;
pub(crate) mod queue;
pub(crate) mod table;
