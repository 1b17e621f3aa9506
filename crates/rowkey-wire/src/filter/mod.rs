//! The `$filter` language of the Table service.
//!
//! - [`Filter`]: the syntax tree
//! - [`print`](fn@print): tree to text
//! - [`parse`](fn@parse): text to tree
//!
//! Reference: [Querying tables and entities](https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities).

mod ast;
mod lex;
mod parse;
mod print;

#[cfg(test)]
mod tests;

pub use ast::{Comparison, Filter, Operator};
pub use parse::{ErrorKind, ParseError, Unsupported, parse};
pub use print::print;
