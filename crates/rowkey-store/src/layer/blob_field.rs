//! Fields in blobs: the row stores a pointer to the blob, with the length and digest of its content.
//!
//! | when | what |
//! |---|---|
//! | the plan is made | a new value gets a new blob, with a name unique to the operation; an unchanged value keeps its blob |
//! | before the message | the blobs are uploaded; their metadata names the op row |
//! | the commit | the head names them: `Invoice_Blob` for `Invoice`. Copies name none |
//! | the last settle | the blobs that the head no longer names are deleted |
//!
//! If the field is also encrypted, each of its blobs has its own key. The head stores the key under the name
//! of the property, sealed like every encrypted property. The pointer holds the length and digest of the
//! encrypted content. A rewrite, and so a re-encryption, seals the key again and keeps the blob.
//!
//! A blob that a head no longer names is never named again, because each write of the head compares its ETag.
//! The sweep finds blobs that no head names because their write was never committed.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use async_trait::async_trait;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rowkey_client::edm::Value;
use rowkey_client::entity::BlobField;
use rowkey_client::{Blob, DynamicEntity, Entity, Error, ErrorKind, Result, Table};
use sha2::{Digest as _, Sha256};

use super::deciding::Deciding;
use super::seal::{Encrypted, Sealer};
use super::{Closing, Layer};
use crate::row::blob_pointer::{BlobPointer, COMPRESSED, Encoding, Kind, VERSION};
use crate::row::blobs::{Blobs, hexadecimal};
use crate::row::envelope::other_version;
use crate::row::{Closed, Keys, blob_pointer};

/// The fields of a type that are stored in blobs, each with its pointer property.
#[derive(Clone)]
pub(crate) struct BlobFields {
    pub(crate) blobs: Blobs,
    pub(crate) fields: &'static [BlobField],
    /// The type, as the prefix of its RowKeys.
    of: &'static str,
    /// The sealer, if one of the fields is encrypted.
    sealed: Option<(Arc<dyn Sealer>, Encrypted)>,
}

/// A blob that is uploaded before the commit.
pub(crate) struct Upload {
    pub(crate) property: &'static str,
    pub(crate) blob: Blob,
    pub(crate) content: bytes::Bytes,
    pub(crate) metadata: [(&'static str, String); 3],
}

impl BlobFields {
    pub(crate) fn of<E: Entity>(blobs: &Blobs, of: &'static str) -> Self {
        Self { blobs: blobs.clone(), fields: E::DECLARED.blobs, of, sealed: None }
    }

    /// Adds the sealer for the encrypted fields of the type.
    pub(crate) fn sealed_by<E: Entity>(self, sealer: Option<&Arc<dyn Sealer>>) -> Self {
        let both = self.fields.iter().any(|field| E::DECLARED.encrypted.contains(&field.property));
        let sealed =
            sealer.filter(|_| both).map(|sealer| (Arc::clone(sealer), Encrypted::of::<E>()));
        Self { sealed, ..self }
    }

    /// Whether the blob of an encrypted field was stored before the field was marked `encrypt`.
    pub(crate) fn is_in_plain<E: Entity>(row: &DynamicEntity) -> bool {
        E::DECLARED.blobs.iter().any(|field| {
            E::DECLARED.encrypted.contains(&field.property)
                && row.get(field.pointer).is_some()
                && row.get(field.property).is_none()
        })
    }

    /// Returns the blobs that a write frees: those that the head named before and no longer names.
    pub(crate) fn freed(
        fields: &'static [BlobField],
        before: Option<&Closed>,
        after: Option<&Closed>,
    ) -> Vec<String> {
        let named = |closed: Option<&Closed>| {
            let named = closed.map(|closed| blob_pointer::named(fields, &closed.row));
            named.unwrap_or_default().into_iter().map(|(_, blob)| blob).collect::<Vec<_>>()
        };
        let after = named(after);
        named(before).into_iter().filter(|blob| !after.contains(blob)).collect()
    }

    /// Returns the sealer of a field, if the field is encrypted.
    fn sealer(&self, property: &str) -> Option<&Arc<dyn Sealer>> {
        let (sealer, encrypted) = self.sealed.as_ref()?;
        encrypted.names.contains(&property).then_some(sealer)
    }

    /// Refuses a row in which another version of the program encrypted one of these fields.
    fn check(&self, sealed: &[String]) -> Result<()> {
        let is_sealed = |property: &str| sealed.iter().any(|sealed| sealed == property);
        match self.fields.iter().find(|field| is_sealed(field.property)) {
            Some(field) => Err(other_version(field.property, "encrypted it")),
            None => Ok(()),
        }
    }

    /// Takes the key of encrypted content out of an opened row. Fails if there is a blob without a key or
    /// a key without a blob, because only a program without keys writes those.
    fn key(
        sealer: &Arc<dyn Sealer>,
        row: &mut DynamicEntity,
        (property, pointer_name): (&str, &str),
        pointer: Option<&BlobPointer>,
    ) -> Result<Option<Vec<u8>>> {
        match (row.remove(property), pointer) {
            (Some(Value::Binary(key)), Some(_)) => Ok(Some(key)),
            (None, None) => Ok(None),
            (None, Some(_)) if sealer.accepts_plaintext() => Ok(None),
            _ => {
                let what = format!(
                    "`{property}` is encrypted and in a blob, and of its key and `{pointer_name}` \
                     one is missing: the entity was altered"
                );
                Err(Error::refused(ErrorKind::Decode, what))
            }
        }
    }

    /// Returns the stored entity, opened; `None` if no field is encrypted.
    async fn opened(
        &self,
        table: &Table,
        before: Option<&DynamicEntity>,
    ) -> Result<Option<DynamicEntity>> {
        let (Some((sealer, encrypted)), Some(before)) = (&self.sealed, before) else {
            return Ok(None);
        };
        let mut before = before.clone();
        sealer.open(table, &encrypted.opened(&before), &mut before).await?;
        Ok(Some(before))
    }

    async fn close_all(&self, closing: Closing<'_>, row: &mut DynamicEntity) -> Result<()> {
        let Closing { op, rewrites, uploads, before, table } = closing;
        let opened = self.opened(table, before).await?;
        for field in self.fields {
            let BlobField { property, pointer: pointer_name, .. } = field;
            let mut value = row.remove(property);
            let mut pointer = match before {
                Some(before) => BlobPointer::read(before, property, pointer_name).ok().flatten(),
                None => None,
            };
            let sealer = self.sealer(property);
            let key = match opened.as_ref().filter(|_| sealer.is_some()) {
                Some(opened) => match opened.get(property) {
                    Some(Value::Binary(key)) => Some(key.clone()),
                    _ => None,
                },
                None => None,
            };
            if rewrites {
                // The entity is rewritten unchanged, and its blobs may not have been read.
                match pointer.take() {
                    Some(stored) if sealer.is_none() || key.is_some() => {
                        row.set(*pointer_name, stored.print()?);
                        if let Some(key) = key {
                            row.set(*property, key);
                        }
                        continue;
                    }
                    // The blob was stored before the field was encrypted.
                    Some(stored) => {
                        let names = (*property, *pointer_name);
                        value = Some(self.read(table, row, names, stored, None).await?);
                    }
                    // The value was stored in the row, before the field was marked `blob`.
                    None if before.is_some_and(|before| before.get(property).is_some()) => {}
                    None => continue,
                }
            }
            let Some(value) = value else { continue };
            let kind = match &value {
                Value::Binary(_) => Kind::Binary,
                Value::String(_) => Kind::String,
                _ => {
                    let what = format!(
                        "property `{property}` is neither Binary nor String, and only these are \
                         stored in blobs"
                    );
                    return Err(Error::refused(ErrorKind::Invalid, what)
                        .advise("remove `blob` from the field, or add `json`"));
                }
            };
            if field.threshold > 0 && bytes_in_row(&value) <= field.threshold {
                row.set(*property, value);
                continue;
            }
            let is_kept = match (sealer, &pointer) {
                (_, None) => false,
                (Some(sealer), Some(_)) => key.is_some_and(|key| {
                    let is_same = sealer.is_content(&key, &value);
                    if is_same {
                        row.set(*property, key);
                    }
                    is_same
                }),
                (None, Some(before)) => {
                    let bytes = bytes(&value);
                    (before.kind, before.length) == (kind, bytes.len() as u64)
                        && before.sha256 == hash(bytes)
                }
            };
            if let Some(before) = pointer.filter(|_| is_kept) {
                row.set(*pointer_name, before.print()?);
                continue;
            }
            let content = match sealer {
                Some(sealer) => {
                    let (content, key) = sealer.seal_content(row, property, &value)?;
                    row.set(*property, key);
                    content
                }
                None => into_bytes(value),
            };
            let (length, sha256) = (content.len() as u64, hash(&content));
            let (content, encoding) =
                if field.compress { compressed(content) } else { (content, None) };
            let op_row = op.row_key()?;
            let name = self.blobs.field_name(self.of, op.mark(), &row.row_key, property);
            uploads.push(Upload {
                property,
                blob: self.blobs.deciding().blob(&name),
                content: content.into(),
                metadata: Blobs::metadata(&row.partition_key, &row.row_key, &op_row),
            });
            let v = if encoding.is_some() { COMPRESSED } else { VERSION };
            let pointer = BlobPointer { v, blob: name, kind, length, sha256, encoding };
            row.set(*pointer_name, pointer.print()?);
        }
        Ok(())
    }

    /// Reads the content of a field and checks it against the pointer.
    async fn read(
        &self,
        table: &Table,
        row: &DynamicEntity,
        (property, pointer_name): (&str, &str),
        pointer: BlobPointer,
        key: Option<&[u8]>,
    ) -> Result<Value> {
        let mut content = self.blobs.container().blob(&pointer.blob).get().await?;
        if content.is_none() {
            // The secondary may not have it yet.
            content = self.blobs.deciding().blob(&pointer.blob).get().await?;
        }
        let Some(content) = content else {
            let keys: Keys = (row.partition_key.clone(), row.row_key.clone());
            let now = Deciding::new(table).row(&keys).await?;
            let is_named = now.is_some_and(|now| {
                let pointers = blob_pointer::named(self.fields, &now.entity);
                pointers.iter().any(|(_, blob)| *blob == pointer.blob)
            });
            if !is_named {
                return Err(changed());
            }
            let what = format!("the blob of property `{property}` in `{pointer_name}` is missing");
            let error = Error::refused(ErrorKind::Damaged, what);
            return Err(error.advise("restore the blob, or delete the entity and insert it again"));
        };
        let bytes = match pointer.encoding {
            None => Some(content.bytes.to_vec()),
            Some(Encoding::Gzip) => decompressed(&content.bytes, pointer.length),
        };
        let bytes = bytes.unwrap_or_default();
        let is_whole = bytes.len() as u64 == pointer.length && hash(&bytes) == pointer.sha256;
        if let (Some(key), Some(sealer), true) = (key, self.sealer(property), is_whole) {
            return sealer.open_content(row, property, key, &bytes);
        }
        let value = match pointer.kind {
            Kind::Binary => Some(Value::Binary(bytes)),
            Kind::String => String::from_utf8(bytes).ok().map(Value::String),
        };
        value.filter(|_| is_whole).ok_or_else(|| {
            let what = format!(
                "the blob of property `{property}` does not match `{pointer_name}`: length or \
                 SHA-256 differ"
            );
            Error::refused(ErrorKind::Damaged, what).advise(
                "read it again; if that does not help, another program wrote to the blob: restore it, or \
                 delete the entity and insert it again",
            )
        })
    }
}

#[async_trait]
impl Layer for BlobFields {
    async fn close(&self, closing: Closing<'_>, row: &mut DynamicEntity) -> Result<()> {
        self.close_all(closing, row).await
    }

    async fn open(
        &self,
        table: &Table,
        row: &mut DynamicEntity,
        sealed: &mut Vec<String>,
    ) -> Result<()> {
        self.check(sealed)?;
        for BlobField { property, pointer: pointer_name, .. } in self.fields {
            let pointer = BlobPointer::read(row, property, pointer_name)?;
            row.remove(pointer_name);
            let key = match self.sealer(property) {
                Some(sealer) => Self::key(sealer, row, (property, pointer_name), pointer.as_ref())?,
                None => None,
            };
            if let Some(pointer) = pointer {
                let field = (*property, *pointer_name);
                let read = self.read(table, row, field, pointer, key.as_deref()).await;
                let value = read.map_err(|error| error.of("Get", table.name()))?;
                row.set(*property, value);
            }
        }
        Ok(())
    }

    fn pass_over(&self, row: &mut DynamicEntity, sealed: &[String]) -> Result<()> {
        self.check(sealed)?;
        for BlobField { property, pointer: pointer_name, .. } in self.fields {
            let pointer = row.remove(pointer_name);
            if self.sealer(property).is_some()
                && row.remove(property).is_some()
                && pointer.is_none()
            {
                return Err(other_version(property, "stored it in the row"));
            }
        }
        Ok(())
    }

    fn decides(&self) -> bool {
        false
    }

    fn not_copied(&self) -> Vec<&'static str> {
        // The property has the key of an encrypted blob, or a small value.
        let values = self
            .fields
            .iter()
            .filter(|field| field.threshold > 0 || self.sealer(field.property).is_some());
        let values = values.map(|field| field.property);
        self.fields.iter().map(|field| field.pointer).chain(values).collect()
    }
}

/// Returns the error of an entity that changed since its row was read, so that its blob was
/// deleted.
fn changed() -> Error {
    Error::refused(ErrorKind::Conflict, "the entity was changed each time while it was read")
        .advise("try again later")
}

/// The bytes of a Binary or a String.
fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::Binary(bytes) => bytes,
        Value::String(text) => text.as_bytes(),
        _ => &[],
    }
}

fn into_bytes(value: Value) -> Vec<u8> {
    match value {
        Value::Binary(bytes) => bytes,
        Value::String(text) => text.into_bytes(),
        _ => Vec::new(),
    }
}

/// The size of a value in a row, as the service counts it: two bytes for each UTF-16 unit of a String.
fn bytes_in_row(value: &Value) -> usize {
    match value {
        Value::String(text) => 2 * text.encode_utf16().count(),
        value => bytes(value).len(),
    }
}

/// The content in gzip, if that is shorter.
fn compressed(content: Vec<u8>) -> (Vec<u8>, Option<Encoding>) {
    let mut encoder = GzEncoder::new(Vec::with_capacity(content.len() / 2), Compression::default());
    // Writing to memory does not fail.
    match encoder.write_all(&content).and_then(|()| encoder.finish()) {
        Ok(written) if written.len() < content.len() => (written, Some(Encoding::Gzip)),
        _ => (content, None),
    }
}

/// The content of a compressed blob; `None` if it is damaged. One that is longer than `length` is not decompressed to its
/// end.
fn decompressed(stored: &[u8], length: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let read = GzDecoder::new(stored).take(length.saturating_add(1)).read_to_end(&mut content);
    read.ok().map(|_| content)
}

fn hash(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_compressed_if_that_is_shorter_and_a_bomb_is_not_unpacked() {
        assert!(compressed(b"abc".to_vec()).1.is_none());
        let (stored, encoding) = compressed(vec![7; 4096]);
        assert!(encoding.is_some() && stored.len() < 100);
        assert_eq!(decompressed(&stored, 4096).unwrap(), [7; 4096]);
        assert!(decompressed(&stored[..stored.len() - 9], 4096).is_none());
        let (bomb, _) = compressed(vec![0; 8 << 20]);
        assert_eq!(decompressed(&bomb, 10).unwrap().len(), 11);
    }
}
