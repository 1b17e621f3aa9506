//! Tests against recorded requests of the official libraries.

use http::{HeaderMap, HeaderValue};
use rowkey_wire::blob::BlockSource;
use rowkey_wire::blob::checksum;
use rowkey_wire::blob::{AppendLimits, ContentHeaders, LeaseAction, PublicAccess, Sums};
use rowkey_wire::etag::{ETag, Match};
use rowkey_wire::headers::parse_http_date;
use uuid::Uuid;

use super::*;
use crate::transport::Request;

const PATH: BlobPath<'static> = BlobPath { container: "utcontainer", blob: "blob1" };
const NONE: [(&str, &str); 0] = [];
const LEASE: &str = "2a57c317-bd8a-497d-811b-399b44ab7dad";

fn sent(request: &Request) -> (String, Vec<(&str, &str)>) {
    let mut headers: Vec<_> = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    headers.sort_unstable();
    (format!("{} {}", request.method, request.target), headers)
}

fn lease_id() -> Uuid {
    LEASE.parse().unwrap()
}

#[test]
fn put_blob_matches_a_recording() {
    // test_common_blob.test_lease_blob_break_period
    let conditions =
        Conditions { none_match: Some(Match::Any), lease: Some(lease_id()), ..Conditions::NONE };
    let content = ContentHeaders {
        content_type: Some(HeaderValue::from_static("image/png")),
        language: Some(HeaderValue::from_static("spanish")),
        md5: checksum::decode::<16>("XrY7u+Ae7tCTyyK7j1rNww==").map(Into::into),
        ..ContentHeaders::default()
    };
    let sums = Sums { crc64: checksum::decode("vo7q9sPVKY0="), md5: None };
    let put = put_block_blob(
        PATH,
        "hello world".into(),
        &content,
        [("hello", "world")],
        &sums,
        &conditions,
    );
    let put = put.unwrap();
    assert_eq!(
        sent(&put),
        (
            "PUT /utcontainer/blob1".to_owned(),
            vec![
                ("if-none-match", "*"),
                ("x-ms-blob-content-language", "spanish"),
                ("x-ms-blob-content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="),
                ("x-ms-blob-content-type", "image/png"),
                ("x-ms-blob-type", "BlockBlob"),
                ("x-ms-content-crc64", "vo7q9sPVKY0="),
                ("x-ms-lease-id", LEASE),
                ("x-ms-meta-hello", "world"),
            ]
        )
    );
    assert_eq!(put.body, "hello world");
    let append = put_append(PATH, &ContentHeaders::default(), NONE, &Conditions::NONE).unwrap();
    assert_eq!(
        sent(&append),
        ("PUT /utcontainer/blob1".to_owned(), vec![("x-ms-blob-type", "AppendBlob")])
    );
}

#[test]
fn blob_names_are_percent_encoded_except_slashes() {
    let path = BlobPath { container: "c", blob: "a/b c+d%e?f#啊" };
    let request = get(path, None, None, &Conditions::NONE);
    assert_eq!(request.target, "/c/a/b%20c%2Bd%25e%3Ff%23%E5%95%8A");
}

#[test]
fn get_blob_encodes_conditions() {
    let since = parse_http_date("Fri, 25 Oct 2019 17:22:40 GMT");
    let conditions = Conditions {
        matches: Some(ETag::new("\"0x8D7596FF05BA0B1\"").into()),
        modified_since: since,
        unmodified_since: since,
        ..Conditions::NONE
    };
    // test_common_blob.test_get_blob_with_range_and_get_content_md5
    let range = Range { first: 0, last: Some(5), sum: Some(RangeChecksum::Md5) };
    let snapshot = "2019-10-25T18:13:14.4082805Z";
    let request = get(PATH, Some(snapshot), Some(range), &conditions);
    assert_eq!(
        sent(&request),
        (
            "GET /utcontainer/blob1?snapshot=2019-10-25T18%3A13%3A14.4082805Z".to_owned(),
            vec![
                ("if-match", "\"0x8D7596FF05BA0B1\""),
                ("if-modified-since", "Fri, 25 Oct 2019 17:22:40 GMT"),
                ("if-unmodified-since", "Fri, 25 Oct 2019 17:22:40 GMT"),
                ("x-ms-range", "bytes=0-5"),
                ("x-ms-range-get-content-md5", "true"),
            ]
        )
    );
    let open = Range { first: 7, last: None, sum: Some(RangeChecksum::Crc64) };
    let request = get(PATH, None, Some(open), &Conditions::NONE);
    assert_eq!(request.headers["x-ms-range"], "bytes=7-");
    assert_eq!(request.headers["x-ms-range-get-content-crc64"], "true");
    assert_eq!(sent(&get_properties(PATH, None, &Conditions::NONE)).0, "HEAD /utcontainer/blob1");
}

#[test]
fn set_properties_and_metadata_match_recordings() {
    // test_blob_access_conditions.test_set_blob_properties_with_if_match
    let content = ContentHeaders {
        disposition: Some(HeaderValue::from_static("inline")),
        language: Some(HeaderValue::from_static("spanish")),
        ..ContentHeaders::default()
    };
    let matches = Some(ETag::new("\"0x8D7596FF05BA0B1\"").into());
    let conditions = Conditions { matches, ..Conditions::NONE };
    assert_eq!(
        sent(&set_properties(PATH, &content, &conditions)),
        (
            "PUT /utcontainer/blob1?comp=properties".to_owned(),
            vec![
                ("if-match", "\"0x8D7596FF05BA0B1\""),
                ("x-ms-blob-content-disposition", "inline"),
                ("x-ms-blob-content-language", "spanish"),
            ]
        )
    );
    let request = set_metadata(PATH, [("Up", "UPval")], &Conditions::NONE).unwrap();
    assert_eq!(
        sent(&request),
        ("PUT /utcontainer/blob1?comp=metadata".to_owned(), vec![("x-ms-meta-up", "UPval")])
    );
    let request = snapshot(PATH, NONE, &Conditions::NONE).unwrap();
    assert_eq!(sent(&request), ("PUT /utcontainer/blob1?comp=snapshot".to_owned(), vec![]));
}

#[test]
fn delete_blob_encodes_the_snapshot_option() {
    let header = |snapshots| {
        let request = delete(PATH, snapshots, &Conditions::NONE);
        let value = request.headers.get("x-ms-delete-snapshots").cloned();
        (request.target, value.map(|value| value.to_str().unwrap().to_owned()))
    };
    let plain = "/utcontainer/blob1".to_owned();
    assert_eq!(header(DeleteSnapshots::None), (plain.clone(), None));
    assert_eq!(header(DeleteSnapshots::Include), (plain.clone(), Some("include".into())));
    assert_eq!(header(DeleteSnapshots::Only), (plain.clone(), Some("only".into())));
    // test_common_blob.test_delete_blob_snapshot
    let one = header(DeleteSnapshots::One("2019-10-25T18:10:26.6716044Z"));
    assert_eq!(one, (plain + "?snapshot=2019-10-25T18%3A10%3A26.6716044Z", None));
}

#[test]
fn put_block_and_put_block_list_match_recordings() {
    // test_block_blob.test_put_block_list
    let lease = Conditions { lease: Some(lease_id()), ..Conditions::NONE };
    let md5 = checksum::decode("XrY7u+Ae7tCTyyK7j1rNww==");
    let sums = Sums { md5, crc64: None };
    let request = put_block(PATH, "MQ==", "AAA".into(), &sums, &lease);
    assert_eq!(
        sent(&request),
        (
            "PUT /utcontainer/blob1?comp=block&blockid=MQ%3D%3D".to_owned(),
            vec![("content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="), ("x-ms-lease-id", LEASE)]
        )
    );
    let blocks = [(BlockSource::Latest, "MQ=="), (BlockSource::Committed, "Mg==")];
    let content = ContentHeaders::default();
    let request = put_block_list(PATH, blocks, &content, NONE, &Conditions::NONE).unwrap();
    assert_eq!(
        sent(&request),
        (
            "PUT /utcontainer/blob1?comp=blocklist".to_owned(),
            vec![("content-type", "application/xml")]
        )
    );
    assert_eq!(
        request.body,
        "<?xml version='1.0' encoding='utf-8'?>\n<BlockList><Latest>MQ==</Latest><Committed>Mg==</Committed></BlockList>"
    );
}

#[test]
fn append_block_encodes_position_and_maximum_size() {
    let limits = AppendLimits { position: Some(5), max_size: Some(100) };
    let request = append_block(PATH, "x".into(), &limits, &Sums::default(), &Conditions::NONE);
    let headers =
        vec![("x-ms-blob-condition-appendpos", "5"), ("x-ms-blob-condition-maxsize", "100")];
    assert_eq!(sent(&request), ("PUT /utcontainer/blob1?comp=appendblock".to_owned(), headers));
}

#[test]
fn lease_requests_encode_their_action() {
    let id = lease_id();
    let other: Uuid = "00000000-1111-2222-3333-444444444444".parse().unwrap();
    let header = |action| {
        let request = lease(Target::Blob(PATH), action, &Conditions::NONE);
        assert_eq!(request.target, "/utcontainer/blob1?comp=lease");
        sorted(&request.headers)
    };
    assert_eq!(
        header(LeaseAction::Acquire { seconds: None, proposed: Some(other) }),
        "x-ms-lease-action: acquire, x-ms-lease-duration: -1, x-ms-proposed-lease-id: 00000000-1111-2222-3333-444444444444"
    );
    assert_eq!(
        header(LeaseAction::Acquire { seconds: Some(15), proposed: None }),
        "x-ms-lease-action: acquire, x-ms-lease-duration: 15"
    );
    assert_eq!(header(LeaseAction::Break { period: None }), "x-ms-lease-action: break");
    assert_eq!(
        header(LeaseAction::Break { period: Some(5) }),
        "x-ms-lease-action: break, x-ms-lease-break-period: 5"
    );
    assert_eq!(
        header(LeaseAction::Change { lease: id, proposed: other }),
        format!(
            "x-ms-lease-action: change, x-ms-lease-id: {LEASE}, x-ms-proposed-lease-id: {other}"
        )
    );
    assert_eq!(
        header(LeaseAction::Renew(id)),
        format!("x-ms-lease-action: renew, x-ms-lease-id: {LEASE}")
    );
    let request = lease(Target::Container("c"), LeaseAction::Release(id), &Conditions::NONE);
    assert_eq!(request.target, "/c?restype=container&comp=lease");
    assert_eq!(
        sorted(&request.headers),
        format!("x-ms-lease-action: release, x-ms-lease-id: {LEASE}")
    );
}

#[test]
fn container_requests_match_recordings() {
    let request = create_container("c", Some(PublicAccess::Blob), [("hello", "world")]).unwrap();
    assert_eq!(
        sent(&request),
        (
            "PUT /c?restype=container".to_owned(),
            vec![("x-ms-blob-public-access", "blob"), ("x-ms-meta-hello", "world")]
        )
    );
    let list = ListContainers {
        prefix: Some("a b"),
        max: Some(2),
        metadata: true,
        marker: Some("/acc/c"),
    };
    assert_eq!(
        list_containers(&list).target,
        "/?comp=list&prefix=a%20b&marker=%2Facc%2Fc&maxresults=2&include=metadata"
    );
    let list = ListBlobs {
        delimiter: Some("/"),
        metadata: true,
        uncommitted: true,
        ..ListBlobs::default()
    };
    assert_eq!(
        list_blobs("c", &list).target,
        "/c?restype=container&comp=list&delimiter=%2F&include=metadata%2Cuncommittedblobs"
    );
    assert_eq!(list_blobs("c", &ListBlobs::default()).target, "/c?restype=container&comp=list");
    for (request, target) in [
        (delete_container("c", &Conditions::NONE), "DELETE /c?restype=container"),
        (get_container_properties("c", &Conditions::NONE), "GET /c?restype=container"),
        (get_container_acl("c", &Conditions::NONE), "GET /c?restype=container&comp=acl"),
        (set_container_acl("c", None, &[], &Conditions::NONE), "PUT /c?restype=container&comp=acl"),
    ] {
        assert_eq!(sent(&request).0, target);
    }
    let request = set_container_metadata("c", [("a", "1")], &Conditions::NONE).unwrap();
    assert_eq!(sent(&request).0, "PUT /c?restype=container&comp=metadata");
}

#[test]
fn copy_blob_encodes_the_source_url() {
    let source = Conditions { none_match: Some(Match::Any), ..Conditions::NONE };
    let what = Copy { source: "http://h/acc/c/b?sig=x", source_conditions: &source, sync: true };
    let request = copy(PATH, &what, NONE, &Conditions::NONE).unwrap();
    assert_eq!(
        sent(&request),
        (
            "PUT /utcontainer/blob1".to_owned(),
            vec![
                ("x-ms-copy-source", "http://h/acc/c/b?sig=x"),
                ("x-ms-requires-sync", "true"),
                ("x-ms-source-if-none-match", "*"),
            ]
        )
    );
}

fn sorted(headers: &HeaderMap) -> String {
    let mut lines: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    lines.sort_unstable();
    lines.join(", ")
}
