//! Writing a blob at once.

use std::fmt;

use bytes::Bytes;
use rowkey_wire::blob::{self as wire, checksum};
use rowkey_wire::etag::Match;

use super::conditions::safety;
use super::container::written;
use super::handle::Blob;
use super::{ContentHeaders, Written};
use crate::blob::wire::encode;
use crate::error::{Outcome, Result};
use crate::queue::handle::metadata_error;

/// What guards content on its way. The service refuses a body that does not sum up; of what is read
/// this is found out here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// CRC64: finds damage, and costs least.
    Crc64,
    /// MD5: what other tools compare, too.
    Md5,
}

/// What became of something that was to be written only if there was nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// There is a blob, and it was not changed.
    Exists,
    /// There was none, and now there is this one.
    Inserted(Written),
}

/// What a blob is described with.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) headers: ContentHeaders,
    pub(super) metadata: Vec<(String, String)>,
}

/// Content that is to be written: at once, from [`Blob::put`], or in pieces, from [`Blob::upload`].
#[must_use = "nothing is written before `send` or `insert`"]
pub struct Put<C = Bytes> {
    pub(super) blob: Blob,
    pub(super) content: C,
    pub(super) about: About,
    pub(super) check: Option<Check>,
}

impl<C> Put<C> {
    pub(super) fn new(blob: Blob, content: C) -> Self {
        Self { blob, content, about: About::default(), check: None }
    }

    /// What kind of content it is. Default: the service's, `application/octet-stream`.
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.about.headers.content_type = Some(content_type.to_owned());
        self
    }

    /// All headers that the blob answers with.
    pub fn headers(mut self, headers: ContentHeaders) -> Self {
        self.about.headers = headers;
        self
    }

    /// Names and values that describe it.
    pub fn metadata(mut self, pairs: &[(&str, &str)]) -> Self {
        self.about.metadata = owned(pairs);
        self
    }

    /// Guards the content on its way, each block of it by itself. With [`Check::Md5`] the blob's
    /// `Content-MD5` is that of the whole content.
    pub fn check(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }
}

impl Put {
    /// Writes the blob, whether or not there is one.
    pub async fn send(self) -> Result<Written> {
        let Self { blob, content, about, check } = self;
        write(&blob, content, &about, check).await
    }

    /// Writes the blob if there is none.
    pub async fn insert(mut self) -> Result<Insertion> {
        self.blob.conditions.none_match = Some(Match::Any);
        insertion(self.send().await)
    }
}

impl<C> fmt::Debug for Put<C> {
    /// Does not show the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Put").field("blob", &self.blob).finish_non_exhaustive()
    }
}

pub(super) async fn write(
    blob: &Blob,
    content: Bytes,
    about: &About,
    check: Option<Check>,
) -> Result<Written> {
    let call = blob.call("PutBlob", safety(&blob.conditions)).expecting(&[409, 412]);
    let named = |error: crate::Error| error.of(call.operation, call.resource);
    let headers = about.headers.wire().map_err(named)?;
    let sums = sums(check, &content);
    let metadata = pairs(&about.metadata);
    let (place, conditions) = (blob.place(), &blob.conditions);
    let request = encode::put_block_blob(place, content, &headers, metadata, &sums, conditions)
        .map_err(|error| named(metadata_error(error)))?;
    let reply = blob.send(request, call).await?;
    written(&reply, &call)
}

/// A refusal because there is one, as a value.
pub(super) fn insertion(result: Result<Written>) -> Result<Insertion> {
    match result {
        Ok(written) => Ok(Insertion::Inserted(written)),
        // With an unknown outcome it may be this call's own.
        Err(error)
            if error.kind() == crate::ErrorKind::AlreadyExists
                && error.outcome() == Outcome::Rejected =>
        {
            Ok(Insertion::Exists)
        }
        Err(error) => Err(error),
    }
}

pub(super) fn sums(check: Option<Check>, body: &[u8]) -> wire::Sums {
    wire::Sums {
        md5: (check == Some(Check::Md5)).then(|| checksum::md5(body)),
        crc64: (check == Some(Check::Crc64)).then(|| checksum::crc64(body)),
    }
}

pub(super) fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(super) fn pairs(metadata: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}
