//! Containers, and listings of containers and blobs.

use http::{Method, header};
use rowkey_wire::blob::PublicAccess;
use rowkey_wire::blob::headers as names;
use rowkey_wire::xml::{SignedIdentifier, encode_acl};

use super::parts::{Conditions, bare, container, document, parameter, set};
use crate::service::wire::metadata::{self, MetadataError};
use crate::transport::Request;

/// The parameters of a listing of containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListContainers<'a> {
    /// The prefix of their names.
    pub(crate) prefix: Option<&'a str>,
    /// The marker from the previous page.
    pub(crate) marker: Option<&'a str>,
    /// The maximum number of containers in a page, 1 to 5,000.
    pub(crate) max: Option<u32>,
    /// Whether to include their metadata.
    pub(crate) metadata: bool,
}

/// The parameters of a listing of blobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub(crate) struct ListBlobs<'a> {
    /// The prefix of their names.
    pub(crate) prefix: Option<&'a str>,
    /// The delimiter of folders in names, such as `/`.
    pub(crate) delimiter: Option<&'a str>,
    /// The marker from the previous page.
    pub(crate) marker: Option<&'a str>,
    /// The maximum number of blobs and prefixes in a page, 1 to 5,000.
    pub(crate) max: Option<u32>,
    /// Whether to include their metadata.
    pub(crate) metadata: bool,
    /// Whether to include snapshots. Not together with a delimiter.
    pub(crate) snapshots: bool,
    /// Whether to include blobs that have only uncommitted blocks.
    pub(crate) uncommitted: bool,
    /// Whether to include the sources of copies.
    pub(crate) copy: bool,
}

/// [Create Container](https://learn.microsoft.com/rest/api/storageservices/create-container).
pub(crate) fn create_container<'a>(
    name: &str,
    access: Option<PublicAccess>,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Request, MetadataError> {
    let mut request = bare(Method::PUT, container(name, ""));
    metadata::encode(&mut request.headers, metadata)?;
    set_access(&mut request, access);
    Ok(request)
}

/// [Blob Batch](https://learn.microsoft.com/rest/api/storageservices/blob-batch), without its body.
pub(crate) fn batch(name: &str, boundary: &str) -> Request {
    let mut request = bare(Method::POST, container(name, "&comp=batch"));
    let content_type = format!("multipart/mixed; boundary={boundary}");
    set(&mut request.headers, header::CONTENT_TYPE, Some(content_type));
    request
}

/// [Delete Container](https://learn.microsoft.com/rest/api/storageservices/delete-container).
pub(crate) fn delete_container(name: &str, conditions: &Conditions) -> Request {
    guarded(Method::DELETE, container(name, ""), conditions)
}

/// [Get Container Properties](https://learn.microsoft.com/rest/api/storageservices/get-container-properties).
/// Of the conditions, only the lease counts.
pub(crate) fn get_container_properties(name: &str, conditions: &Conditions) -> Request {
    guarded(Method::GET, container(name, ""), conditions)
}

/// [Set Container Metadata](https://learn.microsoft.com/rest/api/storageservices/set-container-metadata):
/// replaces all of it.
pub(crate) fn set_container_metadata<'a>(
    name: &str,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    conditions: &Conditions,
) -> Result<Request, MetadataError> {
    let mut request = guarded(Method::PUT, container(name, "&comp=metadata"), conditions);
    metadata::encode(&mut request.headers, metadata)?;
    Ok(request)
}

/// [Get Container ACL](https://learn.microsoft.com/rest/api/storageservices/get-container-acl).
/// [`rowkey_wire::xml::decode_acl`] decodes the response.
pub(crate) fn get_container_acl(name: &str, conditions: &Conditions) -> Request {
    guarded(Method::GET, container(name, "&comp=acl"), conditions)
}

/// [Set Container ACL](https://learn.microsoft.com/rest/api/storageservices/set-container-acl).
pub(crate) fn set_container_acl(
    name: &str,
    access: Option<PublicAccess>,
    identifiers: &[SignedIdentifier],
    conditions: &Conditions,
) -> Request {
    let mut request = document(container(name, "&comp=acl"), encode_acl(identifiers));
    conditions.write(&mut request.headers);
    set_access(&mut request, access);
    request
}

/// [List Containers](https://learn.microsoft.com/rest/api/storageservices/list-containers2).
pub(crate) fn list_containers(list: &ListContainers<'_>) -> Request {
    let mut target = "/?comp=list".to_owned();
    parameter(&mut target, "prefix", list.prefix);
    parameter(&mut target, "marker", list.marker);
    parameter(&mut target, "maxresults", list.max.map(|n| n.to_string()).as_deref());
    parameter(&mut target, "include", list.metadata.then_some("metadata"));
    bare(Method::GET, target)
}

/// [List Blobs](https://learn.microsoft.com/rest/api/storageservices/list-blobs).
pub(crate) fn list_blobs(name: &str, list: &ListBlobs<'_>) -> Request {
    let mut target = container(name, "&comp=list");
    parameter(&mut target, "prefix", list.prefix);
    parameter(&mut target, "delimiter", list.delimiter);
    parameter(&mut target, "marker", list.marker);
    parameter(&mut target, "maxresults", list.max.map(|n| n.to_string()).as_deref());
    let wanted = [
        (list.copy, "copy"),
        (list.metadata, "metadata"),
        (list.snapshots, "snapshots"),
        (list.uncommitted, "uncommittedblobs"),
    ];
    let include: Vec<_> =
        wanted.into_iter().filter_map(|(wanted, name)| wanted.then_some(name)).collect();
    parameter(&mut target, "include", Some(include.join(",")).filter(|t| !t.is_empty()).as_deref());
    bare(Method::GET, target)
}

fn guarded(method: Method, target: String, conditions: &Conditions) -> Request {
    let mut request = bare(method, target);
    conditions.write(&mut request.headers);
    request
}

fn set_access(request: &mut Request, access: Option<PublicAccess>) {
    let access = access.map(|access| access.as_str().to_owned());
    set(&mut request.headers, names::PUBLIC_ACCESS, access);
}
