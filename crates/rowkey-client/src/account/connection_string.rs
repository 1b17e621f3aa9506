//! Parsing of connection strings, in all forms that Azure and the emulators use.

use rowkey_wire::auth::Service;

use super::consistency::{Defaults, PARTS, contradiction, no_effect};
use crate::credential::Credential;
use crate::endpoint::{ConfiguredEndpoints, Endpoint, SERVICES};
use crate::error::{Error, Result};

/// The parts of an account that a connection string contains.
#[derive(Debug)]
pub(crate) struct Parts {
    /// `None` if an endpoint alone shows it.
    pub(crate) name: Option<String>,
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
        if name.is_none() && given.account().is_none() {
            return Err(missing("AccountName"));
        }
        Ok(Self { name, credential, given })
    }
}

/// The parts of a connection string, by name.
struct Pairs<'a>(Vec<(&'static str, &'a str)>);

impl<'a> Pairs<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let mut pairs: Vec<(&'static str, &str)> = Vec::new();
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
            let place = i + 1;
            let Some((name, value)) = part.split_once('=') else {
                return Err(Error::invalid(format!(
                    "part {place} of the connection string is not `Name=value`"
                )));
            };
            let (name, value) = (name.trim(), value.trim());
            let mut known = KNOWN.iter().chain(&OF_OTHERS);
            let Some(name) = known.find(|known| known.eq_ignore_ascii_case(name)) else {
                // The name may be part of a value, so it is not shown.
                let what = format!("part {place} of the connection string has an unknown name");
                return Err(Error::invalid(what)
                    .advise(format!("remove it, or correct it to one of {}", KNOWN.join(", "))));
            };
            if pairs.iter().any(|(known, _)| known == name) {
                return Err(Error::invalid(format!("the connection string has {name} twice")));
            }
            // A program may have the secret elsewhere. Everything else that is empty is most likely a variable
            // that is not set.
            let may_be_empty = ["AccountKey", "SharedAccessSignature", USE_DEVELOPMENT_STORAGE];
            if value.is_empty() && !may_be_empty.contains(name) && !OF_OTHERS.contains(name) {
                return Err(Error::invalid(format!("{name} is empty"))
                    .advise("give its value, or leave the part out"));
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
        self.present(name).filter(|value| !value.is_empty())
    }

    fn present(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn is_emulator(&self) -> Result<bool> {
        match self.present(USE_DEVELOPMENT_STORAGE) {
            None => Ok(false),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(_) => Err(Error::invalid("UseDevelopmentStorage can only be `true`")),
        }
    }

    /// The emulator on this machine, or on the host in `DevelopmentStorageProxyUri`.
    fn emulator(&self) -> Result<Parts> {
        let allowed = [USE_DEVELOPMENT_STORAGE, PROXY];
        if let Some((other, _)) = self.0.iter().find(|(name, _)| !allowed.contains(name)) {
            return Err(no_effect(other, "beside", USE_DEVELOPMENT_STORAGE).advise(ELSEWHERE));
        }
        let origin = match self.get(PROXY) {
            None => "http://127.0.0.1".to_owned(),
            Some(uri) => {
                let proxy = Endpoint::parse(PROXY, uri)?;
                let wrong = |what| Err(Error::invalid(format!("{PROXY} {what}")).advise(ELSEWHERE));
                if proxy.has_port() {
                    return wrong("has a port, and an emulator has three: 10000, 10001 and 10002");
                }
                if !proxy.path().is_empty() {
                    return wrong("has a path");
                }
                let scheme = if proxy.is_secure() { "https" } else { "http" };
                format!("{scheme}://{}", proxy.host())
            }
        };
        let mut given = ConfiguredEndpoints::default();
        for (service, port) in
            [(Service::Blob, 10_000), (Service::Queue, 10_001), (Service::Table, 10_002)]
        {
            let base = format!("{origin}:{port}/{EMULATOR_ACCOUNT}");
            given.primary.set(service, Some(Endpoint::parse(PROXY, &base)?));
        }
        Ok(Parts {
            name: Some(EMULATOR_ACCOUNT.to_owned()),
            credential: Some(Credential::shared_key(EMULATOR_ACCOUNT, EMULATOR_KEY)?),
            given,
        })
    }

    /// The account's name, if it is known, and the endpoints of its services.
    fn endpoints(&self) -> Result<(Option<String>, ConfiguredEndpoints)> {
        let mut name = self.get("AccountName").map(str::to_owned);
        let mut given = ConfiguredEndpoints::default();
        if self.get(PROXY).is_some() {
            return Err(no_effect(PROXY, "without", USE_DEVELOPMENT_STORAGE));
        }
        for service in SERVICES {
            let [primary, secondary] = (PARTS.endpoints)(service);
            for (part, ends) in [(primary, &mut given.primary), (secondary, &mut given.secondary)] {
                let endpoint = self.get(part).map(|text| Endpoint::parse(part, text));
                ends.set(service, endpoint.transpose()?);
            }
        }
        if let Some(endpoint) = self.get("AccountEndpoint") {
            if given.primary.get(Service::Table).is_some() {
                let what = "the connection string has both AccountEndpoint and TableEndpoint";
                return Err(Error::invalid(what).advise("keep one"));
            }
            let (known, endpoint) = cosmos(name.as_deref(), endpoint)?;
            name = Some(known);
            given.primary.set(Service::Table, Some(endpoint));
        }
        let protocol = match self.get("DefaultEndpointsProtocol") {
            None => None,
            Some(text) if text.eq_ignore_ascii_case("https") => Some("https"),
            Some(text) if text.eq_ignore_ascii_case("http") => Some("http"),
            Some(_) => {
                return Err(Error::invalid("DefaultEndpointsProtocol is neither http nor https"));
            }
        };
        let suffix = self.get("EndpointSuffix");
        given.resolve(Defaults { name: name.as_deref(), protocol, suffix }, &PARTS)?;
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

/// The account and the table endpoint of Azure Cosmos DB whose general endpoint is given,
/// `https://contoso.documents.azure.com`. The clouds have their own endings.
fn cosmos(name: Option<&str>, endpoint: &str) -> Result<(String, Endpoint)> {
    let general = Endpoint::parse("AccountEndpoint", endpoint)?;
    let known = general.host().split_once(".documents.azure.").filter(|_| general.is_secure());
    let Some((account, cloud @ ("com" | "us" | "cn"))) = known else {
        return Err(Error::invalid("AccountEndpoint is not an address of Azure Cosmos DB")
            .advise("give TableEndpoint instead"));
    };
    if name.is_some_and(|name| !name.eq_ignore_ascii_case(account)) {
        return Err(contradiction("AccountName", "AccountEndpoint"));
    }
    let endpoint = format!("https://{account}.table.cosmos.azure.{cloud}:443");
    Ok((account.to_owned(), Endpoint::parse("AccountEndpoint", &endpoint)?))
}

#[cold]
pub(crate) fn missing(part: &str) -> Error {
    Error::invalid(format!("the connection string has no {part}"))
}

const USE_DEVELOPMENT_STORAGE: &str = "UseDevelopmentStorage";
const PROXY: &str = "DevelopmentStorageProxyUri";
/// How to reach an emulator that the short form does not describe.
const ELSEWHERE: &str =
    "for an emulator at another address give AccountName, AccountKey and its endpoints instead";

/// The parts that have an effect.
const KNOWN: [&str; 14] = [
    "AccountEndpoint",
    "AccountKey",
    "AccountName",
    "BlobEndpoint",
    "BlobSecondaryEndpoint",
    "DefaultEndpointsProtocol",
    PROXY,
    "EndpointSuffix",
    "QueueEndpoint",
    "QueueSecondaryEndpoint",
    "SharedAccessSignature",
    "TableEndpoint",
    "TableSecondaryEndpoint",
    USE_DEVELOPMENT_STORAGE,
];

/// The parts for services that this crate does not have, and the kind of an account of Azure Cosmos DB, which its
/// address shows.
const OF_OTHERS: [&str; 5] =
    ["ApiKind", "DfsEndpoint", "DfsSecondaryEndpoint", "FileEndpoint", "FileSecondaryEndpoint"];
