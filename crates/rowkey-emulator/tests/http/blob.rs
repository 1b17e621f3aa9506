//! The Blob service over a socket.

use std::time::Duration;

use rowkey_emulator::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Server};
use rowkey_wire::auth::Resource;
use rowkey_wire::auth::{Sas, Service, SigningKey};

use crate::support::{Answer, Client};

pub(crate) const BLOCK: (&str, &str) = ("x-ms-blob-type", "BlockBlob");
const APPEND: (&str, &str) = ("x-ms-blob-type", "AppendBlob");
const LEASE: &str = "2a57c317-bd8a-497d-811b-399b44ab7dad";

pub(crate) async fn started() -> (Server, Client) {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let mut client = Client::to(&server, Service::Blob);
    assert_eq!(send(&mut client, "PUT", "/things?restype=container", &[], "").status, 201);
    (server, client)
}

pub(crate) fn send(
    client: &mut Client,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut all = vec![("accept", "application/xml"), ("content-type", "")];
    all.extend_from_slice(headers);
    client.send(method, target, &all, body)
}

pub(crate) fn put(client: &mut Client, name: &str, body: &str) -> Answer {
    let answer = send(client, "PUT", &format!("/things/{name}"), &[BLOCK], body);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer
}

/// Sends a request without an `Authorization` header. `query` may contain a signature.
fn send_open(client: &mut Client, method: &str, target: &str, query: &str, body: &str) -> Answer {
    let separator = if target.contains('?') { '&' } else { '?' };
    let request = format!(
        "{method} /{DEVELOPMENT_ACCOUNT}{target}{separator}{query} HTTP/1.1\r\nhost: localhost\r\n\
         x-ms-version: 2019-02-02\r\nx-ms-blob-type: BlockBlob\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.raw(request.as_bytes()).unwrap()
}

pub(crate) fn signed(resource: Resource<'_>, terms: &str) -> String {
    let sas = Sas::from_query(&format!("{terms}&sig=x")).unwrap();
    let text = sas.string_to_sign(DEVELOPMENT_ACCOUNT, resource);
    let signature = SigningKey::from_base64(DEVELOPMENT_KEY).unwrap().sign(&text);
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    format!("{terms}&sig={signature}")
}

#[tokio::test]
async fn a_blob_round_trips_with_checksums_and_headers() {
    let (_server, mut client) = started().await;
    let headers = [BLOCK, ("content-type", "text/plain"), ("x-ms-meta-hello", "world")];
    let written = send(&mut client, "PUT", "/things/a%2Fb%20c", &headers, "hello world");
    assert_eq!(written.status, 201);
    // test_blob_access_conditions, Put Blob with the same body.
    assert_eq!(written.header("content-md5"), Some("XrY7u+Ae7tCTyyK7j1rNww=="));
    assert_eq!(written.header("x-ms-content-crc64"), Some("vo7q9sPVKY0="));
    let tag = written.header("etag").unwrap().to_owned();
    assert!(tag.starts_with("\"0x8") && tag.ends_with('"'), "{tag}");

    let read = send(&mut client, "GET", "/things/a/b%20c", &[], "");
    assert_eq!((read.status, read.body.as_str()), (200, "hello world"));
    for (name, value) in [
        ("accept-ranges", "bytes"),
        ("content-length", "11"),
        ("content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="),
        ("content-type", "text/plain"),
        ("etag", tag.as_str()),
        ("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("x-ms-blob-type", "BlockBlob"),
        ("x-ms-creation-time", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("x-ms-lease-state", "available"),
        ("x-ms-lease-status", "unlocked"),
        ("x-ms-meta-hello", "world"),
        ("x-ms-server-encrypted", "true"),
    ] {
        assert_eq!(read.header(name), Some(value), "{name}");
    }
    let head = send(&mut client, "HEAD", "/things/a/b%20c", &[], "");
    assert_eq!((head.status, head.header("content-length")), (200, Some("11")));
    assert_eq!(head.body, "");
    let deleted = send(&mut client, "DELETE", "/things/a/b%20c", &[], "");
    assert_eq!((deleted.status, deleted.header("x-ms-delete-type-permanent")), (202, Some("true")));
    assert_eq!(send(&mut client, "GET", "/things/a/b%20c", &[], "").code(), "BlobNotFound");
    let head = send(&mut client, "HEAD", "/things/a/b%20c", &[], "");
    assert_eq!((head.status, head.header("x-ms-error-code")), (404, Some("BlobNotFound")));
}

#[tokio::test]
async fn range_responses_include_content_range() {
    let (_server, mut client) = started().await;
    put(&mut client, "b", "hello world");
    let range = |client: &mut Client, range: &str| {
        send(client, "GET", "/things/b", &[("x-ms-range", range)], "")
    };
    let part = range(&mut client, "bytes=0-5");
    assert_eq!((part.status, part.body.as_str()), (206, "hello "));
    assert_eq!(part.header("content-range"), Some("bytes 0-5/11"));
    assert_eq!(part.header("x-ms-blob-content-md5"), Some("XrY7u+Ae7tCTyyK7j1rNww=="));
    assert_eq!(part.header("content-md5"), None);
    assert_eq!(range(&mut client, "bytes=6-").body, "world");
    assert_eq!(range(&mut client, "bytes=6-99").header("content-range"), Some("bytes 6-10/11"));
    let beyond = range(&mut client, "bytes=11-");
    assert_eq!((beyond.status, beyond.code()), (416, "InvalidRange"));
    assert_eq!(beyond.header("content-range"), Some("bytes */11"));
    let headers = [("x-ms-range", "bytes=0-5"), ("x-ms-range-get-content-md5", "true")];
    let summed = send(&mut client, "GET", "/things/b", &headers, "");
    // test_storage_blob.test_get_blob_with_range_and_get_content_md5
    assert_eq!(summed.header("content-md5"), Some("+BSJN3e8wilf/wXwDlCNpg=="));
}

#[tokio::test]
async fn bodies_must_match_their_checksums() {
    let (_server, mut client) = started().await;
    let other = "XrY7u+Ae7tCTyyK7j1rNww==";
    for (name, code) in [
        ("content-md5", "Md5Mismatch"),
        ("x-ms-blob-content-md5", "Md5Mismatch"),
        ("x-ms-content-crc64", "Crc64Mismatch"),
    ] {
        let value = if code == "Md5Mismatch" { other } else { "vo7q9sPVKY0=" };
        let answer = send(
            &mut client,
            "PUT",
            "/things/b",
            &[BLOCK, (name, value), ("x-ms-version", "2020-06-12")],
            "hello world this wont work",
        );
        assert_eq!((answer.status, answer.code()), (400, code), "{name}");
        if code == "Md5Mismatch" {
            // test_block_blob.test_upload_blob_content_md5
            assert!(answer.body.contains("<UserSpecifiedMd5>XrY7u+Ae7tCTyyK7j1rNww==</UserSpecifiedMd5><ServerCalculatedMd5>jZ0KWGQraqYHX42NEbH9Vg==</ServerCalculatedMd5>"));
        }
    }
    assert_eq!(send(&mut client, "GET", "/things/b", &[], "").status, 404);
}

#[tokio::test]
async fn a_snapshot_with_a_five_digit_year_is_rejected() {
    let (_server, mut client) = started().await;
    put(&mut client, "b", "hello world");
    let target = "/things/b?snapshot=%2B60474-03-01T00:00:00Z";
    let refused = send(&mut client, "GET", target, &[], "");
    assert_eq!((refused.status, refused.code()), (400, "InvalidQueryParameterValue"));
}

/// The service does not check the property, and some clients store a different checksum in it.
#[tokio::test]
async fn a_stored_content_md5_may_have_any_length() {
    let (_server, mut client) = started().await;
    put(&mut client, "b", "hello world");
    let set = |client: &mut Client, md5: &str| {
        let headers = [("x-ms-blob-content-md5", md5)];
        send(client, "PUT", "/things/b?comp=properties", &headers, "")
    };
    assert_eq!(set(&mut client, "AQIDBA==").status, 200);
    assert_eq!(
        send(&mut client, "GET", "/things/b", &[], "").header("content-md5"),
        Some("AQIDBA==")
    );
    let list = send(&mut client, "GET", "/things?restype=container&comp=list", &[], "");
    assert!(list.body.contains("<Content-MD5>AQIDBA==</Content-MD5>"), "{}", list.body);
    let refused = set(&mut client, "not base64");
    assert_eq!((refused.status, refused.code()), (400, "InvalidMd5"));
    // It is checked when the request has the content.
    let headers = [BLOCK, ("x-ms-blob-content-md5", "AQIDBA==")];
    let refused = send(&mut client, "PUT", "/things/b", &headers, "hello world");
    assert_eq!((refused.status, refused.code()), (400, "Md5Mismatch"));
}

#[tokio::test]
async fn blocks_are_staged_listed_and_committed() {
    let (_server, mut client) = started().await;
    let block = |client: &mut Client, id: &str, body: &str, headers: &[(&str, &str)]| {
        send(client, "PUT", &format!("/things/b?comp=block&blockid={id}"), headers, body)
    };
    let one = block(&mut client, "MQ%3D%3D", "hello ", &[]);
    assert_eq!((one.status, one.header("etag"), one.header("content-md5")), (201, None, None));
    assert!(one.header("x-ms-content-crc64").is_some());
    let two = block(&mut client, "Mg%3D%3D", "world", &[("x-ms-version", "2018-11-09")]);
    assert!(two.header("content-md5").is_some() && two.header("x-ms-content-crc64").is_none());
    assert_eq!(block(&mut client, "Mw%3D%3D", "", &[]).code(), "InvalidHeaderValue");
    let list = "/things/b?comp=blocklist&blocklisttype=all";
    let listed = send(&mut client, "GET", list, &[], "");
    assert_eq!((listed.status, listed.header("etag")), (200, None));
    assert!(listed.body.contains("<CommittedBlocks /><UncommittedBlocks><Block><Name>MQ==</Name><Size>6</Size></Block><Block><Name>Mg==</Name><Size>5</Size></Block></UncommittedBlocks>"), "{}", listed.body);
    let document = "<BlockList><Latest>MQ==</Latest><Latest>Mg==</Latest></BlockList>";
    let target = "/things/b?comp=blocklist";
    let bad = send(&mut client, "PUT", target, &[], "<BlockList><Latest>MQ==");
    assert_eq!((bad.status, bad.code()), (400, "InvalidXmlDocument"));
    let committed =
        send(&mut client, "PUT", target, &[("x-ms-blob-content-type", "a/b")], document);
    assert_eq!(committed.status, 201);
    let read = send(&mut client, "GET", "/things/b", &[], "");
    assert_eq!((read.body.as_str(), read.header("content-type")), ("hello world", Some("a/b")));
    // There is no checksum of the whole blob.
    assert_eq!(read.header("content-md5"), None);
    let part = send(&mut client, "GET", "/things/b", &[("range", "bytes=4-7")], "");
    assert_eq!(part.body, "o wo");
    assert!(send(&mut client, "GET", list, &[], "").header("etag").is_some());
}

#[tokio::test]
async fn large_bodies_are_stored_in_chunks_and_returned_whole() {
    let (_server, mut client) = started().await;
    let text: String = ('a'..='w').cycle().take(300_000).collect();
    put(&mut client, "large", &text);
    assert!(send(&mut client, "GET", "/things/large", &[], "").body == text);
    let headers = [("x-ms-range", "bytes=65530-270000")];
    assert!(send(&mut client, "GET", "/things/large", &headers, "").body == text[65_530..=270_000]);
    let too_large = "x".repeat(4 * 1024 * 1024 + 1);
    send(&mut client, "PUT", "/things/log", &[APPEND], "");
    let refused = send(&mut client, "PUT", "/things/log?comp=appendblock", &[], &too_large);
    assert_eq!((refused.status, refused.code()), (413, "RequestBodyTooLarge"));
    assert!(refused.body.contains("<MaxLimit>4194304</MaxLimit>"));
}

#[tokio::test]
async fn append_block_returns_the_offset() {
    let (_server, mut client) = started().await;
    assert_eq!(send(&mut client, "PUT", "/things/log", &[APPEND], "x").status, 413);
    let created = send(&mut client, "PUT", "/things/log", &[APPEND], "");
    assert_eq!((created.status, created.header("content-md5")), (201, None));
    let target = "/things/log?comp=appendblock";
    assert_eq!(
        send(&mut client, "PUT", target, &[], "one").header("x-ms-blob-append-offset"),
        Some("0")
    );
    let second = send(&mut client, "PUT", target, &[("x-ms-blob-condition-appendpos", "3")], "two");
    assert_eq!(second.header("x-ms-blob-append-offset"), Some("3"));
    assert_eq!(second.header("x-ms-blob-committed-block-count"), Some("2"));
    let old = [("if-match", "0x111111111111111")];
    assert_eq!(send(&mut client, "PUT", target, &old, "x").code(), "OutOfRangeInput");
    let read = send(&mut client, "GET", "/things/log", &[], "");
    assert_eq!((read.body.as_str(), read.header("x-ms-blob-type")), ("onetwo", Some("AppendBlob")));
    assert_eq!(send(&mut client, "PUT", "/things/log?comp=seal", &[], "").status, 200);
    assert_eq!(send(&mut client, "PUT", target, &[], "x").code(), "BlobIsSealed");
    let head = send(&mut client, "HEAD", "/things/log", &[], "");
    assert_eq!(head.header("x-ms-blob-sealed"), Some("true"));
}

#[tokio::test]
async fn an_unmodified_blob_is_304_without_a_body() {
    let (_server, mut client) = started().await;
    let tag = put(&mut client, "b", "x").header("etag").unwrap().to_owned();
    let unchanged = send(&mut client, "GET", "/things/b", &[("if-none-match", &tag)], "");
    assert_eq!((unchanged.status, unchanged.body.as_str()), (304, ""));
    assert_eq!(unchanged.header("x-ms-error-code"), Some("ConditionNotMet"));
    // The connection stays open.
    let read = send(&mut client, "GET", "/things/b", &[("if-match", &tag)], "");
    assert_eq!(read.body, "x");
    let new = [BLOCK, ("if-none-match", "*")];
    assert_eq!(send(&mut client, "PUT", "/things/b", &new, "y").code(), "BlobAlreadyExists");
}

#[tokio::test]
async fn leases_use_the_servers_clock() {
    let (server, mut client) = started().await;
    put(&mut client, "b", "1");
    let lease = |client: &mut Client, headers: &[(&str, &str)]| {
        send(client, "PUT", "/things/b?comp=lease", headers, "")
    };
    let acquire = [
        ("x-ms-lease-action", "acquire"),
        ("x-ms-lease-duration", "15"),
        ("x-ms-proposed-lease-id", LEASE),
    ];
    let acquired = lease(&mut client, &acquire);
    assert_eq!((acquired.status, acquired.header("x-ms-lease-id")), (201, Some(LEASE)));
    let other = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "15")];
    assert_eq!(lease(&mut client, &other).code(), "LeaseAlreadyPresent");
    let head = send(&mut client, "HEAD", "/things/b", &[], "");
    assert_eq!(head.header("x-ms-lease-state"), Some("leased"));
    assert_eq!(head.header("x-ms-lease-duration"), Some("fixed"));
    let refused = send(&mut client, "PUT", "/things/b", &[BLOCK], "2");
    assert_eq!((refused.status, refused.code()), (412, "LeaseIdMissing"));
    let held = [BLOCK, ("x-ms-lease-id", LEASE)];
    assert_eq!(send(&mut client, "PUT", "/things/b", &held, "2").status, 201);

    server.clock().advance(Duration::from_secs(15));
    assert_eq!(send(&mut client, "PUT", "/things/b", &held, "3").code(), "LeaseLost");
    let acquired = lease(&mut client, &other);
    let id = acquired.header("x-ms-lease-id").unwrap().to_owned();
    assert_eq!((id.len(), id == LEASE), (36, false));
    let broken =
        lease(&mut client, &[("x-ms-lease-action", "break"), ("x-ms-lease-break-period", "5")]);
    assert_eq!((broken.status, broken.header("x-ms-lease-time")), (202, Some("5")));
    server.clock().advance(Duration::from_secs(5));
    let head = send(&mut client, "HEAD", "/things/b", &[], "");
    assert_eq!(head.header("x-ms-lease-state"), Some("broken"));
    let renew = [("x-ms-lease-action", "renew"), ("x-ms-lease-id", id.as_str())];
    assert_eq!(lease(&mut client, &renew).code(), "LeaseIsBrokenAndCannotBeRenewed");
}

#[tokio::test]
async fn containers_have_metadata_and_are_listed_and_deleted() {
    let (_server, mut client) = started().await;
    let target = "/things?restype=container";
    let sent = [("x-ms-meta-hello", "world")];
    let set = send(&mut client, "PUT", &format!("{target}&comp=metadata"), &sent, "");
    assert_eq!(set.status, 200);
    let read = send(&mut client, "GET", target, &[], "");
    assert_eq!(read.header("x-ms-meta-hello"), Some("world"));
    assert_eq!(read.header("x-ms-lease-state"), Some("available"));
    assert_eq!(read.header("x-ms-has-legal-hold"), Some("false"));
    put(&mut client, "a/1", "x");
    put(&mut client, "b", "x");
    let list =
        send(&mut client, "GET", &format!("{target}&comp=list&delimiter=/&maxresults=1"), &[], "");
    assert!(
        list.body.contains("<Blobs><BlobPrefix><Name>a/</Name></BlobPrefix></Blobs><NextMarker>2!"),
        "{}",
        list.body
    );
    let marker = list.body.split("<NextMarker>").nth(1).unwrap().split('<').next().unwrap();
    let list = send(&mut client, "GET", &format!("{target}&comp=list&marker={marker}"), &[], "");
    assert!(list.body.contains("<Marker>b</Marker><Blobs><Blob><Name>b</Name>"), "{}", list.body);
    assert!(list.body.contains("<NextMarker />"));
    let all = send(&mut client, "GET", "/?comp=list&include=metadata", &[], "");
    assert!(all.body.contains(
        "<Metadata><hello>world</hello></Metadata></Container></Containers><NextMarker />"
    ));
    assert_eq!(send(&mut client, "DELETE", target, &[], "").status, 202);
    assert_eq!(send(&mut client, "GET", "/things/b", &[], "").code(), "ContainerNotFound");
}

#[tokio::test]
async fn public_containers_allow_only_anonymous_reads() {
    let (_server, mut client) = started().await;
    put(&mut client, "b", "x");
    let read = |client: &mut Client, target: &str| {
        let answer = send_open(client, "GET", target, "", "");
        if answer.status == 200 { "ok".to_owned() } else { answer.code().to_owned() }
    };
    let list = "/things?restype=container&comp=list";
    // test_common_blob.test_no_sas_private_blob: a caller without access must not learn that the
    // blob exists.
    assert_eq!(read(&mut client, "/things/b"), "ResourceNotFound");
    let acl = "/things?restype=container&comp=acl";
    for (access, blob, listing) in [("blob", "ok", "ResourceNotFound"), ("container", "ok", "ok")] {
        send(&mut client, "PUT", acl, &[("x-ms-blob-public-access", access)], "");
        let shown = send(&mut client, "GET", acl, &[], "");
        assert_eq!(shown.header("x-ms-blob-public-access"), Some(access));
        assert_eq!(
            (read(&mut client, "/things/b").as_str(), read(&mut client, list).as_str()),
            (blob, listing)
        );
    }
    assert_eq!(send_open(&mut client, "PUT", "/things/b", "", "y").code(), "ResourceNotFound");
    assert_eq!(send_open(&mut client, "DELETE", "/things/b", "", "").code(), "ResourceNotFound");
    assert_eq!(send(&mut client, "GET", "/things/b", &[], "").body, "x");
}

#[tokio::test]
async fn a_sas_for_one_blob_grants_only_that_blob() {
    let (_server, mut client) = started().await;
    put(&mut client, "mine", "1");
    put(&mut client, "other", "2");
    let mine = Resource::Blob { container: "things", name: "mine" };
    let terms = |permissions: &str| {
        format!("sv=2019-02-02&sr=b&sp={permissions}&se=2026-01-02T00%3A00%3A00Z")
    };
    let read = signed(mine, &terms("r"));
    assert_eq!(send_open(&mut client, "GET", "/things/mine", &read, "").body, "1");
    assert_eq!(
        send_open(&mut client, "GET", "/things/other", &read, "").code(),
        "AuthenticationFailed"
    );
    let mismatch = "AuthorizationPermissionMismatch";
    assert_eq!(send_open(&mut client, "PUT", "/things/mine", &read, "x").code(), mismatch);
    assert_eq!(send_open(&mut client, "DELETE", "/things/mine", &read, "").code(), mismatch);
    let list = "/things?restype=container&comp=list";
    assert_eq!(send_open(&mut client, "GET", list, &read, "").status, 403);
    let headers = terms("r") + "&rscc=no-cache&rscd=inline&rsce=utf-8&rscl=fr&rsct=text%2Fplain";
    let answer = send_open(&mut client, "GET", "/things/mine", &signed(mine, &headers), "");
    for (name, value) in [
        ("cache-control", "no-cache"),
        ("content-disposition", "inline"),
        ("content-encoding", "utf-8"),
        ("content-language", "fr"),
        ("content-type", "text/plain"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    // Permission to create does not include permission to overwrite.
    let create = signed(mine, &terms("c"));
    assert_eq!(send_open(&mut client, "PUT", "/things/mine", &create, "x").code(), mismatch);
    let write = signed(mine, &terms("w"));
    assert_eq!(send_open(&mut client, "PUT", "/things/mine", &write, "x").status, 201);
    let container = signed(Resource::Container("things"), &terms("rl").replace("sr=b", "sr=c"));
    assert_eq!(send_open(&mut client, "GET", "/things/other", &container, "").body, "2");
    assert_eq!(send_open(&mut client, "GET", list, &container, "").status, 200);
}

#[tokio::test]
async fn copies_require_read_access_to_a_source_in_the_same_account() {
    let (server, mut client) = started().await;
    let headers = [BLOCK, ("x-ms-meta-a", "1")];
    send(&mut client, "PUT", "/things/source", &headers, "content");
    let source = format!("{}/things/source", server.blob_endpoint());
    let copied = send(&mut client, "PUT", "/things/copy", &[("x-ms-copy-source", &source)], "");
    assert_eq!((copied.status, copied.header("x-ms-copy-status")), (202, Some("success")));
    let read = send(&mut client, "GET", "/things/copy", &[], "");
    assert_eq!((read.body.as_str(), read.header("x-ms-meta-a")), ("content", Some("1")));
    assert_eq!(read.header("x-ms-copy-source"), Some(source.as_str()));
    assert_eq!(read.header("x-ms-copy-progress"), Some("7/7"));
    let id = copied.header("x-ms-copy-id").unwrap();
    let abort = format!("/things/copy?comp=copy&copyid={id}");
    let aborted = send(&mut client, "PUT", &abort, &[("x-ms-copy-action", "abort")], "");
    assert_eq!(aborted.code(), "NoPendingCopyOperation");
    let missing = [("x-ms-copy-source", source.replace("source", "missing"))];
    let missing = [(missing[0].0, missing[0].1.as_str())];
    assert_eq!(send(&mut client, "PUT", "/things/copy", &missing, "").code(), "BlobNotFound");
    let elsewhere = [("x-ms-copy-source", "http://h/other/things/source")];
    let refused = send(&mut client, "PUT", "/things/copy", &elsewhere, "");
    assert_eq!((refused.status, refused.code()), (400, "FeatureNotSupportedByEmulator"));

    // A signature for the target is not valid for the source.
    let target = Resource::Blob { container: "things", name: "copy" };
    let query = signed(target, "sv=2019-02-02&sr=b&sp=rw&se=2026-01-02T00%3A00%3A00Z");
    let request = format!(
        "PUT /{DEVELOPMENT_ACCOUNT}/things/copy?{query} HTTP/1.1\r\nhost: localhost\r\n\
         x-ms-version: 2019-02-02\r\nx-ms-copy-source: {source}\r\ncontent-length: 0\r\n\r\n"
    );
    let refused = client.raw(request.as_bytes()).unwrap();
    assert_eq!((refused.status, refused.code()), (403, "CannotVerifyCopySource"));
}

#[tokio::test]
async fn snapshots_are_read_by_their_timestamp() {
    let (_server, mut client) = started().await;
    put(&mut client, "b", "1");
    let taken = send(&mut client, "PUT", "/things/b?comp=snapshot", &[], "");
    let snapshot = taken.header("x-ms-snapshot").unwrap().to_owned();
    put(&mut client, "b", "2");
    let target = format!("/things/b?snapshot={snapshot}");
    let read = send(&mut client, "GET", &target, &[], "");
    assert_eq!((read.body.as_str(), read.header("x-ms-lease-state")), ("1", None));
    assert_eq!(send(&mut client, "DELETE", "/things/b", &[], "").code(), "SnapshotsPresent");
    let all = [("x-ms-delete-snapshots", "include")];
    assert_eq!(send(&mut client, "DELETE", "/things/b", &all, "").status, 202);
    assert_eq!(send(&mut client, "GET", &target, &[], "").status, 404);
}

#[tokio::test]
async fn properties_and_metadata_of_a_blob_are_replaced_as_a_whole() {
    let (_server, mut client) = started().await;
    let headers = [BLOCK, ("content-type", "text/plain"), ("x-ms-meta-a", "1")];
    send(&mut client, "PUT", "/things/b", &headers, "x");
    let language = [("x-ms-blob-content-language", "spanish")];
    assert_eq!(send(&mut client, "PUT", "/things/b?comp=properties", &language, "").status, 200);
    let metadata = [("x-ms-meta-b", "2")];
    assert_eq!(send(&mut client, "PUT", "/things/b?comp=metadata", &metadata, "").status, 200);
    let read = send(&mut client, "GET", "/things/b", &[], "");
    assert_eq!(read.header("content-language"), Some("spanish"));
    for name in ["content-type", "content-md5", "x-ms-meta-a"] {
        assert_eq!(read.header(name), None, "{name}");
    }
    assert_eq!(read.header("x-ms-meta-b"), Some("2"));
}

#[tokio::test]
async fn an_unsupported_feature_is_named_in_the_error() {
    let (_server, mut client) = started().await;
    put(&mut client, "b", "x");
    for (method, target, headers, what) in [
        ("PUT", "/things/p", &[("x-ms-blob-type", "PageBlob")][..], "page blobs"),
        ("PUT", "/things/p", &[BLOCK, ("x-ms-encryption-scope", "s")], "encryption scopes"),
        ("PUT", "/things/p", &[BLOCK, ("x-ms-legal-hold", "true")], "immutable blobs"),
        ("DELETE", "/things/b?deletetype=permanent", &[], "soft delete"),
        ("PUT", "/things/b?comp=undelete", &[], "restoring deleted blobs"),
        ("GET", "/things/b?versionid=1", &[], "blob versions"),
        (
            "PUT",
            "/things/b",
            &[BLOCK, ("x-ms-structured-body", "XSM/1.0; properties=crc64")],
            "structured messages",
        ),
    ] {
        let answer = send(&mut client, method, target, headers, "");
        assert_eq!(
            (answer.status, answer.code()),
            (400, "FeatureNotSupportedByEmulator"),
            "{target}"
        );
        assert!(answer.body.contains(what), "{}", answer.body);
    }
    assert_eq!(send(&mut client, "GET", "/things/b", &[], "").body, "x");
    let tier = [BLOCK, ("x-ms-access-tier", "Hot"), ("x-ms-tags", "a=b")];
    assert_eq!(send(&mut client, "PUT", "/things/b", &tier, "y").status, 201);
}

#[tokio::test]
async fn a_truncated_body_changes_nothing() {
    let (server, mut client) = started().await;
    put(&mut client, "b", "before");
    let terms = "sv=2019-02-02&sr=b&sp=w&se=2026-01-02T00%3A00%3A00Z";
    let query = signed(Resource::Blob { container: "things", name: "b" }, terms);
    let request = format!(
        "PUT /{DEVELOPMENT_ACCOUNT}/things/b?{query} HTTP/1.1\r\nhost: localhost\r\n\
         x-ms-version: 2019-02-02\r\nx-ms-blob-type: BlockBlob\r\ncontent-length: 100\r\n\r\nshort"
    );
    let broken = Client::to(&server, Service::Blob);
    broken.break_off(request.as_bytes());
    assert_eq!(send(&mut client, "GET", "/things/b", &[], "").body, "before");
}

#[tokio::test]
async fn a_block_list_over_the_limit_is_rejected() {
    let (_server, mut client) = started().await;
    let list = |count| format!("<BlockList>{}</BlockList>", "<Latest>MQ==</Latest>".repeat(count));
    let target = "/things/b?comp=blocklist";
    let answer = send(&mut client, "PUT", target, &[], &list(50_001));
    assert_eq!((answer.status, answer.code()), (400, "BlockListTooLong"));
    let answer = send(&mut client, "PUT", target, &[], &list(50_000));
    assert_eq!((answer.status, answer.code()), (400, "InvalidBlockList"));
    let nested = format!("<BlockList><Latest>{}</Latest></BlockList>", "<a/>".repeat(5_000));
    let policies = format!("<SignedIdentifiers>{}</SignedIdentifiers>", "<a/>".repeat(5_000));
    for (target, body) in [(target, nested), ("/things?restype=container&comp=acl", policies)] {
        let answer = send(&mut client, "PUT", target, &[], &body);
        assert_eq!((answer.status, answer.code()), (400, "InvalidXmlDocument"), "{target}");
    }
}
