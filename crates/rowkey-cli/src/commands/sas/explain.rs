//! `rowkey sas read`: what a shared access signature grants.

use chrono::{DateTime, Utc};
use clap::Args;
use rowkey::sas::{self, Grant, Target};
use rowkey::{Clock as _, SystemClock};
use serde::Serialize;
use serde_json::Value;

use crate::args::Common;
use crate::error::{Error, Result};
use crate::output;
use crate::secret;

const EXAMPLES: &str = "\
Examples:
  rowkey sas read < token.txt
  rowkey sas table orders --permissions r --expires 1h --as url | rowkey sas read
  rowkey sas read --from-env AZURE_STORAGE_SAS_TOKEN --json | jq -r '.warnings[]'";

/// Explain a signature: what it permits, from when until when, and what is unwise about it.
///
/// Reads a token, a URL or a connection string from stdin. The signature itself is not shown, and not checked: only the service
/// can.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Read {
    /// Read it from this environment variable.
    #[arg(long, value_name = "VARIABLE")]
    from_env: Option<String>,
    /// Taken only to be refused: clap would quote it.
    #[arg(hide = true)]
    token: Vec<String>,
}

/// A signature, explained.
#[derive(Default, Serialize)]
struct Explained {
    /// What it is for: account, table, queue, container or blob.
    resource: &'static str,
    table: Option<String>,
    services: Option<String>,
    resource_types: Option<String>,
    from_partition: Option<String>,
    from_row: Option<String>,
    to_partition: Option<String>,
    to_row: Option<String>,
    letters: Option<String>,
    permits: String,
    /// `yes`, `expired`, `not yet`, or `by policy` if the signature does not say when it ends.
    valid: &'static str,
    starts: Value,
    expires: Value,
    ip: Option<String>,
    protocol: &'static str,
    policy: Option<String>,
    signed_with: &'static str,
    version: Option<String>,
    warnings: Vec<String>,
}

pub(super) fn run(common: &Common, Read { from_env, token }: &Read) -> Result<()> {
    if !token.is_empty() {
        return Err(Error::usage(
            "a signature is a secret, and other users of a machine can see the arguments of programs; \
             write it to stdin, or use --from-env VARIABLE",
        ));
    }
    let (text, place) = secret::read(from_env.as_deref(), "the signature")?;
    let grant = sas::read(&text).map_err(|error| Error::from(error).during(place))?;
    let explained = explained(grant, SystemClock.now());
    output::record(common.form(), &explained, &["warnings"])
}

fn explained(grant: Grant, now: DateTime<Utc>) -> Explained {
    let warnings = grant.lint(now).iter().map(ToString::to_string).collect();
    let is_early = grant.starts.is_some_and(|starts| starts > now);
    let valid = match grant.expires {
        Some(expires) if expires <= now => "expired",
        _ if is_early => "not yet",
        Some(_) => "yes",
        None => "by policy",
    };
    let mut explained = Explained {
        permits: permits(&grant),
        valid,
        starts: grant.starts.map_or(Value::Null, output::time),
        expires: grant.expires.map_or(Value::Null, output::time),
        protocol: if grant.https_only { "https" } else { "https or http" },
        signed_with: if grant.is_delegated { "user delegation key" } else { "account key" },
        letters: grant.permissions,
        ip: grant.ip,
        policy: grant.policy,
        version: grant.version,
        warnings,
        ..Explained::default()
    };
    explained.resource = match grant.target {
        Target::Account { services, resource_types } => {
            let service = |letter| match letter {
                'b' => Some("blobs"),
                'f' => Some("files"),
                'q' => Some("queues"),
                't' => Some("tables"),
                _ => None,
            };
            let kind = |letter| match letter {
                's' => Some("service"),
                'c' => Some("container"),
                'o' => Some("object"),
                _ => None,
            };
            explained.services = Some(words(&services, service));
            explained.resource_types = Some(words(&resource_types, kind));
            "account"
        }
        Target::Table { name, from, to } => {
            explained.table = Some(name);
            (explained.from_partition, explained.from_row) = ends(from);
            (explained.to_partition, explained.to_row) = ends(to);
            "table"
        }
        Target::Queue => "queue",
        Target::Container => "container",
        Target::Blob => "blob",
        _ => "another resource",
    };
    explained
}

fn ends(end: Option<(String, Option<String>)>) -> (Option<String>, Option<String>) {
    end.map_or((None, None), |(partition, row)| (Some(partition), row))
}

/// The permissions in words.
fn permits(grant: &Grant) -> String {
    let Some(letters) = &grant.permissions else {
        return "what its stored access policy permits".to_owned();
    };
    let word = |letter| {
        Some(match (&grant.target, letter) {
            (Target::Queue, 'r') => "peek",
            (Target::Queue, 'a') => "put",
            (Target::Queue, 'p') => "receive and delete",
            (_, 'r') => "read",
            (_, 'a') => "add",
            (_, 'u') => "update",
            (_, 'd') => "delete",
            (_, 'c') => "create",
            (_, 'w') => "write",
            (_, 'l') => "list",
            (_, 'p') => "process messages",
            (_, 'f') => "filter by tags",
            (_, 't') => "tags",
            (_, 'x') => "delete versions",
            (_, 'y') => "delete permanently",
            (_, 'i') => "set immutability policies",
            _ => return None,
        })
    };
    words(letters, word)
}

/// Letters in words. A letter that has none is shown as it is.
fn words(letters: &str, word: impl Fn(char) -> Option<&'static str>) -> String {
    let words = letters.chars().map(|c| word(c).map_or_else(|| c.to_string(), str::to_owned));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str, token: &str) -> Explained {
        explained(sas::read(token).unwrap(), time.parse().unwrap())
    }

    #[test]
    fn validity_is_said_at_each_time() {
        let token = "st=2026-01-01T00%3A00%3A00Z&se=2026-01-02T00%3A00%3A00Z&sp=r&tn=t&sig=x";
        for (time, valid) in [
            ("2025-12-31T23:59:59Z", "not yet"),
            ("2026-01-01T00:00:00Z", "yes"),
            ("2026-01-02T00:00:00Z", "expired"),
        ] {
            assert_eq!(at(time, token).valid, valid, "{time}");
        }
        let by_policy = at("2026-01-01T00:00:00Z", "si=readers&tn=t&sig=x");
        assert_eq!((by_policy.valid, by_policy.policy.as_deref()), ("by policy", Some("readers")));
        assert!(by_policy.permits.contains("policy"));
    }

    #[test]
    fn letters_are_words_and_unknown_ones_stay() {
        let account = at("2026-01-01T00:00:00Z", "ss=bqtz&srt=sco&sp=rwdlacupz&sig=x");
        assert_eq!(account.services.as_deref(), Some("blobs, queues, tables, z"));
        assert_eq!(account.resource_types.as_deref(), Some("service, container, object"));
        assert_eq!(
            account.permits,
            "read, write, delete, list, add, create, update, process messages, z"
        );
        assert_eq!(
            at("2026-01-01T00:00:00Z", "sp=raup&sig=x").permits,
            "peek, put, update, receive and delete"
        );
    }
}
