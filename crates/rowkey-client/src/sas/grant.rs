//! What a signature grants, read from its text.

use std::fmt;

use chrono::{DateTime, Utc};
use rowkey_wire::auth::{Protocols, Sas, parse_time};

use super::lint::{Warning, check};
use crate::error::{Error, Result};

/// What a shared access signature grants, read from its text by [`read`]. It does not contain the signature.
///
/// Texts are those of the signature: letters of permissions, services and types of resources in its order.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The resource to which it grants access.
    pub target: Target,
    /// The letters of its permissions; `None` if a stored access policy has them.
    pub permissions: Option<String>,
    /// The start of its validity.
    pub starts: Option<DateTime<Utc>>,
    /// The end of its validity; `None` if a stored access policy has it, or the time cannot be read.
    pub expires: Option<DateTime<Utc>>,
    /// The IP address, or the range of addresses, from which it may be used.
    pub ip: Option<String>,
    /// Whether it is valid over https alone.
    pub https_only: bool,
    /// The stored access policy.
    pub policy: Option<String>,
    /// Whether a user delegation key signed it, and not the account key.
    pub is_delegated: bool,
    /// The signed version of the service.
    pub version: Option<String>,
    warnings: Sas,
}

/// What a [`Grant`] is for. Only the name of a table is part of a signature; other names are in the URL with it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// Services of an account.
    Account {
        /// The letters of the services: `b` blobs, `q` queues, `t` tables, `f` files.
        services: String,
        /// The letters of the types of resources: `s` services, `c` containers, tables and queues, `o` what is in them.
        resource_types: String,
    },
    /// A blob, or a snapshot or version of one.
    Blob,
    /// A container and its blobs.
    Container,
    /// A queue.
    Queue,
    /// A table, or a range of its keys. Both ends belong to the range.
    Table {
        /// The name.
        name: String,
        /// The first PartitionKey, and the first RowKey in it.
        from: Option<(String, Option<String>)>,
        /// The last PartitionKey, and the last RowKey in it.
        to: Option<(String, Option<String>)>,
    },
}

/// Reads a shared access signature: a token `sv=..&sig=..`, a URL with one, or a connection string with
/// `SharedAccessSignature`. Sends nothing, and does not check the signature: only the service can.
///
/// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there is no signature. The error does not quote the text.
///
/// ```
/// use rowkey::sas::{self, Sas, TablePermissions, Target, Warning};
///
/// # use std::time::Duration;
/// # use rowkey::StorageAccount;
/// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
/// let token = Sas::table("notes").permissions(TablePermissions::QUERY).partitions("a"..="m");
/// let token = token.valid_for(Duration::from_secs(600)).sign(&account)?;
///
/// let grant = sas::read(token.query())?;
/// assert_eq!(grant.permissions.as_deref(), Some("r"));
/// let Target::Table { name, from, .. } = &grant.target else { panic!("it is for a table") };
/// assert_eq!((&**name, from.clone()), ("notes", Some(("a".into(), None))));
/// assert_eq!(grant.lint(account.clock().now()), [Warning::AllowsHttp], "an emulator has no https");
/// assert!(sas::read(&token.connection_string())? == grant && sas::read(&token.url())? == grant);
/// # Ok::<_, rowkey::Error>(())
/// ```
pub fn read(text: &str) -> Result<Grant> {
    let sas = Sas::from_query(query(text))
        .ok_or_else(|| Error::invalid("the text is no shared access signature: it has no `sig`"))?;
    let time = |time: &Option<String>| time.as_deref().and_then(parse_time);
    let boundary = |partition: &Option<String>, row: &Option<String>| {
        partition.clone().map(|partition| (partition, row.clone()))
    };
    let target = match (&sas.services, &sas.resource_types, &sas.table, &sas.blob_resource) {
        (Some(services), Some(types), ..) => {
            Target::Account { services: services.clone(), resource_types: types.clone() }
        }
        (_, _, Some(name), _) => Target::Table {
            name: name.clone(),
            from: boundary(&sas.start_partition_key, &sas.start_row_key),
            to: boundary(&sas.end_partition_key, &sas.end_row_key),
        },
        (_, _, _, Some(kind)) if kind == "c" => Target::Container,
        (_, _, _, Some(_)) => Target::Blob,
        _ => Target::Queue,
    };
    let https = sas.protocol.as_deref().and_then(Protocols::parse);
    Ok(Grant {
        target,
        permissions: sas.permissions.clone(),
        starts: time(&sas.start),
        expires: time(&sas.expiry),
        ip: sas.ip.clone(),
        https_only: https == Some(Protocols::Https),
        policy: sas.identifier.clone(),
        is_delegated: sas.delegation.as_deref().is_some_and(|key| key.oid.is_some()),
        version: sas.version.clone(),
        warnings: Sas { signature: String::new(), ..sas },
    })
}

/// The query in a token, a URL or a connection string.
pub(super) fn query(text: &str) -> &str {
    const NAME: &str = "sharedaccesssignature=";
    let text = text.trim();
    let parts = text.split(';').map(str::trim);
    let mut of_connection = parts.filter_map(|part| {
        let (name, value) = part.split_at_checked(NAME.len())?;
        name.eq_ignore_ascii_case(NAME).then_some(value)
    });
    let text = of_connection.next_back().unwrap_or(text);
    let query = text.rsplit_once('?').map_or(text, |(_, query)| query);
    query.split('#').next().unwrap_or(query)
}

impl Grant {
    /// Returns warnings about the signature at the time `now`, as [`lint`](super::lint()) does.
    pub fn lint(&self, now: DateTime<Utc>) -> Vec<Warning> {
        check(&self.warnings, now)
    }
}

impl fmt::Debug for Grant {
    /// Shows neither the signature nor the keys of a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Grant").field(&self.warnings).finish()
    }
}

impl fmt::Debug for Target {
    /// Shows the kind of the resource, not the keys of a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Account { .. } => "Account",
            Self::Blob => "Blob",
            Self::Container => "Container",
            Self::Queue => "Queue",
            Self::Table { .. } => "Table",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of a service SAS for a table in Microsoft's documentation, with a range of keys.
    const TABLE: &str = "sv=2019-02-02&tn=Employees&st=2019-04-29T22%3A18%3A26Z&se=2019-04-30T02%3A23%3A26Z&sp=rau\
                         &sip=168.1.5.60-168.1.5.70&spr=https&spk=a%3B&srk=1&epk=m&sig=secret%3D";

    #[test]
    fn a_token_a_url_and_a_connection_string_are_the_same_grant() {
        let grant = read(TABLE).unwrap();
        let Target::Table { name, from, to } = &grant.target else { panic!("{grant:?}") };
        assert_eq!(name, "Employees");
        assert_eq!(from.clone(), Some(("a;".into(), Some("1".into()))));
        assert_eq!(to.clone(), Some(("m".into(), None)));
        assert_eq!(grant.permissions.as_deref(), Some("rau"));
        assert_eq!(grant.ip.as_deref(), Some("168.1.5.60-168.1.5.70"));
        assert_eq!(grant.expires, Some("2019-04-30T02:23:26Z".parse().unwrap()));
        assert!(grant.https_only && !grant.is_delegated);
        for text in [
            format!(" ?{TABLE}\n"),
            format!("https://shop.table.core.windows.net/Employees?{TABLE}#top"),
            format!(
                "TableEndpoint=https://shop.table.core.windows.net; sharedAccessSignature={TABLE};"
            ),
        ] {
            assert!(read(&text).unwrap() == grant, "{text}");
        }
    }

    #[test]
    fn the_kind_follows_from_the_parts() {
        for (token, expected) in [
            ("ss=bt&srt=co&sp=r&sig=x", "Account"),
            ("sr=c&sp=rl&sig=x", "Container"),
            ("sr=b&sp=r&sig=x", "Blob"),
            ("sr=bs&sp=r&sig=x", "Blob"),
            ("tn=t&sp=r&sig=x", "Table"),
            ("sp=p&sig=x", "Queue"),
        ] {
            assert_eq!(format!("{:?}", read(token).unwrap().target), expected);
        }
        assert!(read("sr=b&skoid=a&sktid=b&sig=x").unwrap().is_delegated);
    }

    #[test]
    fn nothing_shows_the_signature() {
        let grant = read(TABLE).unwrap();
        assert!(!format!("{grant:?} {:?}", grant.target).contains("secret"));
        assert!(grant.warnings.signature.is_empty());
        for text in ["", "secret", "sv=2019-02-02&sp=secret", "AccountKey=secret;"] {
            let error = read(text).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
