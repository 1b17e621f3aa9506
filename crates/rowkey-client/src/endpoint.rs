//! The endpoints of an account's services.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use bytes::Bytes;
use http::HeaderValue;
use http::uri::{self, PathAndQuery, Scheme, Uri};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rowkey_wire::auth::Service;

use crate::address::{Address, Fault, is_loopback};
use crate::error::{Error, Result};

/// The base of all addresses of a service, validated.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Scheme, host, port and path, without a slash at the end.
    base: String,
    /// Host and port in addresses. Clones share the text.
    place: uri::Authority,
    /// The path at the start of all addresses, without a slash at the end.
    path: String,
    /// The `Host` header, with the port unless it is the scheme's default.
    authority: HeaderValue,
    host: String,
    port: u16,
    /// The port as an attribute of metrics.
    port_text: Box<str>,
    secure: bool,
    /// Whether the caller allowed secrets over http to this host by name.
    named: bool,
}

/// A host name in Azure, in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AzureHost<'a> {
    /// The account, also of a secondary.
    pub(crate) account: &'a str,
    pub(crate) service: Service,
    /// `core.windows.net`, or that of another cloud or of Azure Cosmos DB.
    pub(crate) suffix: &'a str,
}

impl AzureHost<'_> {
    /// Whether the host is one of Azure Storage.
    pub(crate) fn is_storage(&self) -> bool {
        self.suffix.starts_with("core.")
    }
}

/// The service that responds: the services encode a merge differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// Cosmos DB for Table: merge is a POST with `X-HTTP-Method`.
    Cosmos,
    /// Azure Storage and its emulators.
    Storage,
}

/// The most bytes in the address of a request, including the query and a shared access signature:
/// the limit of HTTP libraries. The service's own limit is not documented; 32 KiB are said to be
/// safe.
const MAX_URL: usize = 65_534;

/// What may not be in an address as it is, as browsers have it, and the backslash, which they and some servers read as
/// `/`. Names are encoded before; a name that a program did not encode, such as that of a table, is sent and refused by the
/// service, which says more.
const INVALID: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// `text` without characters that are invalid in an address.
fn encoded(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, INVALID).into()
}

/// The endpoints of one service of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceEndpoints {
    pub(crate) primary: Endpoint,
    /// The endpoint for reads if the primary fails, if the account has one.
    pub(crate) secondary: Option<Endpoint>,
}

/// The known endpoints of an account's services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    by_service: PerService<ServiceEndpoints>,
    flavor: Flavor,
}

/// Endpoints as the caller gave them, before the missing ones are derived from the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfiguredEndpoints {
    pub(crate) primary: PerService<Endpoint>,
    pub(crate) secondary: PerService<Endpoint>,
}

/// An optional value for each service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerService<T>([Option<T>; 3]);

/// The services, in the order in which `Debug` shows them.
pub(crate) const SERVICES: [Service; 3] = [Service::Table, Service::Queue, Service::Blob];

impl Endpoint {
    /// Parses and validates an endpoint. `part` is its name in error messages.
    pub(crate) fn parse(part: &str, text: &str) -> Result<Self> {
        let wrong = |what: &str| Err(Error::invalid(format!("{part} {what}")));
        let address = match Address::parse(text) {
            Ok(address) => address,
            Err(Fault::Malformed) => {
                return wrong("is not an absolute URL such as https://name.table.core.windows.net");
            }
            Err(Fault::Scheme) => return wrong("is neither http nor https"),
        };
        if address.has_user {
            return wrong("has a user name or password in it; credentials are given apart");
        }
        if address.query.is_some() || address.has_fragment {
            return wrong("has a query; a shared access signature is given apart");
        }
        let authority = address.authority();
        let places = (uri::Authority::try_from(&*authority), HeaderValue::try_from(&*authority));
        let (Ok(place), Ok(authority)) = places else {
            return wrong("has a host that is invalid in a header");
        };
        let path = encoded(address.path.trim_end_matches('/')).into_owned();
        let base = format!("{}://{place}{path}", address.scheme());
        let (port, secure) = (address.port(), address.secure);
        let (host, port_text) = (address.host, port.to_string().into());
        Ok(Self { base, place, path, authority, host, port, port_text, secure, named: false })
    }

    /// The address of a target below this one: a path and perhaps a query, both encoded. `more` is
    /// added to the query. Fails if the address is too long.
    pub(crate) fn address(&self, target: &str, more: &str) -> Result<Uri> {
        let target = target.strip_suffix('?').unwrap_or(target);
        let mut text = String::with_capacity(self.path.len() + target.len() + 1 + more.len());
        text.push_str(&self.path);
        text.push_str(target);
        if !more.is_empty() {
            text.push(if target.contains('?') { '&' } else { '?' });
            text.push_str(more);
        }
        let text = match encoded(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(encoded) => encoded,
        };
        let length = self.scheme().len() + "://".len() + self.place.as_str().len() + text.len();
        if length > MAX_URL {
            let what = format!(
                "the address of the request has {length} bytes, and {MAX_URL} are the most"
            );
            return Err(Error::too_large(what).advise(
                "make the filter, or the list of properties, shorter, or split the query",
            ));
        }
        let invalid = |_| Error::invalid("the address of the request is invalid");
        let mut parts = uri::Parts::default();
        parts.scheme = Some(if self.secure { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(self.place.clone());
        let path = PathAndQuery::from_maybe_shared(Bytes::from(text)).map_err(invalid)?;
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|_| Error::invalid("the address of the request is invalid"))
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn port_text(&self) -> &str {
        &self.port_text
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }

    fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// The path at the start of all addresses, without a slash at the end.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether the port is another one than the scheme's default.
    pub(crate) fn has_port(&self) -> bool {
        self.authority.as_bytes() != self.host.as_bytes()
    }

    /// The parts of a host name in Azure, `account.table.core.windows.net`.
    pub(crate) fn azure(&self) -> Option<AzureHost<'_>> {
        let (account, rest) = self.host.split_once('.')?;
        let (service, suffix) = rest.split_once('.')?;
        let service = SERVICES.into_iter().find(|known| label(*known) == service)?;
        let is_azure = ["core.", "cosmos"].iter().any(|start| suffix.starts_with(start));
        let account = account.strip_suffix("-secondary").unwrap_or(account);
        is_azure.then_some(AzureHost { account, service, suffix })
    }

    /// Whether the endpoint is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// Whether the endpoint uses http and may receive secrets: an emulator on this machine, or a host that
    /// the caller allowed by name.
    pub(crate) fn is_trusted_http(&self) -> bool {
        !self.secure && (self.named || self.is_loopback())
    }

    /// Refuses to send a secret that anyone on the network path could read and use. `secret` is its
    /// name in the error message.
    pub(crate) fn check_secret(&self, secret: &str) -> Result<()> {
        if self.secure || self.is_trusted_http() {
            return Ok(());
        }
        // An endpoint may be derived, so the caller need not know its host.
        let host = &self.host;
        let what = format!("{secret} is not sent over plain http to another machine, {host}");
        Err(Error::invalid(what).advise(
            "give an https endpoint, or name the host with `StorageAccountBuilder::allow_http_to`",
        ))
    }

    /// The account in the address: the path's only segment, or the host's first label.
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

    /// The same account's secondary endpoint, if the address follows the service's pattern.
    fn secondary(&self, account: &str) -> Option<Self> {
        if self.path_segment() == Some(account) {
            return Self::parse("", &format!("{}-secondary", self.base)).ok();
        }
        let rest = self.host.strip_prefix(account)?;
        if !rest.starts_with('.') || self.path_segment().is_some() {
            return None;
        }
        self.at_host(self.scheme(), &format!("{account}-secondary{rest}"))
    }

    /// The same port and path at another host.
    fn at_host(&self, scheme: &str, host: &str) -> Option<Self> {
        let rest = &self.base[self.scheme().len() + "://".len() + self.host.len()..];
        Self::parse("", &format!("{scheme}://{host}{rest}")).ok()
    }

    /// The path, if it is a single segment.
    fn path_segment(&self) -> Option<&str> {
        let (_, rest) = self.base.split_once("://")?;
        let (_, path) = rest.split_once('/')?;
        (!path.contains('/')).then_some(path)
    }

    /// The endpoint of another service of the same account, if the address follows the service's
    /// pattern. Without a protocol it has the same one.
    pub(crate) fn sibling(
        &self,
        own: Service,
        other: Service,
        protocol: Option<&str>,
    ) -> Option<Self> {
        let (account, rest) = self.host.split_once('.')?;
        let rest = rest.strip_prefix(label(own))?;
        if !rest.starts_with('.') || self.path_segment().is_some() {
            return None;
        }
        let protocol = protocol.unwrap_or(self.scheme());
        self.at_host(protocol, &format!("{account}.{}{rest}", label(other)))
    }

    /// Whether no other endpoint can be derived from this one: an emulator's, or that of Cosmos DB,
    /// which has only tables.
    pub(crate) fn stands_alone(&self) -> bool {
        self.is_loopback() || self.path_segment().is_some() || self.flavor() == Flavor::Cosmos
    }

    fn flavor(&self) -> Flavor {
        let Self { host, port, .. } = self;
        let is_cosmos = [".table.cosmos.", ".table.cosmosdb."].iter().any(|s| host.contains(s));
        // The port on which Cosmos DB's emulator serves tables; those of storage use 10002.
        let is_emulator = self.is_loopback() && *port == 8902;
        if is_cosmos || is_emulator { Flavor::Cosmos } else { Flavor::Storage }
    }
}

impl ConfiguredEndpoints {
    /// The account in one of the endpoints.
    pub(crate) fn account(&self) -> Option<&str> {
        self.primary.iter().find_map(|(_, endpoint)| endpoint.account())
    }
}

impl Endpoints {
    /// The endpoints, with the given secondaries or else those that follow the service's pattern.
    pub(crate) fn new(given: ConfiguredEndpoints, account: &str) -> Self {
        let ConfiguredEndpoints { primary, mut secondary } = given;
        let flavor = primary.get(Service::Table).map_or(Flavor::Storage, Endpoint::flavor);
        let mut by_service = PerService::default();
        for (service, primary) in primary.into_iter() {
            let secondary = secondary.take(service).or_else(|| primary.secondary(account));
            by_service.set(service, Some(ServiceEndpoints { primary, secondary }));
        }
        Self { by_service, flavor }
    }

    /// The same endpoints, treated as those of Cosmos DB even if their names do not show it.
    pub(crate) fn of_cosmos(self) -> Self {
        Self { flavor: Flavor::Cosmos, ..self }
    }

    /// The same endpoints; secrets may be sent to these hosts over plain http.
    pub(crate) fn trusting(mut self, hosts: &[String]) -> Self {
        for endpoints in self.by_service.0.iter_mut().flatten() {
            for endpoint in std::iter::once(&mut endpoints.primary).chain(&mut endpoints.secondary)
            {
                endpoint.named = hosts.iter().any(|host| host.eq_ignore_ascii_case(&endpoint.host));
            }
        }
        self
    }

    /// The endpoints of a service, if they are known.
    pub(crate) fn of(&self, service: Service) -> Option<&ServiceEndpoints> {
        self.by_service.get(service)
    }

    /// The base of the primary endpoint, or an empty string.
    pub(crate) fn base(&self, service: Service) -> &str {
        self.of(service).map_or("", |endpoints| endpoints.primary.base())
    }

    /// Whether every service has a secondary endpoint.
    pub(crate) fn has_secondaries(&self) -> bool {
        self.by_service.iter().all(|(_, endpoints)| endpoints.secondary.is_some())
    }

    pub(crate) fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// The audience of tokens. Storage has the same one in all clouds.
    pub(crate) fn audience(&self) -> &'static str {
        let host = self.of(Service::Table).map_or("", |endpoints| endpoints.primary.host());
        match self.flavor {
            Flavor::Storage => "https://storage.azure.com",
            Flavor::Cosmos if host.ends_with(".azure.us") => "https://cosmos.azure.us",
            Flavor::Cosmos if host.ends_with(".azure.cn") => "https://cosmos.azure.cn",
            Flavor::Cosmos => "https://cosmos.azure.com",
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Endpoint> {
        let by_service = self.by_service.iter();
        by_service.flat_map(|(_, endpoints)| {
            std::iter::once(&endpoints.primary).chain(&endpoints.secondary)
        })
    }
}

impl<T> PerService<T> {
    pub(crate) fn get(&self, service: Service) -> Option<&T> {
        self.0[slot(service)].as_ref()
    }

    pub(crate) fn set(&mut self, service: Service, value: Option<T>) {
        self.0[slot(service)] = value;
    }

    fn take(&mut self, service: Service) -> Option<T> {
        self.0[slot(service)].take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Service, &T)> {
        SERVICES.into_iter().filter_map(|service| Some((service, self.get(service)?)))
    }

    fn into_iter(mut self) -> impl Iterator<Item = (Service, T)> {
        SERVICES.into_iter().filter_map(move |service| Some((service, self.take(service)?)))
    }
}

impl<T> Default for PerService<T> {
    fn default() -> Self {
        Self([None, None, None])
    }
}

fn slot(service: Service) -> usize {
    match service {
        Service::Table => 0,
        Service::Queue => 1,
        Service::Blob => 2,
    }
}

/// The label of a service in host names.
pub(crate) fn label(service: Service) -> &'static str {
    match service {
        Service::Table => "table",
        Service::Queue => "queue",
        Service::Blob => "blob",
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_an_endpoint_is_read_in_two_ways() -> Result<()> {
        for (text, expected) in [
            ("https://a.example\\@b.example", "it is not an absolute URL"),
            ("https://a.example\\b", "it is not an absolute URL"),
            ("https://@a.example", "it has a user name or password"),
            ("https://a.example?", "it has a query"),
            ("https://a.example#", "it has a query"),
        ] {
            let error = Endpoint::parse("it", text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let endpoint = Endpoint::parse("it", "https://a.example/b\\..\\c")?;
        assert_eq!(
            endpoint.address("/d\\e", "")?.to_string(),
            "https://a.example/b%5C..%5Cc/d%5Ce"
        );
        Ok(())
    }
}
