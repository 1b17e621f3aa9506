//! Blob batches over a socket.

use http::{HeaderMap, HeaderName, HeaderValue};
use rowkey_emulator::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use rowkey_wire::auth::Resource;
use rowkey_wire::auth::{Scheme, Service, SigningKey, Unsigned, authorization, string_to_sign};

use crate::blob::{put, send, signed, started};
use crate::support::{Answer, Client};

const DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";
const SAS: &str = "sv=2019-02-02&sr=c&se=2026-01-02T00%3A00%3A00Z";

/// A request in a batch, signed with the account's key. `target` is below the account.
fn signed_part(method: &str, target: &str, headers: &[(&str, &str)]) -> String {
    let target = format!("/{DEVELOPMENT_ACCOUNT}{target}");
    let (path, query) = target.split_once('?').map_or((&*target, None), |(p, q)| (p, Some(q)));
    let mut all = HeaderMap::new();
    for (name, value) in headers.iter().chain([&("x-ms-date", DATE)]) {
        all.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let unsigned = Unsigned { method, path, query, headers: &all, content_length: 0 };
    let text = string_to_sign(Service::Blob, Scheme::SharedKey, DEVELOPMENT_ACCOUNT, &unsigned);
    let signature = SigningKey::from_base64(DEVELOPMENT_KEY).unwrap().sign(&text);
    let key = authorization(Scheme::SharedKey, DEVELOPMENT_ACCOUNT, &signature).concat();
    let lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let lines = lines.concat();
    format!("{method} {target} HTTP/1.1\r\n{lines}x-ms-date: {DATE}\r\nAuthorization: {key}\r\n")
}

/// A request in a batch with its authorization, if any, in the address.
fn open_part(method: &str, target: &str, query: &str) -> String {
    format!("{method} /{DEVELOPMENT_ACCOUNT}{target}?{query} HTTP/1.1\r\n")
}

fn body(parts: &[String]) -> String {
    let part = |(id, part): (usize, &String)| {
        format!(
            "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
             Content-ID: {id}\r\n\r\n{part}\r\n"
        )
    };
    let parts: Vec<_> = parts.iter().enumerate().map(part).collect();
    format!("{}--batch_1--\r\n", parts.concat())
}

fn submit(client: &mut Client, target: &str, body: &str) -> Answer {
    let content_type = [("content-type", "multipart/mixed; boundary=batch_1")];
    send(client, "POST", target, &content_type, body)
}

/// The content id, the status line and the error code of each part.
fn parts(answer: &Answer) -> Vec<(String, String, String)> {
    assert_eq!(answer.status, 202, "{answer:?}");
    let content_type = answer.header("content-type").unwrap();
    let boundary = content_type.strip_prefix("multipart/mixed; boundary=").unwrap();
    assert!(answer.body.ends_with(&format!("--{boundary}--")), "{}", answer.body);
    let after = |part: &str, start: &str| {
        let rest = part.split_once(start).map_or("", |(_, rest)| rest);
        rest.split("\r\n").next().unwrap().to_owned()
    };
    answer
        .body
        .split(&format!("--{boundary}\r\n"))
        .skip(1)
        .map(|part| {
            assert!(part.contains("\r\nx-ms-request-id: "), "{part}");
            let code = after(part, "x-ms-error-code: ");
            assert_eq!(code.is_empty(), !part.contains("<Error>"), "{part}");
            (after(part, "Content-ID: "), after(part, "HTTP/1.1 "), code)
        })
        .collect()
}

fn expect(answer: &Answer, expected: &[(&str, &str)]) {
    let found = parts(answer);
    let found: Vec<_> = found.iter().map(|(_, status, code)| (&**status, &**code)).collect();
    assert_eq!(found, expected, "{}", answer.body);
    for (place, (id, ..)) in parts(answer).iter().enumerate() {
        assert_eq!(*id, place.to_string());
    }
}

const DELETED: (&str, &str) = ("202 Accepted", "");
const NOT_FOUND: (&str, &str) = ("404 The specified blob does not exist.", "BlobNotFound");

#[tokio::test]
async fn each_subrequest_of_a_batch_has_its_own_response() {
    let (_server, mut client) = started().await;
    for name in ["a", "b%20c", "kept", "leased"] {
        put(&mut client, name, "x");
    }
    let lease = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1")];
    assert_eq!(send(&mut client, "PUT", "/things/leased?comp=lease", &lease, "").status, 201);
    let wrong = signed_part("DELETE", "/things/kept", &[]).replace("kept", "leased");
    let mut requests: Vec<_> = ["/things/a", "/things/missing", "/things/b%20c?"]
        .iter()
        .map(|target| signed_part("DELETE", target, &[]))
        .collect();
    requests.push(wrong);
    requests.push(signed_part("DELETE", "/things/leased", &[]));
    requests.push(open_part("DELETE", "/things/kept", ""));
    requests.push(signed_part("DELETE", "/things/kept", &[("if-none-match", "*")]));
    let answer = submit(&mut client, "/?comp=batch", &body(&requests));
    let found = parts(&answer);
    let codes: Vec<_> = found.iter().map(|(_, status, code)| (&status[..3], &**code)).collect();
    assert_eq!(
        codes,
        [
            ("202", ""),
            ("404", "BlobNotFound"),
            ("202", ""),
            ("403", "AuthenticationFailed"),
            ("412", "LeaseIdMissing"),
            ("404", "ResourceNotFound"),
            ("412", "ConditionNotMet"),
        ]
    );
    assert!(answer.body.contains("x-ms-delete-type-permanent: true\r\n"));
    assert!(answer.body.contains("x-ms-version: 2019-02-02\r\n"));
    let list = send(&mut client, "GET", "/things?restype=container&comp=list", &[], "").body;
    let names: Vec<_> = list.split("<Name>").skip(1).map(|name| &name[..4]).collect();
    assert_eq!(names, ["kept", "leas"]);
}

#[tokio::test]
async fn a_sas_in_a_subrequest_grants_only_its_permissions() {
    let (_server, mut client) = started().await;
    let sas = |letters: &str| signed(Resource::Container("things"), &format!("{SAS}&sp={letters}"));
    let target = "/things?restype=container&comp=batch";
    put(&mut client, "a", "x");
    let read = [open_part("DELETE", "/things/a", &sas("rwl"))];
    let refused = submit(&mut client, target, &body(&read));
    assert_eq!(parts(&refused)[0].2, "AuthorizationPermissionMismatch");
    let tier = |letters| format!("comp=tier&{}", sas(letters));
    let tiers = ["w", "d"].map(|letters| {
        let request = open_part("PUT", "/things/a", &tier(letters));
        format!("{request}x-ms-access-tier: Cool\r\n")
    });
    let answer = submit(&mut client, target, &body(&tiers));
    let found = parts(&answer);
    assert_eq!((&*found[0].1, &*found[1].2), ("200 OK", "AuthorizationPermissionMismatch"));
    let delete = [open_part("DELETE", "/things/a", &sas("d"))];
    expect(&submit(&mut client, target, &body(&delete)), &[DELETED]);
    expect(&submit(&mut client, target, &body(&delete)), &[NOT_FOUND]);

    // The batch itself must be authorized, too; any permission is sufficient.
    let post = |query: &str| {
        let body = body(&[signed_part("DELETE", "/things/a", &[])]);
        format!(
            "POST /{DEVELOPMENT_ACCOUNT}{target}&{query} HTTP/1.1\r\nhost: localhost\r\n\
             content-type: multipart/mixed; boundary=batch_1\r\nx-ms-version: 2019-02-02\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let opened = client.raw(post(&sas("r")).as_bytes()).unwrap();
    expect(&opened, &[NOT_FOUND]);
    assert_eq!(client.raw(post("").as_bytes()).unwrap().status, 404);
}

#[tokio::test]
async fn a_batch_sets_the_tier_of_several_blobs() {
    let (_server, mut client) = started().await;
    let names: Vec<_> = (0..256).map(|n| format!("/things/{n}")).collect();
    for name in &names {
        put(&mut client, &name[8..], "x");
    }
    let tier = [("x-ms-access-tier", "Cold"), ("content-length", "0")];
    let set = |name: &String| signed_part("PUT", &format!("{name}?comp=tier"), &tier);
    let requests: Vec<_> = names.iter().map(set).collect();
    let answer = submit(&mut client, "/?comp=batch", &body(&requests));
    expect(&answer, &[("200 OK", ""); 256]);
    // As `@azure/storage-blob` sends it to the account of a path-style address.
    let target = "/?restype=container&comp=batch";
    expect(&submit(&mut client, target, &body(&requests[..1])), &[("200 OK", "")]);
    let found = send(&mut client, "HEAD", &names[255], &[], "");
    assert_eq!(found.header("x-ms-access-tier"), Some("Cold"));

    let one_more = [requests, vec![set(&names[0])]].concat();
    let refused = submit(&mut client, "/?comp=batch", &body(&one_more));
    let [(id, status, code)] = parts(&refused).try_into().unwrap();
    assert_eq!((&*id, &status[..3], &*code), ("", "400", "ExceedsMaxBatchRequestCount"));
}

#[tokio::test]
async fn a_malformed_batch_changes_nothing() {
    let (_server, mut client) = started().await;
    put(&mut client, "a", "x");
    let other = send(&mut client, "PUT", "/other?restype=container", &[], "");
    assert_eq!(other.status, 201);
    let delete = || signed_part("DELETE", "/things/a", &[]);
    let tier = signed_part("PUT", "/things/a?comp=tier", &[("x-ms-access-tier", "Cool")]);
    for (body, code) in [
        (String::new(), "InvalidInput"),
        (body(&[]), "InvalidInput"),
        (body(&[delete()]).replace("batch_1--", ""), "InvalidInput"),
        (body(&[delete(), "nonsense\r\n".to_owned()]), "InvalidInput"),
        (body(&[delete(), tier]), "AllBatchSubRequestsShouldBeSameApi"),
    ] {
        let refused = submit(&mut client, "/?comp=batch", &body);
        let [(id, status, found)] = parts(&refused).try_into().unwrap();
        assert_eq!((&*id, &status[..3], &*found), ("", "400", code), "{body}");
    }
    // A request outside the batch's container, and one that is neither a deletion nor a tier
    // change.
    let target = "/other?restype=container&comp=batch";
    let refused = submit(&mut client, target, &body(&[delete()]));
    assert_eq!(parts(&refused)[0].2, "InvalidInput");
    let metadata = signed_part("PUT", "/things/a?comp=metadata", &[]);
    let container = signed_part("DELETE", "/things?restype=container", &[]);
    for request in [metadata, container] {
        let refused = submit(&mut client, "/?comp=batch", &body(&[request]));
        assert_eq!(parts(&refused)[0].2, "InvalidInput");
    }
    let untyped = send(&mut client, "POST", "/?comp=batch", &[], &body(&[delete()]));
    assert_eq!((untyped.status, untyped.code()), (400, "MissingRequiredHeader"));
    let text = [("content-type", "text/plain")];
    let untyped = send(&mut client, "POST", "/?comp=batch", &text, &body(&[delete()]));
    assert_eq!((untyped.status, untyped.code()), (400, "InvalidHeaderValue"));
    let long = submit(&mut client, "/?comp=batch", &"x".repeat(4 * 1024 * 1024 + 1));
    assert_eq!((long.status, long.code()), (413, "RequestBodyTooLarge"));
    assert_eq!(send(&mut client, "GET", "/things/a", &[], "").body, "x");
}
