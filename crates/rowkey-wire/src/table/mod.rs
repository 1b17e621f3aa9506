//! Formats of the Table service that client and server share.
//!
//! - [`name`]: rules for names of tables
//! - [`render`]: tables as the service writes them
//! - [`token`]: continuation tokens

pub mod name;
pub mod render;
pub mod token;
