//! What is unwise about a token.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey_wire::auth::Sas;
use rowkey_wire::auth::{Protocols, parse_time};

use crate::error::{Error, Result};

/// Something unwise about a shared access signature. `Display` says what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Over http, everybody on the way can read and keep the token.
    AllowsHttp,
    /// It has expired.
    Expired,
    /// It lives for longer than a day and can be revoked only with the account key.
    LongLived {
        /// How long, from now, or from its start if that is later.
        lifetime: TimeDelta,
    },
    /// Neither it nor a policy says when it ends, so the service refuses it.
    NoExpiry,
    /// It lives for longer than an hour and refers to no stored access policy, so it cannot be
    /// revoked alone.
    NoPolicy,
    /// It begins later than a quarter of an hour from now.
    NotYetValid,
    /// Its range of keys has one end, and runs to the other end of the table.
    OpenRange,
    /// It is for one service and the data in it: a signature for one table, queue or container
    /// would open less.
    ServiceSasWouldDo,
    /// It begins less than a quarter of an hour ago: a clock that is behind has not got there.
    StartWithoutMargin,
    /// It opens all keys of the table.
    WholeTable,
}

/// What the service itself allows clocks to differ.
const MARGIN: TimeDelta = TimeDelta::minutes(15);

/// For how long a token is better irrevocable than made twice.
const LONGEST_WITHOUT_POLICY: TimeDelta = TimeDelta::hours(1);

/// What is long for a token that cannot be revoked.
const LONGEST: TimeDelta = TimeDelta::days(1);

/// What is unwise about a token that you were given, `sv=..&sig=..`, seen from `now`.
///
/// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when it is no shared access
/// signature.
pub fn lint(token: &str, now: DateTime<Utc>) -> Result<Vec<Warning>> {
    let token = token.trim();
    let query = token.rsplit_once('?').map_or(token, |(_, query)| query);
    let sas = Sas::from_query(query)
        .ok_or_else(|| Error::invalid("the shared access signature has no `sig`"))?;
    Ok(check(&sas, now))
}

pub(super) fn check(sas: &Sas, now: DateTime<Utc>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |condition: bool, warning: Warning| {
        if condition {
            warnings.push(warning);
        }
    };
    let https = sas.protocol.as_deref().and_then(Protocols::parse) == Some(Protocols::Https);
    warn(!https, Warning::AllowsHttp);

    let start = sas.start.as_deref().and_then(parse_time);
    let expiry = sas.expiry.as_deref().and_then(parse_time);
    let has_policy = sas.identifier.is_some();
    if let Some(expiry) = expiry {
        let lifetime = expiry - start.map_or(now, |start| start.max(now));
        warn(expiry <= now, Warning::Expired);
        if !has_policy {
            warn(lifetime > LONGEST, Warning::LongLived { lifetime });
            warn(!sas.is_account() && lifetime > LONGEST_WITHOUT_POLICY, Warning::NoPolicy);
        }
    } else {
        warn(!has_policy, Warning::NoExpiry);
    }
    if let Some(start) = start {
        warn(start > now + MARGIN, Warning::NotYetValid);
        let close = start > now - MARGIN && start <= now + MARGIN;
        warn(close, Warning::StartWithoutMargin);
    }

    if sas.is_account() {
        let one_service = sas.services.as_deref().is_some_and(|letters| letters.len() == 1);
        let data_alone = sas.resource_types.as_deref() == Some("o");
        warn(one_service && data_alone, Warning::ServiceSasWouldDo);
    } else if sas.table.is_some() {
        let (from, to) = (&sas.start_partition_key, &sas.end_partition_key);
        warn(from.is_none() && to.is_none(), Warning::WholeTable);
        warn(from.is_some() != to.is_some(), Warning::OpenRange);
    }
    warnings
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::AllowsHttp => "it may be used over http, where it can be read; ask for https",
            Self::Expired => "it has expired; make a new one",
            Self::LongLived { lifetime } => {
                let days = (*lifetime + TimeDelta::hours(12)).num_days();
                return write!(
                    f,
                    "it lives for {days} days and cannot be revoked; let it live for hours, or \
                     refer to a stored access policy"
                );
            }
            Self::NoExpiry => "nothing says when it ends, so it is refused; give an expiry",
            Self::NoPolicy => {
                "it cannot be revoked alone; refer to a stored access policy, or let it live for \
                 an hour at most"
            }
            Self::NotYetValid => "it is not valid yet; check that this is meant",
            Self::OpenRange => "its range runs to the end of the table; give both ends",
            Self::ServiceSasWouldDo => {
                "it opens every table, queue or container of the service; sign for one of them"
            }
            Self::StartWithoutMargin => {
                "a clock that is behind refuses it; begin 15 minutes earlier, or give no start"
            }
            Self::WholeTable => "it opens all keys of the table; give a partition or a range",
        };
        f.write_str(text)
    }
}
