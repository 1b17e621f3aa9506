//! The XML documents of the storage services, for client and server.
//!
//! | document | client | server |
//! |---|---|---|
//! | stored access policies | [`encode_acl`], [`decode_acl`] | [`parse_acl`], [`render_acl`] |
//! | service properties | [`encode_properties`], [`decode_properties`] | [`parse_properties`], [`render_properties`] |
//! | replication statistics | [`decode_stats`] | [`render_stats`] |
//!
//! All are parsed into a small tree, [`Element`], and written by a small [`Writer`].
//!
//! Decoding ignores unknown elements, so that a client works with later versions of the service.
//! Parsing rejects what the service rejects, with `InvalidXmlDocument`.

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
pub use stats::{GeoStatus, ServiceStats, decode_stats, render_stats};
