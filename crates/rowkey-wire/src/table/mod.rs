//! The operations of the Table service.
//!
//! - [`name`]: which names a table may have
//! - [`render`]: tables as the service writes them
//! - [`token`]: continuation tokens

pub mod name;
pub mod render;
pub mod token;
