//! Handles from URLs with a shared access signature, such as those that the portal creates.

use percent_encoding::percent_decode_str;
use rowkey_wire::auth::{PARTS, Service};

use crate::account::StorageAccount;
use crate::account::builder::StorageAccountBuilder;
use crate::address::Address;
use crate::blob::{Blob, Container};
use crate::credential::Credential;
use crate::endpoint::{SERVICES, label};
use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::table::Table;

impl StorageAccount {
    /// Creates an account from a service's URL with a shared access signature,
    /// `https://contoso.table.core.windows.net/?sv=..&sig=..`. Nothing is sent.
    ///
    /// The host determines the service; the other services are at the hosts that follow the same pattern.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the URL has no signature, has
    /// parameters that do not belong to a signature, or if its host does not name the service, as with emulators;
    /// for these, set endpoint and signature on [`StorageAccountBuilder`].
    ///
    /// ```
    /// use rowkey::StorageAccount;
    ///
    /// let account =
    ///     StorageAccount::from_sas_url("https://contoso.table.core.windows.net/?sv=2019-02-02&sig=x")?;
    /// assert_eq!(account.name(), "contoso");
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn from_sas_url(url: &str) -> Result<Self> {
        let address = Signed::parse(url)?;
        let host = &address.url.host;
        let is_of = |service: &Service| host.split('.').nth(1) == Some(label(*service));
        let Some(service) = SERVICES.into_iter().find(is_of) else {
            return Err(Error::invalid("the URL does not identify a service")
                .advise("give endpoint and signature to `StorageAccount::builder()`"));
        };
        address.account(service, 0).map(|(account, _)| account)
    }
}

impl Table {
    /// Creates a handle from a table's URL with a shared access signature,
    /// `https://contoso.table.core.windows.net/Employees?sv=..&tn=employees&sig=..`. Nothing is sent.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the URL has no signature or no table,
    /// or has parameters that do not belong to a signature.
    ///
    /// ```
    /// use rowkey::Table;
    ///
    /// let url = "https://contoso.table.core.windows.net/Employees?sv=2019-02-02&tn=employees&sig=x";
    /// let table = Table::from_sas_url(url)?;
    /// assert_eq!((table.name(), table.account().name()), ("Employees", "contoso"));
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn from_sas_url(url: &str) -> Result<Self> {
        let (account, names) = Signed::parse(url)?.account(Service::Table, 1)?;
        Ok(account.table(&names[0]))
    }
}

impl Queue {
    /// Creates a handle from a queue's URL with a shared access signature, as
    /// [`Table::from_sas_url`] does for tables.
    pub fn from_sas_url(url: &str) -> Result<Self> {
        let (account, names) = Signed::parse(url)?.account(Service::Queue, 1)?;
        Ok(account.queue(&names[0]))
    }
}

impl Container {
    /// Creates a handle from a container's URL with a shared access signature, as
    /// [`Table::from_sas_url`] does for tables.
    pub fn from_sas_url(url: &str) -> Result<Self> {
        let (account, names) = Signed::parse(url)?.account(Service::Blob, 1)?;
        Ok(account.container(&names[0]))
    }
}

impl Blob {
    /// Creates a handle from a blob's URL with a shared access signature, as [`Table::from_sas_url`] does for
    /// tables. The name of the blob may have several segments.
    pub fn from_sas_url(url: &str) -> Result<Self> {
        let (account, names) = Signed::parse(url)?.account(Service::Blob, 2)?;
        Ok(account.container(&names[0]).blob(&names[1]))
    }
}

/// The URL of a resource, and its signature.
struct Signed {
    url: Address,
    credential: Credential,
}

impl Signed {
    fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| Error::invalid(format!("the address {what}"));
        let url = Address::parse(text).map_err(|_| wrong("is not an absolute URL"))?;
        if url.has_user {
            return Err(wrong(
                "has a user name or password in it; the signature is its credential",
            ));
        }
        let Some(query) = url.query.as_deref() else {
            return Err(wrong("has no shared access signature"));
        };
        if url.has_fragment {
            return Err(wrong("has a fragment").advise("encode `#` in a name as %23"));
        }
        let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
        let names = parameters.map(|one| one.split_once('=').map_or(one, |(name, _)| name));
        let mut seen: Vec<&str> = Vec::new();
        for name in names {
            // A snapshot or version in the address would be added to requests for everything else.
            let is_known = PARTS.contains(&name) && !["snapshot", "versionid"].contains(&name);
            if !is_known && !["sig", "sdd"].contains(&name) {
                let error = wrong("has parameters that do not belong to a shared access signature");
                return Err(error.advise("give the address without them"));
            }
            if seen.contains(&name) {
                return Err(wrong("has a parameter twice"));
            }
            seen.push(name);
        }
        let credential = Credential::sas(query)?;
        Ok(Self { url, credential })
    }

    /// The account, and the `count` names after it in the path. The last name is the rest of the
    /// path.
    fn account(self, service: Service, count: usize) -> Result<(StorageAccount, Vec<String>)> {
        let path = self.url.path.trim_matches('/').to_owned();
        // The path has the account's name if the host is an IP address or has one label, or if the port is
        // not the default.
        let is_host_style = self.url.port.is_none() && self.url.has_domain();
        let parts = count + usize::from(!is_host_style);
        let segments: Vec<_> =
            path.splitn(parts.max(1), '/').filter(|one| !one.is_empty()).collect();
        if segments.len() != parts {
            let what =
                format!("the address has {} names in its path, and needs {parts}", segments.len());
            return Err(Error::invalid(what).advise(
                "give the address of the resource that the function is for; an emulator's begins with \
                 the name of the account",
            ));
        }
        let (account, names) = segments.split_at(parts - count);
        let decoded = names.iter().map(|name| percent_decode_str(name).decode_utf8());
        let names: std::result::Result<Vec<_>, _> =
            decoded.map(|name| name.map(std::borrow::Cow::into_owned)).collect();
        let Ok(names) = names else {
            return Err(Error::invalid("a name in the path of the address is not UTF-8"));
        };
        let (scheme, authority) = (self.url.scheme(), self.url.authority());
        let url = format!("{scheme}://{authority}/{}", account.join("/"));
        let builder = StorageAccount::builder().credential(self.credential);
        let builder: Result<StorageAccountBuilder> = match service {
            Service::Table => builder.endpoint(Service::Table, &url),
            Service::Queue => builder.endpoint(Service::Queue, &url),
            Service::Blob => builder.endpoint(Service::Blob, &url),
        };
        Ok((builder?.build()?, names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::Authority;
    use crate::error::ErrorKind;

    const SAS: &str = "sv=2019-02-02&sp=r&sig=a%3D";

    #[test]
    fn the_account_is_in_the_host_or_in_front_of_the_resource_path() -> Result<()> {
        for (url, base, names) in [
            (
                "https://contoso.table.core.windows.net/Jobs",
                "https://contoso.table.core.windows.net",
                "Jobs",
            ),
            (
                "https://contoso.table.cosmos.azure.com:443/Jobs/",
                "https://contoso.table.cosmos.azure.com",
                "Jobs",
            ),
            (
                "http://127.0.0.1:10002/devstoreaccount1/Jobs",
                "http://127.0.0.1:10002/devstoreaccount1",
                "Jobs",
            ),
            ("https://localhost/acct/Jobs", "https://localhost/acct", "Jobs"),
        ] {
            let table = Table::from_sas_url(&format!("{url}?{SAS}"))?;
            assert_eq!(table.name(), names);
            let pipeline = table.account().pipeline();
            assert_eq!(pipeline.endpoints().base(Service::Table), base);
            let Authority::Sas(sas) = pipeline.credential().settled() else { panic!("{url}") };
            assert_eq!(&*sas, SAS);
        }
        let queue = Queue::from_sas_url(&format!("https://a.queue.core.windows.net/jobs?{SAS}"))?;
        assert_eq!(queue.name(), "jobs");
        let url = format!("https://a.blob.core.windows.net/c?{SAS}");
        assert_eq!(Container::from_sas_url(&url)?.name(), "c");
        for (url, name) in [
            ("https://a.blob.core.windows.net/c/d/e%20f.txt", "d/e f.txt"),
            ("http://127.0.0.1:10000/devstoreaccount1/c/d", "d"),
        ] {
            assert_eq!(Blob::from_sas_url(&format!("{url}?{SAS}"))?.name(), name);
        }
        Ok(())
    }

    #[test]
    fn incomplete_and_ambiguous_urls_are_rejected_without_being_shown() {
        for (url, what) in [
            ("contoso/secret?sig=secret", "is not an absolute URL"),
            ("https://contoso.table.core.windows.net/secret", "has no shared access signature"),
            ("https://contoso.table.core.windows.net/secret?sv=secret", "has no `sig`"),
            (
                "https://contoso.table.core.windows.net/?sig=secret",
                "has 0 names in its path, and needs 1",
            ),
            ("http://127.0.0.1:10002/secret?sig=secret", "has 1 names in its path, and needs 2"),
            (
                "https://contoso.table.core.windows.net/t?sig=secret&timeout=5",
                "parameters that do not belong",
            ),
            ("http://contoso.table.core.windows.net/t?sig=secret", "plain http"),
        ] {
            let error = Table::from_sas_url(url).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
        let error = StorageAccount::from_sas_url("http://127.0.0.1:10002/a?sig=x").unwrap_err();
        assert!(error.to_string().contains("does not identify a service"), "{error}");
    }

    /// Base64 that stands for a secret.
    const SECRET: &str = "c2VjcmV0";

    #[test]
    fn addresses_with_a_signature_have_no_part_without_effect() {
        let host = "https://a.blob.core.windows.net/c";
        for (url, named) in [
            (format!("{host}?sv=1&sig={SECRET}#{SECRET}"), "the address has a fragment"),
            (
                format!("{host}?sv=1&sig={SECRET}&snapshot=2026"),
                "the address has parameters that do not",
            ),
            (format!("{host}?sv=1&sig={SECRET}&sig=x"), "the address has a parameter twice"),
            (format!("{host}?sv=1&SV=2&sig={SECRET}"), "the address has parameters that do not"),
            (
                format!("https://u:{SECRET}@a.blob.core.windows.net/c?sig=x"),
                "the address has a user name",
            ),
            (
                format!("https://@a.blob.core.windows.net/c?sv=1&sig={SECRET}"),
                "the address has a user name",
            ),
            (
                format!("https://a.blob.core.windows.net\\@{SECRET}.example/c?sv=1&sig=x"),
                "the address is not an absolute URL",
            ),
        ] {
            let error = Container::from_sas_url(&url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{named}");
            assert!(error.to_string().starts_with(named), "{error}");
            assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
        }
        // All parameters of signatures, those of the newest versions included.
        let url = format!("{host}?sv=1&skdutid=1&sduoid=2&srh=3&srq=4&saoid=5&sdd=1&sig={SECRET}");
        assert_eq!(Container::from_sas_url(&url).unwrap().name(), "c");
    }
}
