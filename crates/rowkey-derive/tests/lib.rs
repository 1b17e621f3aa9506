//! The examples in the documentation of `rowkey-derive`; see `build.rs`.

#[cfg(doctest)]
#[doc = include_str!(concat!(env!("OUT_DIR"), "/derives.md"))]
pub mod derives {}
