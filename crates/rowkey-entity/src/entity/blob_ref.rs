//! References to blobs: a field of an entity whose content is in a blob and is not read with the entity.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use chrono::{DateTime, Utc};

use super::property::PropertyError;
use super::row::{DecodeError, RowReader, RowWriter};

/// The names of the properties of a reference, after the name of its field.
const LENGTH: &str = "_Length";
const SHA256: &str = "_Sha256";
const CONTENT_TYPE: &str = "_ContentType";

/// A reference to a blob: its address, and the length, digest and type of its content.
///
/// The type of a field with `#[entity(blob)]`, also as an `Option`. The entity stores the reference, not the
/// content: reading, listing and copying entities reads no blob. `rowkey::store::Store::upload` makes one from a
/// stream, and `Store::download` reads the content, whole or in part.
///
/// A field `image`, stored as `Image`, has these properties, which any client of the service can read:
///
/// | property | type | value |
/// |---|---|---|
/// | `Image` | String | the container and the name of the blob, `photos/photos/ref_photo_4f0c…`: its path below the blob endpoint |
/// | `Image_Length` | Int64 | the length of the content in bytes |
/// | `Image_Sha256` | String | the SHA-256 of the content in 64 lower-case hexadecimal digits |
/// | `Image_ContentType` | String | the content type; absent if none was given |
///
/// A reference belongs to the entity that it was uploaded for: the store refuses it in another one, and
/// deletes the blob when the entity drops it.
///
/// ```
/// use rowkey::{BlobRef, DynamicEntity, Entity};
///
/// #[derive(Debug, PartialEq, Entity)]
/// #[entity(store, partition = "{album}", row = "photo_{number:4}")]
/// struct Photo {
///     album: String,
///     number: u32,
///     #[entity(blob)]
///     image: BlobRef,
///     #[entity(blob)]
///     preview: Option<BlobRef>,
/// }
///
/// let mut row = DynamicEntity::new("leeds", "photo_0001");
/// row.set("image", "photos/photos/ref_photo_1");
/// row.set("image_Length", 3_000_000_i64);
/// row.set("image_Sha256", "7d".repeat(32));
/// row.set("image_ContentType", "image/jpeg");
/// let photo = row.read_as::<Photo>()?;
/// assert_eq!((photo.image.container(), photo.image.name()), ("photos", "photos/ref_photo_1"));
/// assert_eq!((photo.image.length(), photo.image.content_type()), (3_000_000, Some("image/jpeg")));
/// assert_eq!(photo.preview, None);
/// # Ok::<(), rowkey::FailedRow>(())
/// ```
#[derive(Clone)]
pub struct BlobRef {
    /// Clones of entities share it.
    stored: Arc<Stored>,
    /// `None` if it was read from an entity.
    fresh: Option<Arc<Fresh>>,
}

/// What the entity stores.
#[derive(PartialEq, Eq)]
struct Stored {
    /// The container, `/` and the name of the blob.
    path: String,
    length: u64,
    sha256: String,
    content_type: Option<String>,
}

/// An uploaded blob that no entity names yet.
///
/// It is given to an entity at most once, because the blob is deleted when the entity drops it. Clones of the
/// reference share this state.
struct Fresh {
    state: AtomicU8,
    uploaded: DateTime<Utc>,
    /// The PartitionKey and the RowKey of the entity.
    owner: (String, String),
}

/// The states of an uploaded blob. One of a write that was not answered stays in `SPENT`.
const UNUSED: u8 = 0;
const HELD: u8 = 1;
const SPENT: u8 = 2;

/// Why a reference cannot be given to an entity.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It was read from an entity, which does not name it any more or is another one.
    Read,
    /// It was uploaded for another entity.
    OfAnother,
    /// An entity has or had it already, or may have it.
    Spent,
    /// Another write gives it to an entity at this moment.
    InUse,
}

impl BlobRef {
    /// Returns the reference to a blob that was just uploaded for the entity with these keys.
    #[must_use]
    #[doc(hidden)]
    pub fn uploaded(
        path: String,
        (length, sha256): (u64, String),
        content_type: Option<String>,
        (owner, uploaded): ((String, String), DateTime<Utc>),
    ) -> Self {
        let stored = Stored { path, length, sha256, content_type };
        let fresh = Fresh { state: AtomicU8::new(UNUSED), uploaded, owner };
        Self { stored: Arc::new(stored), fresh: Some(Arc::new(fresh)) }
    }

    /// Returns the name of the container.
    pub fn container(&self) -> &str {
        self.parts().0
    }

    /// Returns the name of the blob in its container.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    /// Returns the container and the name of the blob, separated by `/`: the path of the blob below the blob
    /// endpoint of the account, without escapes.
    pub fn path(&self) -> &str {
        &self.stored.path
    }

    /// Returns the length of the content in bytes.
    pub fn length(&self) -> u64 {
        self.stored.length
    }

    /// Returns the SHA-256 of the content in lower-case hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.stored.sha256
    }

    /// Returns the content type; `None` if the upload gave none.
    pub fn content_type(&self) -> Option<&str> {
        self.stored.content_type.as_deref()
    }

    fn parts(&self) -> (&str, &str) {
        // Both ways to make one check the path.
        self.stored.path.split_once('/').unwrap_or_default()
    }

    /// Takes the reference for a write that gives it to the entity with these keys. Returns the time of the
    /// upload. The writer calls [`release`](Self::release) or [`spend`](Self::spend) at its end.
    #[doc(hidden)]
    pub fn hold(&self, keys: &(String, String)) -> Result<DateTime<Utc>, Unusable> {
        let Some(fresh) = &self.fresh else { return Err(Unusable::Read) };
        if fresh.owner != *keys {
            return Err(Unusable::OfAnother);
        }
        let held = fresh.state.compare_exchange(UNUSED, HELD, Ordering::AcqRel, Ordering::Acquire);
        match held {
            Ok(_) => Ok(fresh.uploaded),
            Err(HELD) => Err(Unusable::InUse),
            Err(_) => Err(Unusable::Spent),
        }
    }

    /// Ends a write that was not and will not be committed: another one may use the reference.
    #[doc(hidden)]
    pub fn release(&self) {
        self.end(UNUSED);
    }

    /// Ends a write that was committed or may be.
    #[doc(hidden)]
    pub fn spend(&self) {
        self.end(SPENT);
    }

    fn end(&self, state: u8) {
        if let Some(fresh) = &self.fresh {
            fresh.state.store(state, Ordering::Release);
        }
    }

    /// Reads the reference of the field `name`, the prefix of `row`; `None` if the row has none.
    #[doc(hidden)]
    pub fn decode(row: &RowReader<'_>) -> Result<Option<Self>, DecodeError> {
        let Some(path) = row.property::<Option<String>>("")? else { return Ok(None) };
        let is_path = |path: &str| {
            path.split_once('/')
                .is_some_and(|(container, name)| !container.is_empty() && !name.is_empty())
        };
        if !is_path(&path) {
            return Err(row.refused("", "it is not the container and the name of a blob"));
        }
        let length = row.property::<i64>(LENGTH)?;
        let Ok(length) = u64::try_from(length) else {
            return Err(row.refused(LENGTH, "it is negative"));
        };
        let sha256 = row.property::<String>(SHA256)?;
        if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(row.refused(SHA256, "it is not 64 hexadecimal digits"));
        }
        let sha256 = sha256.to_ascii_lowercase();
        let content_type = row.property::<Option<String>>(CONTENT_TYPE)?;
        let stored = Stored { path, length, sha256, content_type };
        Ok(Some(Self { stored: Arc::new(stored), fresh: None }))
    }

    /// Writes the properties.
    #[doc(hidden)]
    pub fn encode(&self, out: &mut RowWriter) {
        let Stored { path, length, sha256, content_type } = &*self.stored;
        out.property("", path);
        match i64::try_from(*length) {
            Ok(length) => out.property(LENGTH, &length),
            Err(_) => out.converted(LENGTH, Err(PropertyError::new("it is over 2^63 bytes"))),
        }
        out.property(SHA256, sha256);
        out.property(CONTENT_TYPE, content_type);
    }
}

/// What the entity stores is compared, not whether it was just uploaded.
impl PartialEq for BlobRef {
    fn eq(&self, other: &Self) -> bool {
        self.stored == other.stored
    }
}

impl Eq for BlobRef {}

impl fmt::Debug for BlobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobRef")
            .field("path", &self.stored.path)
            .field("length", &self.stored.length)
            .field("content_type", &self.stored.content_type)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DynamicEntity, Projection};

    struct Read(Option<BlobRef>);

    impl Projection for Read {
        const COLUMNS: Option<&'static [&'static str]> = None;

        fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
            BlobRef::decode(&row.flattened("Image")).map(Self)
        }
    }

    fn row() -> DynamicEntity {
        let mut row = DynamicEntity::new("p", "r");
        row.set("Image", "photos/a/b");
        row.set("Image_Length", 3_i64);
        row.set("Image_Sha256", "AB".repeat(32));
        row
    }

    #[test]
    fn references_stored_by_this_version_must_stay_readable() {
        let read = row().read_as::<Read>().unwrap().0.unwrap();
        assert_eq!((read.container(), read.name(), read.length()), ("photos", "a/b", 3));
        assert_eq!((read.sha256(), read.content_type()), (&*"ab".repeat(32), None));
        assert!(DynamicEntity::new("p", "r").read_as::<Read>().unwrap().0.is_none());
    }

    #[test]
    fn an_invalid_reference_is_an_error_that_names_the_property_and_shows_no_value() {
        for (name, value) in [
            ("Image", "secret".into()),
            ("Image", "/secret".into()),
            ("Image_Length", crate::edm::Value::Int64(-7)),
            ("Image_Sha256", "secret".into()),
        ] {
            let mut row = row();
            row.set(name, value);
            let error = row.read_as::<Read>().err().unwrap().to_string();
            assert!(error.contains(&format!("`{name}`")) && !error.contains("secret"), "{error}");
        }
        let mut row = row();
        row.remove("Image_Length");
        assert!(row.read_as::<Read>().err().unwrap().to_string().contains("`Image_Length`"));
    }

    #[test]
    fn one_write_at_a_time_gives_a_reference_to_its_entity_once() {
        let keys = ("p".to_owned(), "r".to_owned());
        let at = DateTime::UNIX_EPOCH;
        let one = BlobRef::uploaded("c/b".into(), (0, String::new()), None, (keys.clone(), at));
        let clone = one.clone();
        assert_eq!(one.hold(&("p".into(), "other".into())), Err(Unusable::OfAnother));
        assert_eq!(one.hold(&keys), Ok(at));
        assert_eq!(clone.hold(&keys), Err(Unusable::InUse));
        one.release();
        assert_eq!(clone.hold(&keys), Ok(at));
        clone.spend();
        assert_eq!(one.hold(&keys), Err(Unusable::Spent));
        let read = row().read_as::<Read>().unwrap().0.unwrap();
        assert_eq!(read.hold(&keys), Err(Unusable::Read));
    }
}
