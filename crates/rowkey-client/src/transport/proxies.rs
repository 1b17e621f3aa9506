//! Which proxy a request passes: that of the options, or one that environment variables name.

use std::ffi::OsString;
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;

use crate::address::is_loopback;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::options::connection::Proxy;
use crate::options::proxy::ProxyAddress;

/// The proxies of requests.
#[derive(Clone)]
pub(super) enum Proxies {
    Environment(Arc<Environment>),
    At(ProxyAddress),
    None,
}

impl Proxies {
    /// The proxies for these endpoints. `variable` reads the environment.
    ///
    /// Fails if a variable that applies to one of the endpoints does not name an HTTP proxy.
    pub(super) fn new(
        proxy: &Proxy,
        endpoints: &[Target],
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self> {
        match proxy {
            Proxy::Environment if endpoints.iter().all(|target| target.is_direct) => Ok(Self::None),
            Proxy::Environment => Environment::read(endpoints, variable),
            Proxy::At(address) => Ok(Self::At(address.clone())),
            Proxy::None => Ok(Self::None),
        }
    }

    /// The proxy that a request passes.
    ///
    /// What is sent over plain http to this machine may have secrets in it, because it does not leave the machine. A proxy
    /// elsewhere would read them, and could not reach the server either.
    pub(super) fn of(&self, uri: &Uri) -> Option<&ProxyAddress> {
        let proxy = match self {
            Self::Environment(environment) => environment.of(uri),
            Self::At(address) => Some(address),
            Self::None => None,
        }?;
        let is_here = |uri: &Uri| is_loopback(uri.host().unwrap_or_default());
        let would_leave =
            uri.scheme() == Some(&Scheme::HTTP) && is_here(uri) && !is_here(proxy.uri());
        (!would_leave).then_some(proxy)
    }
}

/// An endpoint as the target of requests.
pub(super) struct Target {
    uri: Uri,
    /// Whether no proxy of the environment may be used: the endpoint is on this machine, or may receive secrets over plain
    /// http, and the proxy could read them.
    is_direct: bool,
}

impl Target {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self> {
        let is_direct = endpoint.is_loopback() || endpoint.is_trusted_http();
        Ok(Self { uri: endpoint.address("/", "")?, is_direct })
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }
}

/// The proxies that the environment names.
pub(super) struct Environment {
    http: Option<ProxyAddress>,
    https: Option<ProxyAddress>,
    exclusions: Exclusions,
}

/// The hosts that are reached without a proxy.
struct Exclusions {
    /// Has a proxy for all hosts but those in `NO_PROXY`.
    variable: Matcher,
    /// Scheme and authority of endpoints.
    direct: Vec<Uri>,
}

impl Environment {
    fn read(targets: &[Target], variable: impl Fn(&str) -> Option<OsString>) -> Result<Proxies> {
        // In a CGI program, HTTP_PROXY is the header `Proxy` of a request.
        if variable("REQUEST_METHOD").is_some() {
            return Ok(Proxies::None);
        }
        // As in curl: the first one that is set, even if it is empty.
        let value = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| Some((name, variable(name)?)))
        };
        let all = value(["ALL_PROXY", "all_proxy"]);
        let of_scheme = |names| {
            let own = value(names).filter(|(_, value)| !value.is_empty());
            own.or_else(|| all.clone()).filter(|(_, value)| !value.is_empty())
        };
        let (http, https) =
            (of_scheme(["HTTP_PROXY", "http_proxy"]), of_scheme(["HTTPS_PROXY", "https_proxy"]));
        let no = value(["NO_PROXY", "no_proxy"]).map(|(_, value)| value).unwrap_or_default();
        let no = no.to_string_lossy().into_owned();
        let direct = targets.iter().filter(|target| target.is_direct);
        let exclusions = Exclusions {
            variable: Matcher::builder().all("http://proxy").no(no).build(),
            direct: direct.map(|target| target.uri.clone()).collect(),
        };
        // What applies to no endpoint is not checked: it may be for other programs.
        let checked = |scheme: &Scheme, value: Option<(&str, OsString)>| {
            let is_used = |target: &Target| {
                target.uri.scheme() == Some(scheme) && !exclusions.contain(&target.uri)
            };
            let applied = value.filter(|_| targets.iter().any(is_used));
            applied.map(|(name, value)| parse(name, value)).transpose()
        };
        let (http, https) = (checked(&Scheme::HTTP, http)?, checked(&Scheme::HTTPS, https)?);
        if http.is_none() && https.is_none() {
            return Ok(Proxies::None);
        }
        Ok(Proxies::Environment(Arc::new(Self { http, https, exclusions })))
    }

    fn of(&self, uri: &Uri) -> Option<&ProxyAddress> {
        let is_https = uri.scheme() == Some(&Scheme::HTTPS);
        let proxy = if is_https { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !self.exclusions.contain(uri))
    }
}

impl Exclusions {
    fn contain(&self, uri: &Uri) -> bool {
        let is_same =
            |other: &Uri| (other.scheme(), other.authority()) == (uri.scheme(), uri.authority());
        self.direct.iter().any(is_same) || self.variable.intercept(uri).is_none()
    }
}

/// The proxy that a variable names. The scheme may be missing, as for other programs. Errors do not show the value, which
/// may have a password.
fn parse(name: &str, value: OsString) -> Result<ProxyAddress> {
    let value = value.into_string().unwrap_or_default();
    let value = value.trim();
    let scheme = value.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    if scheme.as_ref().is_some_and(|scheme| scheme.starts_with("socks")) {
        let what =
            format!("{name} names a SOCKS proxy, and connections can use HTTP proxies alone");
        return Err(Error::invalid(what).advise(
            "name an HTTP proxy in it or in `ConnectionOptions::proxy`, add the hosts of the account to NO_PROXY, or connect \
             by `ConnectionOptions::without_proxy`",
        ));
    }
    let parsed = match scheme {
        Some(_) => ProxyAddress::parse(value),
        None => ProxyAddress::parse(&format!("http://{value}")),
    };
    parsed.ok_or_else(|| {
        let what = format!("{name} has no address of a proxy such as http://host:port");
        Error::invalid(what).advise(
            "correct it, percent-encode what is neither a letter nor a digit in user and password, or unset it",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AZURE: &str = "https://acct.table.core.windows.net";

    /// The proxy of each endpoint in an environment.
    fn routes(variables: &[(&str, &str)], endpoints: &[&str]) -> Result<Vec<Option<String>>> {
        let targets = endpoints.iter().map(|text| Target::new(&Endpoint::parse("it", text)?));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let value = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| OsString::from(*value))
        };
        let proxies = Proxies::new(&Proxy::Environment, &targets, value)?;
        let route = |target: &Target| Some(proxies.of(&target.uri)?.uri().to_string());
        Ok(targets.iter().map(route).collect())
    }

    fn error(variables: &[(&str, &str)], endpoints: &[&str]) -> String {
        routes(variables, endpoints).unwrap_err().to_string()
    }

    #[test]
    fn the_variable_of_the_scheme_comes_before_that_of_all() -> Result<()> {
        for (variables, expected) in [
            (&[][..], None),
            (&[("HTTPS_PROXY", "http://a:1")], Some("http://a:1/")),
            (&[("HTTP_PROXY", "http://a:1")], None),
            (&[("https_proxy", "http://a:1")], Some("http://a:1/")),
            (&[("ALL_PROXY", "HTTPS://a:1")], Some("https://a:1/")),
            (&[("ALL_PROXY", "a:1")], Some("http://a:1/")),
            (&[("all_proxy", "b:1"), ("HTTPS_PROXY", "a:1")], Some("http://a:1/")),
            (&[("HTTPS_PROXY", ""), ("ALL_PROXY", "b:1")], Some("http://b:1/")),
            (&[("ALL_PROXY", "")], None),
            (&[("HTTPS_PROXY", "a:1"), ("NO_PROXY", ".windows.net")], None),
            (&[("HTTPS_PROXY", "a:1"), ("NO_PROXY", "*")], None),
            (&[("HTTPS_PROXY", "a:1"), ("no_proxy", "contoso.com")], Some("http://a:1/")),
            (&[("HTTPS_PROXY", "a:1"), ("REQUEST_METHOD", "GET")], None),
        ] {
            assert_eq!(
                routes(variables, &[AZURE])?,
                [expected.map(str::to_owned)],
                "{variables:?}"
            );
        }
        Ok(())
    }

    #[test]
    fn a_socks_proxy_that_would_be_used_is_refused() -> Result<()> {
        for proxy in ["socks5://127.0.0.1:1080", "SOCKS5H://u:secret@proxy:1080", "socks4://proxy"]
        {
            for name in ["ALL_PROXY", "https_proxy"] {
                let error = error(&[(name, proxy)], &[AZURE]);
                assert!(error.starts_with(&format!("{name} names a SOCKS proxy")), "{error}");
                assert!(!error.contains("secret"), "{error}");
            }
            let none = [None];
            let all = ("ALL_PROXY", proxy);
            assert_eq!(routes(&[all, ("NO_PROXY", "core.windows.net")], &[AZURE])?, none);
            assert_eq!(routes(&[("HTTP_PROXY", proxy)], &[AZURE])?, none);
            assert_eq!(routes(&[all], &["http://127.0.0.1:10002/acct"])?, none);
            let other = [Some("http://a:1/".to_owned())];
            assert_eq!(routes(&[all, ("HTTPS_PROXY", "http://a:1")], &[AZURE])?, other);
        }
        Ok(())
    }

    #[test]
    fn a_variable_that_cannot_be_read_is_refused_and_not_shown() {
        for proxy in
            ["http://u:secret^@a:1", "http://u:s@secret@a", "ftp://secret", "a b", "a/secret"]
        {
            let error = error(&[("HTTPS_PROXY", proxy), ("ALL_PROXY", "b:1")], &[AZURE]);
            assert!(error.starts_with("HTTPS_PROXY has no address of a proxy"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn endpoints_that_may_receive_secrets_over_http_have_no_proxy_of_the_environment() -> Result<()>
    {
        let endpoints = [AZURE, "http://127.0.0.1:10002/acct", "https://localhost:10001/acct"];
        let expected = [Some("http://a:1/".to_owned()), None, None];
        assert_eq!(routes(&[("ALL_PROXY", "http://a:1")], &endpoints)?, expected);
        let trusted = Endpoint::parse("it", "http://rowkey:10002/acct")?;
        let trusted = Target { is_direct: true, ..Target::new(&trusted)? };
        let targets = [Target::new(&Endpoint::parse("it", AZURE)?)?, trusted];
        let value = |name: &str| (name == "ALL_PROXY").then(|| OsString::from("http://a:1"));
        let proxies = Proxies::new(&Proxy::Environment, &targets, value)?;
        assert!(proxies.of(&targets[0].uri).is_some() && proxies.of(&targets[1].uri).is_none());
        Ok(())
    }

    #[test]
    fn plain_http_to_this_machine_stays_on_it() {
        let elsewhere = "http://anna:secret@proxy.example:3128";
        for (proxy, uri, passes) in [
            (elsewhere, "http://127.0.0.1:10002/acct/Tables", false),
            (elsewhere, "http://localhost:10002/acct/Tables", false),
            (elsewhere, "http://[::1]:10002/acct/Tables", false),
            (elsewhere, "http://rowkey:10002/acct/Tables", true),
            (elsewhere, "https://127.0.0.1:10002/acct/Tables", true),
            ("http://anna:secret@127.0.0.1:3128", "http://127.0.0.1:10002/acct/Tables", true),
        ] {
            let proxy = Proxies::At(ProxyAddress::parse(proxy).unwrap());
            assert_eq!(proxy.of(&Uri::from_static(uri)).is_some(), passes, "{uri}");
        }
    }
}
