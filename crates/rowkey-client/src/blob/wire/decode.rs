//! Decodes responses: the client's half. [`rowkey_wire::xml`] decodes policies, properties and
//! statistics, and [`crate::service::wire::metadata::decode`] metadata.

use chrono::{DateTime, Utc};
use http::header::{self, HeaderMap, HeaderName};
use rowkey_wire::blob::checksum::{self, Crc64Sum, Md5Sum};
use rowkey_wire::blob::headers as names;
use rowkey_wire::blob::{BlobType, PublicAccess};
use rowkey_wire::etag::ETag;
use rowkey_wire::headers::parse_http_date;
use rowkey_wire::multipart::{self, BatchError};
use rowkey_wire::xml::{Element, XmlError};

use crate::blob::LeaseState;
use crate::service::wire::metadata;
use crate::transport::batch::{self as message, PartResponse};

/// The result of a write: the new `ETag` and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The `ETag`.
    pub etag: ETag,
    /// The time of the write, in whole seconds.
    pub modified: Option<DateTime<Utc>>,
}

/// The response to one request of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchPart<'a> {
    /// The number of the request; `None` if it is about the whole batch.
    pub(crate) number: Option<usize>,
    pub(crate) response: PartResponse<'a>,
}

/// Reads the response to a batch, whose parts may be in any order. A body that is cut off is an error.
pub(crate) fn batch<'a>(
    content_type: &str,
    body: &'a [u8],
) -> Result<Vec<BatchPart<'a>>, BatchError> {
    let parts = multipart::numbered(content_type, body)?;
    let parts = parts.into_iter().map(|part| {
        let response = message::response(body, part.message)?;
        Ok(BatchPart { number: part.number, response })
    });
    parts.collect()
}

/// The result of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    /// The position of the block.
    pub(crate) offset: u64,
    /// The number of blocks in the blob now.
    pub(crate) blocks: u32,
}

/// The properties of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// The length of the whole blob in bytes, not of the range that was read.
    pub(crate) length: u64,
    /// The type; `None` for one that this project does not support, such as page blobs.
    pub(crate) blob_type: Option<BlobType>,
    /// The `ETag`.
    pub(crate) etag: Option<ETag>,
    /// When it was changed, in whole seconds.
    pub(crate) modified: Option<DateTime<Utc>>,
    /// When it was created, in whole seconds.
    pub(crate) created: Option<DateTime<Utc>>,
    /// `Content-Type`
    pub(crate) content_type: Option<String>,
    /// `Content-Encoding`
    pub(crate) encoding: Option<String>,
    /// `Content-Language`
    pub(crate) language: Option<String>,
    /// `Content-Disposition`
    pub(crate) disposition: Option<String>,
    /// `Cache-Control`
    pub(crate) cache_control: Option<String>,
    /// The MD5 of the whole blob, if it was stored with one.
    pub md5: Option<Md5Sum>,
    /// The state of the lease; snapshots have none.
    pub(crate) lease: Option<LeaseState>,
    /// The number of blocks of an append blob.
    pub(crate) blocks: Option<u32>,
    /// Whether an append blob is sealed.
    pub(crate) sealed: bool,
    /// The copy that created it.
    pub(crate) copy: Option<Copied>,
    /// The metadata; names in lower case. In listings, also empty if it was not requested.
    pub(crate) metadata: Vec<(String, String)>,
}

/// A copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Its id.
    pub(crate) id: String,
    /// The status: `success`, `pending`, `aborted` or `failed`.
    pub(crate) status: String,
    /// The source; missing in responses to the copy itself.
    pub(crate) source: Option<String>,
}

/// The properties of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Container {
    /// The name; empty in responses about one container.
    pub(crate) name: String,
    /// The `ETag`.
    pub(crate) etag: Option<ETag>,
    /// When it was changed, in whole seconds.
    pub(crate) modified: Option<DateTime<Utc>>,
    /// The lease.
    pub(crate) lease: Option<LeaseState>,
    /// What can be read without authorization.
    pub(crate) access: Option<PublicAccess>,
    /// The metadata; in listings, also empty if it was not requested.
    pub(crate) metadata: Vec<(String, String)>,
}

/// A page of containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerPage {
    /// The containers.
    pub(crate) containers: Vec<Container>,
    /// The marker of the next page; `None` at the end.
    pub(crate) next: Option<String>,
}

/// A page of blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlobPage {
    /// Blobs and prefixes, in the order of their names.
    pub(crate) items: Vec<Item>,
    /// The marker of the next page; `None` at the end.
    pub(crate) next: Option<String>,
}

/// An entry of a listing of blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A blob or a snapshot.
    Blob(Box<ListedBlob>),
    /// A common prefix of names, up to the delimiter.
    Prefix(String),
}

/// A blob in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedBlob {
    /// The name.
    pub(crate) name: String,
    /// The name of the snapshot, if it is one.
    pub(crate) snapshot: Option<String>,
    /// The properties.
    pub(crate) properties: Properties,
}

/// The `ETag` and the time of a write; `None` if the response has no `ETag`.
pub(crate) fn written(headers: &HeaderMap) -> Option<Written> {
    Some(Written { etag: etag(headers)?, modified: date(headers, &header::LAST_MODIFIED) })
}

/// Decodes the response to Append Block.
pub(crate) fn appended(headers: &HeaderMap) -> Option<Appended> {
    Some(Appended {
        offset: number(headers, &names::APPEND_OFFSET)?,
        blocks: number(headers, &names::COMMITTED_BLOCKS)?,
    })
}

/// The name of the snapshot that was created.
pub(crate) fn snapshot(headers: &HeaderMap) -> Option<String> {
    text(headers, &names::SNAPSHOT)
}

/// The id of the lease that was acquired, renewed or changed.
pub(crate) fn lease_id(headers: &HeaderMap) -> Option<uuid::Uuid> {
    text(headers, &names::LEASE_ID)?.parse().ok()
}

/// The seconds until a broken lease ends.
pub(crate) fn lease_time(headers: &HeaderMap) -> Option<u32> {
    number(headers, &names::LEASE_TIME)
}

/// The copy, in the response to Copy Blob or in the properties of a blob that was copied.
pub(crate) fn copied(headers: &HeaderMap) -> Option<Copied> {
    Some(Copied {
        id: text(headers, &names::COPY_ID)?,
        status: text(headers, &names::COPY_STATUS)?,
        source: text(headers, &names::COPY_SOURCE),
    })
}

/// The MD5 of the bytes in the response, or of those that were written.
pub(crate) fn content_md5(headers: &HeaderMap) -> Option<Md5Sum> {
    checksum::decode(&text(headers, &HeaderName::from_static("content-md5"))?)
}

/// The CRC64 of the bytes in the response, or of those that were written.
pub(crate) fn content_crc64(headers: &HeaderMap) -> Option<Crc64Sum> {
    checksum::decode(&text(headers, &names::CONTENT_CRC64)?)
}

/// The properties in the response to Get Blob or Get Blob Properties.
pub(crate) fn properties(headers: &HeaderMap) -> Properties {
    let range = text(headers, &header::CONTENT_RANGE);
    // `bytes 0-5/1024`: `Content-Length` is that of the range, and `Content-MD5` may be, too.
    let whole = range.as_deref().and_then(|range| range.rsplit('/').next()?.parse().ok());
    let md5 = text(headers, &names::CONTENT_MD5).and_then(|text| checksum::decode(&text));
    Properties {
        length: whole.or_else(|| number(headers, &header::CONTENT_LENGTH)).unwrap_or_default(),
        blob_type: blob_type(text(headers, &names::BLOB_TYPE).as_deref()),
        etag: etag(headers),
        modified: date(headers, &header::LAST_MODIFIED),
        created: date(headers, &names::CREATION_TIME),
        content_type: text(headers, &header::CONTENT_TYPE),
        encoding: text(headers, &header::CONTENT_ENCODING),
        language: text(headers, &header::CONTENT_LANGUAGE),
        disposition: text(headers, &header::CONTENT_DISPOSITION),
        cache_control: text(headers, &header::CACHE_CONTROL),
        md5: md5.or_else(|| content_md5(headers).filter(|_| range.is_none())),
        lease: lease_state(text(headers, &names::LEASE_STATE).as_deref()),
        blocks: number(headers, &names::COMMITTED_BLOCKS),
        sealed: text(headers, &names::SEALED).is_some_and(|text| text == "true"),
        copy: copied(headers),
        metadata: metadata::decode(headers),
    }
}

/// The properties in the response to Get Container Properties.
pub(crate) fn container(headers: &HeaderMap) -> Container {
    Container {
        name: String::new(),
        etag: etag(headers),
        modified: date(headers, &header::LAST_MODIFIED),
        lease: lease_state(text(headers, &names::LEASE_STATE).as_deref()),
        access: access(text(headers, &names::PUBLIC_ACCESS).as_deref()),
        metadata: metadata::decode(headers),
    }
}

/// Decodes the response to List Containers.
pub(crate) fn containers(body: &[u8]) -> Result<ContainerPage, XmlError> {
    let root = Element::read_root(body, "EnumerationResults")?;
    let list = root.child("Containers").map(|list| list.children.as_slice()).unwrap_or_default();
    let containers = list.iter().filter(|child| child.name == "Container").map(|element| {
        let properties = element.require("Properties")?;
        Ok(Container {
            name: element.require("Name")?.text.clone(),
            etag: properties.text_of("Etag").map(ETag::new),
            modified: properties.text_of("Last-Modified").and_then(parse_http_date),
            lease: lease_state(properties.text_of("LeaseState")),
            access: access(properties.text_of("PublicAccess")),
            metadata: metadata(element),
        })
    });
    let containers = containers.collect::<Result<_, XmlError>>()?;
    Ok(ContainerPage { containers, next: root.text_of("NextMarker").map(str::to_owned) })
}

/// Decodes the response to List Blobs.
pub(crate) fn blobs(body: &[u8]) -> Result<BlobPage, XmlError> {
    let root = Element::read_root(body, "EnumerationResults")?;
    let list = root.child("Blobs").map(|list| list.children.as_slice()).unwrap_or_default();
    let items = list.iter().filter_map(|element| match element.name.as_str() {
        "Blob" => Some(listed(element).map(|blob| Item::Blob(Box::new(blob)))),
        "BlobPrefix" => Some(element.require("Name").map(|name| Item::Prefix(name.decoded_text()))),
        _ => None,
    });
    let items = items.collect::<Result<_, XmlError>>()?;
    Ok(BlobPage { items, next: root.text_of("NextMarker").map(str::to_owned) })
}

fn listed(element: &Element) -> Result<ListedBlob, XmlError> {
    let properties = element.require("Properties")?;
    let owned = |name| properties.text_of(name).map(str::to_owned);
    let copy = owned("CopyId").zip(owned("CopyStatus"));
    let length = properties.text_of("Content-Length").unwrap_or("0").parse();
    Ok(ListedBlob {
        name: element.require("Name")?.decoded_text(),
        snapshot: element.text_of("Snapshot").map(str::to_owned),
        properties: Properties {
            length: length.map_err(|_| XmlError::Value("Content-Length"))?,
            blob_type: blob_type(properties.text_of("BlobType")),
            // Listings have the `ETag` without quotes; everything else has it with quotes.
            etag: properties.text_of("Etag").map(|tag| ETag::new(format!("\"{tag}\""))),
            modified: properties.text_of("Last-Modified").and_then(parse_http_date),
            created: properties.text_of("Creation-Time").and_then(parse_http_date),
            content_type: owned("Content-Type"),
            encoding: owned("Content-Encoding"),
            language: owned("Content-Language"),
            disposition: owned("Content-Disposition"),
            cache_control: owned("Cache-Control"),
            md5: properties.text_of("Content-MD5").and_then(checksum::decode),
            lease: lease_state(properties.text_of("LeaseState")),
            blocks: None,
            sealed: properties.text_of("Sealed") == Some("true"),
            copy: copy.map(|(id, status)| Copied { id, status, source: owned("CopySource") }),
            metadata: metadata(element),
        },
    })
}

fn metadata(element: &Element) -> Vec<(String, String)> {
    let list = element.child("Metadata").map(|list| list.children.as_slice());
    let pairs = list.unwrap_or_default().iter();
    pairs.map(|pair| (pair.name.clone(), pair.text.clone())).collect()
}

fn etag(headers: &HeaderMap) -> Option<ETag> {
    text(headers, &header::ETAG).map(ETag::new)
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<DateTime<Utc>> {
    parse_http_date(&text(headers, name)?)
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &HeaderName) -> Option<T> {
    text(headers, name)?.parse().ok()
}

/// A header's text; `None` if it is empty.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    (!value.is_empty()).then(|| value.to_owned())
}

fn blob_type(text: Option<&str>) -> Option<BlobType> {
    match text? {
        "AppendBlob" => Some(BlobType::Append),
        "BlockBlob" => Some(BlobType::Block),
        _ => None,
    }
}

fn lease_state(text: Option<&str>) -> Option<LeaseState> {
    match text? {
        "available" => Some(LeaseState::Available),
        "breaking" => Some(LeaseState::Breaking),
        "broken" => Some(LeaseState::Broken),
        "expired" => Some(LeaseState::Expired),
        "leased" => Some(LeaseState::Leased),
        _ => None,
    }
}

fn access(text: Option<&str>) -> Option<PublicAccess> {
    match text? {
        "blob" => Some(PublicAccess::Blob),
        "container" => Some(PublicAccess::Container),
        _ => None,
    }
}
