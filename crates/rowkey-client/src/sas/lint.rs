//! Checks tokens for unwise settings.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey_wire::auth::Sas;
use rowkey_wire::auth::{Protocols, parse_time};

use super::grant::query;
use crate::error::{Error, Result};

/// A warning about a shared access signature. `Display` shows what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// It allows http, over which anyone on the network path can read and use the token.
    AllowsHttp,
    /// It has expired.
    Expired,
    /// It is valid for longer than a day and can be revoked only with the account key.
    LongLived {
        /// The duration, from now, or from its start if that is later.
        lifetime: TimeDelta,
    },
    /// It has no expiry and refers to no policy, so the service refuses it.
    NoExpiry,
    /// It is valid for longer than an hour and refers to no stored access policy, so it cannot be
    /// revoked on its own.
    NoPolicy,
    /// It begins more than 15 minutes from now.
    NotYetValid,
    /// Its range of keys has only one bound and is open to one end of the table.
    OpenRange,
    /// It is for the data of one service: a signature for one table, queue or container would grant
    /// less.
    ServiceSasWouldDo,
    /// It begins within 15 minutes of now: on a slow clock, it is not valid yet.
    StartWithoutMargin,
    /// It grants access to all keys of the table.
    WholeTable,
}

/// The clock difference that the service allows.
const MARGIN: TimeDelta = TimeDelta::minutes(15);

/// The longest lifetime for which a token needs no policy.
const LONGEST_WITHOUT_POLICY: TimeDelta = TimeDelta::hours(1);

/// The longest lifetime without a warning for a token that cannot be revoked.
const LONGEST: TimeDelta = TimeDelta::days(1);

/// Returns warnings about a token, `sv=..&sig=..`, or a text with one as [`read`](super::read()) takes, at the time `now`.
///
/// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `token` is not a shared access
/// signature.
pub fn lint(token: &str, now: DateTime<Utc>) -> Result<Vec<Warning>> {
    let sas = Sas::from_query(query(token))
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
            Self::AllowsHttp => "it is valid over http, which is not encrypted; require https",
            Self::Expired => "it has expired; make a new one",
            Self::LongLived { lifetime } => {
                let days = (*lifetime + TimeDelta::hours(12)).num_days();
                return write!(
                    f,
                    "it lives for {days} days and cannot be revoked; let it live for hours, or \
                     refer to a stored access policy"
                );
            }
            Self::NoExpiry => "it has no expiry, so the service rejects it; set an expiry",
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
