//! The builder of shared access signatures of all kinds.

use std::fmt::Display;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::range::Range;
use super::terms::{End, Terms};
use super::{ResourceTypes, SasToken, Services, account, blob, queue, table};
use crate::account::StorageAccount;
use crate::blob::ContentHeaders;
use crate::error::Result;

/// A shared access signature in the making: for a table, a queue, a container, a blob, or for services of
/// an account. `P` is the set of permissions that fits.
///
/// Say who may do what, for how long, and [`sign`](Self::sign) it.
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
    /// Why there is no range is told when it is signed. Of tables alone.
    pub(super) range: std::result::Result<Range, String>,
    /// Of containers and blobs alone.
    pub(super) answer: ContentHeaders,
    pub(super) terms: Terms,
}

/// What a signature is for.
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
    /// What it permits. Required, unless a [`policy`](Self::policy) says it.
    pub fn permissions(mut self, permissions: P) -> Self {
        self.permissions = permissions;
        self
    }

    /// From when on it is good. Without, from now on, on the clock of the service: leave
    /// it out, or keep 15 minutes of margin, for clocks differ.
    pub fn starts(mut self, start: DateTime<Utc>) -> Self {
        self.terms.start = Some(start);
        self
    }

    /// Until when it is good.
    pub fn expires(mut self, expiry: DateTime<Utc>) -> Self {
        self.terms.end = End::At(expiry);
        self
    }

    /// How long it is good, from the moment it is signed, by the account's clock.
    pub fn valid_for(mut self, duration: Duration) -> Self {
        self.terms.end = End::After(duration);
        self
    }

    /// The addresses it may be used from; of one address: `ip(address..=address)`.
    pub fn ip(mut self, addresses: RangeInclusive<Ipv4Addr>) -> Self {
        let (first, last) = addresses.into_inner();
        let is_one = first == last;
        self.terms.ip = Some(if is_one { first.to_string() } else { format!("{first}-{last}") });
        self
    }

    /// Lets it be used over http, where everybody on the way can read and keep it. Without,
    /// https is asked for, except where the account is an emulator on this machine.
    pub fn allow_http(mut self) -> Self {
        self.terms.allow_http = true;
        self
    }

    /// The stored access policy that it refers to: what the signature does not say of time and
    /// permissions, the policy does, and without the policy it is good for nothing. What both
    /// say is refused by the service. A signature for an account refers to none.
    pub fn policy(mut self, id: impl Into<String>) -> Self {
        self.terms.policy = Some(id.into());
        self
    }

    /// Signs it with the key of an account. Nothing is sent.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the account has no key,
    /// when expiry or permissions are said neither here nor, presumably, by a policy, when it ends
    /// before it begins, when a name or a key cannot be, when any part has a control character or a
    /// line separator in it (the error names the part and the position), when it is for an account and
    /// names no service, no resource type, or a policy, and when Azure Cosmos DB,
    /// which knows no ranges, is to grant one.
    pub fn sign(&self, account: &StorageAccount) -> Result<SasToken> {
        let permissions = self.permissions.to_string();
        match &self.resource {
            Resource::Table(name) => {
                table::sign_table(account, name, &self.range, &self.terms, &permissions)
            }
            Resource::Queue(name) => queue::sign_queue(account, name, &self.terms, &permissions),
            Resource::Blob { .. } => blob::sign_blob(account, self),
            Resource::Account { services, types } => {
                account::sign_account(account, (*services, *types), &self.terms, &permissions)
            }
        }
    }
}
