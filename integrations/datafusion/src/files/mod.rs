//! Files as tables, and files that statements write.
//!
//! - `paths`: files by their paths · `sink`: files are written whole or not at all · `staged`: what is written, until all of it is

mod paths;
mod sink;
mod staged;

pub(crate) use paths::Paths;
pub(crate) use sink::StagedFiles;
