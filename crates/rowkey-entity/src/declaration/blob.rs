//! Fields whose values are in blobs: `#[entity(blob)]`.

/// A field whose value is in a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobField {
    /// The property.
    pub property: &'static str,
    /// The property that holds the blob's location.
    pub pointer: &'static str,
    /// The largest value that stays in the row, in bytes as the service counts them; 0 for none.
    pub threshold: usize,
    /// Whether the content is compressed.
    pub compress: bool,
}
