//! Shared access signatures: their parameters in a query, and the string to sign.
//!
//! Reference: [service SAS](https://learn.microsoft.com/rest/api/storageservices/create-service-sas),
//! [account SAS](https://learn.microsoft.com/rest/api/storageservices/create-account-sas).

use std::fmt;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::SigningKey;
use crate::edm;
use crate::shown;

/// The characters that are not encoded in a query.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A shared access signature. Its parts are decoded once and otherwise kept as sent, because they
/// are signed as sent. A part that was not sent is `None`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sas {
    /// `sv`: the version, which decides what is signed.
    pub version: Option<String>,
    /// `sp`: letters, in the order they were signed.
    pub permissions: Option<String>,
    /// `st`: the start of the validity, see [`parse_time`].
    pub start: Option<String>,
    /// `se`: the end of the validity, see [`parse_time`].
    pub expiry: Option<String>,
    /// `sip`: an address or a range, such as `168.1.5.60-168.1.5.70`.
    pub ip: Option<String>,
    /// `spr`: see [`Protocols`].
    pub protocol: Option<String>,
    /// `si`: the name of a stored access policy.
    pub identifier: Option<String>,
    /// `tn`: the table.
    pub table: Option<String>,
    /// `spk`: the first PartitionKey.
    pub start_partition_key: Option<String>,
    /// `srk`: the first RowKey of the first partition.
    pub start_row_key: Option<String>,
    /// `epk`: the last PartitionKey.
    pub end_partition_key: Option<String>,
    /// `erk`: the last RowKey of the last partition.
    pub end_row_key: Option<String>,
    /// `ss`: the services of an account SAS, letters of `bqtf`.
    pub services: Option<String>,
    /// `srt`: the resource types of an account SAS, letters of `sco`.
    pub resource_types: Option<String>,
    /// `sr`: the resource type of a blob SAS: `b` blob, `c` container, `bs` snapshot, `bv` version.
    pub blob_resource: Option<String>,
    /// `snapshot`: the snapshot that the request addresses.
    pub snapshot: Option<String>,
    /// `versionid`: the blob version that the request addresses.
    pub version_id: Option<String>,
    /// `ses`: the encryption scope.
    pub encryption_scope: Option<String>,
    /// `rscc`: the `Cache-Control` of the response.
    pub cache_control: Option<String>,
    /// `rscd`: the `Content-Disposition` of the response.
    pub content_disposition: Option<String>,
    /// `rsce`: the `Content-Encoding` of the response.
    pub content_encoding: Option<String>,
    /// `rscl`: the `Content-Language` of the response.
    pub content_language: Option<String>,
    /// `rsct`: the `Content-Type` of the response.
    pub content_type: Option<String>,
    /// The description of the user delegation key that signs; `None` for an account key.
    pub delegation: Option<Box<Delegation>>,
    /// `sig`: the signature in base64.
    pub signature: String,
}

/// The parameters that describe the user delegation key, and others that require one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Delegation {
    /// `skoid`: the user to whom the key was issued.
    pub oid: Option<String>,
    /// `sktid`: the user's directory.
    pub tid: Option<String>,
    /// `skt`: the start of the key's validity.
    pub start: Option<String>,
    /// `ske`: the end of the key's validity.
    pub expiry: Option<String>,
    /// `sks`: the key's service.
    pub service: Option<String>,
    /// `skv`: the version that issued the key.
    pub version: Option<String>,
    /// `skdutid`: the directory of the user who may use the signature.
    pub delegated_tid: Option<String>,
    authorized_oid: Option<String>,
    unauthorized_oid: Option<String>,
    correlation: Option<String>,
    delegated_oid: Option<String>,
    request_headers: Option<String>,
    request_query: Option<String>,
}

/// The resource of a service SAS. An account SAS has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// A blob, or a snapshot of it.
    Blob {
        /// The container's name.
        container: &'a str,
        /// The blob's name, decoded.
        name: &'a str,
    },
    /// A container and the blobs in it.
    Container(&'a str),
    /// A queue.
    Queue(&'a str),
    /// A table, its name in any case.
    Table(&'a str),
}

/// Declares the parts of a signature by their names in queries: first those of [`Sas`], then those of
/// its [`Delegation`].
macro_rules! parts {
    ($($name:literal = $field:ident,)* ; $($key_name:literal = $key_field:ident,)*) => {
        /// The names of a signature's parts in queries, as written there, without the signature
        /// itself.
        pub const PARTS: [&str; 36] = [$($name,)* $($key_name,)*];

        impl Sas {
            /// All parts except the signature, by their names in queries, which are [`PARTS`].
            pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, &Option<String>)> {
                let key = self.delegation.as_deref();
                let key = key.map(|key| [$(($key_name, &key.$key_field)),*]);
                [$(($name, &self.$field)),*].into_iter().chain(key.into_iter().flatten())
            }

            fn field(&mut self, name: &str) -> Option<&mut Option<String>> {
                Some(match name {
                    $($name => &mut self.$field,)*
                    $($key_name => &mut self.delegation.get_or_insert_default().$key_field,)*
                    _ => return None,
                })
            }
        }
    };
}

parts! {
    "sv" = version,
    "ss" = services,
    "srt" = resource_types,
    "sr" = blob_resource,
    "tn" = table,
    "st" = start,
    "se" = expiry,
    "sp" = permissions,
    "si" = identifier,
    "sip" = ip,
    "spr" = protocol,
    "spk" = start_partition_key,
    "srk" = start_row_key,
    "epk" = end_partition_key,
    "erk" = end_row_key,
    "snapshot" = snapshot,
    "versionid" = version_id,
    "ses" = encryption_scope,
    "rscc" = cache_control,
    "rscd" = content_disposition,
    "rsce" = content_encoding,
    "rscl" = content_language,
    "rsct" = content_type,
    ;
    "skoid" = oid,
    "sktid" = tid,
    "skt" = start,
    "ske" = expiry,
    "sks" = service,
    "skv" = version,
    "saoid" = authorized_oid,
    "suoid" = unauthorized_oid,
    "scid" = correlation,
    "skdutid" = delegated_tid,
    "sduoid" = delegated_oid,
    "srh" = request_headers,
    "srq" = request_query,
}

impl Sas {
    /// Parses the signature in a request's query; `None` if there is none (no `sig`).
    ///
    /// If a name is repeated, the first occurrence counts.
    pub fn from_query(query: &str) -> Option<Self> {
        let mut sas = Self::default();
        let mut signed = false;
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            if name == "sig" {
                if !signed {
                    sas.signature = decode(value);
                    signed = true;
                }
            } else if let Some(field) = sas.field(name) {
                field.get_or_insert_with(|| decode(value));
            }
        }
        signed.then_some(sas)
    }

    /// Signs it for a resource of an account, as a client does. An account SAS does not sign the
    /// resource.
    ///
    /// Fails, and signs nothing, if a part could be mistaken for several: see
    /// [`check`](Self::check).
    pub fn sign(
        &mut self,
        key: &SigningKey,
        account: &str,
        resource: Resource<'_>,
    ) -> Result<(), UnsafePart> {
        self.check()?;
        let named: &[_] = match resource {
            Resource::Blob { container, name } => &[("container", container), ("blob", name)],
            Resource::Container(name) => &[("container", name)],
            Resource::Queue(name) => &[("queue", name)],
            Resource::Table(name) => &[("table", name)],
        };
        named
            .iter()
            .chain(&[("account", account)])
            .try_for_each(|(part, text)| safe(part, text))?;
        self.signature = key.sign(&self.string_to_sign(account, resource));
        Ok(())
    }

    /// Rejects parts with control characters or line separators.
    ///
    /// The parts are signed as lines. A part with a line break would also sign other parts, such as
    /// the keys of another partition, which a different query could then use.
    pub fn check(&self) -> Result<(), UnsafePart> {
        self.parts().try_for_each(|(name, part)| safe(name, part.as_deref().unwrap_or_default()))
    }

    /// Renders it as a query, without a `?`, as a client does.
    pub fn encode(&self) -> String {
        let mut query = String::with_capacity(256);
        for (name, value) in self.parts() {
            if let Some(value) = value {
                query.push_str(name);
                query.push('=');
                query.extend(utf8_percent_encode(value, UNRESERVED));
                query.push('&');
            }
        }
        query.push_str("sig=");
        query.extend(utf8_percent_encode(&self.signature, UNRESERVED));
        query
    }

    /// Whether this is an account SAS; otherwise it is for one resource of one service.
    pub fn is_account(&self) -> bool {
        self.services.is_some() && self.resource_types.is_some()
    }

    /// The text that the signature must match.
    ///
    /// `resource` is the resource that the request addresses; an account SAS does not sign it.
    pub fn string_to_sign(&self, account: &str, resource: Resource<'_>) -> String {
        if self.is_account() {
            return self.account_string_to_sign(account);
        }
        let mut lines = Lines(String::with_capacity(256));
        lines.push(self.permissions.as_deref());
        lines.push(self.start.as_deref());
        lines.push(self.expiry.as_deref());
        lines.push(Some(&self.canonical_resource(account, resource)));
        if let Some(delegation) = &self.delegation {
            self.push_delegation(&mut lines, delegation, resource);
        } else {
            lines.push(self.identifier.as_deref());
        }
        if self.is_since("2015-04-05") {
            lines.push(self.ip.as_deref());
            lines.push(self.protocol.as_deref());
        }
        lines.push(self.version.as_deref());
        match resource {
            Resource::Queue(_) => {}
            Resource::Table(_) => {
                lines.push(self.start_partition_key.as_deref());
                lines.push(self.start_row_key.as_deref());
                lines.push(self.end_partition_key.as_deref());
                lines.push(self.end_row_key.as_deref());
            }
            Resource::Blob { .. } | Resource::Container(_) => self.push_blob_lines(&mut lines),
        }
        lines.without_last_break()
    }

    fn account_string_to_sign(&self, account: &str) -> String {
        let mut lines = Lines(String::with_capacity(160));
        lines.push(Some(account));
        lines.push(self.permissions.as_deref());
        lines.push(self.services.as_deref());
        lines.push(self.resource_types.as_deref());
        lines.push(self.start.as_deref());
        lines.push(self.expiry.as_deref());
        lines.push(self.ip.as_deref());
        lines.push(self.protocol.as_deref());
        lines.push(self.version.as_deref());
        if self.is_since("2020-12-06") {
            lines.push(self.encryption_scope.as_deref());
        }
        // Unlike the others, this string ends with a line break.
        lines.0
    }

    /// Takes the place of a stored access policy, which these signatures cannot have.
    fn push_delegation(&self, lines: &mut Lines, key: &Delegation, resource: Resource<'_>) {
        for part in [&key.oid, &key.tid, &key.start, &key.expiry, &key.service, &key.version] {
            lines.push(part.as_deref());
        }
        // Users of a hierarchical namespace, which tables and queues do not have.
        let is_blob = matches!(resource, Resource::Blob { .. } | Resource::Container(_));
        if is_blob && self.is_since("2020-02-10") {
            for part in [&key.authorized_oid, &key.unauthorized_oid, &key.correlation] {
                lines.push(part.as_deref());
            }
        }
        if self.is_since("2025-07-05") {
            lines.push(key.delegated_tid.as_deref());
            lines.push(key.delegated_oid.as_deref());
        }
    }

    fn push_blob_lines(&self, lines: &mut Lines) {
        if self.is_since("2018-11-09") {
            lines.push(self.blob_resource.as_deref());
            lines.push(match self.blob_resource.as_deref() {
                Some("bs") => self.snapshot.as_deref(),
                Some("bv") => self.version_id.as_deref(),
                // A blob's SAS is also valid for its snapshots, so the snapshot is not signed.
                _ => None,
            });
        }
        if self.is_since("2020-12-06") {
            lines.push(self.encryption_scope.as_deref());
        }
        if let Some(key) = self.delegation.as_ref().filter(|_| self.is_since("2026-04-06")) {
            lines.push(key.request_headers.as_deref());
            lines.push(key.request_query.as_deref());
        }
        if self.is_since("2013-08-15") {
            lines.push(self.cache_control.as_deref());
            lines.push(self.content_disposition.as_deref());
            lines.push(self.content_encoding.as_deref());
            lines.push(self.content_language.as_deref());
            lines.push(self.content_type.as_deref());
        }
    }

    /// `/table/account/name`; since version 2015-02-21 it starts with the service's name.
    fn canonical_resource(&self, account: &str, resource: Resource<'_>) -> String {
        let named = self.is_since("2015-02-21");
        let service = match resource {
            _ if !named => "",
            Resource::Blob { .. } | Resource::Container(_) => "/blob",
            Resource::Queue(_) => "/queue",
            Resource::Table(_) => "/table",
        };
        match resource {
            Resource::Blob { container, name } => format!("{service}/{account}/{container}/{name}"),
            Resource::Container(name) | Resource::Queue(name) => {
                format!("{service}/{account}/{name}")
            }
            Resource::Table(name) => format!("{service}/{account}/{}", name.to_lowercase()),
        }
    }

    /// Versions are dates, so they are compared as text.
    fn is_since(&self, version: &str) -> bool {
        self.version.as_deref().unwrap_or_default() >= version
    }
}

shown!(Delegation: start, expiry);

shown! {
    /// Shows the permissions, but neither the signature nor the keys of a range.
    Sas: version, permissions, start, expiry, identifier, services, resource_types
}

/// Parses a time as in `st`, `se` and stored policies: `2021-12-12`, `2021-12-12T01:00Z`,
/// `2021-12-12T01:00:00Z`, with or without a fraction, or with an offset instead of `Z`.
pub fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    // First the form that libraries write, then all others.
    if let Some(time) = edm::DateTime::from_canonical(text) {
        return Some(time.to_chrono());
    }
    if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Some(date.and_time(NaiveTime::MIN).and_utc());
    }
    if let Some(local) = text.strip_suffix('Z') {
        return ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"]
            .into_iter()
            .find_map(|format| NaiveDateTime::parse_from_str(local, format).ok())
            .map(|time| time.and_utc());
    }
    ["%Y-%m-%dT%H:%M:%S%.f%:z", "%Y-%m-%dT%H:%M%:z"]
        .into_iter()
        .find_map(|format| DateTime::parse_from_str(text, format).ok())
        .map(|time| time.to_utc())
}

/// The protocols that `spr` permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// Only `https`.
    Https,
    /// `https,http`: both, which is also the default without `spr`.
    HttpsAndHttp,
}

impl Protocols {
    /// Parses `spr`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "https" => Some(Self::Https),
            "https,http" => Some(Self::HttpsAndHttp),
            _ => None,
        }
    }
}

/// The error for a part of a shared access signature that must not be signed. It does not contain
/// the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsafePart {
    /// The part: its name in a query, or `account`, `table`, `queue`, `container` or `blob`.
    pub part: &'static str,
    /// The position of the character, in bytes from the start.
    pub at: usize,
}

impl fmt::Display for UnsafePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, at } = self;
        write!(
            f,
            "`{part}` of a shared access signature has a control character or a line separator at \
             position {at}"
        )
    }
}

impl std::error::Error for UnsafePart {}

/// Rejects line separators and invisible characters.
fn safe(part: &'static str, text: &str) -> Result<(), UnsafePart> {
    let is_unsafe = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    match text.char_indices().find(|(_, c)| is_unsafe(*c)) {
        Some((at, _)) => Err(UnsafePart { part, at }),
        None => Ok(()),
    }
}

/// A text of lines, each of which may be empty.
struct Lines(String);

impl Lines {
    fn push(&mut self, line: Option<&str>) {
        self.0.push_str(line.unwrap_or_default());
        self.0.push('\n');
    }

    fn without_last_break(mut self) -> String {
        self.0.pop();
        self.0
    }
}

/// Decodes once, and keeps `+`: some tokens contain the `+` of base64 unencoded.
fn decode(value: &str) -> String {
    if !value.bytes().any(|byte| byte == b'%') {
        return value.to_owned();
    }
    let mut decoded = Vec::with_capacity(value.len());
    decoded.extend(percent_decode_str(value));
    String::from_utf8(decoded)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
