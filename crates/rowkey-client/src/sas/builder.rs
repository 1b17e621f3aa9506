//! The builder of all kinds of shared access signatures.

use std::fmt::Display;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::range::Range;
use super::terms::{Expiry, Signing, Terms, signer};
use super::{ResourceTypes, SasToken, Services, account, blob, queue, table};
use crate::account::StorageAccount;
use crate::blob::ContentHeaders;
use crate::error::Result;

/// Builds a shared access signature for a table, a queue, a container, a blob, or services of an account. `P`
/// is the matching set of permissions.
///
/// Set the permissions and the duration, then [`sign`](Self::sign).
///
/// ```
/// use std::time::Duration;
///
/// use rowkey::StorageAccount;
/// use rowkey::sas::{Sas, TablePermissions};
///
/// # fn main() -> rowkey::Result<()> {
/// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
/// let token = Sas::table("notes")
///     .permissions(TablePermissions::QUERY)
///     .valid_for(Duration::from_secs(3600))
///     .sign(&account)?;
/// assert!(token.query().contains("sp=r"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `sign`"]
pub struct Sas<P> {
    pub(super) resource: Resource,
    pub(super) permissions: P,
    /// The range of keys, for tables only. An error is returned when signing.
    pub(super) range: std::result::Result<Range, String>,
    /// The replaced content headers, for containers and blobs only.
    pub(super) answer: ContentHeaders,
    pub(super) terms: Terms,
}

/// The resource that a signature grants access to.
#[derive(Clone, Debug)]
pub(super) enum Resource {
    Table(String),
    Queue(String),
    Blob { container: String, blob: Option<String> },
    Account { services: Services, types: ResourceTypes },
}

impl<P: Default> Sas<P> {
    pub(super) fn of(resource: Resource) -> Self {
        Self {
            resource,
            permissions: P::default(),
            range: Ok(Range::default()),
            answer: ContentHeaders::default(),
            terms: Terms::default(),
        }
    }
}

impl<P: Display> Sas<P> {
    /// Sets the permissions. Required, unless a [`policy`](Self::policy) contains them.
    pub fn permissions(mut self, permissions: P) -> Self {
        self.permissions = permissions;
        self
    }

    /// Sets the start of validity. Default: now, by the clock of the service. Because clocks
    /// differ, omit it or set it 15 minutes early.
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    /// use rowkey::sas::{QueuePermissions, Sas};
    ///
    /// # use rowkey::StorageAccount;
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let office = Ipv4Addr::new(203, 0, 113, 0)..=Ipv4Addr::new(203, 0, 113, 255);
    /// let token = Sas::queue("jobs")
    ///     .permissions(QueuePermissions::ADD)
    ///     .starts("2026-11-20T08:45:00Z".parse()?)
    ///     .expires("2026-11-20T10:00:00Z".parse()?)
    ///     .ip(office)
    ///     .sign(&account)?;
    /// assert!(token.query().contains("se=2026-11-20T10%3A00%3A00Z"));
    /// assert!(token.url().contains("/jobs?"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn starts(mut self, start: DateTime<Utc>) -> Self {
        self.terms.start = Some(start);
        self
    }

    /// Sets the end of validity.
    pub fn expires(mut self, expiry: DateTime<Utc>) -> Self {
        self.terms.end = Expiry::At(expiry);
        self
    }

    /// Sets how long it is valid after signing, by the account's clock.
    pub fn valid_for(mut self, duration: Duration) -> Self {
        self.terms.end = Expiry::After(duration);
        self
    }

    /// Sets the IP addresses from which it may be used; for one address: `ip(address..=address)`.
    pub fn ip(mut self, addresses: RangeInclusive<Ipv4Addr>) -> Self {
        let (first, last) = addresses.into_inner();
        let is_one = first == last;
        self.terms.ip = Some(if is_one { first.to_string() } else { format!("{first}-{last}") });
        self
    }

    /// Allows the token over http, where anyone on the network path can read and use it. Default:
    /// https is required, except if the account is an emulator on this machine.
    pub fn allow_http(mut self) -> Self {
        self.terms.allow_http = true;
        self
    }

    /// Sets the stored access policy, which supplies the times and permissions that the signature
    /// does not contain. If the policy does not exist, the signature is not valid. The service
    /// refuses values that both contain. A signature for an account cannot refer to a policy.
    pub fn policy(mut self, id: impl Into<String>) -> Self {
        self.terms.policy = Some(id.into());
        self
    }

    /// Signs with the account's key. Nothing is sent.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the account has no key, if expiry or
    /// permissions are missing and no policy is set, if it ends before it begins, if a name or a key is
    /// invalid, if any part contains a control character or a line separator (the error names the part and
    /// the position), if it is for an account and names no service, no resource type, or a policy, and if it
    /// has a range of keys on Azure Cosmos DB, which does not support ranges.
    pub fn sign(&self, account: &StorageAccount) -> Result<SasToken> {
        let permissions = self.permissions.to_string();
        let key = signer(account)?;
        let signing = &Signing::from(&*key);
        match &self.resource {
            Resource::Table(name) => {
                table::sign_table(account, name, &self.range, &self.terms, &permissions, signing)
            }
            Resource::Queue(name) => {
                queue::sign_queue(account, name, &self.terms, &permissions, signing)
            }
            Resource::Blob { .. } => blob::sign_blob(account, self, signing),
            Resource::Account { services, types } => {
                let scope = (*services, *types);
                account::sign_account(account, scope, &self.terms, &permissions, signing)
            }
        }
    }
}
