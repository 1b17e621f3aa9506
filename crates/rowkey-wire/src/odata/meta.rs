//! How much metadata an answer carries: none, minimal or full.

/// The metadata level of a JSON answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metadata {
    /// Types, links and tags of everything.
    Full,
    /// Types where JSON does not tell them, and entity tags. What the client asks for.
    Minimal,
    /// Names and values alone.
    None,
}

impl Metadata {
    /// The value of `Accept` that asks for this level.
    pub const fn accept(self) -> &'static str {
        match self {
            Self::Full => "application/json;odata=fullmetadata",
            Self::Minimal => "application/json;odata=minimalmetadata",
            Self::None => "application/json;odata=nometadata",
        }
    }

    /// The `Content-Type` of an answer at this level, exactly as the service writes it.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
            Self::Minimal => "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
            Self::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
        }
    }
}
