//! Unsupported features of the service, and their errors.
//!
//! All have the same code and status 400. Clients do not retry a 400, while some retry 501 and every
//! other 5xx, and do not mistake it for "already exists", as they would a 409. A request is rejected
//! as a whole, so that no requested option is silently ignored.

use http::HeaderMap;
use rowkey_wire::blob::headers as names;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::Element;

use crate::wire::options::Options;

/// The encryption scope that every account has, and the default of every container.
const DEFAULT_SCOPE: &[u8] = b"$account-encryption-key";

/// The error for an unsupported feature. `what` completes "this server does not have …".
pub(crate) fn unsupported(what: &str) -> Rejection {
    Rejection::with_message(
        ErrorCode::FEATURE_NOT_SUPPORTED_BY_EMULATOR,
        format!("The feature is not supported: this server does not have {what}."),
    )
}

/// Rejects blob requests with an option or a header of an unsupported feature.
pub(super) fn check_blob(options: &Options<'_>, headers: &HeaderMap) -> Result<(), Rejection> {
    let is_set = |name: &str| options.get(name).is_some_and(|value| !value.is_empty());
    if is_set("versionid") {
        return Err(unsupported("blob versions"));
    }
    if is_set("deletetype") {
        return Err(unsupported("soft delete"));
    }
    if headers.contains_key(names::STRUCTURED_BODY) {
        // The frames would be stored as if they were the content.
        return Err(unsupported("structured messages (`x-ms-structured-body`)"));
    }
    for name in headers.keys() {
        let Some(rest) = name.as_str().strip_prefix("x-ms-") else { continue };
        let what = match rest {
            "encryption-scope" => "encryption scopes",
            // An algorithm without a key has no effect; old Python libraries always send one.
            "encryption-key"
            | "encryption-key-sha256"
            | "source-encryption-key"
            | "source-encryption-key-sha256" => "encryption with customer-provided keys",
            "immutability-policy-until-date" | "immutability-policy-mode" | "legal-hold" => {
                "immutable blobs"
            }
            "expiry-option" | "expiry-time" => "blobs that expire",
            "access-tier-if-modified-since" | "access-tier-if-unmodified-since" => {
                "conditions on the time of the last access tier change"
            }
            _ => continue,
        };
        if headers.get(name).is_some_and(|value| !value.is_empty()) {
            return Err(unsupported(what));
        }
    }
    Ok(())
}

/// Rejects containers with a default encryption scope or with version-level immutability.
pub(super) fn check_container(headers: &HeaderMap) -> Result<(), Rejection> {
    let scope = headers.get("x-ms-default-encryption-scope");
    if scope.is_some_and(|scope| !scope.is_empty() && scope.as_bytes() != DEFAULT_SCOPE) {
        return Err(unsupported("encryption scopes"));
    }
    let immutable = headers.get("x-ms-immutable-storage-with-versioning-enabled");
    if immutable.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true")) {
        return Err(unsupported("immutable blobs"));
    }
    Ok(())
}

/// Rejects listings of deleted resources or of directories.
pub(super) fn check_listing(options: &Options<'_>) -> Result<(), Rejection> {
    match options.get("showonly").unwrap_or_default() {
        "" | "files" => Ok(()),
        "deleted" => Err(unsupported("soft delete")),
        _ => Err(unsupported("directories")),
    }
}

/// Rejects service properties that enable an unsupported feature. `body` is a valid document.
pub(crate) fn check_properties(body: &[u8]) -> Result<(), Rejection> {
    let Ok(root) = Element::read_small(body, "StorageServiceProperties") else { return Ok(()) };
    let policy = root.child("DeleteRetentionPolicy");
    let enabled = policy.and_then(|policy| policy.text_of("Enabled"));
    if enabled.is_some_and(|enabled| enabled.trim().eq_ignore_ascii_case("true")) {
        return Err(unsupported("soft delete"));
    }
    Ok(())
}
