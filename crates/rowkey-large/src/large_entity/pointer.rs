//! What a row holds in the place of a property that is in a blob, and how that blob is named. Both
//! are a format that is stored: what is here must stay readable.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowkey::edm::Value;
use rowkey::{DynamicEntity, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::name::{hexadecimal, unused};

/// Ends the name of the property that stands for another: `Image_Blob`.
pub(super) const SUFFIX: &str = "_Blob";

/// The metadata of a blob that name its row, in base64.
const PARTITION_KEY: &str = "partitionkey";
const ROW_KEY: &str = "rowkey";

/// Where the value of a property is, and what it must be. Stored as JSON in a String property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pointer {
    /// The blob's name.
    pub(super) blob: String,
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    /// Bytes of the value; of its UTF-8 if it is a String.
    pub(super) length: u64,
    /// Of the value, in lower-case hexadecimal.
    pub(super) sha256: String,
    /// How the blob's bytes differ from the value's; left out if they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) encoding: Option<Encoding>,
}

/// What sort of property it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    #[serde(rename = "Edm.Binary")]
    Binary,
    #[serde(rename = "Edm.String")]
    String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Encoding {
    #[serde(rename = "gzip")]
    Gzip,
}

impl Pointer {
    /// The property of a row that stands for `property`.
    pub(super) fn name(property: &str) -> String {
        format!("{property}{SUFFIX}")
    }

    pub(super) fn print(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|_| Error::refused(ErrorKind::Invalid, "the pointer cannot be written"))
    }

    /// The pointer of a property in a row, if there is one.
    pub(super) fn of(row: &DynamicEntity, property: &str) -> Result<Option<Self>> {
        row.get(&Self::name(property)).map(|value| Self::parse(property, value)).transpose()
    }

    /// All pointers of a row, with the properties that they stand for.
    pub(super) fn all(row: &DynamicEntity) -> Result<Vec<(&str, Self)>> {
        let pointers = row.iter().filter_map(|(name, value)| {
            let property = name.strip_suffix(SUFFIX)?;
            Some(Self::parse(property, value).map(|pointer| (property, pointer)))
        });
        pointers.collect()
    }

    fn parse(property: &str, value: &Value) -> Result<Self> {
        let pointer = match value {
            Value::String(text) => serde_json::from_str(text).ok(),
            _ => None,
        };
        pointer.ok_or_else(|| {
            let what = format!("property `{property}{SUFFIX}` does not say where a blob is");
            Error::refused(ErrorKind::Decode, what)
                .advise("something that knows nothing of large entities wrote it")
        })
    }

    /// Whether this is where a value with these bytes is.
    pub(super) fn holds(&self, kind: Kind, bytes: &[u8]) -> bool {
        self.kind == kind && self.length == bytes.len() as u64 && self.sha256 == hash(bytes)
    }
}

/// A value that may be in a blob, as bytes.
pub(super) fn bytes_of(value: &Value) -> Option<(Kind, &[u8])> {
    match value {
        Value::Binary(bytes) => Some((Kind::Binary, bytes)),
        Value::String(text) => Some((Kind::String, text.as_bytes())),
        _ => None,
    }
}

impl Kind {
    /// The value with these bytes; `None` if it has none.
    pub(super) fn value(self, bytes: Vec<u8>) -> Option<Value> {
        match self {
            Self::Binary => Some(Value::Binary(bytes)),
            Self::String => String::from_utf8(bytes).ok().map(Value::String),
        }
    }
}

/// SHA-256 in hexadecimal.
pub(super) fn hash(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// What the names of all blobs of a table begin with. Names of tables have no case.
pub(super) fn prefix(table: &str) -> String {
    format!("{}/", table.to_lowercase())
}

/// A name that no blob ever had: that of the row, of the property, and 16 random bytes. So that a
/// blob is written once, and its name, once it is free, never means anything else.
pub(super) fn new_name(table: &str, row: &DynamicEntity, property: &str) -> Result<String> {
    let keys = Sha256::new()
        .chain_update(&row.partition_key)
        // What no key contains, so that no two rows are one.
        .chain_update(b"/")
        .chain_update(&row.row_key)
        .finalize();
    Ok(format!("{}{}/{property}/{}", prefix(table), hexadecimal(&keys[..16]), unused()?))
}

/// The metadata of a blob of this row.
pub(super) fn metadata(row: &DynamicEntity) -> [(&'static str, String); 2] {
    [(PARTITION_KEY, STANDARD.encode(&row.partition_key)), (ROW_KEY, STANDARD.encode(&row.row_key))]
}

/// The keys of the row that a blob with this metadata belongs to.
pub(super) fn row_of<'a>(
    metadata: impl Iterator<Item = (&'a String, &'a String)>,
) -> Option<(String, String)> {
    let (mut partition_key, mut row_key) = (None, None);
    for (name, value) in metadata {
        let text = || String::from_utf8(STANDARD.decode(value).ok()?).ok();
        if name.eq_ignore_ascii_case(PARTITION_KEY) {
            partition_key = text();
        } else if name.eq_ignore_ascii_case(ROW_KEY) {
            row_key = text();
        }
    }
    Some((partition_key?, row_key?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_stored_by_this_version_must_stay_readable() {
        let mut row = DynamicEntity::new("p", "r");
        let text = concat!(
            r#"{"blob":"photos/6ee6/Image/00ff","type":"Edm.Binary","length":3,"#,
            r#""sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","#,
            r#""encoding":"gzip"}"#
        );
        row.set("Image_Blob", text);
        let pointer = Pointer::of(&row, "Image").unwrap().unwrap();
        assert!(pointer.holds(Kind::Binary, b"abc") && !pointer.holds(Kind::String, b"abc"));
        assert_eq!(pointer.print().unwrap(), text);
        let plain = Pointer { encoding: None, ..pointer };
        assert!(plain.print().unwrap().ends_with("15ad\"}"));
    }

    #[test]
    fn a_blob_names_its_row() {
        let row = DynamicEntity::new("Größe", "id_000007");
        let name = new_name("Photos", &row, "Image").unwrap();
        let parts: Vec<_> = name.split('/').collect();
        assert_eq!(
            (parts[0], parts[1].len(), parts[2], parts[3].len()),
            ("photos", 32, "Image", 32)
        );
        assert_ne!(name, new_name("Photos", &row, "Image").unwrap());
        let metadata: std::collections::BTreeMap<_, _> =
            metadata(&row).map(|(name, value)| (name.to_owned(), value)).into();
        let keys = row_of(metadata.iter()).unwrap();
        assert_eq!(keys, ("Größe".to_owned(), "id_000007".to_owned()));
    }

    #[test]
    fn the_longest_keys_fit_into_the_metadata() {
        let longest = "\u{ffee}".repeat(512);
        let metadata = metadata(&DynamicEntity::new(longest.clone(), longest));
        let size: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(size <= 8 * 1024, "{size}");
    }

    #[test]
    fn what_is_no_pointer_is_refused_without_showing_it() {
        let mut row = DynamicEntity::new("p", "r");
        row.set("Image_Blob", "secret");
        let error = Pointer::of(&row, "Image").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(!error.to_string().contains("secret"));
    }
}
