//! Parses recorded requests, and compares responses with recorded ones.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rowkey_wire::blob::{BlobType, ContentHeaders, LeaseAction, PublicAccess};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

use super::parse;
use super::render::{self, BlobView, ContainerView, Item as View};
use super::values::decode_any;
use crate::op::blob::{
    AccountOp, BlobOp, ContainerOp, Delete, ListBlobs, ListContainers, Op, Range, Target,
};
use crate::op::condition::{Match, Tag};
use crate::op::metadata::Metadata;
use crate::op::tags::Tags;
use crate::op::tier::{AccessTier, RehydratePriority, TierView};
use crate::op::views::{FoundView, LeaseView};
use crate::wire::options::Options;

/// `test_container.test_list_blobs_with_delimiter`, version 2019-07-07, except for the tier.
/// The MD5 of `hello world`.
const SUM: &str = "XrY7u+Ae7tCTyyK7j1rNww==";

const BLOBS: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://storagename.blob.core.windows.net/\" ContainerName=\"containerab171296\"><Delimiter>/</Delimiter><Blobs><BlobPrefix><Name>a/</Name></BlobPrefix><Blob><Name>blob4</Name><Properties><Creation-Time>Tue, 07 Apr 2020 18:54:08 GMT</Creation-Time><Last-Modified>Tue, 07 Apr 2020 18:54:08 GMT</Last-Modified><Etag>0x8D7DB250DC88401</Etag><Content-Length>11</Content-Length><Content-Type>application/octet-stream</Content-Type><Content-Encoding /><Content-Language /><Content-CRC64 /><Content-MD5>XrY7u+Ae7tCTyyK7j1rNww==</Content-MD5><Cache-Control /><Content-Disposition /><BlobType>BlockBlob</BlobType><LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState><ServerEncrypted>true</ServerEncrypted></Properties></Blob></Blobs><NextMarker /></EnumerationResults>";

/// `test_storage_blob.test_list_containers_with_maxresults_and_marker`, reduced to one container,
/// with the two elements that versions since 2017-11-09 add.
const CONTAINERS: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://storagename.blob.core.windows.net/\"><Prefix>utcontainer77f61af6</Prefix><MaxResults>1</MaxResults><Containers><Container><Name>utcontainer77f61af6a</Name><Properties><Last-Modified>Tue, 23 Jun 2015 00:57:07 GMT</Last-Modified><Etag>\"0x8D27B66A9B58E64\"</Etag><LeaseStatus>locked</LeaseStatus><LeaseState>leased</LeaseState><LeaseDuration>infinite</LeaseDuration><PublicAccess>blob</PublicAccess><HasImmutabilityPolicy>false</HasImmutabilityPolicy><HasLegalHold>false</HasLegalHold></Properties><Metadata><hello>world</hello></Metadata></Container></Containers><NextMarker>/storagename/utcontainer77f61af6b</NextMarker></EnumerationResults>";

const ENDPOINT: &str = "https://storagename.blob.core.windows.net";
const AVAILABLE: LeaseView = LeaseView { status: "unlocked", state: "available", duration: None };

fn instant(text: &str) -> DateTime {
    text.parse().unwrap()
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

/// The operation parsed from a request.
fn op<'a>(
    method: &str,
    path: &'a str,
    query: &str,
    headers: &'a HeaderMap,
) -> Result<Op<'a>, Rejection> {
    let options = Options::parse(query).unwrap();
    let method: Method = method.parse().unwrap();
    parse::op(&method, parse::target(path, &options), &options, headers)
}

fn code(method: &str, path: &str, query: &str, pairs: &[(&'static str, &'static str)]) -> String {
    op(method, path, query, &headers(pairs)).unwrap_err().code.as_str().to_owned()
}

#[test]
fn a_list_of_blobs_matches_a_recording() {
    let content = ContentHeaders {
        content_type: Some(HeaderValue::from_static("application/octet-stream")),
        md5: decode_any(SUM),
        ..ContentHeaders::default()
    };
    let blob = BlobView {
        name: "blob4",
        snapshot: None,
        created: instant("2020-04-07T18:54:08Z"),
        modified: instant("2020-04-07T18:54:08Z"),
        tag: Tag::parse("0x8D7DB250DC88401").unwrap(),
        length: 11,
        headers: &content,
        kind: BlobType::Block,
        lease: Some(AVAILABLE),
        sealed: false,
        copy: None,
        tier: None,
        tags: &Tags::default(),
        metadata: None,
    };
    let options = ListBlobs { delimiter: Some("/".into()), ..ListBlobs::default() };
    let items = [View::Prefix("a/"), View::Blob(blob)].into_iter();
    let container = "containerab171296";
    assert_eq!(render::blobs(ENDPOINT, container, &options, "2019-07-07", items, None), BLOBS);
}

/// A block blob without headers, named `b`.
fn plain<'a>(content: &'a ContentHeaders, tags: &'a Tags) -> BlobView<'a> {
    let now = instant("2020-07-06T23:58:28Z");
    BlobView {
        name: "b",
        snapshot: None,
        created: now,
        modified: now,
        tag: Tag(1),
        length: 0,
        headers: content,
        kind: BlobType::Block,
        lease: Some(AVAILABLE),
        sealed: false,
        copy: None,
        tier: Some(TierView { tier: AccessTier::Hot, changed: None, rehydrating: None }),
        tags,
        metadata: None,
    }
}

#[test]
fn listed_tiers_and_tags_match_a_recording() {
    // test_blob_tags.test_list_blobs_returns_tags
    let tags = Tags::parse_header("tag1=firsttag&tag2=secondtag").unwrap();
    let content = ContentHeaders::default();
    let list = |blob, options: &ListBlobs, version| {
        render::blobs("http://h", "c", options, version, [View::Blob(blob)].into_iter(), None)
    };
    let options = ListBlobs { tags: true, ..ListBlobs::default() };
    let text = list(plain(&content, &tags), &options, "2019-12-12");
    let properties = "<BlobType>BlockBlob</BlobType><AccessTier>Hot</AccessTier><AccessTierInferred>true</AccessTierInferred><LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState><ServerEncrypted>true</ServerEncrypted><TagCount>2</TagCount></Properties>";
    let tag_set = "<Tags><TagSet><Tag><Key>tag1</Key><Value>firsttag</Value></Tag><Tag><Key>tag2</Key><Value>secondtag</Value></Tag></TagSet></Tags></Blob>";
    assert!(text.contains(&format!("{properties}{tag_set}")), "{text}");
    let text = list(plain(&content, &tags), &ListBlobs::default(), "2019-12-12");
    assert!(text.contains(&format!("{properties}</Blob>")), "{text}");
    let text = list(plain(&content, &tags), &options, "2016-05-31");
    assert!(!text.contains("Tier>") && !text.contains("Tag"), "{text}");

    let metadata = Some(&Metadata::default());
    let text = list(BlobView { metadata, ..plain(&content, &tags) }, &options, "2019-12-12");
    assert!(!text.contains("<Metadata"), "{text}");

    let going = Some((AccessTier::Cool, RehydratePriority::High));
    let changed = Some(instant("2020-07-07T00:00:00Z"));
    let tier = Some(TierView { tier: AccessTier::Archive, changed, rehydrating: going });
    let text = list(BlobView { tier, ..plain(&content, &tags) }, &options, "2019-12-12");
    assert!(text.contains("<AccessTier>Archive</AccessTier><AccessTierChangeTime>Tue, 07 Jul 2020 00:00:00 GMT</AccessTierChangeTime><ArchiveStatus>rehydrate-pending-to-cool</ArchiveStatus><RehydratePriority>High</RehydratePriority>"), "{text}");
}

#[test]
fn the_result_of_find_blobs_matches_a_recording() {
    // test_blob_tags.test_filter_blobs
    let tags = Tags::parse_header("tag1=firsttag&tag2=secondtag").unwrap();
    let target = "where=tag1%3D%27firsttag%27&maxresults=2&comp=blobs";
    let Ok(Op::Account(AccountOp::FindByTags(options))) = op("GET", "/", target, &HeaderMap::new())
    else {
        panic!()
    };
    let found = FoundView { container: "c", name: "blob2", tags: &tags };
    let write = |version| {
        render::found("http://h", None, &options, version, [found].into_iter(), Some("m"))
    };
    assert!(write("2019-12-12").ends_with("<EnumerationResults ServiceEndpoint=\"http://h/\"><Where>tag1='firsttag'</Where><MaxResults>2</MaxResults><Blobs><Blob><Name>blob2</Name><ContainerName>c</ContainerName><TagValue>firsttag</TagValue></Blob></Blobs><NextMarker>m</NextMarker></EnumerationResults>"), "{}", write("2019-12-12"));
    let later = write("2020-10-02");
    assert!(later.contains("<ContainerName>c</ContainerName><Tags><TagSet><Tag><Key>tag1</Key><Value>firsttag</Value></Tag></TagSet></Tags></Blob>"), "{later}");
}

#[test]
fn listed_snapshots_metadata_and_uncommitted_blobs_match_a_recording() {
    // test_container.test_list_blobs_with_include_multiple and …_include_uncommittedblobs.
    let metadata =
        Metadata::parse(&headers(&[("x-ms-meta-number", "1"), ("x-ms-meta-name", "bob")]));
    let metadata = metadata.unwrap();
    let content = ContentHeaders::default();
    let blob = BlobView {
        name: "a<b",
        snapshot: Some(instant("2019-06-14T17:42:41.1421008Z")),
        created: instant("2019-06-14T17:42:41Z"),
        modified: instant("2019-06-14T17:42:41Z"),
        tag: Tag(1),
        length: 0,
        headers: &content,
        kind: BlobType::Append,
        lease: None,
        sealed: true,
        copy: None,
        tier: None,
        tags: &Tags::default(),
        metadata: Some(&metadata),
    };
    let items = [View::Blob(blob), View::Uncommitted("u")].into_iter();
    let options = ListBlobs::default();
    let text = render::blobs("http://h\"<", "c", &options, "2014-02-14", items, Some("m"));
    assert!(text.contains("ServiceEndpoint=\"http://h&quot;&lt;/\""), "{text}");
    assert!(text.contains(
        "<Blob><Name>a&lt;b</Name><Snapshot>2019-06-14T17:42:41.1421008Z</Snapshot><Properties><Last-Modified>"
    ));
    assert!(text.contains("<BlobType>AppendBlob</BlobType><Sealed>true</Sealed></Properties><Metadata><name>bob</name><number>1</number></Metadata></Blob>"));
    assert!(text.contains("<Blob><Name>u</Name><Properties><Content-Length>0</Content-Length><BlobType>BlockBlob</BlobType><LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState></Properties></Blob>"));
}

#[test]
fn a_list_of_containers_matches_a_recording() {
    let metadata = Metadata::parse(&headers(&[("x-ms-meta-hello", "world")])).unwrap();
    let container = ContainerView {
        name: "utcontainer77f61af6a",
        modified: instant("2015-06-23T00:57:07Z"),
        tag: Tag::parse("0x8D27B66A9B58E64").unwrap(),
        lease: LeaseView { status: "locked", state: "leased", duration: Some("infinite") },
        access: Some(PublicAccess::Blob),
        metadata: Some(&metadata),
    };
    let options = ListContainers {
        prefix: "utcontainer77f61af6".into(),
        max_results: Some(1),
        ..ListContainers::default()
    };
    let one = [container].into_iter();
    let next = Some("utcontainer77f61af6b");
    let text = render::containers(ENDPOINT, "storagename", &options, one, next);
    assert_eq!(text, CONTAINERS);
}

#[test]
fn paths_identify_accounts_containers_and_blobs() {
    let target = |path, query| parse::target(path, &Options::parse(query).unwrap());
    assert_eq!(target("/", "comp=list"), Target::Account);
    assert_eq!(target("", "restype=service&comp=stats"), Target::Account);
    assert_eq!(target("/c", "restype=container"), Target::Container("c"));
    assert_eq!(target("/", "restype=container"), Target::Container("$root"));
    assert_eq!(target("/c/a/b", ""), Target::Blob { container: "c", blob: "a/b" });
    assert_eq!(target("/b", ""), Target::Blob { container: "$root", blob: "b" });
    assert_eq!(target("/c/", "restype=container"), Target::Container("c"));
}

#[test]
fn requests_become_operations() {
    let none = HeaderMap::new();
    assert_eq!(
        op("GET", "/", "restype=account&comp=properties", &none),
        Ok(Op::Account(AccountOp::GetInformation))
    );
    let sent = headers(&[("x-ms-blob-public-access", "container")]);
    assert_eq!(
        op("PUT", "/abc", "restype=container", &sent),
        Ok(Op::Container(ContainerOp::Create(Some(PublicAccess::Container), Metadata::default())))
    );
    let query = "restype=container&comp=list&include=snapshots,metadata,tags,versions&maxresults=2";
    let Ok(Op::Container(ContainerOp::ListBlobs(list))) = op("GET", "/abc", query, &none) else {
        panic!()
    };
    assert!(list.snapshots && list.metadata && !list.uncommitted);
    assert_eq!(list.max_results, Some(2));
    let sent = headers(&[("x-ms-range", "bytes=2-5"), ("range", "bytes=0-0"), ("if-match", "*")]);
    let Ok(Op::Blob(BlobOp::Read(read, guard))) = op("GET", "/abc/b", "", &sent) else { panic!() };
    assert_eq!(read.range, Some(Range { first: 2, last: Some(5) }));
    assert_eq!(guard.conditions.matches, Some(Match::Any));
    let sent = headers(&[("x-ms-delete-snapshots", "include")]);
    let Ok(Op::Blob(BlobOp::Delete(what, _))) = op("DELETE", "/abc/b", "", &sent) else { panic!() };
    assert_eq!(what, Delete::BlobAndSnapshots);
    let sent = headers(&[("x-ms-lease-action", "Acquire"), ("x-ms-lease-duration", "-1")]);
    let Ok(Op::Blob(BlobOp::Lease(action, _))) = op("PUT", "/abc/b", "comp=lease", &sent) else {
        panic!()
    };
    assert_eq!(action, LeaseAction::Acquire { seconds: None, proposed: None });
}

#[test]
fn put_blob_stores_content_headers_with_the_blob() {
    let sent = headers(&[
        ("x-ms-blob-type", "BlockBlob"),
        ("x-ms-access-tier", "Hot"),
        ("content-type", "text/plain"),
        ("content-language", "de"),
        ("x-ms-blob-content-language", "spanish"),
        ("x-ms-blob-content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="),
    ]);
    let Ok(Op::Blob(BlobOp::Put(put, _))) = op("PUT", "/abc/b", "", &sent) else { panic!() };
    let content = put.description.headers;
    assert_eq!(content.content_type.unwrap(), "text/plain");
    assert_eq!(content.language.unwrap(), "spanish");
    assert_eq!(content.md5, decode_any(SUM));
    assert_eq!(put.sums.md5, None);
}

#[test]
fn malformed_ranges_are_ignored() {
    for text in ["bytes=-5", "bytes=5", "bytes=5-2", "items=0-1", "bytes=a-b", "bytes=0-1,2-3"] {
        let mut sent = HeaderMap::new();
        sent.insert("range", HeaderValue::from_static(text));
        let Ok(Op::Blob(BlobOp::Read(read, _))) = op("GET", "/abc/b", "", &sent) else { panic!() };
        assert_eq!(read.range, None, "{text}");
    }
}

const NOT_THERE: &str = "FeatureNotSupportedByEmulator";

#[test]
fn malformed_requests_have_the_error_codes_of_the_service() {
    // test_common_blob.test_get_blob_metadata_fail
    let rejection = op("GET", "/abc/b", "snapshot=1&comp=metadata", &HeaderMap::new()).unwrap_err();
    assert_eq!(rejection.code, ErrorCode::INVALID_QUERY_PARAMETER_VALUE);
    assert_eq!(
        rejection.details,
        [("QueryParameterName", "snapshot".to_owned()), ("QueryParameterValue", "1".to_owned())]
    );
    for (method, path, query, pairs, expected) in [
        ("PUT", "/aBc", "restype=container", &[][..], "InvalidResourceName"),
        ("PUT", "/ab", "restype=container", &[], "OutOfRangeInput"),
        ("PUT", "/abc/b", "", &[], "MissingRequiredHeader"),
        ("PUT", "/abc/b", "", &[("x-ms-blob-type", "Blob")], "InvalidHeaderValue"),
        ("PUT", "/abc/b", "", &[("x-ms-blob-type", "PageBlob")], NOT_THERE),
        ("POST", "/abc/b", "comp=query", &[], NOT_THERE),
        ("PUT", "/abc/b", "comp=undelete", &[], NOT_THERE),
        ("PUT", "/abc/b", "comp=legalhold", &[], NOT_THERE),
        ("PUT", "/abc/b", "comp=metadata", &[("x-ms-encryption-scope", "s")], NOT_THERE),
        ("GET", "/abc/b", "", &[("x-ms-encryption-key", "k")], NOT_THERE),
        ("DELETE", "/abc/b", "", &[("x-ms-source-encryption-key", "k")], NOT_THERE),
        ("GET", "/abc/b", "versionid=v", &[], NOT_THERE),
        ("DELETE", "/abc/b", "deletetype=permanent", &[], NOT_THERE),
        ("PUT", "/abc", "restype=container", &[("x-ms-default-encryption-scope", "s")], NOT_THERE),
        ("GET", "/abc", "restype=container&comp=list&showonly=deleted", &[], NOT_THERE),
        ("PUT", "/abc/b", "comp=tier", &[], "MissingRequiredHeader"),
        ("PUT", "/abc/b", "comp=tier", &[("x-ms-access-tier", "P4")], "InvalidHeaderValue"),
        ("GET", "/abc/b", "comp=tier", &[], "MethodNotAllowed"),
        (
            "PUT",
            "/abc/b",
            "comp=tags&snapshot=2020-01-01T00:00:00Z",
            &[],
            "InvalidQueryParameterValue",
        ),
        ("GET", "/abc/b", "", &[("x-ms-if-tags", "a=1")], "InvalidHeaderValue"),
        ("GET", "/", "comp=blobs", &[], "MissingRequiredQueryParameter"),
        ("GET", "/", "comp=blobs&where=a", &[], "InvalidQueryParameterValue"),
        ("GET", "/", "comp=batch", &[], "MethodNotAllowed"),
        ("PUT", "/abc/b", "comp=block", &[], "MissingRequiredQueryParameter"),
        ("PUT", "/abc/b", "comp=block&blockid=%21", &[], "InvalidQueryParameterValue"),
        ("PUT", "/abc/b", "comp=nothing", &[], "InvalidQueryParameterValue"),
        ("POST", "/abc/b", "", &[], "MethodNotAllowed"),
        (
            "GET",
            "/abc",
            "restype=container&comp=list&maxresults=0",
            &[],
            "OutOfRangeQueryParameterValue",
        ),
        (
            "GET",
            "/abc",
            "restype=container&comp=list&maxresults=x",
            &[],
            "InvalidQueryParameterValue",
        ),
        ("GET", "/abc", "restype=container&comp=list&marker=x", &[], "InvalidMarker"),
        ("GET", "/abc", "restype=container&comp=list&include=x", &[], "InvalidQueryParameterValue"),
        ("GET", "/abc/b", "", &[("x-ms-lease-id", "x")], "InvalidHeaderValue"),
        ("GET", "/abc/b", "", &[("if-modified-since", "x")], "InvalidHeaderValue"),
        ("PUT", "/abc/b", "comp=lease", &[], "MissingRequiredHeader"),
        ("PUT", "/abc/b", "comp=lease", &[("x-ms-lease-action", "x")], "InvalidHeaderValue"),
        (
            "PUT",
            "/abc/b",
            "comp=lease",
            &[("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "14")],
            "InvalidHeaderValue",
        ),
        (
            "PUT",
            "/abc/b",
            "comp=lease",
            &[("x-ms-lease-action", "break"), ("x-ms-lease-break-period", "61")],
            "InvalidHeaderValue",
        ),
        ("PUT", "/abc/b", "comp=appendblock", &[("content-md5", "x")], "InvalidMd5"),
        (
            "PUT",
            "/abc/b",
            "comp=appendblock",
            &[("content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="), ("x-ms-content-crc64", "vo7q9sPVKY0=")],
            "BothCrc64AndMd5HeaderPresent",
        ),
        (
            "GET",
            "/abc/b",
            "",
            &[
                ("x-ms-range", "bytes=0-1"),
                ("x-ms-range-get-content-md5", "true"),
                ("x-ms-range-get-content-crc64", "true"),
            ],
            "BothCrc64AndMd5RangeHeaderPresent",
        ),
        (
            "GET",
            "/abc/b",
            "",
            &[("if-match", "*"), ("if-none-match", "*")],
            "MultipleConditionHeadersNotSupported",
        ),
    ] {
        assert_eq!(code(method, path, query, pairs), expected, "{method} {path}?{query} {pairs:?}");
    }
}
