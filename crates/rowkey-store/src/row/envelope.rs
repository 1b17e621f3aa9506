//! What every program sees of the encryption of a row.

use rowkey_client::{DynamicEntity, Error, ErrorKind};

use super::text;

/// The property that lists the sealed properties of a row.
pub(crate) const METADATA: &str = "_RowkeyEncryption";

/// The suffix that forms the name of a blind index from that of its property.
const INDEX_SUFFIX: &str = "_BlindIndex";

/// What a program without keys sees of the encryption of a row.
#[derive(Default)]
pub(crate) struct Envelope {
    /// The sealed properties.
    pub(crate) names: Vec<String>,
    /// Whether the other properties are signed.
    pub(crate) is_signed: bool,
}

impl Envelope {
    /// Reads the part of the metadata that is the same in all formats from 2 on.
    pub(crate) fn read(metadata: &str) -> Self {
        let parts: Vec<_> = metadata.split(' ').collect();
        let [_, _, _, _, names, signed] = *parts else { return Self::default() };
        let names = names.split(',').filter(|name| *name != "-").map(str::to_owned).collect();
        Self { names, is_signed: signed == "signed" }
    }

    /// The properties that a program without keys does not show and writes again: those that are sealed, their
    /// blind indexes, and the metadata.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let indexes = self.names.iter().map(|name| format!("{name}{INDEX_SUFFIX}"));
        self.names.iter().cloned().chain(indexes).chain([METADATA.to_owned()]).collect()
    }

    pub(crate) fn of(row: &DynamicEntity) -> Self {
        text(row, METADATA).map(Self::read).unwrap_or_default()
    }
}

/// Returns the error of a property that another version of the program sealed differently.
pub(crate) fn other_version(property: &str, what: &str) -> Error {
    let what = format!("property `{property}`: another version of the program {what}");
    Error::refused(ErrorKind::Decode, what)
        .advise("declare the field with the same `encrypt` and `blob` in all programs")
}
