//! The XML documents of the storage services, both halves.
//!
//! | module | document | client | server |
//! |---|---|---|---|
//! | [`acl`] | stored access policies | [`encode_acl`], [`decode_acl`] | [`parse_acl`], [`render_acl`] |
//! | [`properties`] | service properties | [`encode_properties`], [`decode_properties`] | [`parse_properties`], [`render_properties`] |
//! | [`stats`] | replication statistics | [`decode_stats`] | [`render_stats`] |
//! | [`element`] | what they share: a small tree, a small writer | | |
//!
//! Decoding takes what it knows and ignores the rest, as a client must that outlives a service
//! version. Parsing refuses what the service refuses, with `InvalidXmlDocument`.

pub mod acl;
pub mod element;
pub mod properties;
pub mod stats;

#[cfg(test)]
mod tests;

pub use acl::{SignedIdentifier, decode_acl, encode_acl, parse_acl, render_acl};
pub use element::{Element, Writer, XmlError};
pub use properties::{
    CorsRule, Logging, Metrics, ServiceProperties, decode_properties, encode_properties,
    parse_properties, render_properties,
};
pub use stats::{GeoStatus, ServiceStats, decode_stats, render_stats};
