//! Access tiers over a socket: setting, listing, archiving, rehydrating.

use std::time::Duration;

use crate::blob::{BLOCK, put, send, started};
use crate::support::{Answer, Client};

fn set(client: &mut Client, name: &str, tier: &str) -> Answer {
    let target = format!("/things/{name}?comp=tier");
    send(client, "PUT", &target, &[("x-ms-access-tier", tier)], "")
}

/// The tier, whether it is inferred, and the archive status.
fn tier(client: &mut Client, name: &str) -> [Option<String>; 3] {
    let answer = send(client, "HEAD", &format!("/things/{name}"), &[], "");
    assert_eq!(answer.status, 200);
    ["x-ms-access-tier", "x-ms-access-tier-inferred", "x-ms-archive-status"]
        .map(|name| answer.header(name).map(str::to_owned))
}

fn as_texts(found: &[Option<String>; 3]) -> [Option<&str>; 3] {
    [0, 1, 2].map(|place| found[place].as_deref())
}

#[tokio::test]
async fn tiers_are_inferred_until_they_are_set() {
    let (server, mut client) = started().await;
    let tag = put(&mut client, "b", "x").header("etag").unwrap().to_owned();
    let found = tier(&mut client, "b");
    assert_eq!(as_texts(&found), [Some("Hot"), Some("true"), None]);
    server.clock().advance(Duration::from_secs(60));
    assert_eq!(set(&mut client, "b", "cool").status, 200);
    let set_at = send(&mut client, "HEAD", "/things/b", &[], "");
    assert_eq!(set_at.header("x-ms-access-tier"), Some("Cool"));
    assert_eq!(set_at.header("x-ms-access-tier-inferred"), None);
    let changed = set_at.header("x-ms-access-tier-change-time").unwrap();
    assert_eq!(changed, "Thu, 01 Jan 2026 00:01:00 GMT");
    // Recorded: the blob counts as unmodified.
    assert_eq!(set_at.header("etag"), Some(tag.as_str()));
    assert_eq!(send(&mut client, "GET", "/things/b", &[], "").header("x-ms-access-tier"), None);
    let list = send(&mut client, "GET", "/things?restype=container&comp=list", &[], "").body;
    assert!(list.contains("<AccessTier>Cool</AccessTier><AccessTierChangeTime>"), "{list}");
    assert!(!list.contains("Inferred"), "{list}");

    // A blob that overwrites it keeps the tier, unless it specifies another.
    put(&mut client, "b", "y");
    assert_eq!(as_texts(&tier(&mut client, "b")), [Some("Cool"), None, None]);
    let cold = [BLOCK, ("x-ms-access-tier", "Cold")];
    assert_eq!(send(&mut client, "PUT", "/things/b", &cold, "z").status, 201);
    assert_eq!(as_texts(&tier(&mut client, "b")), [Some("Cold"), None, None]);

    assert_eq!(set(&mut client, "b", "P10").code(), "InvalidHeaderValue");
    assert_eq!(set(&mut client, "missing", "Cool").code(), "BlobNotFound");
    let append = [("x-ms-blob-type", "AppendBlob")];
    assert_eq!(send(&mut client, "PUT", "/things/log", &append, "").status, 201);
    assert_eq!(set(&mut client, "log", "Cool").code(), "AccessTierNotSupportedForBlobType");
    assert_eq!(as_texts(&tier(&mut client, "log")), [None, None, None]);
    let both = [append[0], cold[1]];
    let refused = send(&mut client, "PUT", "/things/log", &both, "");
    assert_eq!(refused.code(), "AccessTierNotSupportedForBlobType");
}

#[tokio::test]
async fn an_archived_blob_is_unreadable_until_it_is_rehydrated() {
    let (server, mut client) = started().await;
    put(&mut client, "b", "x");
    assert_eq!(set(&mut client, "b", "Archive").status, 200);
    for (method, target, headers) in [
        ("GET", "/things/b", &[][..]),
        ("PUT", "/things/b", &[BLOCK]),
        ("PUT", "/things/b?comp=metadata", &[]),
        ("PUT", "/things/b?comp=properties", &[]),
        ("PUT", "/things/b?comp=snapshot", &[]),
        ("PUT", "/things/b?comp=block&blockid=AAAA", &[]),
    ] {
        let refused = send(&mut client, method, target, headers, "y");
        assert_eq!((refused.status, refused.code()), (409, "BlobArchived"), "{method} {target}");
    }
    assert_eq!(send(&mut client, "GET", "/things/b?comp=metadata", &[], "").status, 200);

    // A copy is rehydrated independently. Without a target tier the copy is rejected.
    let source = format!("{}/things/b", server.blob_endpoint());
    let copy = [("x-ms-copy-source", source.as_str()), ("x-ms-access-tier", "Hot")];
    let refused = send(&mut client, "PUT", "/things/copy", &copy[..1], "");
    assert_eq!(refused.code(), "BlobArchived");
    assert_eq!(send(&mut client, "PUT", "/things/copy", &copy, "").status, 202);

    assert_eq!(set(&mut client, "b", "Cool").status, 202);
    let found = tier(&mut client, "b");
    assert_eq!(as_texts(&found), [Some("Archive"), None, Some("rehydrate-pending-to-cool")]);
    assert_eq!(set(&mut client, "b", "Hot").code(), "BlobBeingRehydrated");
    server.clock().advance(Duration::from_secs(3600));
    client.set_date(&server);
    assert_eq!(send(&mut client, "GET", "/things/b", &[], "").code(), "BlobArchived");
    // The priority may be raised.
    let high = [("x-ms-access-tier", "Cool"), ("x-ms-rehydrate-priority", "High")];
    assert_eq!(send(&mut client, "PUT", "/things/b?comp=tier", &high, "").status, 202);
    let list = send(&mut client, "GET", "/things?restype=container&comp=list", &[], "").body;
    let pending = "<ArchiveStatus>rehydrate-pending-to-cool</ArchiveStatus>\
                   <RehydratePriority>High</RehydratePriority>";
    assert!(list.contains(pending), "{list}");
    server.clock().advance(Duration::from_secs(3600));
    client.set_date(&server);
    assert_eq!(send(&mut client, "GET", "/things/b", &[], "").body, "x");
    assert_eq!(as_texts(&tier(&mut client, "b")), [Some("Cool"), None, None]);
    assert_eq!(send(&mut client, "GET", "/things/copy", &[], "").code(), "BlobArchived");
    server.clock().advance(Duration::from_secs(13 * 3600));
    client.set_date(&server);
    assert_eq!(send(&mut client, "GET", "/things/copy", &[], "").body, "x");
    assert_eq!(as_texts(&tier(&mut client, "copy")), [Some("Hot"), None, None]);

    // An archived blob may be deleted.
    assert_eq!(set(&mut client, "b", "Archive").status, 200);
    assert_eq!(send(&mut client, "DELETE", "/things/b", &[], "").status, 202);
}
