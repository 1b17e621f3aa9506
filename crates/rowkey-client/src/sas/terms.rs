//! The restrictions of all shared access signatures: times, IP addresses, protocol.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use rowkey_wire::auth::{DelegationKey, Resource, Sas, Service, SigningKey};

use crate::account::StorageAccount;
use crate::credential::{Authority, SharedKey};
use crate::endpoint::ServiceEndpoints;
use crate::error::{Error, Result};
use crate::service::policies;

/// The times, IP addresses and protocol of a signature.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    pub(super) start: Option<DateTime<Utc>>,
    pub(super) end: Expiry,
    pub(super) ip: Option<String>,
    pub(super) policy: Option<String>,
    pub(super) allow_http: bool,
    /// The signed version, if it is not the default one.
    pub(super) version: Option<&'static str>,
}

/// When a signature ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Expiry {
    At(DateTime<Utc>),
    After(Duration),
    /// Set by the stored access policy.
    #[default]
    FromPolicy,
}

/// The default signed version. Newer versions add only parts that are not used here.
const VERSION: &str = "2019-02-02";

impl Terms {
    /// The signed parts of these terms, for an account whose service has these `endpoints`.
    pub(super) fn to_sas(
        &self,
        account: &StorageAccount,
        endpoints: &ServiceEndpoints,
        permissions: &str,
    ) -> Result<Sas> {
        let expiry = match self.end {
            Expiry::At(expiry) => Some(expiry),
            Expiry::After(duration) => {
                let duration = TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX);
                let now = account.pipeline().clock().now();
                Some(now.checked_add_signed(duration).unwrap_or(DateTime::<Utc>::MAX_UTC))
            }
            Expiry::FromPolicy => None,
        };
        if self.policy.is_none() && (expiry.is_none() || permissions.is_empty()) {
            let what = if expiry.is_none() { "no expiry" } else { "no permissions" };
            return Err(Error::invalid(format!("the shared access signature has {what}"))
                .advise("set it, or name a stored access policy that contains it"));
        }
        if let (Some(start), Some(expiry)) = (self.start, expiry)
            && start >= expiry
        {
            return Err(Error::invalid("the shared access signature ends before it begins"));
        }
        // An emulator supports only http.
        let allow_http = self.allow_http || endpoints.primary.is_trusted_http();
        Ok(Sas {
            version: Some(self.version.unwrap_or(VERSION).to_owned()),
            permissions: (!permissions.is_empty()).then(|| permissions.to_owned()),
            start: self.start.map(time),
            expiry: expiry.map(time),
            ip: self.ip.clone(),
            protocol: (!allow_http).then(|| "https".to_owned()),
            identifier: self.policy.clone(),
            ..Sas::default()
        })
    }
}

/// The endpoints of a service of the account.
pub(super) fn endpoints(account: &StorageAccount, service: Service) -> Result<&ServiceEndpoints> {
    account.pipeline().endpoints().of(service).ok_or_else(|| {
        Error::invalid("no endpoint configured for that service").advise("give its endpoint")
    })
}

/// What signs.
#[derive(Clone, Copy)]
pub(super) struct Signing<'a> {
    pub(super) account: &'a str,
    pub(super) key: &'a SigningKey,
    /// The user delegation key, and the version to sign in.
    pub(super) delegation: Option<(&'a DelegationKey, &'static str)>,
}

impl<'a> From<&'a SharedKey> for Signing<'a> {
    fn from(key: &'a SharedKey) -> Self {
        Self { account: &key.account, key: &key.key, delegation: None }
    }
}

/// The account's name and key.
pub(super) fn signer(account: &StorageAccount) -> Result<std::sync::Arc<SharedKey>> {
    match account.pipeline().credential().settled() {
        Authority::SharedKey(key) => Ok(key),
        _ => Err(Error::invalid(
            "a shared access signature requires the account key, which this account does not have",
        )
        .advise("sign with `Credential::shared_key`, or a connection string with `AccountKey`")),
    }
}

/// Signs for a resource whose name has been checked. Signing checks everything else.
pub(super) fn sign(sas: &mut Sas, signing: &Signing<'_>, resource: Resource<'_>) -> Result<()> {
    if let Some((key, version)) = signing.delegation {
        sas.version = Some(version.to_owned());
        let delegation = sas.delegation.get_or_insert_default();
        for (part, text) in [
            (&mut delegation.oid, &key.oid),
            (&mut delegation.tid, &key.tid),
            (&mut delegation.start, &key.start),
            (&mut delegation.expiry, &key.expiry),
            (&mut delegation.service, &key.service),
            (&mut delegation.version, &key.version),
        ] {
            *part = Some(text.clone());
        }
    }
    if let Some(policy) = &sas.identifier {
        policies::check_id(policy)?;
    }
    sas.sign(signing.key, signing.account, resource).map_err(|error| {
        Error::invalid(error.to_string())
            .advise("leave it out: parts are signed as lines, and this one would sign others, too")
    })
}

/// Formats as `2026-01-01T00:00:00Z`: the service does not accept fractions.
fn time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}
