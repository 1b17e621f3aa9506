//! One request to the Blob service, and what its operations share.

use std::net::IpAddr;
use std::ops::Deref;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use hyper::body::Incoming;
use rowkey_wire::blob::checksum::Checksum;
use rowkey_wire::error::Rejection;

use super::upload::{self, Upload};
use crate::front::respond::{self, HttpResponse, RequestError};
use crate::services::authorized::Authorized;
use crate::store::blob::{Blobs, Container, Version};

/// An authorized request to the Blob service, or a part of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) authorized: Authorized<'a>,
    pub(super) request: &'a Parts,
    pub(super) address: IpAddr,
}

impl<'a> Deref for Call<'a> {
    type Target = Authorized<'a>;

    fn deref(&self) -> &Authorized<'a> {
        &self.authorized
    }
}

impl Call<'_> {
    /// Changes the containers and blobs. If they are kept on disk, the response waits until the change is written.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Blobs) -> R) -> R {
        let (result, receipt) = self.account.change_blobs(change);
        self.receipts.keep(receipt);
        result
    }

    /// Changes a container. `change` receives it, and the version that it or one of its blobs gets.
    pub(super) fn change_container<R>(
        &self,
        name: &str,
        change: impl FnOnce(&mut Container, Version) -> Result<R, Rejection>,
    ) -> Result<R, Rejection> {
        self.change(|blobs| {
            let (container, version) = blobs.container_mut(name, self.context.now)?;
            change(container, version)
        })
    }

    /// Reads a body that is a document, and its checksums.
    pub(super) async fn read_document(
        &self,
        body: &mut Incoming,
        checksum: Checksum,
    ) -> Result<(Bytes, Upload), RequestError> {
        upload::receive_document(body, &self.request.headers, checksum).await
    }
}

/// The names of a container and a blob.
pub(super) type Names<'a> = (&'a str, &'a str);

/// An empty response with the current version of the resource.
pub(super) fn versioned(status: StatusCode, version: Version) -> HttpResponse {
    let mut answer = respond::empty(status);
    write_version(answer.headers_mut(), version);
    answer
}

/// Adds `ETag` and `Last-Modified`.
pub(super) fn write_version(headers: &mut HeaderMap, version: Version) {
    headers.insert(header::ETAG, respond::value(version.tag.quoted()));
    headers.insert(header::LAST_MODIFIED, respond::instant(version.modified));
}

/// A header value for true.
pub(super) const TRUE: HeaderValue = HeaderValue::from_static("true");
