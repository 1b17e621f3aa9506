//! The XML documents of the storage services, both halves.
//!
//! | document | client | server |
//! |---|---|---|
//! | stored access policies | [`encode_acl`], [`decode_acl`] | [`parse_acl`], [`render_acl`] |
//! | service properties | [`encode_properties`], [`decode_properties`] | [`parse_properties`], [`render_properties`] |
//! | replication statistics | `rowkey` | [`render_stats`] |
//!
//! All are read into a small tree, [`Element`], and written by a small [`Writer`].
//!
//! Decoding takes what it knows and ignores the rest, as a client must that outlives a service
//! version. Parsing refuses what the service refuses, with `InvalidXmlDocument`.

mod acl;
mod element;
mod properties;
mod stats;

#[cfg(test)]
mod tests;

pub use acl::{SignedIdentifier, decode_acl, encode_acl, parse_acl, render_acl};
pub use element::{Element, Writer, XmlError, can_hold, push_escaped};
pub use properties::{
    CorsRule, Logging, Metrics, ServiceProperties, StaticWebsite, decode_properties,
    encode_properties, parse_properties, render_properties,
};
pub use stats::{GeoStatus, ServiceStats, render_stats};
