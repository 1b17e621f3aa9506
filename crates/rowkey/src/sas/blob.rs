//! Signatures for one container or one blob.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rowkey_wire::auth::Resource;
use rowkey_wire::auth::{Sas, Service, SigningKey};

use super::terms::{Terms, place, policy, sign, signer, terms};
use super::{BlobPermissions, SasToken};
use crate::account::StorageAccount;
use crate::blob::{ContentHeaders, UserDelegationKey, check_names};
use crate::error::{Error, Result};
use crate::transport::{Call, Safety};

/// What stands in the path of a blob as it is.
const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// Older versions sign other parts for blobs.
const VERSION: &str = "2020-12-06";

/// What two official libraries sign with user delegation keys is known of this version.
const DELEGATED_VERSION: &str = "2026-04-06";

/// A shared access signature for a container and the blobs in it, or for one blob. See
/// [Create a service SAS](https://learn.microsoft.com/rest/api/storageservices/create-service-sas).
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `sign`"]
pub struct BlobSas {
    container: String,
    blob: Option<String>,
    permissions: BlobPermissions,
    answer: ContentHeaders,
    pub(super) terms: Terms,
}

impl BlobSas {
    /// Begins a signature for a container and all blobs in it.
    pub fn container(container: impl Into<String>) -> Self {
        Self {
            container: container.into(),
            blob: None,
            permissions: BlobPermissions::default(),
            answer: ContentHeaders::default(),
            terms: Terms { version: Some(VERSION), ..Terms::default() },
        }
    }

    /// Begins a signature for one blob, and its snapshots.
    pub fn blob(container: impl Into<String>, blob: impl Into<String>) -> Self {
        Self { blob: Some(blob.into()), ..Self::container(container) }
    }

    /// What it permits. Required, unless a [`policy`](Self::policy) says it.
    pub fn permissions(mut self, permissions: BlobPermissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// The headers that blobs answer with instead of their own when they are read by it: a name to
    /// save them under, say (`content_disposition`). `content_md5` cannot be among them.
    pub fn answer_headers(mut self, headers: ContentHeaders) -> Self {
        self.answer = headers;
        self
    }

    policy!();
    terms!();

    /// Signs it with the key of an account. Nothing is sent.
    ///
    /// Fails as [`TableSas::sign`](super::TableSas::sign) does.
    pub fn sign(&self, account: &StorageAccount) -> Result<SasToken> {
        let signer = signer(account)?;
        self.sign_by(account, &signer.account, &signer.key, |_| {})
    }

    /// Signs it with a key that a token got, from
    /// [`user_delegation_key`](crate::blob::BlobService::user_delegation_key). Nothing is sent.
    ///
    /// It cannot refer to a stored access policy: it ends with the key, or when the account's user
    /// delegation keys are revoked.
    pub fn sign_with(&self, account: &StorageAccount, key: &UserDelegationKey) -> Result<SasToken> {
        if self.terms.policy.is_some() {
            let what = "a signature with a user delegation key has no stored access policy";
            return Err(Error::invalid(what));
        }
        self.sign_by(account, account.name(), &key.signer, |sas| {
            let part = |text: &String| Some(text.clone());
            sas.version = Some(DELEGATED_VERSION.to_owned());
            let delegation = sas.delegation.get_or_insert_default();
            delegation.oid = part(&key.key.oid);
            delegation.tid = part(&key.key.tid);
            delegation.start = part(&key.key.start);
            delegation.expiry = part(&key.key.expiry);
            delegation.service = part(&key.key.service);
            delegation.version = part(&key.key.version);
        })
    }

    fn sign_by(
        &self,
        account: &StorageAccount,
        name: &str,
        key: &SigningKey,
        complete: impl FnOnce(&mut Sas),
    ) -> Result<SasToken> {
        let call = Call::new("BlobSas", &self.container, Safety::Read);
        check_names(&call, self.blob.as_deref())?;
        let place = place(account, Service::Blob)?;
        let mut sas = self.terms.to_sas(account, place, &self.permissions.to_string())?;
        let container = &self.container;
        let (kind, resource, path) = match &self.blob {
            Some(name) => {
                let path = format!("/{container}/{}", utf8_percent_encode(name, PATH));
                ("b", Resource::Blob { container, name }, path)
            }
            None => ("c", Resource::Container(container), format!("/{container}")),
        };
        if self.answer.content_md5.is_some() {
            return Err(Error::invalid("a shared access signature cannot say what MD5 a blob has"));
        }
        sas.blob_resource = Some(kind.to_owned());
        sas.cache_control.clone_from(&self.answer.cache_control);
        sas.content_disposition.clone_from(&self.answer.content_disposition);
        sas.content_encoding.clone_from(&self.answer.content_encoding);
        sas.content_language.clone_from(&self.answer.content_language);
        sas.content_type.clone_from(&self.answer.content_type);
        complete(&mut sas);
        sign(&mut sas, key, name, resource)?;
        Ok(SasToken::new(sas, account, &[Service::Blob], &path))
    }
}
