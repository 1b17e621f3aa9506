//! Tests of decoding recorded responses.

use http::{HeaderMap, HeaderName, HeaderValue};
use rowkey_wire::blob::checksum;
use rowkey_wire::blob::{BlobType, PublicAccess};

use super::decode::{self, Item};
use crate::blob::LeaseState;

/// The MD5 of `hello world`.
const SUM: &str = "XrY7u+Ae7tCTyyK7j1rNww==";

/// `test_container.test_list_blobs_with_delimiter`, version 2019-07-07, without the tier.
const BLOBS: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://storagename.blob.core.windows.net/\" ContainerName=\"containerab171296\"><Delimiter>/</Delimiter><Blobs><BlobPrefix><Name>a/</Name></BlobPrefix><Blob><Name>blob4</Name><Properties><Creation-Time>Tue, 07 Apr 2020 18:54:08 GMT</Creation-Time><Last-Modified>Tue, 07 Apr 2020 18:54:08 GMT</Last-Modified><Etag>0x8D7DB250DC88401</Etag><Content-Length>11</Content-Length><Content-Type>application/octet-stream</Content-Type><Content-Encoding /><Content-Language /><Content-CRC64 /><Content-MD5>XrY7u+Ae7tCTyyK7j1rNww==</Content-MD5><Cache-Control /><Content-Disposition /><BlobType>BlockBlob</BlobType><LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState><ServerEncrypted>true</ServerEncrypted></Properties></Blob></Blobs><NextMarker /></EnumerationResults>";

/// `test_storage_blob.test_list_containers_with_maxresults_and_marker`, cut to one container; and
/// the two elements that versions since 2017-11-09 add.
const CONTAINERS: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://storagename.blob.core.windows.net/\"><Prefix>utcontainer77f61af6</Prefix><MaxResults>1</MaxResults><Containers><Container><Name>utcontainer77f61af6a</Name><Properties><Last-Modified>Tue, 23 Jun 2015 00:57:07 GMT</Last-Modified><Etag>\"0x8D27B66A9B58E64\"</Etag><LeaseStatus>locked</LeaseStatus><LeaseState>leased</LeaseState><LeaseDuration>infinite</LeaseDuration><PublicAccess>blob</PublicAccess><HasImmutabilityPolicy>false</HasImmutabilityPolicy><HasLegalHold>false</HasLegalHold></Properties><Metadata><hello>world</hello></Metadata></Container></Containers><NextMarker>/storagename/utcontainer77f61af6b</NextMarker></EnumerationResults>";

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

#[test]
fn a_recorded_list_of_blobs_decodes() {
    let page = decode::blobs(BLOBS.as_bytes()).unwrap();
    assert_eq!(page.next, None);
    let [Item::Prefix(prefix), Item::Blob(blob)] = page.items.as_slice() else { panic!() };
    assert_eq!((prefix.as_str(), blob.name.as_str()), ("a/", "blob4"));
    let properties = &blob.properties;
    assert_eq!(properties.etag.as_ref().unwrap().as_str(), "\"0x8D7DB250DC88401\"");
    assert_eq!((properties.length, properties.lease), (11, Some(LeaseState::Available)));
    assert_eq!(
        (properties.blob_type, properties.md5),
        (Some(BlobType::Block), checksum::decode(SUM))
    );
}

#[test]
fn recorded_snapshots_and_metadata_decode() {
    // test_container.test_list_blobs_with_include_multiple.
    let text = "<EnumerationResults><Blobs><Blob><Name>a&lt;b</Name><Snapshot>2019-06-14T17:42:41.1421008Z</Snapshot><Properties><BlobType>AppendBlob</BlobType><Sealed>true</Sealed></Properties><Metadata><name>bob</name><number>1</number></Metadata></Blob></Blobs><NextMarker>m</NextMarker></EnumerationResults>";
    let page = decode::blobs(text.as_bytes()).unwrap();
    assert_eq!(page.next.as_deref(), Some("m"));
    let Item::Blob(first) = &page.items[0] else { panic!() };
    assert_eq!(first.snapshot.as_deref(), Some("2019-06-14T17:42:41.1421008Z"));
    assert_eq!(first.properties.metadata.len(), 2);
    assert!(first.properties.sealed);
}

#[test]
fn a_recorded_list_of_containers_decodes() {
    let page = decode::containers(CONTAINERS.as_bytes()).unwrap();
    assert_eq!(page.next.as_deref(), Some("/storagename/utcontainer77f61af6b"));
    let container = &page.containers[0];
    assert_eq!(container.name, "utcontainer77f61af6a");
    assert_eq!(container.etag.as_ref().unwrap().as_str(), "\"0x8D27B66A9B58E64\"");
    assert_eq!(container.lease, Some(LeaseState::Leased));
    assert_eq!(container.access, Some(PublicAccess::Blob));
    assert_eq!(container.metadata, [("hello".to_owned(), "world".to_owned())]);
}

#[test]
fn recorded_blob_headers_decode() {
    // test_append_blob.test_append_blob_from_bytes, and a range of another.
    let whole = decode::properties(&headers(&[
        ("content-length", "26"),
        ("content-type", "application/octet-stream"),
        ("etag", "\"0x8D7597DA7816039\""),
        ("last-modified", "Fri, 25 Oct 2019 19:00:51 GMT"),
        ("x-ms-blob-committed-block-count", "1"),
        ("x-ms-blob-type", "AppendBlob"),
        ("x-ms-creation-time", "Fri, 25 Oct 2019 19:00:51 GMT"),
        ("x-ms-lease-state", "available"),
        ("x-ms-meta-hello", "world"),
    ]));
    assert_eq!((whole.length, whole.blocks), (26, Some(1)));
    assert_eq!(whole.blob_type, Some(BlobType::Append));
    assert_eq!(whole.created, whole.modified);
    assert!(whole.created.is_some() && whole.etag.is_some());
    assert_eq!(whole.metadata, [("hello".to_owned(), "world".to_owned())]);
    let part = headers(&[
        ("content-length", "6"),
        ("content-md5", "NKSyp8tqZTuXVmEkUQkxYA=="),
        ("content-range", "bytes 0-5/1024"),
        ("x-ms-blob-content-md5", "yaNM/IXZgmmMasifdgcavQ=="),
    ]);
    let described = decode::properties(&part);
    assert_eq!(described.length, 1024);
    assert_eq!(described.md5, checksum::decode("yaNM/IXZgmmMasifdgcavQ=="));
    assert_eq!(decode::content_md5(&part), checksum::decode("NKSyp8tqZTuXVmEkUQkxYA=="));
}

#[test]
fn headers_of_write_responses_decode() {
    let answer = headers(&[
        ("etag", "\"0x8D82F6678181EEA\""),
        ("last-modified", "Fri, 24 Jul 2020 00:14:02 GMT"),
        ("x-ms-blob-append-offset", "7"),
        ("x-ms-blob-committed-block-count", "2"),
        ("x-ms-lease-time", "15"),
        ("x-ms-lease-id", "2a57c317-bd8a-497d-811b-399b44ab7dad"),
        ("x-ms-snapshot", "2019-10-25T18:13:14.4082805Z"),
        ("x-ms-copy-id", "1"),
        ("x-ms-copy-status", "pending"),
        ("x-ms-content-crc64", "vo7q9sPVKY0="),
    ]);
    assert_eq!(decode::written(&answer).unwrap().etag.as_str(), "\"0x8D82F6678181EEA\"");
    let appended = decode::appended(&answer).unwrap();
    assert_eq!((appended.offset, appended.blocks), (7, 2));
    assert_eq!(decode::lease_time(&answer), Some(15));
    assert!(decode::lease_id(&answer).is_some());
    assert_eq!(decode::snapshot(&answer).as_deref(), Some("2019-10-25T18:13:14.4082805Z"));
    assert_eq!(decode::copied(&answer).unwrap().status, "pending");
    assert_eq!(decode::content_crc64(&answer), checksum::decode("vo7q9sPVKY0="));
    let nothing = HeaderMap::new();
    assert_eq!(decode::written(&nothing), None);
    assert_eq!(decode::appended(&nothing), None);
    assert_eq!(decode::copied(&nothing), None);
    assert_eq!(decode::container(&nothing).lease, None);
}
