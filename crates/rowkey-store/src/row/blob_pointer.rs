//! Pointers to blobs: what a row stores of a field that is in a blob.

use rowkey_client::edm::Value;
use rowkey_client::entity::BlobField;
use rowkey_client::{DynamicEntity, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::text;

pub(crate) const VERSION: u32 = 1;

/// The format of pointers to compressed blobs. Programs that cannot decompress them must not read them as plain ones.
pub(crate) const COMPRESSED: u32 = 2;

/// The location and the expected content of a property's blob.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct BlobPointer {
    pub(crate) v: u32,
    pub(crate) blob: String,
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    /// In bytes; for a String, of its UTF-8 text.
    pub(crate) length: u64,
    /// In lower-case hexadecimal.
    pub(crate) sha256: String,
    /// How the blob holds the content; absent for the content itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) encoding: Option<Encoding>,
}

/// The parts of a pointer that all formats have.
#[derive(Deserialize)]
struct Named {
    blob: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Encoding {
    #[serde(rename = "gzip")]
    Gzip,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    #[serde(rename = "Edm.Binary")]
    Binary,
    #[serde(rename = "Edm.String")]
    String,
}

/// Returns the blobs that a row names.
pub(crate) fn named(
    fields: &'static [BlobField],
    row: &DynamicEntity,
) -> Vec<(&'static str, String)> {
    let pointers = fields.iter().filter_map(|field| {
        // An invalid pointer names no blob, and one of a newer program names its blob.
        let named: Named = serde_json::from_str(text(row, field.pointer)?).ok()?;
        Some((field.property, named.blob))
    });
    pointers.collect()
}

/// Whether a row names a blob, in any property: other versions and kinds of the type have other fields.
pub(crate) fn is_named(row: &DynamicEntity, blob: &str) -> bool {
    row.iter().any(|(_, value)| {
        let Value::String(text) = value else { return false };
        serde_json::from_str::<Named>(text).is_ok_and(|named| named.blob == blob)
    })
}

/// Returns the name that the derive gives to the pointer of a field.
pub(crate) fn pointer_of(property: &str) -> String {
    format!("{property}_Blob")
}

/// Whether the row has the property, and a pointer to a blob of it.
pub(crate) fn is_in_blob(row: &DynamicEntity, property: &str) -> bool {
    let pointer = pointer_of(property);
    row.get(property).is_some() && matches!(BlobPointer::read(row, property, &pointer), Ok(Some(_)))
}

/// Decodes and encodes the pointer in the property `Image_Blob` of a row.
pub(crate) fn reread_pointer(row: &DynamicEntity) -> Result<DynamicEntity> {
    let what = "the row names no blob";
    let pointer = BlobPointer::read(row, "Image", "Image_Blob")?
        .ok_or_else(|| Error::refused(ErrorKind::Decode, what))?;
    let mut row = row.clone();
    row.set("Image_Blob", pointer.print()?);
    Ok(row)
}

impl BlobPointer {
    pub(crate) fn print(&self) -> Result<String> {
        let what = "the pointer to the blob cannot be written as JSON";
        serde_json::to_string(self).map_err(|_| Error::refused(ErrorKind::Invalid, what))
    }

    /// Reads the pointer of a property; `None` if the row has none.
    pub(crate) fn read(row: &DynamicEntity, property: &str, pointer: &str) -> Result<Option<Self>> {
        if row.get(pointer).is_none() {
            return Ok(None);
        }
        let read = text(row, pointer).and_then(|json| serde_json::from_str::<Self>(json).ok());
        let refused = |what: String| Err(Error::refused(ErrorKind::Decode, what));
        match read {
            Some(pointer) if (VERSION..=COMPRESSED).contains(&pointer.v) => Ok(Some(pointer)),
            Some(newer) => refused(format!(
                "`{pointer}` has format {}, and this program supports up to {COMPRESSED}; use a newer \
                 program",
                newer.v
            )),
            None => {
                refused(format!("`{pointer}`, which names the blob of `{property}`, is not valid"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[BlobField] =
        &[BlobField { property: "Image", pointer: "Image_Blob", threshold: 0, compress: false }];

    #[test]
    fn pointers_stored_by_this_version_must_stay_readable() {
        let plain =
            r#"{"v":1,"blob":"photos/blob_1","type":"Edm.Binary","length":3,"sha256":"ba78"}"#;
        let compressed =
            plain.replace("\"v\":1", "\"v\":2").replace('}', ",\"encoding\":\"gzip\"}");
        for text in [plain, &compressed] {
            let mut row = DynamicEntity::new("p", "r");
            row.set("Image_Blob", text);
            let pointer = BlobPointer::read(&row, "Image", "Image_Blob").unwrap().unwrap();
            assert_eq!(pointer.print().unwrap(), text);
            assert_eq!(named(FIELDS, &row), [("Image", "photos/blob_1".to_owned())]);
        }
    }

    #[test]
    fn an_invalid_pointer_is_rejected_without_being_shown() {
        for text in
            ["secret", r#"{"v":3,"blob":"secret","type":"Edm.Binary","length":3,"sha256":""}"#]
        {
            let mut row = DynamicEntity::new("p", "r");
            row.set("Image_Blob", text);
            let error = BlobPointer::read(&row, "Image", "Image_Blob").err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(!error.to_string().contains("secret"), "{error}");
            // The blob of a newer program is not taken for an orphan.
            assert_eq!(named(FIELDS, &row).len(), usize::from(text != "secret"));
        }
    }
}
