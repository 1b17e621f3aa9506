//! Serializes bytes as base64 text with serde, which by default writes a list of numbers.
//!
//! For `#[serde(with = "rowkey::edm::base64")]` on a field of `Vec<u8>`, `bytes::Bytes` or a
//! similar type.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Deserializer;
use serde::ser::Serializer;

use crate::serial;

/// Writes base64 with padding; bytes in binary formats.
pub fn serialize<T: AsRef<[u8]>, S: Serializer>(
    bytes: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        serializer.serialize_str(&STANDARD.encode(bytes))
    } else {
        serial::bytes::serialize(bytes.as_ref(), serializer)
    }
}

/// Reads the output of [`serialize`]. The error for anything else does not contain it.
pub fn deserialize<'de, T: From<Vec<u8>>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    if !deserializer.is_human_readable() {
        return serial::bytes::deserialize(deserializer).map(|bytes| bytes.into_owned().into());
    }
    let read = |text: Cow<'_, str>| STANDARD.decode(&*text).ok();
    let text = serial::Text { expected: "bytes as base64 with padding", read };
    serial::read(deserializer, text).map(T::from)
}

#[cfg(test)]
mod tests {
    #[derive(Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    struct Photo {
        #[serde(with = "super")]
        bytes: Vec<u8>,
    }

    #[test]
    fn bytes_are_base64_and_come_back() {
        for (bytes, json) in
            [(b"binary".to_vec(), r#"{"bytes":"YmluYXJ5"}"#), (vec![], r#"{"bytes":""}"#)]
        {
            let photo = Photo { bytes };
            assert_eq!(serde_json::to_string(&photo).unwrap(), json);
            assert_eq!(serde_json::from_str::<Photo>(json).unwrap(), photo);
            let stored = postcard::to_stdvec(&photo).unwrap();
            assert_eq!(stored.len(), photo.bytes.len() + 1);
            assert_eq!(postcard::from_bytes::<Photo>(&stored).unwrap(), photo);
        }
        for json in [r#"{"bytes":"secret"}"#, r#"{"bytes":[1987654321]}"#] {
            let error = serde_json::from_str::<Photo>(json).unwrap_err().to_string();
            assert!(error.starts_with("expected bytes as base64 with padding"), "{error}");
        }
    }
}
