//! The exact bytes of requests to the Blob service.

use rowkey::blob::{Check, Conditions, ContentHeaders};
use rowkey::{Blob, Credential, ErrorKind, ManualClock, Outcome, StorageAccount};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::requests::received as line;

const TAG: &str = "\"0x8D9C0DFD1829915\"";

fn written(status: u16) -> ResponseTemplate {
    ResponseTemplate::new(status)
        .insert_header("ETag", TAG)
        .insert_header("Last-Modified", "Fri, 20 Nov 2026 12:00:00 GMT")
}

async fn blob(answer: ResponseTemplate) -> (MockServer, Blob) {
    let stub = MockServer::start().await;
    Mock::given(matchers::any()).respond_with(answer).mount(&stub).await;
    let start = "2026-11-20T12:00:00Z".parse::<rowkey::edm::DateTime>().unwrap();
    let account = StorageAccount::builder()
        .name("acct")
        .endpoint(rowkey::service::Service::Blob, &stub.uri())
        .unwrap()
        .credential(Credential::shared_key("acct", "a2V5").unwrap())
        .clock(ManualClock::auto_advancing(start.into()))
        .build()
        .unwrap();
    (stub, account.container("photos").blob("a b/ü+%.jpg"))
}

const ADDRESS: &str = "/photos/a%20b/%C3%BC%2B%25.jpg";

#[tokio::test]
async fn a_checksum_mismatch_is_a_distinct_error() {
    let answer = |sum: (&str, &str)| {
        written(206)
            .set_body_string("hello world")
            .insert_header("Content-Range", "bytes 0-10/11")
            .insert_header(sum.0, sum.1)
    };
    let md5 = "XrY7u+Ae7tCTyyK7j1rNww==";
    for (sum, check) in
        [(("Content-MD5", md5), Check::Md5), (("x-ms-content-crc64", "vo7q9sPVKY0="), Check::Crc64)]
    {
        let (stub, sound) = blob(answer(sum)).await;
        let read = sound.read().range(..11).check(check).bytes().await.unwrap().unwrap();
        assert_eq!(read.bytes, "hello world");
        let asked = ["x-ms-range", "x-ms-range-get-content-md5", "x-ms-range-get-content-crc64"];
        let asked = line(&stub, &asked).await;
        let md5 = check == Check::Md5;
        let (one, other) = if md5 { ("true", "(absent)") } else { ("(absent)", "true") };
        assert!(
            asked.ends_with(&format!(
                "x-ms-range: bytes=0-10\nx-ms-range-get-content-md5: {one}\n\
                 x-ms-range-get-content-crc64: {other}\n"
            )),
            "{asked}"
        );

        let other = if md5 { "1B2M2Y8AsgTpgAmY7PhCfg==" } else { "AAAAAAAAAAA=" };
        let (_stub, damaged) = blob(answer((sum.0, other))).await;
        let error = damaged.read().range(..11).check(check).bytes().await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Damaged, Outcome::Rejected));

        // Without the sum, nothing is said to be checked.
        let (_stub, silent) = blob(answer(("x-other", "1"))).await;
        let error = silent.read().range(..11).check(check).bytes().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
    }
}

#[tokio::test]
async fn put_blob_sends_properties_and_checksum() {
    let (stub, blob) = blob(written(201)).await;
    let put = blob.put("hello world").content_type("text/plain").metadata(&[("Owner", "ada")]);
    let written = put.check(Check::Md5).insert().await.unwrap();
    assert!(format!("{written:?}").contains("Inserted"));
    let headers = [
        "x-ms-blob-type",
        "x-ms-blob-content-type",
        "x-ms-meta-owner",
        "content-md5",
        "content-length",
        "if-none-match",
        "x-ms-version",
    ];
    // The sum of `hello world` is that of a recording.
    assert_eq!(
        line(&stub, &headers).await,
        format!(
            "PUT {ADDRESS}\nx-ms-blob-type: BlockBlob\nx-ms-blob-content-type: text/plain\n\
             x-ms-meta-owner: ada\ncontent-md5: XrY7u+Ae7tCTyyK7j1rNww==\ncontent-length: 11\n\
             if-none-match: *\nx-ms-version: 2022-11-02\nhello world"
        )
    );
}

#[tokio::test]
async fn append_block_sends_position_and_checksum() {
    let answer = written(201)
        .insert_header("x-ms-blob-append-offset", "5")
        .insert_header("x-ms-blob-committed-block-count", "2");
    let (stub, blob) = blob(answer).await;
    let append = blob.append("hello world").at(5).max_size(100).check(Check::Crc64);
    assert_eq!(append.send().await.unwrap().offset, 5);
    let headers =
        ["x-ms-blob-condition-appendpos", "x-ms-blob-condition-maxsize", "x-ms-content-crc64"];
    assert_eq!(
        line(&stub, &headers).await,
        format!(
            "PUT {ADDRESS}?comp=appendblock\nx-ms-blob-condition-appendpos: 5\n\
             x-ms-blob-condition-maxsize: 100\nx-ms-content-crc64: vo7q9sPVKY0=\nhello world"
        )
    );
}

#[tokio::test]
async fn conditions_of_a_handle_are_sent_with_every_operation() {
    let (stub, blob) = blob(written(200)).await;
    let conditions = Conditions {
        if_unmodified_since: Some("2026-11-19T08:07:06Z".parse().unwrap()),
        ..Conditions::from(&rowkey::ETag::new(TAG))
    };
    let headers =
        ContentHeaders { cache_control: Some("no-cache".into()), ..ContentHeaders::default() };
    blob.with_conditions(conditions).set_properties(&headers).await.unwrap();
    let sent = ["if-match", "if-unmodified-since", "x-ms-blob-cache-control", "content-length"];
    assert_eq!(
        line(&stub, &sent).await,
        format!(
            "PUT {ADDRESS}?comp=properties\nif-match: {TAG}\n\
             if-unmodified-since: Thu, 19 Nov 2026 08:07:06 GMT\nx-ms-blob-cache-control: no-cache\n\
             content-length: 0\n"
        )
    );
}

#[tokio::test]
async fn a_copy_sends_the_absolute_url_of_its_source() {
    let (stub, blob) = blob(
        written(202)
            .insert_header("x-ms-copy-id", "1")
            .insert_header("x-ms-copy-status", "success"),
    )
    .await;
    let source = blob.at_snapshot("2026-11-20T12:00:00.0000001Z");
    blob.copy_from(&source.with_conditions(rowkey::ETag::new(TAG))).await.unwrap();
    let uri = stub.uri();
    assert_eq!(
        line(&stub, &["x-ms-copy-source", "x-ms-source-if-match", "if-match"]).await,
        format!(
            "PUT {ADDRESS}\nx-ms-copy-source: {uri}{ADDRESS}?snapshot=2026-11-20T12%3A00%3A00.0000001Z\n\
             x-ms-source-if-match: {TAG}\nif-match: (absent)\n"
        )
    );
}

#[tokio::test]
async fn abort_copy_sends_the_id_of_the_copy_and_the_lease_alone() {
    let (stub, blob) = blob(ResponseTemplate::new(204)).await;
    let lease = "6d2f8c3e-8a5b-4d3f-9d0a-0f2c4b6a8e10";
    let conditions = Conditions::from(&rowkey::ETag::new(TAG));
    let leased = blob.with_conditions(conditions).with_lease(&blob.lease(lease).unwrap());
    assert!(leased.abort_copy("1f812371-a41d-49e6").await.unwrap());
    assert_eq!(
        line(&stub, &["x-ms-copy-action", "x-ms-lease-id", "if-match", "content-length"]).await,
        format!(
            "PUT {ADDRESS}?comp=copy&copyid=1f812371-a41d-49e6\nx-ms-copy-action: abort\n\
             x-ms-lease-id: {lease}\nif-match: (absent)\ncontent-length: 0\n"
        )
    );
}

#[tokio::test]
async fn a_copy_that_is_not_pending_is_not_aborted_and_a_missing_blob_is_an_error() {
    let answer = |status: u16, code: &str| {
        ResponseTemplate::new(status).insert_header("x-ms-error-code", code)
    };
    let (_stub, complete) = blob(answer(409, "NoPendingCopyOperation")).await;
    assert!(!complete.abort_copy("1").await.unwrap());
    let (_stub, missing) = blob(answer(404, "BlobNotFound")).await;
    assert_eq!(missing.abort_copy("1").await.unwrap_err().kind(), ErrorKind::NotFound);
    let (_stub, leased) = blob(answer(412, "LeaseIdMissing")).await;
    assert_eq!(leased.abort_copy("1").await.unwrap_err().kind(), ErrorKind::Leased);
}

#[tokio::test]
async fn a_range_is_sent_as_inclusive_bytes() {
    let answer = written(206)
        .insert_header("x-ms-blob-type", "BlockBlob")
        .insert_header("Content-Range", "bytes 2-4/10")
        .set_body_string("234");
    let (stub, blob) = blob(answer).await;
    let content = blob.read().range(2..5).bytes().await.unwrap().unwrap();
    assert_eq!((content.bytes.as_ref(), content.properties.length), (b"234".as_slice(), 10));
    let asked = line(&stub, &["x-ms-range"]).await;
    assert_eq!(asked, format!("GET {ADDRESS}\nx-ms-range: bytes=2-4\n"));
}

#[tokio::test]
async fn a_response_without_an_etag_is_reported_as_applied() {
    let (_stub, blob) = blob(ResponseTemplate::new(201)).await;
    let error = blob.put("x").send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert!(error.to_string().contains("succeeded"), "{error}");
}

/// The answer to a batch with these parts: the head of each, and its message.
fn parts(parts: &[(&str, &str)]) -> ResponseTemplate {
    let part = |(head, message): &(&str, &str)| {
        format!("--batchresponse_1\r\nContent-Type: application/http\r\n{head}\r\n{message}\r\n")
    };
    let body = format!("{}--batchresponse_1--", parts.iter().map(part).collect::<String>());
    let body =
        ResponseTemplate::new(202).set_body_raw(body, "multipart/mixed; boundary=batchresponse_1");
    body.insert_header("x-ms-request-id", "whole")
}

#[tokio::test]
async fn answers_to_a_batch_belong_to_its_requests_by_their_numbers() {
    const DONE: &str = "HTTP/1.1 202 Accepted\r\nx-ms-request-id: part\r\n";
    const MISSING: &str = "HTTP/1.1 404 The specified blob does not exist.\r\n\
        x-ms-error-code: BlobNotFound\r\nx-ms-request-id: part\r\n";
    const BUSY: &str = "HTTP/1.1 503 The server is busy.\r\nx-ms-error-code: ServerBusy\r\n\
        x-ms-request-id: part\r\n";
    let id = ["Content-ID: 0\r\n", "Content-ID: 1\r\n", "Content-ID: 2\r\n"];
    let container = |blob: &Blob| blob.account().container("photos");
    let deleted = async |answer| {
        let (_stub, blob) = blob(answer).await;
        let container = container(&blob);
        let blobs = ["a", "b"].map(|name| container.blob(name));
        container.delete_blobs(&blobs).await
    };

    // In another order, and without numbers in the order of the requests.
    let results = deleted(parts(&[(id[1], MISSING), (id[0], DONE)])).await.unwrap();
    assert!(matches!(results[..], [Ok(true), Ok(false)]), "{results:?}");
    let results = deleted(parts(&[("", MISSING), ("", DONE)])).await.unwrap();
    assert!(matches!(results[..], [Ok(false), Ok(true)]), "{results:?}");

    // One was throttled, and one has no answer.
    let results = deleted(parts(&[(id[1], BUSY)])).await.unwrap();
    let [Err(left_out), Err(busy)] = &results[..] else { panic!("{results:?}") };
    assert_eq!((busy.kind(), busy.outcome()), (ErrorKind::Throttled, Outcome::Rejected));
    assert_eq!(busy.details().request_id.as_deref(), Some("part"));
    assert_eq!((left_out.kind(), left_out.outcome()), (ErrorKind::Decode, Outcome::Unknown));
    assert_eq!(left_out.details().operation_index, Some(0));

    // The batch as a whole was refused.
    let whole = "HTTP/1.1 400 The batch is invalid.\r\nx-ms-error-code: InvalidInput\r\n";
    let error = deleted(parts(&[("", whole)])).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::Rejected));
    assert_eq!(error.details().operation_index, None);

    // Answers that belong to no request, or twice to one, or that are cut off.
    let mut cut = format!("--b\r\nContent-Type: application/http\r\n{}\r\n{DONE}", id[0]);
    for unreadable in [
        parts(&[(id[2], DONE), (id[0], DONE)]),
        parts(&[(id[0], DONE), (id[0], DONE)]),
        ResponseTemplate::new(202)
            .set_body_raw(std::mem::take(&mut cut), "multipart/mixed; boundary=b"),
        ResponseTemplate::new(202),
    ] {
        let error = deleted(unreadable).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Decode, Outcome::Unknown));
    }
    // A service without batches.
    for status in [400, 501] {
        let error = deleted(ResponseTemplate::new(status)).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::Rejected));
    }
}
