//! Parses requests into [`Op`]s, or into the errors that the service would return.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method};
use rowkey_wire::blob::headers as names;
use rowkey_wire::blob::name::{self, NameError, ROOT};
use rowkey_wire::blob::{AppendLimits, BlobType, ContentHeaders};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use super::unsupported::{self, unsupported};
use super::values;
use crate::op::blob::{
    AccountOp, BlobOp, BlockLists, ContainerOp, Copy, Delete, Description, FindByTags, ListBlobs,
    ListContainers, Op, Put, Read, SetTier, Target,
};
use crate::op::marker::Marker;
use crate::op::metadata::Metadata;
use crate::op::tag_filter::{Context, TagFilter};
use crate::op::tags::Tags;
use crate::wire::options::Options;

/// The most bytes in the id of a block, before base64.
const MAX_BLOCK_ID: usize = 64;

/// The resource named by the query and by the decoded path below the account's endpoint.
pub(crate) fn target<'a>(path: &'a str, options: &Options<'_>) -> Target<'a> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return match options.get("restype") {
            // The JavaScript library treats the account in a path-style address as a container when
            // it sends a batch to the account.
            Some("container") if options.get("comp") != Some("batch") => Target::Container(ROOT),
            _ => Target::Account,
        };
    }
    match path.split_once('/') {
        Some((container, blob)) if !blob.is_empty() => Target::Blob { container, blob },
        Some((container, _)) => Target::Container(container),
        None if options.get("restype").is_some() => Target::Container(path),
        None => Target::Blob { container: ROOT, blob: path },
    }
}

/// Parses everything in a request except its body.
pub(crate) fn op<'a>(
    method: &Method,
    target: Target<'a>,
    options: &Options<'_>,
    headers: &'a HeaderMap,
) -> Result<Op<'a>, Rejection> {
    match target {
        Target::Account => account_op(method, options).map(Op::Account),
        Target::Container(container) => {
            name::check_container(container).map_err(rejection)?;
            container_op(method, options, headers)
        }
        Target::Blob { container, blob } => {
            name::check_container(container).map_err(rejection)?;
            name::check_blob(blob).map_err(rejection)?;
            blob_op(method, options, headers).map(Op::Blob)
        }
    }
}

fn account_op(method: &Method, options: &Options<'_>) -> Result<AccountOp, Rejection> {
    let (restype, comp) = (options.get("restype"), options.get("comp"));
    match (method.as_str(), restype, comp) {
        ("GET" | "HEAD", Some("account"), Some("properties")) => Ok(AccountOp::GetInformation),
        ("GET", Some("service"), Some("properties")) => Ok(AccountOp::GetProperties),
        ("PUT", Some("service"), Some("properties")) => Ok(AccountOp::SetProperties),
        ("GET", Some("service"), Some("stats")) => Ok(AccountOp::GetStats),
        ("GET", None, Some("list")) => list_containers(options).map(AccountOp::ListContainers),
        ("POST", None | Some("container"), Some("batch")) => Ok(AccountOp::Batch),
        ("GET", None, Some("blobs")) => find_by_tags(options).map(AccountOp::FindByTags),
        ("POST", Some("service"), Some("userdelegationkey")) => Ok(AccountOp::GetUserDelegationKey),
        (_, _, Some("batch" | "blobs" | "properties" | "stats" | "list")) => {
            Err(Rejection::new(ErrorCode::METHOD_NOT_ALLOWED))
        }
        (_, _, Some(comp)) => Err(values::invalid_option("comp", comp)),
        _ => Err(Rejection::new(ErrorCode::INVALID_URI)),
    }
}

fn list_containers(options: &Options<'_>) -> Result<ListContainers, Rejection> {
    let include = options.get("include").unwrap_or_default();
    Ok(ListContainers {
        prefix: options.get("prefix").unwrap_or_default().to_owned(),
        marker: options.get("marker").unwrap_or_default().to_owned(),
        max_results: values::max_results(options)?,
        metadata: include.split(',').any(|part| part.eq_ignore_ascii_case("metadata")),
    })
}

fn container_op<'a>(
    method: &Method,
    options: &Options<'_>,
    headers: &HeaderMap,
) -> Result<Op<'a>, Rejection> {
    let comp = options.get("comp").unwrap_or_default();
    if options.get("restype") == Some("account") && comp == "properties" {
        return Ok(Op::Account(AccountOp::GetInformation));
    }
    if options.get("restype").is_none()
        && !matches!(comp, "list" | "acl" | "metadata" | "lease" | "blobs")
    {
        return Err(Rejection::new(ErrorCode::INVALID_URI));
    }
    let op = match (method.as_str(), comp) {
        ("POST", "batch") => ContainerOp::Batch,
        ("GET", "blobs") => ContainerOp::FindByTags(find_by_tags(options)?),
        ("PUT", "") => {
            unsupported::check_container(headers)?;
            ContainerOp::Create(values::public_access(headers)?, Metadata::parse(headers)?)
        }
        ("GET" | "HEAD", "") => ContainerOp::GetProperties(values::guard(headers)?),
        ("DELETE", "") => ContainerOp::Delete(values::guard(headers)?),
        ("GET" | "HEAD", "metadata") => ContainerOp::GetMetadata(values::guard(headers)?),
        ("PUT", "metadata") => {
            ContainerOp::SetMetadata(Metadata::parse(headers)?, values::guard(headers)?)
        }
        ("GET" | "HEAD", "acl") => ContainerOp::GetAcl(values::guard(headers)?),
        ("PUT", "acl") => {
            ContainerOp::SetAcl(values::public_access(headers)?, values::guard(headers)?)
        }
        ("PUT", "lease") => {
            ContainerOp::Lease(values::lease_action(headers)?, values::conditions(headers)?)
        }
        ("GET", "list") => ContainerOp::ListBlobs(list_blobs(options)?),
        (_, "undelete") => return Err(unsupported("restoring deleted containers")),
        (_, "rename") => return Err(unsupported("renaming containers")),
        (_, "" | "batch" | "blobs" | "metadata" | "acl" | "lease" | "list") => {
            return Err(Rejection::new(ErrorCode::METHOD_NOT_ALLOWED));
        }
        (_, comp) => return Err(values::invalid_option("comp", comp)),
    };
    Ok(Op::Container(op))
}

fn list_blobs(options: &Options<'_>) -> Result<ListBlobs, Rejection> {
    unsupported::check_listing(options)?;
    let marker = option(options, "marker");
    let mut list = ListBlobs {
        prefix: options.get("prefix").unwrap_or_default().to_owned(),
        delimiter: options.get("delimiter").filter(|text| !text.is_empty()).map(str::to_owned),
        marker: marker.map(Marker::decode).transpose()?,
        start_from: option(options, "startFrom").unwrap_or_default().to_owned(),
        end_before: option(options, "endBefore").map(str::to_owned),
        max_results: values::max_results(options)?,
        ..ListBlobs::default()
    };
    let include = options.get("include").unwrap_or_default();
    for part in include.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.to_ascii_lowercase().as_str() {
            "copy" => list.copy = true,
            "metadata" => list.metadata = true,
            "snapshots" => list.snapshots = true,
            "tags" => list.tags = true,
            "uncommittedblobs" => list.uncommitted = true,
            // These features cannot be enabled, so there is nothing to include.
            "deleted"
            | "deletedwithversions"
            | "immutabilitypolicy"
            | "legalhold"
            | "permissions"
            | "versions" => {}
            _ => return Err(values::invalid_option("include", part)),
        }
    }
    if list.snapshots && list.delimiter.is_some() {
        return Err(values::invalid_option("include", include));
    }
    Ok(list)
}

fn find_by_tags(options: &Options<'_>) -> Result<FindByTags, Rejection> {
    let text = option(options, "where").ok_or_else(|| {
        Rejection::new(ErrorCode::MISSING_REQUIRED_QUERY_PARAMETER)
            .detail("QueryParameterName", "where")
    })?;
    let filter = TagFilter::parse(text, Context::Search).map_err(|error| {
        values::invalid_option("where", text).detail("Reason", error.to_string())
    })?;
    Ok(FindByTags {
        text: text.to_owned(),
        filter,
        marker: option(options, "marker").map(Marker::decode).transpose()?,
        max_results: values::max_results(options)?,
    })
}

/// The value of an option that is present and not empty.
fn option<'a>(options: &'a Options<'_>, name: &str) -> Option<&'a str> {
    options.get(name).filter(|text| !text.is_empty())
}

fn blob_op<'a>(
    method: &Method,
    options: &Options<'_>,
    headers: &'a HeaderMap,
) -> Result<BlobOp<'a>, Rejection> {
    let comp = options.get("comp").unwrap_or_default();
    unsupported::check_blob(options, headers)?;
    match (method.as_str(), comp) {
        ("GET" | "HEAD", "") => {
            let read = read(method, options, headers)?;
            Ok(BlobOp::Read(read, values::guard(headers)?))
        }
        ("PUT", "") => put(headers),
        ("DELETE", "") => Ok(BlobOp::Delete(delete(options, headers)?, values::guard(headers)?)),
        ("PUT", "block") => put_block(options, headers),
        ("PUT", "blocklist") => {
            let mut content = values::content_headers(headers)?;
            values::default_type(&mut content);
            let description = description(content, headers)?;
            Ok(BlobOp::PutBlockList(description, values::sums(headers)?, values::guard(headers)?))
        }
        ("GET" | "HEAD", "blocklist") => {
            let lists = match options.get("blocklisttype").unwrap_or_default() {
                "" | "committed" => BlockLists::Committed,
                "uncommitted" => BlockLists::Uncommitted,
                "all" => BlockLists::All,
                other => return Err(values::invalid_option("blocklisttype", other)),
            };
            let snapshot = values::snapshot(options)?;
            Ok(BlobOp::GetBlockList(lists, snapshot, values::guard(headers)?))
        }
        ("PUT", "appendblock") => {
            if headers.contains_key(names::COPY_SOURCE) {
                return Err(unsupported("blocks from another address"));
            }
            let limits = append_limits(headers)?;
            Ok(BlobOp::AppendBlock(limits, values::sums(headers)?, values::guard(headers)?))
        }
        ("PUT", "seal") => Ok(BlobOp::Seal(append_limits(headers)?, values::guard(headers)?)),
        ("GET" | "HEAD", "metadata") => {
            Ok(BlobOp::GetMetadata(values::snapshot(options)?, values::guard(headers)?))
        }
        ("PUT", "metadata") => {
            Ok(BlobOp::SetMetadata(Metadata::parse(headers)?, values::guard(headers)?))
        }
        ("PUT", "properties") => {
            if headers.contains_key("x-ms-sequence-number-action")
                || headers.contains_key(names::CONTENT_LENGTH)
            {
                return Err(unsupported("page blobs"));
            }
            let content = values::content_headers(headers)?;
            Ok(BlobOp::SetProperties(content, values::guard(headers)?))
        }
        ("GET" | "HEAD", "properties") if options.get("restype") == Some("account") => {
            Ok(BlobOp::GetAccountInformation)
        }
        ("PUT", "snapshot") => {
            Ok(BlobOp::Snapshot(Metadata::parse(headers)?, values::guard(headers)?))
        }
        ("PUT", "lease") => {
            Ok(BlobOp::Lease(values::lease_action(headers)?, values::conditions(headers)?))
        }
        ("PUT", "copy") => match values::text(headers, &names::COPY_ACTION)? {
            Some("abort") => Ok(BlobOp::AbortCopy(values::guard(headers)?)),
            Some(other) => Err(values::invalid(&names::COPY_ACTION, other)),
            None => Err(values::missing(&names::COPY_ACTION)),
        },
        ("PUT", "tier") => {
            let tier =
                values::tier(headers)?.ok_or_else(|| values::missing(&names::ACCESS_TIER))?;
            let (priority, snapshot) = (values::priority(headers)?, values::snapshot(options)?);
            Ok(BlobOp::SetTier(SetTier { tier, priority, snapshot }, values::guard(headers)?))
        }
        ("GET", "tags") => {
            Ok(BlobOp::GetTags(values::snapshot(options)?, values::tags_guard(headers)?))
        }
        ("PUT", "tags") => {
            if let Some(snapshot) = option(options, "snapshot") {
                return Err(values::invalid_option("snapshot", snapshot));
            }
            Ok(BlobOp::SetTags(values::sums(headers)?, values::tags_guard(headers)?))
        }
        (_, "page" | "pagelist" | "incrementalcopy") => Err(unsupported("page blobs")),
        (_, "undelete") => Err(unsupported("restoring deleted blobs")),
        (_, "query") => Err(unsupported("queries over the content of blobs")),
        (_, "expiry") => Err(unsupported("blobs that expire")),
        (_, "immutabilityPolicies" | "legalhold") => Err(unsupported("immutable blobs")),
        (
            _,
            "" | "block" | "blocklist" | "appendblock" | "seal" | "metadata" | "properties"
            | "snapshot" | "lease" | "copy" | "tags" | "tier",
        ) => Err(Rejection::new(ErrorCode::METHOD_NOT_ALLOWED)),
        (_, comp) => Err(values::invalid_option("comp", comp)),
    }
}

fn read(method: &Method, options: &Options<'_>, headers: &HeaderMap) -> Result<Read, Rejection> {
    let range = values::range(headers);
    let range_md5 = values::flag(headers, &names::RANGE_GET_MD5)?;
    let range_crc64 = values::flag(headers, &names::RANGE_GET_CRC64)?;
    if range_md5 && range_crc64 {
        return Err(Rejection::new(ErrorCode::BOTH_CRC64_AND_MD5_RANGE_HEADER_PRESENT));
    }
    if range.is_none() && (range_md5 || range_crc64) {
        let name = if range_md5 { names::RANGE_GET_MD5 } else { names::RANGE_GET_CRC64 };
        return Err(values::invalid(&name, "true"));
    }
    let content = method == Method::GET;
    let snapshot = values::snapshot(options)?;
    Ok(Read { snapshot, content, range: range.filter(|_| content), range_md5, range_crc64 })
}

fn put(headers: &HeaderMap) -> Result<BlobOp<'_>, Rejection> {
    let kind = values::text(headers, &names::BLOB_TYPE)?;
    if let Some(source) = values::text(headers, &names::COPY_SOURCE)? {
        if kind.is_some() {
            return Err(unsupported("Put Blob From URL"));
        }
        let copy = Copy {
            source,
            source_guard: values::source_guard(headers)?,
            metadata: Metadata::parse(headers)?,
            sync: values::flag(headers, &names::REQUIRES_SYNC)?,
            tags: copy_tags(headers)?,
            tier: values::tier(headers)?,
            priority: values::priority(headers)?,
            seal: values::flag(headers, &names::SEAL_BLOB)?,
        };
        return Ok(BlobOp::Copy(copy, values::guard(headers)?));
    }
    let kind = match kind {
        Some("BlockBlob") => BlobType::Block,
        Some("AppendBlob") => BlobType::Append,
        Some("PageBlob") => return Err(unsupported("page blobs")),
        Some(other) => return Err(values::invalid(&names::BLOB_TYPE, other)),
        None => return Err(values::missing(&names::BLOB_TYPE)),
    };
    let description = description(values::put_headers(headers)?, headers)?;
    if kind == BlobType::Append && description.tier.is_some() {
        return Err(Rejection::new(ErrorCode::ACCESS_TIER_NOT_SUPPORTED_FOR_BLOB_TYPE));
    }
    let put = Put { kind, description, sums: values::sums(headers)? };
    Ok(BlobOp::Put(put, values::guard(headers)?))
}

/// The properties of a blob that is written, besides its HTTP headers.
fn description(content: ContentHeaders, headers: &HeaderMap) -> Result<Description, Rejection> {
    Ok(Description {
        headers: content,
        metadata: Metadata::parse(headers)?,
        tags: values::tags(headers)?,
        tier: values::tier(headers)?,
    })
}

/// The tags of a copy: those in the request, unless it requests those of the source.
fn copy_tags(headers: &HeaderMap) -> Result<Option<Tags>, Rejection> {
    let tags = values::tags(headers)?;
    match values::text(headers, &names::COPY_SOURCE_TAG_OPTION)? {
        None => Ok(Some(tags)),
        Some(text) if text.eq_ignore_ascii_case("replace") => Ok(Some(tags)),
        Some(text) if text.eq_ignore_ascii_case("copy") && tags.is_empty() => Ok(None),
        Some(text) => Err(values::invalid(&names::COPY_SOURCE_TAG_OPTION, text)),
    }
}

fn put_block<'a>(options: &Options<'_>, headers: &HeaderMap) -> Result<BlobOp<'a>, Rejection> {
    if headers.contains_key(names::COPY_SOURCE) {
        return Err(unsupported("blocks from another address"));
    }
    let id = options.get("blockid").filter(|id| !id.is_empty()).ok_or_else(|| {
        Rejection::new(ErrorCode::MISSING_REQUIRED_QUERY_PARAMETER)
            .detail("QueryParameterName", "blockid")
    })?;
    // A `+` that a client did not encode arrives as a space.
    let id = id.replace(' ', "+");
    let length = STANDARD.decode(&id).map_err(|_| {
        values::invalid_option("blockid", &id).detail("Reason", "Not a valid base64 string.")
    })?;
    if !(1..=MAX_BLOCK_ID).contains(&length.len()) {
        return Err(Rejection::new(ErrorCode::OUT_OF_RANGE_INPUT));
    }
    Ok(BlobOp::PutBlock(id, values::sums(headers)?, values::guard(headers)?))
}

fn append_limits(headers: &HeaderMap) -> Result<AppendLimits, Rejection> {
    Ok(AppendLimits {
        position: values::number(headers, &names::APPEND_POSITION)?,
        max_size: values::number(headers, &names::MAX_SIZE)?,
    })
}

fn delete(options: &Options<'_>, headers: &HeaderMap) -> Result<Delete, Rejection> {
    let snapshots = headers.get(names::DELETE_SNAPSHOTS);
    match (values::snapshot(options)?, snapshots.map(HeaderValue::as_bytes)) {
        (Some(snapshot), None) => Ok(Delete::Snapshot(snapshot)),
        (None, None | Some(b"")) => Ok(Delete::Blob),
        (None, Some(b"include")) => Ok(Delete::BlobAndSnapshots),
        (None, Some(b"only")) => Ok(Delete::Snapshots),
        (_, Some(other)) => {
            Err(values::invalid(&names::DELETE_SNAPSHOTS, &String::from_utf8_lossy(other)))
        }
    }
}

fn rejection(error: NameError) -> Rejection {
    match error {
        NameError::ContainerLength | NameError::BlobLength => Rejection::with_message(
            ErrorCode::OUT_OF_RANGE_INPUT,
            "The specified resource name length is not within the permissible limits.",
        ),
        NameError::ContainerCharacters => Rejection::new(ErrorCode::INVALID_RESOURCE_NAME),
        NameError::BlobSegments => Rejection::new(ErrorCode::INVALID_URI),
    }
}
