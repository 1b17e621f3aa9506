//! Files that statements write.
//!
//! - `sink`: files are written whole or not at all · `staged`: what is written, until all of it is

mod sink;
mod staged;

pub(crate) use sink::StagedFiles;
