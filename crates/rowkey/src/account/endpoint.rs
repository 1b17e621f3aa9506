//! Where an account's services are.

use std::fmt;
use std::net::IpAddr;

use http::HeaderValue;
use reqwest::Url;
use rowkey_wire::auth::Service;

use crate::error::{Error, Result};
use crate::table::wire::encode::Flavor;

/// The base of all addresses of a service, checked.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Scheme, host, port and path, without a slash at the end.
    base: String,
    /// The same, taken apart, with a path that is never sent: a copy has room for what takes its place.
    url: Url,
    /// The path that addresses begin with, without a slash at the end.
    path: String,
    /// The `Host` header, which says the port if it is not the scheme's own.
    authority: HeaderValue,
    host: String,
    port: u16,
    secure: bool,
    /// Whether secrets may be sent there over http, because it was asked for by name.
    named: bool,
}

/// The longest path and query for which an address is made in one piece.
const ROOM: usize = 256;

/// Where one service of an account is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) primary: Endpoint,
    /// Where it can be read when the primary fails, if the account has that.
    pub(crate) secondary: Option<Endpoint>,
}

/// Where the services of an account are, as far as they are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    places: PerService<Place>,
    flavor: Flavor,
}

/// Endpoints as they were given, before the missing ones are told from the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) primary: PerService<Endpoint>,
    pub(crate) secondary: PerService<Endpoint>,
}

/// Something that each service may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerService<T>([Option<T>; 3]);

/// The services in the order in which an account is shown.
pub(crate) const SERVICES: [Service; 3] = [Service::Table, Service::Queue, Service::Blob];

impl Endpoint {
    /// Checks an endpoint. `part` is what the caller calls it.
    pub(crate) fn parse(part: &str, text: &str) -> Result<Self> {
        let wrong = |what: &str| Err(Error::invalid(format!("{part} {what}")));
        let Ok(mut url) = Url::parse(text.trim()) else {
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
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let Ok(authority) = HeaderValue::try_from(authority) else {
            return wrong("has a host that cannot stand in a header");
        };
        let (host, base) = (host.to_owned(), url.as_str().trim_end_matches('/').to_owned());
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&"-".repeat(ROOM));
        Ok(Self { base, url, path, authority, host, port, secure, named: false })
    }

    /// The address of a target below this one: a path and perhaps a query, both encoded. `more` is
    /// added to the query.
    pub(crate) fn address(&self, target: &str, more: &str) -> Url {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut url = self.url.clone();
        // Not parsed as a whole: most of that would be spent on the host, which is known.
        if self.path.is_empty() {
            url.set_path(path);
        } else {
            url.set_path(&[&self.path, path].concat());
        }
        match (query, more) {
            ("", "") => {}
            (one, "") | ("", one) => url.set_query(Some(one)),
            (query, more) => url.set_query(Some(&[query, "&", more].concat())),
        }
        url
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

    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether it is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
    }

    /// Whether it has no https, and may be sent secrets nevertheless: an emulator on this machine, or
    /// a host that was asked for by name.
    pub(crate) fn is_trusted_http(&self) -> bool {
        !self.secure && (self.named || self.is_loopback())
    }

    /// Refuses to send a secret that everybody on the way could read and use. `secret` is what the
    /// message calls it.
    pub(crate) fn check_secret(&self, secret: &str) -> Result<()> {
        if self.secure || self.is_trusted_http() {
            return Ok(());
        }
        let what = format!("{secret} is not sent over plain http to another machine");
        Err(Error::invalid(what).advise(
            "give an https endpoint, or name the host with `StorageAccountBuilder::allow_http_to`",
        ))
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
        if self.path_segment() == Some(account) {
            return Self::parse("", &format!("{}-secondary", self.base)).ok();
        }
        let rest = self.host.strip_prefix(account)?;
        if !rest.starts_with('.') || self.path_segment().is_some() {
            return None;
        }
        self.at_host(&format!("{account}-secondary{rest}"))
    }

    /// The same scheme, port and path at another host.
    fn at_host(&self, host: &str) -> Option<Self> {
        let scheme = if self.secure { "https" } else { "http" };
        let rest = &self.base[scheme.len() + "://".len() + self.host.len()..];
        Self::parse("", &format!("{scheme}://{host}{rest}")).ok()
    }

    /// The path, if it is a single segment.
    fn path_segment(&self) -> Option<&str> {
        let (_, rest) = self.base.split_once("://")?;
        let (_, path) = rest.split_once('/')?;
        (!path.contains('/')).then_some(path)
    }

    /// Where another service of the same account is, if the address follows the service's pattern.
    fn sibling(&self, own: Service, other: Service) -> Option<Self> {
        let (account, rest) = self.host.split_once('.')?;
        let rest = rest.strip_prefix(label(own))?;
        if !rest.starts_with('.') || self.path_segment().is_some() {
            return None;
        }
        self.at_host(&format!("{account}.{}{rest}", label(other)))
    }

    /// Whether it is the address of one server, which says nothing of where others are: an
    /// emulator's, or Cosmos DB's, which has tables alone.
    fn stands_alone(&self) -> bool {
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

impl Given {
    /// Tells the missing endpoints from those that are given, or else from the account's name.
    /// `pattern` makes an endpoint of the name; what it says counts only where nothing is given.
    pub(crate) fn complete(
        &mut self,
        pattern: impl Fn(Service) -> Option<Result<Endpoint>>,
    ) -> Result<()> {
        let given = self.primary.clone();
        let nothing = given.iter().next().is_none();
        if given.iter().any(|(_, endpoint)| endpoint.stands_alone()) {
            return Ok(());
        }
        for service in SERVICES {
            if given.get(service).is_some() {
                continue;
            }
            let sibling = given.iter().find_map(|(own, endpoint)| endpoint.sibling(own, service));
            let endpoint = match (sibling, pattern(service)) {
                (Some(sibling), _) => Some(sibling),
                (None, Some(endpoint)) if nothing => Some(endpoint?),
                (None, endpoint) => endpoint.and_then(Result::ok),
            };
            self.primary.set(service, endpoint);
        }
        Ok(())
    }

    /// The account that an endpoint names.
    pub(crate) fn account(&self) -> Option<&str> {
        self.primary.iter().find_map(|(_, endpoint)| endpoint.account())
    }
}

impl Endpoints {
    /// With the secondaries that are given, or else those that the service's pattern gives.
    pub(crate) fn new(given: Given, account: &str) -> Self {
        let Given { primary, mut secondary } = given;
        let flavor = primary.get(Service::Table).map_or(Flavor::Storage, Endpoint::flavor);
        let mut places = PerService::default();
        for (service, primary) in primary.into_iter() {
            let secondary = secondary.take(service).or_else(|| primary.secondary(account));
            places.set(service, Some(Place { primary, secondary }));
        }
        Self { places, flavor }
    }

    /// The same places, said to be Cosmos DB's although their names do not tell.
    pub(crate) fn of_cosmos(self) -> Self {
        Self { flavor: Flavor::Cosmos, ..self }
    }

    /// The same places, of which these hosts may be sent secrets over plain http.
    pub(crate) fn trusting(mut self, hosts: &[String]) -> Self {
        for place in self.places.0.iter_mut().flatten() {
            for endpoint in std::iter::once(&mut place.primary).chain(&mut place.secondary) {
                endpoint.named = hosts.iter().any(|host| host.eq_ignore_ascii_case(&endpoint.host));
            }
        }
        self
    }

    /// Where a service is, if anything says so.
    pub(crate) fn of(&self, service: Service) -> Option<&Place> {
        self.places.get(service)
    }

    /// The primary's base, or nothing.
    pub(crate) fn base(&self, service: Service) -> &str {
        self.of(service).map_or("", |place| place.primary.base())
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.all().any(Endpoint::is_secure)
    }

    /// Whether no proxy may come in between: everything is on this machine, or was asked for by name,
    /// and a proxy would read what is sent.
    pub(crate) fn is_direct(&self) -> bool {
        self.all().all(|endpoint| endpoint.is_loopback() || endpoint.is_trusted_http())
    }

    /// Whether every service can be read when its primary fails.
    pub(crate) fn has_secondaries(&self) -> bool {
        self.places.iter().all(|(_, place)| place.secondary.is_some())
    }

    pub(crate) fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Whom a token is for. That of storage is the same in all clouds.
    pub(crate) fn audience(&self) -> &'static str {
        let host = self.of(Service::Table).map_or("", |place| place.primary.host());
        match self.flavor {
            Flavor::Storage => "https://storage.azure.com",
            Flavor::Cosmos if host.ends_with(".azure.us") => "https://cosmos.azure.us",
            Flavor::Cosmos if host.ends_with(".azure.cn") => "https://cosmos.azure.cn",
            Flavor::Cosmos => "https://cosmos.azure.com",
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Endpoint> {
        let places = self.places.iter();
        places.flat_map(|(_, place)| std::iter::once(&place.primary).chain(&place.secondary))
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

    fn iter(&self) -> impl Iterator<Item = (Service, &T)> {
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

/// How hosts name a service.
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
