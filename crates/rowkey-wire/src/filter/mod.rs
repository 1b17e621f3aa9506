//! The `$filter` language of the Table service.
//!
//! - [`ast`]: the tree, which both halves share
//! - [`print`](mod@print): tree to text (the client's half)
//! - [`lex`], [`parse`](mod@parse): text to tree (the server's half)
//!
//! Reference: [Querying tables and entities](https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities).

pub mod ast;
pub mod lex;
pub mod parse;
pub mod print;

#[cfg(test)]
mod tests;

pub use ast::{Comparison, Filter, Operator};
pub use parse::{ErrorKind, ParseError, Unsupported, parse};
pub use print::print;
