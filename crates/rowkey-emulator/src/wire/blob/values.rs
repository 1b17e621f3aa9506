//! Parses single headers and options of requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use rowkey_wire::blob::checksum;
use rowkey_wire::blob::headers as names;
use rowkey_wire::blob::{ContentHeaders, LeaseAction, PublicAccess, Sums};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers::parse_http_date;
use uuid::Uuid;

use crate::op::blob::{Guard, Range};
use crate::op::condition::{Conditions, Match};
use crate::op::tag_filter::{Context, TagFilter};
use crate::op::tags::Tags;
use crate::op::tier::{AccessTier, RehydratePriority};
use crate::wire::options::Options;

/// The content type of a blob that was written without one.
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// A header's text, unless it is missing or empty.
pub(super) fn text<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, Rejection> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map_err(|_| invalid(name, ""))?;
    Ok((!text.is_empty()).then_some(text))
}

/// A header that must be a number.
pub(super) fn number<T: std::str::FromStr>(
    headers: &HeaderMap,
    name: &HeaderName,
) -> Result<Option<T>, Rejection> {
    text(headers, name)?.map(|text| text.parse().map_err(|_| invalid(name, text))).transpose()
}

/// A boolean header.
pub(super) fn flag(headers: &HeaderMap, name: &HeaderName) -> Result<bool, Rejection> {
    match text(headers, name)? {
        None => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(text) => Err(invalid(name, text)),
    }
}

/// A header that must be a GUID.
pub(super) fn guid(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Uuid>, Rejection> {
    text(headers, name)?
        .map(|text| Uuid::try_parse(text).map_err(|_| invalid(name, text)))
        .transpose()
}

/// `x-ms-lease-id` and the conditions.
pub(super) fn guard(headers: &HeaderMap) -> Result<Guard, Rejection> {
    Ok(Guard { lease: guid(headers, &names::LEASE_ID)?, conditions: conditions(headers)? })
}

/// The guard of Get and Set Blob Tags. Since version 2026-02-06 their conditions on ETag and time
/// have separate headers.
pub(super) fn tags_guard(headers: &HeaderMap) -> Result<Guard, Rejection> {
    let own = [
        &names::BLOB_IF_MATCH,
        &names::BLOB_IF_NONE_MATCH,
        &names::BLOB_IF_MODIFIED_SINCE,
        &names::BLOB_IF_UNMODIFIED_SINCE,
    ];
    if !own.iter().any(|name| headers.contains_key(*name)) {
        return guard(headers);
    }
    let [matches, none_match, modified, unmodified] = own;
    let conditions =
        conditions_named(headers, [matches, none_match, modified, unmodified, &names::IF_TAGS])?;
    Ok(Guard { lease: guid(headers, &names::LEASE_ID)?, conditions })
}

/// The conditions of a request.
pub(super) fn conditions(headers: &HeaderMap) -> Result<Conditions, Rejection> {
    conditions_named(
        headers,
        [
            &header::IF_MATCH,
            &header::IF_NONE_MATCH,
            &header::IF_MODIFIED_SINCE,
            &header::IF_UNMODIFIED_SINCE,
            &names::IF_TAGS,
        ],
    )
}

/// The conditions on the source of a copy.
pub(super) fn source_guard(headers: &HeaderMap) -> Result<Guard, Rejection> {
    let conditions = conditions_named(
        headers,
        [
            &names::SOURCE_IF_MATCH,
            &names::SOURCE_IF_NONE_MATCH,
            &names::SOURCE_IF_MODIFIED_SINCE,
            &names::SOURCE_IF_UNMODIFIED_SINCE,
            &names::SOURCE_IF_TAGS,
        ],
    )?;
    Ok(Guard { lease: guid(headers, &names::SOURCE_LEASE_ID)?, conditions })
}

fn conditions_named(headers: &HeaderMap, names: [&HeaderName; 5]) -> Result<Conditions, Rejection> {
    let matches = |name| Ok(text(headers, name)?.map(Match::parse));
    let seconds = |name| -> Result<Option<i64>, Rejection> {
        let Some(text) = text(headers, name)? else { return Ok(None) };
        Ok(Some(parse_http_date(text).ok_or_else(|| invalid(name, text))?.timestamp()))
    };
    let conditions = Conditions {
        matches: matches(names[0])?,
        none_match: matches(names[1])?,
        modified_since: seconds(names[2])?,
        unmodified_since: seconds(names[3])?,
        tags: tag_filter(headers, names[4])?,
    };
    conditions.check()?;
    Ok(conditions)
}

fn tag_filter(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Box<TagFilter>>, Rejection> {
    let Some(text) = text(headers, name)? else { return Ok(None) };
    let filter = TagFilter::parse(text, Context::Condition)
        .map_err(|error| invalid(name, text).detail("Reason", error.to_string()))?;
    Ok(Some(Box::new(filter)))
}

/// `x-ms-tags`
pub(super) fn tags(headers: &HeaderMap) -> Result<Tags, Rejection> {
    text(headers, &names::TAGS)?.map_or_else(|| Ok(Tags::default()), Tags::parse_header)
}

/// `x-ms-access-tier`
pub(super) fn tier(headers: &HeaderMap) -> Result<Option<AccessTier>, Rejection> {
    let Some(text) = text(headers, &names::ACCESS_TIER)? else { return Ok(None) };
    AccessTier::parse(text).map(Some).ok_or_else(|| invalid(&names::ACCESS_TIER, text))
}

/// `x-ms-rehydrate-priority`
pub(super) fn priority(headers: &HeaderMap) -> Result<RehydratePriority, Rejection> {
    let Some(text) = text(headers, &names::REHYDRATE_PRIORITY)? else {
        return Ok(RehydratePriority::default());
    };
    RehydratePriority::parse(text).ok_or_else(|| invalid(&names::REHYDRATE_PRIORITY, text))
}

/// `x-ms-blob-public-access`
pub(super) fn public_access(headers: &HeaderMap) -> Result<Option<PublicAccess>, Rejection> {
    match text(headers, &names::PUBLIC_ACCESS)? {
        None => Ok(None),
        Some("blob") => Ok(Some(PublicAccess::Blob)),
        // `true` is the value in versions before 2009-09-19.
        Some("container" | "true") => Ok(Some(PublicAccess::Container)),
        Some(text) => Err(invalid(&names::PUBLIC_ACCESS, text)),
    }
}

/// The HTTP headers of a blob, from `x-ms-blob-…`.
pub(super) fn content_headers(headers: &HeaderMap) -> Result<ContentHeaders, Rejection> {
    let md5 = match text(headers, &names::CONTENT_MD5)? {
        None => None,
        Some(text) => Some(decode_any(text).ok_or_else(|| invalid_md5(text))?),
    };
    Ok(ContentHeaders {
        cache_control: kept(headers, &names::CACHE_CONTROL),
        disposition: kept(headers, &names::CONTENT_DISPOSITION),
        encoding: kept(headers, &names::CONTENT_ENCODING),
        language: kept(headers, &names::CONTENT_LANGUAGE),
        md5,
        content_type: kept(headers, &names::CONTENT_TYPE),
    })
}

/// Decodes a checksum of any length. Empty text is invalid.
pub(super) fn decode_any(text: &str) -> Option<Box<[u8]>> {
    STANDARD.decode(text).ok().filter(|sum| !sum.is_empty()).map(Vec::into_boxed_slice)
}

/// The same for Put Blob, which falls back to the request's own headers.
pub(super) fn put_headers(headers: &HeaderMap) -> Result<ContentHeaders, Rejection> {
    let mut content = content_headers(headers)?;
    let fall_back = |value: &mut Option<HeaderValue>, name: &HeaderName| {
        if value.is_none() {
            *value = kept(headers, name);
        }
    };
    fall_back(&mut content.cache_control, &header::CACHE_CONTROL);
    fall_back(&mut content.encoding, &header::CONTENT_ENCODING);
    fall_back(&mut content.language, &header::CONTENT_LANGUAGE);
    fall_back(&mut content.content_type, &header::CONTENT_TYPE);
    content.content_type.get_or_insert(OCTETS);
    Ok(content)
}

/// Sets the default type of a block blob without a type.
pub(super) fn default_type(content: &mut ContentHeaders) {
    content.content_type.get_or_insert(OCTETS);
}

/// The checksums of the body. Only one may be given.
pub(super) fn sums(headers: &HeaderMap) -> Result<Sums, Rejection> {
    let md5_header = HeaderName::from_static("content-md5");
    let md5 = match text(headers, &md5_header)? {
        None => None,
        Some(text) => Some(checksum::decode(text).ok_or_else(|| invalid_md5(text))?),
    };
    let crc64 = match text(headers, &names::CONTENT_CRC64)? {
        None => None,
        Some(text) => {
            Some(checksum::decode(text).ok_or_else(|| invalid(&names::CONTENT_CRC64, text))?)
        }
    };
    if md5.is_some() && crc64.is_some() {
        return Err(Rejection::new(ErrorCode::BOTH_CRC64_AND_MD5_HEADER_PRESENT));
    }
    Ok(Sums { md5, crc64 })
}

/// `x-ms-range`, or `Range` if it is missing. As in HTTP, an invalid range is ignored.
pub(super) fn range(headers: &HeaderMap) -> Option<Range> {
    let value = headers.get(names::RANGE).or_else(|| headers.get(header::RANGE))?;
    let (first, last) = value.to_str().ok()?.trim().strip_prefix("bytes=")?.split_once('-')?;
    let first = first.trim().parse().ok()?;
    let last = match last.trim() {
        "" => None,
        last => Some(last.parse().ok().filter(|last| *last >= first)?),
    };
    Some(Range { first, last })
}

/// The option `snapshot`.
pub(super) fn snapshot(options: &Options<'_>) -> Result<Option<DateTime>, Rejection> {
    let Some(text) = options.get("snapshot").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let instant = text.parse().map_err(|_| invalid_option("snapshot", text))?;
    Ok(Some(instant))
}

/// The option `maxresults`: values above 5,000 count as 5,000.
pub(super) fn max_results(options: &Options<'_>) -> Result<Option<u32>, Rejection> {
    let Some(text) = options.get("maxresults").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let number: u32 = text.parse().map_err(|_| invalid_option("maxresults", text))?;
    if number == 0 {
        return Err(Rejection::new(ErrorCode::OUT_OF_RANGE_QUERY_PARAMETER_VALUE)
            .detail("QueryParameterName", "maxresults")
            .detail("QueryParameterValue", text)
            .detail("MinimumAllowed", "1")
            .detail("MaximumAllowed", "2147483647"));
    }
    Ok(Some(number))
}

/// The requested action on a lease.
pub(super) fn lease_action(headers: &HeaderMap) -> Result<LeaseAction, Rejection> {
    let action = required(headers, &names::LEASE_ACTION)?;
    let lease = || guid(headers, &names::LEASE_ID)?.ok_or_else(|| missing(&names::LEASE_ID));
    let proposed = guid(headers, &names::PROPOSED_LEASE_ID)?;
    if action.eq_ignore_ascii_case("acquire") {
        let duration: i64 = number(headers, &names::LEASE_DURATION)?
            .ok_or_else(|| missing(&names::LEASE_DURATION))?;
        let seconds = match duration {
            -1 => None,
            15..=60 => u32::try_from(duration).ok(),
            _ => return Err(invalid(&names::LEASE_DURATION, &duration.to_string())),
        };
        Ok(LeaseAction::Acquire { seconds, proposed })
    } else if action.eq_ignore_ascii_case("break") {
        let period: Option<u32> = number(headers, &names::LEASE_BREAK_PERIOD)?;
        if let Some(seconds) = period.filter(|seconds| *seconds > 60) {
            return Err(invalid(&names::LEASE_BREAK_PERIOD, &seconds.to_string()));
        }
        Ok(LeaseAction::Break { period })
    } else if action.eq_ignore_ascii_case("change") {
        let proposed = proposed.ok_or_else(|| missing(&names::PROPOSED_LEASE_ID))?;
        Ok(LeaseAction::Change { lease: lease()?, proposed })
    } else if action.eq_ignore_ascii_case("release") {
        Ok(LeaseAction::Release(lease()?))
    } else if action.eq_ignore_ascii_case("renew") {
        Ok(LeaseAction::Renew(lease()?))
    } else {
        Err(invalid(&names::LEASE_ACTION, action))
    }
}

/// A required header.
pub(super) fn required<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<&'a str, Rejection> {
    text(headers, name)?.ok_or_else(|| missing(name))
}

pub(super) fn missing(name: &HeaderName) -> Rejection {
    Rejection::new(ErrorCode::MISSING_REQUIRED_HEADER).detail("HeaderName", name.as_str())
}

pub(super) fn invalid(name: &HeaderName, text: &str) -> Rejection {
    Rejection::new(ErrorCode::INVALID_HEADER_VALUE)
        .detail("HeaderName", name.as_str())
        .detail("HeaderValue", text)
}

pub(super) fn invalid_option(name: &str, text: &str) -> Rejection {
    Rejection::new(ErrorCode::INVALID_QUERY_PARAMETER_VALUE)
        .detail("QueryParameterName", name)
        .detail("QueryParameterValue", text)
}

fn invalid_md5(text: &str) -> Rejection {
    Rejection::new(ErrorCode::INVALID_MD5).detail("UserSpecifiedMd5", text)
}

/// A copy of a value that outlives its request. A header value shares a buffer with the whole
/// request, and would keep it alive.
fn kept(headers: &HeaderMap, name: &HeaderName) -> Option<HeaderValue> {
    let value = headers.get(name).filter(|value| !value.is_empty())?;
    if *value == OCTETS { Some(OCTETS) } else { HeaderValue::from_bytes(value.as_bytes()).ok() }
}
