//! Signatures for one container or one blob.

use std::fmt::Display;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rowkey_wire::auth::{Resource as Signed, Service};

use super::builder::{Resource, Sas};
use super::terms::{Signing, Terms, endpoints, sign};
use super::{BlobPermissions, SasToken};
use crate::account::StorageAccount;
use crate::blob::{ContentHeaders, check_names};
use crate::error::{Error, Result};
use crate::transport::{Call, Safety};

/// The characters that are not escaped in the path of a blob.
const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// The signed version for blobs. Older versions sign other parts.
const VERSION: &str = "2020-12-06";

impl Sas<BlobPermissions> {
    /// Begins a signature for a container and all blobs in it. See
    /// [Create a service SAS](https://learn.microsoft.com/rest/api/storageservices/create-service-sas).
    pub fn container(container: impl Into<String>) -> Self {
        Self::in_container(container.into(), None)
    }

    /// Begins a signature for one blob and its snapshots.
    pub fn blob(container: impl Into<String>, blob: impl Into<String>) -> Self {
        Self::in_container(container.into(), Some(blob.into()))
    }

    fn in_container(container: String, blob: Option<String>) -> Self {
        let terms = Terms { version: Some(VERSION), ..Terms::default() };
        Self { terms, ..Self::of(Resource::Blob { container, blob }) }
    }

    /// Sets content headers that replace a blob's own in responses to reads with this signature,
    /// for example a file name (`content_disposition`). `content_md5` is not supported.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use rowkey::blob::ContentHeaders;
    /// use rowkey::sas::{BlobPermissions, Sas};
    ///
    /// # use rowkey::StorageAccount;
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let download = ContentHeaders {
    ///     content_disposition: Some("attachment; filename=report.pdf".into()),
    ///     ..ContentHeaders::default()
    /// };
    /// let token = Sas::blob("reports", "2026/11.pdf")
    ///     .permissions(BlobPermissions::READ)
    ///     .answer_headers(download)
    ///     .valid_for(Duration::from_secs(600))
    ///     .sign(&account)?;
    /// assert!(token.url().contains("/reports/2026/11.pdf?"));
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn answer_headers(mut self, headers: ContentHeaders) -> Self {
        self.answer = headers;
        self
    }
}

pub(super) fn sign_blob<P: Display>(
    account: &StorageAccount,
    unsigned: &Sas<P>,
    signing: &Signing<'_>,
) -> Result<SasToken> {
    let Sas { resource, answer, .. } = unsigned;
    let Resource::Blob { container, blob } = resource else {
        return Err(Error::invalid("the shared access signature is for no container and no blob"));
    };
    let call = Call::new("BlobSas", container, Safety::Read);
    check_names(&call, blob.as_deref())?;
    let endpoints = endpoints(account, Service::Blob)?;
    let permissions = unsigned.permissions.to_string();
    let mut sas = unsigned.terms.to_sas(account, endpoints, &permissions)?;
    let (kind, resource, path) = match blob {
        Some(name) => {
            let path = format!("/{container}/{}", utf8_percent_encode(name, PATH));
            ("b", Signed::Blob { container, name }, path)
        }
        None => ("c", Signed::Container(container), format!("/{container}")),
    };
    if answer.content_md5.is_some() {
        return Err(Error::invalid("a shared access signature cannot override the MD5 of a blob"));
    }
    sas.blob_resource = Some(kind.to_owned());
    sas.cache_control.clone_from(&answer.cache_control);
    sas.content_disposition.clone_from(&answer.content_disposition);
    sas.content_encoding.clone_from(&answer.content_encoding);
    sas.content_language.clone_from(&answer.content_language);
    sas.content_type.clone_from(&answer.content_type);
    sign(&mut sas, signing, resource)?;
    Ok(SasToken::new(sas, account, &[Service::Blob], &path))
}
