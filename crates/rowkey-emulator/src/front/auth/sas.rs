//! Verifies shared access signatures, and determines their permissions.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use http::request::Parts;
use percent_encoding::percent_decode_str;
use rowkey_wire::auth::{
    Delegation, DelegationKey, PARTS, Protocols, Resource, Sas, Service, SigningKey, parse_time,
};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::SignedIdentifier;

use super::access::{Access, Grant, Scope};
use super::rights::Rights;
use super::wire::IpRange;
use super::{Caller, failed};
use crate::account::Account;
use crate::store::Key;
use crate::store::query::Window;
use crate::tls::Https;
use crate::wire;
use crate::wire::options::{pairs, split_once};

/// The parameters of signatures besides [`PARTS`]: the signature itself, and a directory's depth.
/// Each parameter may occur once.
const OTHER_PARAMETERS: [&str; 2] = ["sig", "sdd"];

/// Whether a query carries a signature, in any case of the parameter's name.
pub(super) fn is_signed(query: &str) -> bool {
    pairs(query).any(|pair| parameter(pair).eq_ignore_ascii_case("sig"))
}

/// Verifies the signature in a query, and returns its permissions.
pub(super) fn verify(
    account: &Account,
    caller: Caller<'_>,
    request: &Parts,
    query: &str,
) -> Result<Access, Rejection> {
    let sas = parse(query, caller.service)?;
    let sas = &*sas;
    let resource = resource(sas, caller).ok_or_else(|| not_for_this(sas, caller))?;
    let text = sas.string_to_sign(&account.name, resource);
    let genuine = |key: &SigningKey| match &sas.delegation {
        Some(delegation) => {
            let value = delegated_value(key, &claimed_key(delegation));
            SigningKey::from_base64(&value).is_ok_and(|key| key.verify(&text, &sas.signature))
        }
        None => key.verify(&text, &sas.signature),
    };
    if !account.keys.iter().any(genuine) {
        let detail = format!("Signature did not match. String to sign used was {text}");
        return Err(caller.not_signed(&text, "the shared access signature does not match", detail));
    }
    let mut rights = Rights::All;
    if let Some(delegation) = &sas.delegation {
        check_delegation(sas, delegation, caller)?;
        rights = Rights::of(account, delegation.oid.as_deref());
    }
    let policy = match &sas.identifier {
        Some(_) if sas.is_account() => {
            let why = "An account SAS has no stored access policy.";
            return Err(failed("an account SAS names a stored access policy", why));
        }
        Some(id) => Some(account.policy(resource, id).ok_or_else(|| {
            let why = "Signed identifier does not name a stored access policy of the resource.";
            failed("the stored access policy does not exist", why)
        })?),
        None => None,
    };
    let policy = policy.unwrap_or_default();
    check_terms(sas, &policy, caller.now)?;
    check_origin(sas, caller, request)?;
    let scope = if sas.is_account() {
        Scope::Account {
            services: sas.services.clone().unwrap_or_default(),
            resource_types: sas.resource_types.clone().unwrap_or_default(),
        }
    } else if let Resource::Table(name) = resource {
        Scope::Table { name: name.to_owned(), window: window(sas)? }
    } else {
        Scope::Resource
    };
    let permissions = sas.permissions.clone().or(policy.permission).unwrap_or_default();
    Ok(Access::Sas(Box::new(Grant { scope, permissions, rights })))
}

/// The number of queries whose parts are remembered.
const REMEMBERED: usize = 8;
/// The longest query that is remembered.
const MAX_REMEMBERED: usize = 1024;

/// The parts of the signature in a query, if they are well formed.
///
/// Programs send one signature with many requests, and splitting and decoding it takes four times as
/// long as verifying it. So the last few are remembered, by their whole text. Only what the text
/// alone decides is: the signature and its terms are verified for each request.
fn parse(query: &str, service: Service) -> Result<Rc<Sas>, Rejection> {
    thread_local! {
        static PARSED: RefCell<Vec<(Box<str>, Rc<Sas>)>> = const { RefCell::new(Vec::new()) };
    }
    let known = PARSED.with_borrow_mut(|parsed| {
        let at = parsed.iter().position(|(known, _)| is_same(known, query))?;
        // The one that was used last comes first.
        parsed[..=at].rotate_right(1);
        parsed.first().map(|(_, sas)| Rc::clone(sas))
    });
    if let Some(sas) = known {
        check_version(&sas, service)?;
        return Ok(sas);
    }
    check_parameters(query)?;
    let sas = Sas::from_query(query)
        .ok_or_else(|| failed("sig is missing", "sig is mandatory. Cannot be empty"))?;
    if sas.version.is_none() {
        return Err(failed("sv is missing", "sv is mandatory. Cannot be empty"));
    }
    check_version(&sas, service)?;
    // A part with a line break could imitate several parts of the string to sign.
    if sas.check().is_err() {
        return Err(failed(
            "a part of the signature holds a control character",
            "The signature's parameters must not hold control characters.",
        ));
    }
    let sas = Rc::new(sas);
    if query.len() <= MAX_REMEMBERED {
        PARSED.with_borrow_mut(|parsed| {
            parsed.truncate(REMEMBERED - 1);
            parsed.insert(0, (query.into(), Rc::clone(&sas)));
        });
    }
    Ok(sas)
}

/// Whether two queries are the same. The time depends on their lengths alone: how long a comparison
/// takes that ends at the first difference tells about the signatures of others.
fn is_same(known: &str, query: &str) -> bool {
    let pairs = known.bytes().zip(query.bytes());
    known.len() == query.len() && pairs.fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

/// Rejects a signature of a version that does not have its kind.
fn check_version(sas: &Sas, service: Service) -> Result<(), Rejection> {
    let first = match service {
        _ if sas.is_account() => "2015-04-05",
        Service::Queue | Service::Table => "2012-02-12",
        Service::Blob => return Ok(()),
    };
    if sas.version.as_deref().unwrap_or_default() >= first {
        return Ok(());
    }
    Err(failed(
        "the version has no shared access signatures of this kind",
        format!("Shared access signatures of this kind are supported since version {first}."),
    ))
}

/// The value of a user delegation key. It is derived from the key's description, so that no key has
/// to be stored.
pub(super) fn delegated_value(signer: &SigningKey, key: &DelegationKey) -> String {
    let DelegationKey { oid, tid, start, expiry, service, version, delegated_tid, .. } = key;
    let parts = ["delegation", oid, tid, start, expiry, service, version, delegated_tid];
    signer.sign(&parts.join("\n"))
}

/// The letter of a service in signatures.
pub(super) fn letter(service: Service) -> &'static str {
    match service {
        Service::Blob => "b",
        Service::Queue => "q",
        Service::Table => "t",
    }
}

/// The delegation key that a signature claims to be made with.
fn claimed_key(delegation: &Delegation) -> DelegationKey {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    DelegationKey {
        oid: text(&delegation.oid),
        tid: text(&delegation.tid),
        start: text(&delegation.start),
        expiry: text(&delegation.expiry),
        service: text(&delegation.service),
        version: text(&delegation.version),
        delegated_tid: text(&delegation.delegated_tid),
        value: String::new().into(),
    }
}

/// Rejects a delegation key that is not valid now or of another service, a version in which the service has no
/// such keys, and a stored access policy, which such a signature cannot have.
fn check_delegation(sas: &Sas, key: &Delegation, caller: Caller<'_>) -> Result<(), Rejection> {
    let begun = time(key.start.as_deref())?.is_some_and(|start| start <= caller.now);
    let ended = time(key.expiry.as_deref())?.is_none_or(|expiry| expiry <= caller.now);
    let is_of_service = key.service.as_deref() == Some(letter(caller.service));
    let first = match caller.service {
        Service::Blob => "2018-11-09",
        Service::Queue => wire::queue::parse::DELEGATION_KEYS,
        Service::Table => wire::table::parse::DELEGATION_KEYS,
    };
    let is_known = sas.version.as_deref().is_some_and(|version| version >= first);
    let is_plain = sas.identifier.is_none() && !sas.is_account();
    if begun && !ended && is_of_service && is_known && is_plain {
        return Ok(());
    }
    Err(failed(
        "the user delegation key is not valid now or not for this request",
        "The user delegation key is not valid at this time, or not for this service, or the \
         signature is of a kind or version that does not support user delegation keys.",
    ))
}

/// The resource that the signature is for, if any. (An account SAS is for all resources.)
fn resource<'a>(sas: &'a Sas, caller: Caller<'a>) -> Option<Resource<'a>> {
    if caller.service == Service::Table {
        let table = sas.table.as_deref().filter(|table| !table.is_empty());
        return table.or_else(|| sas.is_account().then_some("")).map(Resource::Table);
    }
    if sas.is_account() {
        return caller.resource.or(Some(Resource::Container("")));
    }
    match (caller.resource?, sas.blob_resource.as_deref()) {
        (queue @ Resource::Queue(_), _) => Some(queue),
        (Resource::Blob { container, .. } | Resource::Container(container), Some("c")) => {
            Some(Resource::Container(container))
        }
        (blob @ Resource::Blob { .. }, Some("b" | "bs" | "bv")) => Some(blob),
        _ => None,
    }
}

/// Rejects a signature that is not valid now. The stored access policy supplies the values that the
/// signature omits. If both specify a value, the signature is rejected.
fn check_terms(sas: &Sas, policy: &SignedIdentifier, now: DateTime) -> Result<(), Rejection> {
    let twice = sas.start.is_some() && policy.start.is_some()
        || sas.expiry.is_some() && policy.expiry.is_some()
        || sas.permissions.is_some() && policy.permission.is_some();
    if twice {
        return Err(failed(
            "the signature and its stored access policy specify the same value",
            "Access policy fields can be associated with signature or SAS identifier but not both.",
        ));
    }
    let start = time(sas.start.as_deref())?.or(policy.start);
    let expiry = time(sas.expiry.as_deref())?.or(policy.expiry);
    let begun = start.is_none_or(|start| start <= now);
    // A signature without an expiry in either place is invalid.
    let ended = expiry.is_none_or(|expiry| expiry <= now);
    if begun && !ended {
        return Ok(());
    }
    let text = |time: Option<DateTime>| time.map_or_else(String::new, DateTime::to_http);
    Err(failed(
        if begun {
            "the shared access signature has expired"
        } else {
            "the shared access signature is not valid yet"
        },
        format!(
            "Signature not valid in the specified time frame: Start [{}] - Expiry [{}] - Current \
             [{}]",
            text(start),
            text(expiry),
            now.to_http()
        ),
    ))
}

fn time(text: Option<&str>) -> Result<Option<DateTime>, Rejection> {
    let Some(text) = text else { return Ok(None) };
    let parsed = parse_time(text).and_then(|time| DateTime::try_from(time).ok());
    parsed.map(Some).ok_or_else(|| malformed("a time in the shared access signature is invalid"))
}

fn check_origin(sas: &Sas, caller: Caller<'_>, request: &Parts) -> Result<(), Rejection> {
    if let Some(range) = &sas.ip {
        let range =
            IpRange::parse(range).ok_or_else(|| malformed("sip is not an address or range"))?;
        if !range.contains(caller.address) {
            let message = format!(
                "This request is not authorized to perform this operation using this source IP {}.",
                caller.address
            );
            return Err(Rejection::with_message(
                ErrorCode::AUTHORIZATION_SOURCE_IP_MISMATCH,
                message,
            ));
        }
    }
    match sas.protocol.as_deref().map(Protocols::parse) {
        None | Some(Some(Protocols::HttpsAndHttp)) => Ok(()),
        Some(Some(Protocols::Https)) if request.extensions.get::<Https>().is_some() => Ok(()),
        Some(Some(Protocols::Https)) => {
            Err(Rejection::new(ErrorCode::AUTHORIZATION_PROTOCOL_MISMATCH))
        }
        Some(None) => Err(malformed("spr is neither https nor https,http")),
    }
}

/// The range of keys that a signature permits. A RowKey without its PartitionKey is rejected.
fn window(sas: &Sas) -> Result<Window, Rejection> {
    let end = |partition_key: &Option<String>, row_key: &Option<String>| {
        let row_key = row_key.as_deref().map(Key::from);
        match partition_key {
            Some(partition_key) => Ok(Some((Key::from(partition_key.as_str()), row_key))),
            None if row_key.is_none() => Ok(None),
            None => Err(malformed("the range has a RowKey without a PartitionKey")),
        }
    };
    Ok(Window {
        from: end(&sas.start_partition_key, &sas.start_row_key)?,
        to: end(&sas.end_partition_key, &sas.end_row_key)?,
    })
}

/// Rejects a parameter that is repeated, or whose name has another case than the signed one: another
/// parser of the query might use a value that is not signed.
fn check_parameters(query: &str) -> Result<(), Rejection> {
    let mut seen: Vec<&'static str> = Vec::with_capacity(16);
    for pair in pairs(query) {
        let written = split_once(pair, b'=').map_or(pair, |(name, _)| name);
        let name = parameter(pair);
        let mut names = PARTS.iter().chain(&OTHER_PARAMETERS);
        let known = names.find(|known| known.eq_ignore_ascii_case(&name));
        let Some(known) = known else { continue };
        // The address of a blob's snapshot or version is not part of every signature.
        if written != *known && !matches!(*known, "snapshot" | "versionid") {
            return Err(failed(
                "a parameter of the shared access signature is misspelled",
                format!(
                    "The parameter {known} of a shared access signature must be spelled {known}."
                ),
            ));
        }
        if seen.contains(known) {
            return Err(failed(
                "a parameter of the shared access signature is repeated",
                format!("The parameter {known} is specified more than once."),
            ));
        }
        seen.push(known);
    }
    Ok(())
}

/// The decoded name of a parameter in a query.
fn parameter(pair: &str) -> Cow<'_, str> {
    let name = split_once(pair, b'=').map_or(pair, |(name, _)| name);
    if !name.bytes().any(|byte| byte == b'%') {
        return Cow::Borrowed(name);
    }
    percent_decode_str(name).decode_utf8_lossy()
}

/// The error if the signature names no resource, or not the resource of the request.
fn not_for_this(sas: &Sas, caller: Caller<'_>) -> Rejection {
    match caller.service {
        Service::Table => failed("tn is missing", "tn is mandatory. Cannot be empty"),
        Service::Blob if sas.blob_resource.is_none() => {
            failed("sr is missing", "sr is mandatory. Cannot be empty")
        }
        Service::Blob | Service::Queue => failed(
            "the shared access signature is not for this resource",
            "The shared access signature is not for a resource of this kind.",
        ),
    }
}

fn malformed(rule: &'static str) -> Rejection {
    failed(rule, format!("Signature fields not well formed: {rule}."))
}
