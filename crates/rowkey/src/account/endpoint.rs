//! Where an account's tables are.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;
use rowkey_wire::table::encode::Flavor;

use crate::error::{Error, Result};

/// The base of all addresses of a service, checked.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Scheme, host, port and path, without a slash at the end.
    base: String,
    host: String,
    port: u16,
    secure: bool,
}

/// Where the tables of an account are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    pub(crate) primary: Endpoint,
    /// Where they can be read when the primary fails, if the account has that.
    pub(crate) secondary: Option<Endpoint>,
    flavor: Flavor,
}

impl Endpoint {
    /// Checks an endpoint. `part` is what the caller calls it.
    pub(crate) fn parse(part: &str, text: &str) -> Result<Self> {
        let wrong = |what: &str| Err(Error::invalid(format!("{part} {what}")));
        let Ok(url) = Url::parse(text.trim()) else {
            return wrong("is not an absolute URL such as https://name.table.core.windows.net");
        };
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return wrong("is neither http nor https"),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return wrong("has a user name or password in it; credentials are given apart");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return wrong("has a query; a shared access signature is given apart");
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return wrong("has no host");
        };
        let (host, base) = (host.to_owned(), url.as_str().trim_end_matches('/').to_owned());
        Ok(Self { base, host, port, secure })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether it is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// The account that the address names: the path's segment, or the host's first label.
    pub(crate) fn account(&self) -> Option<&str> {
        if let Some(segment) = self.path_segment() {
            return Some(segment);
        }
        if self.host.starts_with('[') || self.host.parse::<IpAddr>().is_ok() {
            return None;
        }
        let (label, _) = self.host.split_once('.')?;
        Some(label)
    }

    /// Where the same account's secondary is, if the address follows the service's pattern.
    fn secondary(&self, account: &str) -> Option<Self> {
        let mut secondary = self.clone();
        if self.path_segment() == Some(account) {
            secondary.base.push_str("-secondary");
            return Some(secondary);
        }
        let rest = self.host.strip_prefix(account)?;
        if !rest.starts_with('.') || self.path_segment().is_some() {
            return None;
        }
        let scheme = if self.secure { "https" } else { "http" };
        let port = &self.base[scheme.len() + "://".len() + self.host.len()..];
        secondary.host = format!("{account}-secondary{rest}");
        secondary.base = format!("{scheme}://{}{port}", secondary.host);
        Some(secondary)
    }

    /// The path, if it is a single segment.
    fn path_segment(&self) -> Option<&str> {
        let (_, rest) = self.base.split_once("://")?;
        let (_, path) = rest.split_once('/')?;
        (!path.contains('/')).then_some(path)
    }

    fn flavor(&self) -> Flavor {
        let Self { host, port, .. } = self;
        let is_cosmos = [".table.cosmos.", ".table.cosmosdb."].iter().any(|s| host.contains(s));
        // The port on which Cosmos DB's emulator serves tables; those of storage use 10002.
        let is_emulator = self.is_loopback() && *port == 8902;
        if is_cosmos || is_emulator { Flavor::Cosmos } else { Flavor::Storage }
    }
}

impl Endpoints {
    /// With the secondary that is given, or else the one that the service's pattern gives.
    pub(crate) fn new(primary: Endpoint, secondary: Option<Endpoint>, account: &str) -> Self {
        let secondary = secondary.or_else(|| primary.secondary(account));
        let flavor = primary.flavor();
        Self { primary, secondary, flavor }
    }

    /// The same places, said to be Cosmos DB's although their names do not tell.
    pub(crate) fn of_cosmos(self) -> Self {
        Self { flavor: Flavor::Cosmos, ..self }
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.all().any(Endpoint::is_secure)
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.all().all(Endpoint::is_loopback)
    }

    pub(crate) fn flavor(&self) -> Flavor {
        self.flavor
    }

    fn all(&self) -> impl Iterator<Item = &Endpoint> {
        std::iter::once(&self.primary).chain(&self.secondary)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}
