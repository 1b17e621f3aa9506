//! Endpoints from settings: the missing ones are derived, and a setting that would have no effect or contradicts
//! another is refused by its name.

use rowkey_wire::auth::Service;

use crate::endpoint::{ConfiguredEndpoints, Endpoint, SERVICES, label};
use crate::error::{Error, Result};

/// The settings from which endpoints are made that are not given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults<'a> {
    pub(super) name: Option<&'a str>,
    /// `https` if it is not given.
    pub(super) protocol: Option<&'a str>,
    /// `core.windows.net` if it is not given.
    pub(super) suffix: Option<&'a str>,
}

/// The names of settings in error messages.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) account: &'static str,
    suffix: &'static str,
    /// The primary and the secondary endpoint of a service.
    pub(super) endpoints: fn(Service) -> [&'static str; 2],
}

/// The setters of the builder.
pub(super) const SETTERS: Names = Names {
    account: "the account name",
    suffix: "the endpoint suffix",
    endpoints: |service| match service {
        Service::Blob => ["the blob endpoint", "the secondary blob endpoint"],
        Service::Queue => ["the queue endpoint", "the secondary queue endpoint"],
        Service::Table => ["the table endpoint", "the secondary table endpoint"],
    },
};

/// The parts of a connection string.
pub(super) const PARTS: Names = Names {
    account: "AccountName",
    suffix: "EndpointSuffix",
    endpoints: |service| match service {
        Service::Blob => ["BlobEndpoint", "BlobSecondaryEndpoint"],
        Service::Queue => ["QueueEndpoint", "QueueSecondaryEndpoint"],
        Service::Table => ["TableEndpoint", "TableSecondaryEndpoint"],
    },
};

impl ConfiguredEndpoints {
    /// Checks the given endpoints, and derives each missing one from another, or else from the defaults.
    pub(super) fn resolve(&mut self, defaults: Defaults<'_>, names: &Names) -> Result<()> {
        let confirmed = self.check(defaults, names)?;
        let alone = self.primary.iter().find(|(_, endpoint)| endpoint.stands_alone());
        let alone = alone.or_else(|| self.primary.iter().next()).map(|(service, _)| service);
        let derived = self.complete(defaults)?;
        if defaults.suffix.is_some() && !derived && !confirmed {
            return Err(match alone {
                Some(service) if defaults.name.is_some() => {
                    no_effect(names.suffix, "beside", (names.endpoints)(service)[0])
                }
                _ => no_effect(names.suffix, "without", names.account),
            });
        }
        for (service, _) in self.secondary.iter() {
            let [primary, secondary] = (names.endpoints)(service);
            if self.primary.get(service).is_none() {
                return Err(no_effect(secondary, "without", primary));
            }
        }
        Ok(())
    }

    /// Refuses endpoints of another account, cloud or service than the other settings name. Returns whether an
    /// endpoint has the given suffix.
    fn check(&self, defaults: Defaults<'_>, names: &Names) -> Result<bool> {
        let mut confirmed = false;
        let mut first: Option<(&str, &str)> = None;
        let primary = self.primary.iter().map(|(service, endpoint)| (service, 0, endpoint));
        let secondary = self.secondary.iter().map(|(service, endpoint)| (service, 1, endpoint));
        for (service, place, endpoint) in primary.chain(secondary) {
            let part = (names.endpoints)(service)[place];
            let Some(azure) = endpoint.azure() else { continue };
            if azure.service != service {
                return Err(Error::invalid(format!("{part} is the address of another service")));
            }
            let is_other = |name: &str| !name.eq_ignore_ascii_case(azure.account);
            if defaults.name.is_some_and(is_other) {
                return Err(contradiction(names.account, part));
            }
            // Tables in Azure Cosmos DB are of another account than blobs in Azure Storage.
            match first {
                Some((earlier, name)) if azure.is_storage() && is_other(name) => {
                    return Err(contradiction(earlier, part));
                }
                None if azure.is_storage() => first = Some((part, azure.account)),
                _ => {}
            }
            if let Some(suffix) = defaults.suffix.filter(|_| azure.is_storage()) {
                if !azure.suffix.eq_ignore_ascii_case(suffix.trim_matches('.')) {
                    return Err(contradiction(names.suffix, part));
                }
                confirmed = true;
            }
        }
        Ok(confirmed)
    }

    /// Derives the missing endpoints. Returns whether one was made from the name and the suffix.
    fn complete(&mut self, defaults: Defaults<'_>) -> Result<bool> {
        let given = self.primary.clone();
        if given.iter().any(|(_, endpoint)| endpoint.stands_alone()) {
            return Ok(false);
        }
        let nothing = given.iter().next().is_none();
        let mut derived = false;
        for service in SERVICES.into_iter().filter(|service| given.get(*service).is_none()) {
            // A suffix is for all services that have no endpoint.
            let sibling = given
                .iter()
                .filter(|_| defaults.suffix.is_none() || defaults.name.is_none())
                .find_map(|(own, endpoint)| endpoint.sibling(own, service, defaults.protocol));
            let endpoint = match (sibling, defaults.name) {
                (Some(sibling), _) => Some(sibling),
                (None, Some(name)) => match pattern(service, name, defaults) {
                    Ok(endpoint) => {
                        derived = true;
                        Some(endpoint)
                    }
                    Err(error) if nothing => return Err(error),
                    Err(_) => None,
                },
                (None, None) => None,
            };
            self.primary.set(service, endpoint);
        }
        Ok(derived)
    }
}

/// The address of an account's service, by Azure's naming pattern.
fn pattern(service: Service, name: &str, defaults: Defaults<'_>) -> Result<Endpoint> {
    let is_label = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !is_label {
        return Err(Error::invalid("the account name is invalid in a host name"));
    }
    let suffix = defaults.suffix.unwrap_or("core.windows.net").trim_matches('.');
    let protocol = defaults.protocol.unwrap_or("https");
    let service = label(service);
    let endpoint = format!("{protocol}://{name}.{service}.{suffix}");
    let endpoint = Endpoint::parse("EndpointSuffix", &endpoint)?;
    if endpoint.path().is_empty() {
        return Ok(endpoint);
    }
    Err(Error::invalid("EndpointSuffix has a path, and is the end of a host name"))
}

/// The error for a setting that would be ignored because of another one.
pub(super) fn no_effect(setting: &str, relation: &str, other: &str) -> Error {
    let error = Error::invalid(format!("{setting} has no effect {relation} {other}"));
    match relation {
        "without" => error.advise(format!("give {other}, too, or remove {setting}")),
        _ => error.advise("remove one of them"),
    }
}

/// The error for settings that name different accounts or clouds.
pub(super) fn contradiction(setting: &str, other: &str) -> Error {
    Error::invalid(format!("{setting} contradicts {other}"))
        .advise("correct one of them, or remove it")
}
