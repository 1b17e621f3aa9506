//! The metadata levels of JSON responses: none, minimal or full.

/// The metadata level of a JSON response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metadata {
    /// Types, links and entity tags of everything.
    Full,
    /// Types that JSON does not imply, and entity tags. The client requests this level.
    Minimal,
    /// Only names and values.
    None,
}

impl Metadata {
    /// The `Content-Type` of a response with this level, exactly as the service writes it.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
            Self::Minimal => "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
            Self::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
        }
    }
}
