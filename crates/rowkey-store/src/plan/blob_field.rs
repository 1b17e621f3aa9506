//! Fields in blobs: in the row stands where the blob is, and what it must hold.
//!
//! | when | what |
//! |---|---|
//! | the plan is made | a new value gets a blob of its own, whose name no other operation uses; one that is the same keeps its blob |
//! | before the message | the blobs are uploaded; their metadata names the op row |
//! | the commit | the head names them: `Invoice_Blob` for `Invoice`. Copies name none |
//! | the last settle | the blobs that the head named before and does not name any more are deleted |
//!
//! A blob that a head does not name any more is never named again: each write of the head compares its
//! ETag. What no head names because its write was never committed is found by the sweep.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::edm::Value;
use rowkey::{Blob, DynamicEntity, Entity, Error, ErrorKind, Result, Table};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Change, Contribution, Contributor};
use crate::blobs::{Blobs, hexadecimal};
use crate::deciding::Deciding;
use crate::execute::settle::{Settled, Settling};
use crate::layer::{Closing, Layer};
use crate::row::{Closed, Keys, text};

/// The name of the contributor that frees blobs.
pub(crate) const NAME: &str = "fields in blobs";

const VERSION: u32 = 1;

/// The fields of a type that are in blobs, each with the property that says where.
#[derive(Clone)]
pub(crate) struct BlobFields {
    blobs: Blobs,
    fields: &'static [(&'static str, &'static str)],
    /// The type, by the text that its RowKeys begin with.
    of: &'static str,
}

/// A blob that is uploaded before the commit.
pub(crate) struct Upload {
    pub(crate) property: &'static str,
    pub(crate) blob: Blob,
    pub(crate) content: bytes::Bytes,
    pub(crate) metadata: [(&'static str, String); 3],
}

/// Where the value of a property is, and what it must be.
#[derive(Clone, Serialize, Deserialize)]
struct Pointer {
    v: u32,
    blob: String,
    #[serde(rename = "type")]
    kind: Kind,
    /// In bytes; of a String those of its UTF-8.
    length: u64,
    /// In lower-case hexadecimal.
    sha256: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "Edm.Binary")]
    Binary,
    #[serde(rename = "Edm.String")]
    String,
}

impl BlobFields {
    pub(crate) fn of<E: Entity>(blobs: &Blobs, of: &'static str) -> Self {
        Self { blobs: blobs.clone(), fields: E::BLOBS, of }
    }

    /// The blobs that a row names.
    pub(crate) fn named(
        fields: &'static [(&'static str, &'static str)],
        row: &DynamicEntity,
    ) -> Vec<(&'static str, String)> {
        let pointers = fields.iter().filter_map(|(property, pointer)| {
            // What is no pointer names nothing.
            Some((*property, Pointer::read(row, property, pointer).ok()??.blob))
        });
        pointers.collect()
    }

    /// The blobs that a write frees: those that the head names before and not after it.
    pub(crate) fn freed(
        fields: &'static [(&'static str, &'static str)],
        before: Option<&Closed>,
        after: Option<&Closed>,
    ) -> Vec<String> {
        let named = |closed: Option<&Closed>| {
            let named = closed.map(|closed| Self::named(fields, &closed.row));
            named.unwrap_or_default().into_iter().map(|(_, blob)| blob).collect::<Vec<_>>()
        };
        let after = named(after);
        named(before).into_iter().filter(|blob| !after.contains(blob)).collect()
    }

    /// Reads the content of a field, which must be what the row says.
    async fn read(
        &self,
        table: &Table,
        row: &DynamicEntity,
        (property, pointer_name): (&str, &str),
        pointer: Pointer,
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
                let pointers = Self::named(self.fields, &now.entity);
                pointers.iter().any(|(_, blob)| *blob == pointer.blob)
            });
            if !is_named {
                return Err(changed());
            }
            let what = format!(
                "the blob of property `{property}` is not there, and `{pointer_name}` names it"
            );
            let error = Error::refused(ErrorKind::Damaged, what);
            return Err(error.advise("restore the blob, or write or delete the entity"));
        };
        let bytes = content.bytes.to_vec();
        let is_whole = bytes.len() as u64 == pointer.length && hash(&bytes) == pointer.sha256;
        let value = match pointer.kind {
            Kind::Binary => Some(Value::Binary(bytes)),
            Kind::String => String::from_utf8(bytes).ok().map(Value::String),
        };
        value.filter(|_| is_whole).ok_or_else(|| {
            let what = format!(
                "the blob of property `{property}` is not what was written: its length or its \
                 SHA-256 is not the one in `{pointer_name}`"
            );
            Error::refused(ErrorKind::Damaged, what)
                .advise("read it again; if that does not help, another program wrote to the blob")
        })
    }
}

impl Layer for BlobFields {
    fn close<'a>(
        &'a self,
        closing: Closing<'a>,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        let close = || {
            let Closing { plan, before, .. } = closing;
            for (property, pointer_name) in self.fields {
                let value = row.remove(property);
                let before = match before {
                    Some(before) => Pointer::read(before, property, pointer_name).ok().flatten(),
                    None => None,
                };
                if plan.rewrites {
                    // The entity is written again as it is, and its blobs need not have been read.
                    if let Some(before) = before {
                        row.set(*pointer_name, before.print()?);
                    }
                    continue;
                }
                let (kind, content) = match value {
                    None => continue,
                    Some(Value::Binary(bytes)) => (Kind::Binary, bytes),
                    Some(Value::String(text)) => (Kind::String, text.into_bytes()),
                    Some(_) => {
                        let what = format!(
                            "property `{property}` is neither Binary nor String, and only these are \
                             stored in blobs"
                        );
                        return Err(Error::refused(ErrorKind::Invalid, what)
                            .advise("remove `blob` from the field, or add `json`"));
                    }
                };
                let sha256 = hash(&content);
                let length = content.len() as u64;
                let is_same = |before: &Pointer| {
                    (before.kind, before.length, &before.sha256) == (kind, length, &sha256)
                };
                if let Some(before) = before.filter(is_same) {
                    row.set(*pointer_name, before.print()?);
                    continue;
                }
                let op = plan.op.row_key()?;
                let name = self.blobs.field_name(self.of, plan.op.mark(), &row.row_key, property);
                plan.uploads.push(Upload {
                    property,
                    blob: self.blobs.deciding().blob(&name),
                    content: content.into(),
                    metadata: Blobs::metadata(&row.partition_key, &row.row_key, &op),
                });
                let pointer = Pointer { v: VERSION, blob: name, kind, length, sha256 };
                row.set(*pointer_name, pointer.print()?);
            }
            Ok(())
        };
        std::future::ready(close()).boxed()
    }

    fn open<'a>(
        &'a self,
        table: &'a Table,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            for (property, pointer_name) in self.fields {
                let pointer = Pointer::read(row, property, pointer_name)?;
                row.remove(pointer_name);
                if let Some(pointer) = pointer {
                    let read = self.read(table, row, (property, pointer_name), pointer).await;
                    let value = read.map_err(|error| error.of("Get", table.name()))?;
                    row.set(*property, value);
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn decides(&self) -> bool {
        false
    }

    fn not_copied(&self) -> Vec<&'static str> {
        self.fields.iter().map(|(_, pointer)| *pointer).collect()
    }
}

impl<E: Entity + Send + Sync + 'static> Contributor<E> for BlobFields {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operations(&self) -> usize {
        0
    }

    fn contribute(&self, _: Change<'_, E>, _: &mut Contribution<'_>) -> Result<()> {
        // The store names the targets, after those of all contributors: see `Store::add`.
        Ok(())
    }

    fn settle<'a>(
        &'a self,
        settling: &'a Settling<E>,
        address: &'a str,
    ) -> BoxFuture<'a, Result<Settled>> {
        async move {
            let head = settling.table().row(settling.keys()).await?;
            let is_named = head.is_some_and(|head| {
                Self::named(self.fields, &head.entity).iter().any(|(_, blob)| blob == address)
            });
            if !is_named {
                // Late or repeated, it deletes what no head will ever name.
                self.blobs.deciding().blob(address).delete_if_exists().await?;
            }
            Ok(Settled::Done)
        }
        .boxed()
    }
}

impl Pointer {
    fn print(&self) -> Result<String> {
        let what = "where the blob is cannot be written as JSON";
        serde_json::to_string(self).map_err(|_| Error::refused(ErrorKind::Invalid, what))
    }

    /// Where the value of a property is; `None` if the row does not say.
    fn read(row: &DynamicEntity, property: &str, pointer: &str) -> Result<Option<Self>> {
        if row.get(pointer).is_none() {
            return Ok(None);
        }
        let read = text(row, pointer).and_then(|json| serde_json::from_str::<Self>(json).ok());
        let refused = |what: String| Err(Error::refused(ErrorKind::Decode, what));
        match read {
            Some(pointer) if pointer.v == VERSION => Ok(Some(pointer)),
            Some(newer) => refused(format!(
                "`{pointer}` has format {}, and this program knows {VERSION}; use a newer program",
                newer.v
            )),
            None => refused(format!("`{pointer}` does not say where the blob of `{property}` is")),
        }
    }
}

/// The entity has changed since its row was read, so its blob was deleted: read it again.
fn changed() -> Error {
    Error::refused(ErrorKind::Conflict, "the entity was changed each time while it was read")
        .advise("try again later")
}

fn hash(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[(&str, &str)] = &[("Image", "Image_Blob")];

    #[test]
    fn pointers_stored_by_this_version_must_stay_readable() {
        let text =
            r#"{"v":1,"blob":"photos/blob_1","type":"Edm.Binary","length":3,"sha256":"ba78"}"#;
        let mut row = DynamicEntity::new("p", "r");
        row.set("Image_Blob", text);
        let pointer = Pointer::read(&row, "Image", "Image_Blob").unwrap().unwrap();
        assert_eq!(pointer.print().unwrap(), text);
        assert_eq!(BlobFields::named(FIELDS, &row), [("Image", "photos/blob_1".to_owned())]);
    }

    #[test]
    fn what_is_no_pointer_is_refused_without_showing_it() {
        for text in
            ["secret", r#"{"v":2,"blob":"secret","type":"Edm.Binary","length":3,"sha256":""}"#]
        {
            let mut row = DynamicEntity::new("p", "r");
            row.set("Image_Blob", text);
            let error = Pointer::read(&row, "Image", "Image_Blob").err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(!error.to_string().contains("secret"), "{error}");
            assert!(BlobFields::named(FIELDS, &row).is_empty());
        }
    }
}
