//! Blob index tags over a socket: setting, listing, conditions, searches.

use rowkey_wire::auth::Resource;

use crate::blob::{BLOCK, put, send, signed, started};
use crate::support::{Answer, Client};

const VERSION: (&str, &str) = ("x-ms-version", "2020-10-02");

fn put_tagged(client: &mut Client, target: &str, tags: &str) -> Answer {
    send(client, "PUT", target, &[BLOCK, ("x-ms-tags", tags)], "x")
}

fn tags(client: &mut Client, target: &str) -> String {
    let separator = if target.contains('?') { '&' } else { '?' };
    let answer = send(client, "GET", &format!("{target}{separator}comp=tags"), &[], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let set = answer.body.split_once("<TagSet>").unwrap().1.split_once("</TagSet>").unwrap().0;
    let plain = set.replace("</Value></Tag><Tag><Key>", "&").replace("</Key><Value>", "=");
    plain.replace("<Tag><Key>", "").replace("</Value></Tag>", "")
}

/// The names of the blobs that a search finds.
fn find(client: &mut Client, target: &str, query: &str) -> (Vec<String>, String) {
    let separator = if target.contains('?') { '&' } else { '?' };
    let target = format!("{target}{separator}comp=blobs&where={query}");
    let answer = send(client, "GET", &target, &[VERSION], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let after = |start: &str, text: &str| {
        let rest = text.split_once(start).map_or("", |(_, rest)| rest);
        rest.split('<').next().unwrap().to_owned()
    };
    let name = |blob| format!("{}/{}", after("<ContainerName>", blob), after("<Name>", blob));
    let names = answer.body.split("<Blob>").skip(1).map(name).collect();
    (names, after("<NextMarker>", &answer.body))
}

#[tokio::test]
async fn tags_are_set_on_put_or_later_and_kept_by_snapshots() {
    let (server, mut client) = started().await;
    let put = put_tagged(&mut client, "/things/b", "b=2&a=one%20more");
    assert_eq!(put.status, 201);
    assert_eq!(tags(&mut client, "/things/b"), "a=one more&b=2");
    let head = send(&mut client, "HEAD", "/things/b", &[VERSION], "");
    assert_eq!(head.header("x-ms-tag-count"), Some("2"));
    let snapshot = send(&mut client, "PUT", "/things/b?comp=snapshot", &[], "");
    let snapshot = snapshot.header("x-ms-snapshot").unwrap().to_owned();

    let set = "<Tags><TagSet><Tag><Key>c</Key><Value>3</Value></Tag></TagSet></Tags>";
    assert_eq!(send(&mut client, "PUT", "/things/b?comp=tags", &[], set).status, 204);
    assert_eq!(tags(&mut client, "/things/b"), "c=3");
    assert_eq!(tags(&mut client, &format!("/things/b?snapshot={snapshot}")), "a=one more&b=2");
    // Recorded: the blob counts as unmodified.
    let head = send(&mut client, "HEAD", "/things/b", &[VERSION], "");
    assert_eq!(head.header("etag"), put.header("etag"));
    let target = "/things?restype=container&comp=list&include=tags";
    let list = send(&mut client, "GET", target, &[VERSION], "").body;
    assert!(list.contains("<TagCount>1</TagCount></Properties><Tags><TagSet><Tag><Key>c</Key>"));

    // A copy has the tags sent with the request, or those of its source if requested.
    let source = format!("{}/things/b", server.blob_endpoint());
    let copy = ("x-ms-copy-source", source.as_str());
    for (header, expected) in [
        (("x-ms-tags", "d=4"), "d=4"),
        (("x-ms-copy-source-tag-option", "COPY"), "c=3"),
        (("x-ms-copy-source-tag-option", "REPLACE"), ""),
    ] {
        assert_eq!(send(&mut client, "PUT", "/things/copy", &[copy, header], "").status, 202);
        assert_eq!(tags(&mut client, "/things/copy"), expected);
    }
    let both = [copy, ("x-ms-tags", "d=4"), ("x-ms-copy-source-tag-option", "COPY")];
    assert_eq!(send(&mut client, "PUT", "/things/copy", &both, "").code(), "InvalidHeaderValue");

    for (text, code) in
        [("a", "InvalidTags"), ("=1", "EmptyTagName"), ("a=1&a=2", "DuplicateTagNames")]
    {
        let refused = put_tagged(&mut client, "/things/b", text);
        assert_eq!((refused.status, refused.code()), (400, code));
    }
    assert_eq!(
        send(&mut client, "PUT", "/things/b?comp=tags", &[], "<Tags").code(),
        "InvalidXmlDocument"
    );
    assert_eq!(send(&mut client, "PUT", "/things/no?comp=tags", &[], set).code(), "BlobNotFound");
    assert_eq!(tags(&mut client, "/things/b"), "c=3");
}

#[tokio::test]
async fn tag_conditions_apply_to_reads_and_writes() {
    let (_server, mut client) = started().await;
    put_tagged(&mut client, "/things/b", "state=done&n=5");
    let source = "http://localhost/devstoreaccount1/things/b";
    for (method, target, headers) in [
        ("GET", "/things/b", &[][..]),
        ("HEAD", "/things/b", &[]),
        ("GET", "/things/b?comp=tags", &[]),
        ("PUT", "/things/b?comp=metadata", &[]),
        ("PUT", "/things/b?comp=tier", &[("x-ms-access-tier", "Cool")]),
        ("PUT", "/things/b?comp=lease", &[("x-ms-lease-action", "break")]),
        ("DELETE", "/things/b", &[]),
        ("PUT", "/things/b", &[BLOCK]),
        ("PUT", "/things/new", &[BLOCK]),
    ] {
        let headers = [headers, &[("x-ms-if-tags", "state = 'new' or n > '6'")]].concat();
        let refused = send(&mut client, method, target, &headers, "");
        let code = refused.header("x-ms-error-code").unwrap();
        assert_eq!((refused.status, code), (412, "ConditionNotMet"), "{method} {target}");
    }
    // Also for a copy: test_common_blob.test_async_copy_blob_with_if_tags of azure-storage-blob
    // (Python).
    put_tagged(&mut client, "/things/target", "n=7");
    let of = ("x-ms-copy-source", source);
    let tag = ("x-ms-source-if-match", "0x1");
    for (condition, code) in [
        (("x-ms-source-if-tags", "n='6'"), "ConditionNotMet"),
        (("x-ms-if-tags", "n='6'"), "ConditionNotMet"),
        (tag, "SourceConditionNotMet"),
        (("if-match", "0x1"), "TargetConditionNotMet"),
    ] {
        let met = [("x-ms-source-if-tags", "n='5'"), ("x-ms-if-tags", "n='7'")];
        let met = met.into_iter().filter(|(name, _)| *name != condition.0);
        let headers: Vec<_> = met.chain([of, condition]).collect();
        let refused = send(&mut client, "PUT", "/things/target", &headers, "");
        assert_eq!((refused.status, refused.code()), (412, code), "{condition:?}");
    }
    let met = [BLOCK, ("x-ms-if-tags", "\"state\" <> 'new' AND (n >= '5')")];
    assert_eq!(send(&mut client, "PUT", "/things/b", &met, "y").status, 201);
    // The tags were removed with the overwritten blob.
    assert_eq!(tags(&mut client, "/things/b"), "");
    let nonsense = [("x-ms-if-tags", "n=5")];
    assert_eq!(send(&mut client, "GET", "/things/b", &nonsense, "").code(), "InvalidHeaderValue");
}

/// Since version 2026-02-06: `test_blob_tags_conditional_headers` of azure-storage-blob (Python).
#[tokio::test]
async fn get_and_set_tags_use_their_own_condition_headers() {
    let (_server, mut client) = started().await;
    let put = put_tagged(&mut client, "/things/b", "n=5");
    let (tag, time) = (put.header("etag").unwrap(), put.header("last-modified").unwrap());
    let (other, early) = ("\"0x1\"", "Thu, 01 Jan 2015 00:00:00 GMT");
    let set = "<Tags><TagSet><Tag><Key>c</Key><Value>3</Value></Tag></TagSet></Tags>";
    for (name, met, unmet) in [
        ("x-ms-blob-if-match", tag, other),
        ("x-ms-blob-if-none-match", other, tag),
        ("x-ms-blob-if-modified-since", early, time),
        ("x-ms-blob-if-unmodified-since", time, early),
    ] {
        for (method, body, status) in [("GET", "", 200), ("PUT", set, 204)] {
            let mut ask =
                |value| send(&mut client, method, "/things/b?comp=tags", &[(name, value)], body);
            assert_eq!(ask(met).status, status, "{method} {name}");
            let refused = ask(unmet);
            let code = refused.header("x-ms-error-code").unwrap();
            assert_eq!((refused.status, code), (412, "ConditionNotMet"), "{method} {name}");
        }
    }
    assert_eq!(tags(&mut client, "/things/b"), "c=3");
}

#[tokio::test]
async fn find_blobs_returns_pages() {
    let (_server, mut client) = started().await;
    assert_eq!(send(&mut client, "PUT", "/others?restype=container", &[], "").status, 201);
    for (target, tags) in [
        ("/things/a", "kind=x&n=1"),
        ("/things/dir/b", "kind=x&n=2"),
        ("/things/c", "kind=y"),
        ("/others/z", "kind=x"),
    ] {
        assert_eq!(put_tagged(&mut client, target, tags).status, 201);
    }
    put(&mut client, "untagged", "x");
    let every = ["others/z", "things/a", "things/dir/b"];
    assert_eq!(find(&mut client, "/", "kind%3D'x'").0, every);
    let (page, next) = find(&mut client, "/", "kind%3D'x'&maxresults=2");
    assert_eq!(page, every[..2]);
    let (page, next) = find(&mut client, "/", &format!("kind%3D'x'&maxresults=2&marker={next}"));
    assert_eq!((page, next.as_str()), (vec![every[2].to_owned()], ""));
    let both = "kind%3D'x'%20and%20n%3E%3D'2'";
    assert_eq!(find(&mut client, "/", both).0, every[2..]);
    let container = "kind%3D'x'%20and%20%40container%3D'others'";
    assert_eq!(find(&mut client, "/", container).0, every[..1]);
    assert_eq!(find(&mut client, "/things?restype=container", "kind%3D'x'").0, every[1..]);
    let missing = "/missing?restype=container&comp=blobs&where=a%3D'b'";
    assert_eq!(send(&mut client, "GET", missing, &[], "").code(), "ContainerNotFound");
}

#[tokio::test]
async fn tags_have_their_own_sas_permissions() {
    let (server, mut client) = started().await;
    put_tagged(&mut client, "/things/b", "a=1");
    let open = |client: &mut Client, method: &str, target: &str, letters: &str, header: &str| {
        let terms = format!("sv=2020-10-02&sr=c&se=2026-01-02T00%3A00%3A00Z&sp={letters}");
        let query = signed(Resource::Container("things"), &terms);
        let separator = if target.contains('?') { '&' } else { '?' };
        let request = format!(
            "{method} /devstoreaccount1{target}{separator}{query} HTTP/1.1\r\nhost: localhost\r\n\
             x-ms-blob-type: BlockBlob\r\n{header}content-length: 0\r\n\r\n"
        );
        client.raw(request.as_bytes()).unwrap().status
    };
    let search = "/things?restype=container&comp=blobs&where=a%3D'1'";
    let list = "/things?restype=container&comp=list&include=tags";
    let tagged = "x-ms-tags: a=1\r\n";
    for (method, target, enough, not, header) in [
        ("GET", "/things/b?comp=tags", "t", "rwdlcaf", ""),
        ("GET", search, "f", "rwdlcat", ""),
        ("GET", list, "tl", "lrf", ""),
        ("PUT", "/things/new", "wt", "rwdlcaf", tagged),
        ("PUT", "/things/other", "w", "t", ""),
    ] {
        assert_eq!(open(&mut client, method, target, not, header), 403, "{target}");
        let status = open(&mut client, method, target, enough, header);
        assert!(status < 300, "{target} {status}");
    }
    drop(server);
}
