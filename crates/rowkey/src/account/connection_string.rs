//! Parsing of connection strings, in all forms that Azure and the emulators use.

use rowkey_wire::auth::Service;

use super::endpoint::{ConfiguredEndpoints, Endpoint, SERVICES, label};
use crate::credential::Credential;
use crate::error::{Error, Result};

/// The parts of an account that a connection string contains.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) name: String,
    /// `None` if the text has neither a key nor a signature.
    pub(crate) credential: Option<Credential>,
    pub(crate) given: ConfiguredEndpoints,
}

/// The account of every emulator. Its key is published and not a secret.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

impl Parts {
    /// Parses a connection string. Errors name the part that is wrong, never its value.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let pairs = Pairs::parse(text)?;
        if pairs.is_emulator()? {
            return pairs.emulator();
        }
        let (name, given) = pairs.endpoints()?;
        let credential = pairs.credential(name.as_deref())?;
        let Some(name) = name.or_else(|| given.account().map(str::to_owned)) else {
            return Err(missing("AccountName"));
        };
        Ok(Self { name, credential, given })
    }
}

/// The address of an account's service, by Azure's naming pattern.
pub(crate) fn pattern(
    service: Service,
    protocol: &str,
    name: &str,
    suffix: &str,
) -> Result<Endpoint> {
    let is_label = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !is_label {
        return Err(Error::invalid("the account name is invalid in a host name"));
    }
    let suffix = suffix.trim_matches('.');
    let service = label(service);
    Endpoint::parse("EndpointSuffix", &format!("{protocol}://{name}.{service}.{suffix}"))
}

/// The parts of a connection string, by name.
struct Pairs<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Pairs<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        if ["http://", "https://"].iter().any(|scheme| text.trim_start().starts_with(scheme)) {
            return Err(Error::invalid("the text is an address and no connection string").advise(
                "`from_sas_url` of the account, the table, the queue or the blob takes an address with \
                 a signature",
            ));
        }
        for (i, part) in text.split(';').enumerate() {
            if part.trim().is_empty() {
                continue;
            }
            let Some((name, value)) = part.split_once('=') else {
                let place = i + 1;
                return Err(Error::invalid(format!(
                    "part {place} of the connection string is not `Name=value`"
                )));
            };
            let (name, value) = (name.trim(), value.trim());
            if pairs.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                // An unknown name may be part of a value, so errors do not show it.
                let shown = KNOWN.iter().find(|known| known.eq_ignore_ascii_case(name));
                let shown = shown.copied().unwrap_or("a part");
                return Err(Error::invalid(format!("the connection string has {shown} twice")));
            }
            pairs.push((name, value));
        }
        if pairs.is_empty() {
            return Err(Error::invalid("the connection string is empty"));
        }
        Ok(Self(pairs))
    }

    /// The value of a part, if it is present and not empty.
    fn get(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        (!value.is_empty()).then_some(*value)
    }

    fn is_emulator(&self) -> Result<bool> {
        match self.get("UseDevelopmentStorage") {
            None => Ok(false),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(_) => Err(Error::invalid("UseDevelopmentStorage can only be `true`")),
        }
    }

    /// The emulator on this machine, or on the host in `DevelopmentStorageProxyUri`.
    fn emulator(&self) -> Result<Parts> {
        let origin = match self.get("DevelopmentStorageProxyUri") {
            None => "http://127.0.0.1".to_owned(),
            Some(uri) => {
                let proxy = Endpoint::parse("DevelopmentStorageProxyUri", uri)?;
                let scheme = if proxy.is_secure() { "https" } else { "http" };
                format!("{scheme}://{}", proxy.host())
            }
        };
        let mut given = ConfiguredEndpoints::default();
        for (service, port) in
            [(Service::Blob, 10_000), (Service::Queue, 10_001), (Service::Table, 10_002)]
        {
            let base = format!("{origin}:{port}/{EMULATOR_ACCOUNT}");
            given.primary.set(service, Some(Endpoint::parse("DevelopmentStorageProxyUri", &base)?));
        }
        Ok(Parts {
            name: EMULATOR_ACCOUNT.to_owned(),
            credential: Some(Credential::shared_key(EMULATOR_ACCOUNT, EMULATOR_KEY)?),
            given,
        })
    }

    /// The account's name, if it is known, and the endpoints of its services.
    fn endpoints(&self) -> Result<(Option<String>, ConfiguredEndpoints)> {
        let mut name = self.get("AccountName").map(str::to_owned);
        let mut given = ConfiguredEndpoints::default();
        for service in SERVICES {
            let (primary, secondary) = parts(service);
            for (part, ends) in [(primary, &mut given.primary), (secondary, &mut given.secondary)] {
                let endpoint = self.get(part).map(|text| Endpoint::parse(part, text));
                ends.set(service, endpoint.transpose()?);
            }
        }
        if let (None, Some(endpoint)) =
            (given.primary.get(Service::Table), self.get("AccountEndpoint"))
        {
            let (known, endpoint) = cosmos(name.as_deref(), endpoint)?;
            name = known;
            given.primary.set(Service::Table, Some(endpoint));
        }
        let protocol = self.get("DefaultEndpointsProtocol").unwrap_or("https");
        let suffix = self.get("EndpointSuffix").unwrap_or("core.windows.net");
        given.complete(|service| {
            let name = name.as_deref()?;
            let protocol = match protocol.to_ascii_lowercase().as_str() {
                "https" => "https",
                "http" => "http",
                _ => {
                    let what = "DefaultEndpointsProtocol is neither http nor https";
                    return Some(Err(Error::invalid(what)));
                }
            };
            Some(pattern(service, protocol, name, suffix))
        })?;
        if SERVICES.iter().all(|service| given.primary.get(*service).is_none()) {
            return Err(missing("AccountName or endpoint"));
        }
        Ok((name, given))
    }

    fn credential(&self, name: Option<&str>) -> Result<Option<Credential>> {
        match (self.get("AccountKey"), self.get("SharedAccessSignature")) {
            (Some(_), Some(_)) => Err(Error::invalid(
                "the connection string has both AccountKey and SharedAccessSignature",
            )
            .advise("keep one")),
            (Some(key), None) => match name {
                Some(name) => Credential::shared_key(name, key).map(Some),
                None => Err(missing("AccountName")),
            },
            (None, Some(sas)) => Credential::sas(sas).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// The table endpoint of an Azure Cosmos DB account whose general endpoint is given.
fn cosmos(name: Option<&str>, endpoint: &str) -> Result<(Option<String>, Endpoint)> {
    let general = Endpoint::parse("AccountEndpoint", endpoint)?;
    let name = name.or_else(|| general.host().strip_suffix(".documents.azure.com"));
    let Some(name) = name else {
        return Err(Error::invalid("AccountEndpoint does not contain the account name")
            .advise("give TableEndpoint instead"));
    };
    let endpoint = format!("https://{name}.table.cosmos.azure.com:443");
    Ok((Some(name.to_owned()), Endpoint::parse("AccountEndpoint", &endpoint)?))
}

#[cold]
pub(crate) fn missing(part: &str) -> Error {
    Error::invalid(format!("the connection string has no {part}"))
}

/// The names of the parts with a service's primary and secondary endpoint.
fn parts(service: Service) -> (&'static str, &'static str) {
    match service {
        Service::Blob => ("BlobEndpoint", "BlobSecondaryEndpoint"),
        Service::Queue => ("QueueEndpoint", "QueueSecondaryEndpoint"),
        Service::Table => ("TableEndpoint", "TableSecondaryEndpoint"),
    }
}

/// The names that an error may show.
const KNOWN: [&str; 14] = [
    "AccountEndpoint",
    "AccountKey",
    "AccountName",
    "BlobEndpoint",
    "BlobSecondaryEndpoint",
    "DefaultEndpointsProtocol",
    "DevelopmentStorageProxyUri",
    "EndpointSuffix",
    "QueueEndpoint",
    "QueueSecondaryEndpoint",
    "SharedAccessSignature",
    "TableEndpoint",
    "TableSecondaryEndpoint",
    "UseDevelopmentStorage",
];
