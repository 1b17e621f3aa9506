//! Queues and blobs on servers that lose responses: what is retried, and what is recognized as
//! done.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use rowkey_wire::auth::Service;

use super::script::{Act, KEY, Script, answer, header, options};
use crate::account::StorageAccount;
use crate::blob::Blob;
use crate::clock::ManualClock;
use crate::credential::Credential;
use crate::error::{ErrorKind, Outcome};
use crate::queue::{Body, Queue};

fn account(script: &Script) -> StorageAccount {
    StorageAccount::builder()
        .credential(Credential::shared_key("contoso", KEY).unwrap())
        .endpoint(Service::Blob, &script.url())
        .unwrap()
        .endpoint(Service::Queue, &script.url())
        .unwrap()
        .clock(ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap()))
        .options(options())
        .seed(1)
        .build()
        .unwrap()
}

fn queue(script: &Script) -> Queue {
    account(script).queue("jobs")
}

fn blob(script: &Script) -> Blob {
    account(script).container("logs").blob("a/b")
}

/// An error in the format of the Queue and Blob services.
fn refusal(status: &str, code: &str) -> Act {
    let body = format!("\u{feff}<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
    answer(status, &format!("x-ms-error-code: {code}\r\n"), &body)
}

const WRITTEN: &str = "ETag: \"0x1\"\r\nLast-Modified: Sun, 01 Mar 2026 12:00:00 GMT\r\n";

fn head(status: &str, headers: &str, length: usize, body: &str) -> Act {
    Act::Answer(format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{WRITTEN}\
         x-ms-blob-type: AppendBlob\r\n{headers}\r\n{body}"
    ))
}

#[tokio::test]
async fn put_message_is_not_retried_after_a_lost_response() {
    let script = Script::start([Act::Close]);
    let error = queue(&script).put(Body::text("pay 5")).send().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn put_message_is_retried_after_a_rejection() {
    let put = "<?xml version=\"1.0\"?><QueueMessagesList><QueueMessage><MessageId>id</MessageId>\
               <InsertionTime>Sun, 01 Mar 2026 12:00:00 GMT</InsertionTime>\
               <ExpirationTime>Fri, 31 Dec 9999 23:59:59 GMT</ExpirationTime>\
               <PopReceipt>AgAAAA==</PopReceipt>\
               <TimeNextVisible>Sun, 01 Mar 2026 12:00:00 GMT</TimeNextVisible>\
               </QueueMessage></QueueMessagesList>";
    let script = Script::start([refusal("503 No", "ServerBusy"), answer("201 Created", "", put)]);
    let message = queue(&script).put(Body::text("pay 5")).ttl(None).send().await.unwrap();
    assert_eq!((message.text(), message.expires), ("pay 5", None));
    let requests = script.requests();
    let [one, other] = &requests[..] else { panic!("{requests:?}") };
    // The same message with a new request id and signature.
    assert!(one.ends_with("<MessageText>pay 5</MessageText></QueueMessage>"), "{one}");
    assert_eq!(one.split("\r\n\r\n").nth(1), other.split("\r\n\r\n").nth(1));
    for name in ["authorization", "x-ms-client-request-id"] {
        assert_ne!(header(one, name), header(other, name), "{name}");
    }
}

#[tokio::test]
async fn get_messages_is_retried_on_the_primary_only() {
    let none = "<?xml version=\"1.0\"?><QueueMessagesList />";
    let script = Script::start([Act::Close, answer("200 OK", "", none)]);
    let messages = queue(&script).receive(1, Duration::from_secs(30)).await.unwrap();
    assert!(messages.is_empty());
    assert_eq!(script.requests().len(), 2);
}

#[tokio::test]
async fn a_retried_message_deletion_treats_404_as_success() {
    let message = "<?xml version=\"1.0\"?><QueueMessagesList><QueueMessage>\
                   <MessageId>id</MessageId><InsertionTime>Sun, 01 Mar 2026 12:00:00 GMT\
                   </InsertionTime><ExpirationTime>Sun, 08 Mar 2026 12:00:00 GMT</ExpirationTime>\
                   <PopReceipt>Ag+/</PopReceipt><TimeNextVisible>Sun, 01 Mar 2026 12:00:30 GMT\
                   </TimeNextVisible><DequeueCount>3</DequeueCount><MessageText>x</MessageText>\
                   </QueueMessage></QueueMessagesList>";
    let script = Script::start([
        answer("200 OK", "", message),
        Act::Close,
        refusal("404 No", "MessageNotFound"),
        Act::Close,
        refusal("404 No", "MessageNotFound"),
    ]);
    let queue = queue(&script);
    let message = queue.receive(1, Duration::from_secs(30)).await.unwrap().remove(0);
    assert_eq!(message.dequeue_count, 3);
    assert!(queue.delete_if_exists(&message).await.unwrap());
    let error = queue.delete(&message).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::NotFound, Outcome::Unknown));
    let requests = script.requests();
    let target = "DELETE /contoso/jobs/messages/id?popreceipt=Ag%2B%2F HTTP/1.1\r\n";
    assert!(requests[1].starts_with(target), "{}", requests[1]);
}

#[tokio::test]
async fn a_download_resumes_where_the_connection_broke() {
    let script = Script::start([
        head("200 OK", "", 10, "01234"),
        refusal("503 No", "ServerBusy"),
        head("206 Partial", "Content-Range: bytes 5-9/10\r\n", 5, "567"),
        head("206 Partial", "Content-Range: bytes 8-9/10\r\n", 2, "89"),
    ]);
    let content = blob(&script).get().await.unwrap().unwrap();
    assert_eq!((content.bytes, content.properties.length), (Bytes::from("0123456789"), 10));
    let requests = script.requests();
    let asked = |i: usize, name| header(&requests[i], name).map(str::to_owned);
    assert_eq!((asked(0, "x-ms-range"), asked(0, "if-match")), (None, None));
    assert_eq!(asked(1, "x-ms-range").as_deref(), Some("bytes=5-9"));
    assert_eq!(asked(3, "x-ms-range").as_deref(), Some("bytes=8-9"));
    assert_eq!(asked(3, "if-match").as_deref(), Some("\"0x1\""), "still the same blob");
}

#[tokio::test]
async fn a_blob_changed_during_a_download_is_a_conflict() {
    let script =
        Script::start([head("200 OK", "", 10, "01234"), refusal("412 No", "ConditionNotMet")]);
    let error = blob(&script).get().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn a_response_with_another_range_is_an_error() {
    let script = Script::start([head("200 OK", "", 10, "01234"), head("200 OK", "", 10, "01234")]);
    let error = blob(&script).get().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
}

#[tokio::test]
async fn a_stalled_download_times_out() {
    let cut = || head("206 Partial", "Content-Range: bytes 5-9/10\r\n", 5, "");
    let script = Script::start([head("200 OK", "", 10, "01234"), cut(), cut(), cut()]);
    let error = blob(&script).get().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(script.requests().len(), 4);
}

fn appended() -> Act {
    let headers =
        format!("{WRITTEN}x-ms-blob-append-offset: 3\r\nx-ms-blob-committed-block-count: 2\r\n");
    answer("201 Created", &headers, "")
}

#[tokio::test]
async fn an_append_with_a_lost_response_is_recognized_by_its_position() {
    let there = |body: &str| {
        [
            Act::Close,
            refusal("412 No", "AppendPositionConditionNotMet"),
            head("200 OK", "x-ms-blob-committed-block-count: 2\r\n", 6, ""),
            head("206 Partial", "Content-Range: bytes 3-5/6\r\n", 3, body),
        ]
    };
    let script = Script::start(there("two"));
    let landed = blob(&script).append("two").at(3).send().await.unwrap();
    assert_eq!((landed.offset, landed.blocks, landed.etag.as_str()), (3, 2, "\"0x1\""));
    let requests = script.requests();
    for request in &requests[..2] {
        assert_eq!(header(request, "x-ms-blob-condition-appendpos"), Some("3"));
    }

    // Another writer's block is at this position, so this one was not appended.
    let script = Script::start(there("TWO"));
    let error = blob(&script).append("two").at(3).send().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::Unknown));
}

#[tokio::test]
async fn an_append_without_a_position_is_not_retried_after_a_lost_response() {
    let script = Script::start([Act::Close]);
    let error = blob(&script).append("two").send().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    let script = Script::start([refusal("503 No", "ServerBusy"), appended()]);
    assert_eq!(blob(&script).append("two").send().await.unwrap().offset, 3);
}

#[tokio::test]
async fn a_failed_block_is_retried_alone() {
    let done = || answer("201 Created", WRITTEN, "");
    let script = Script::start([done(), Act::Close, done(), done()]);
    let pieces = stream::iter(["ab", "cd"].map(|piece| Ok::<_, std::io::Error>(piece.into())));
    blob(&script).upload(pieces).block_size(2).concurrency(1).send().await.unwrap();
    let requests = script.requests();
    let first = |i: usize| requests[i].lines().next().unwrap().to_owned();
    assert!(first(0).starts_with("PUT /contoso/logs/a/b?comp=block&blockid="));
    assert_ne!(first(0), first(1));
    assert_eq!(first(1), first(2));
    assert!(requests[1].ends_with("\r\n\r\ncd") && requests[2].ends_with("\r\n\r\ncd"));
    assert_eq!(first(3), "PUT /contoso/logs/a/b?comp=blocklist HTTP/1.1");
    assert_eq!(requests[3].matches("<Latest>").count(), 2);
}

#[tokio::test]
async fn a_lease_with_a_lost_response_is_acquired_again_with_the_same_id() {
    let script = Script::start([Act::Close, answer("201 Created", WRITTEN, "")]);
    let lease = blob(&script).acquire_lease(Duration::from_secs(15)).await.unwrap().unwrap();
    let requests = script.requests();
    for request in &requests {
        assert_eq!(header(request, "x-ms-proposed-lease-id"), Some(&*lease.id()));
        assert_eq!(header(request, "x-ms-lease-duration"), Some("15"));
        assert_eq!(header(request, "content-length"), Some("0"));
    }
    assert_eq!(requests.len(), 2);
    assert!(!format!("{lease:?}").contains(&lease.id()));
}

#[tokio::test]
async fn an_insert_with_a_lost_response_is_not_retried() {
    let script = Script::start([Act::Close]);
    let error = blob(&script).put("x").insert().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    let requests = script.requests();
    assert_eq!((requests.len(), header(&requests[0], "if-none-match")), (1, Some("*")));
}

#[tokio::test]
async fn an_error_names_the_service_without_an_endpoint() {
    let account = StorageAccount::builder()
        .credential(Credential::shared_key("contoso", KEY).unwrap())
        .endpoint(Service::Table, "http://127.0.0.1:1/contoso")
        .unwrap()
        .build()
        .unwrap();
    let error = account.queue("jobs").create().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("give the queue endpoint"), "{error}");
    let error = account.container("logs").create().await.unwrap_err();
    assert!(error.to_string().contains("give the blob endpoint"), "{error}");
}

#[tokio::test]
async fn queue_and_blob_signatures_cover_every_signed_header() {
    // Computed with openssl over the string to sign from the documentation of Shared Key.
    let script = Script::start([answer("204 No Content", "", "")]);
    queue(&script).set_metadata(&[("team", "sales")]).await.unwrap();
    let request = script.requests().remove(0);
    assert_eq!(header(&request, "authorization"), Some(QUEUE_SIGNATURE));

    let script = Script::start([answer("201 Created", WRITTEN, "")]);
    blob(&script).put("x").check(crate::blob::Check::Md5).insert().await.unwrap();
    let request = script.requests().remove(0);
    assert_eq!(header(&request, "authorization"), Some(BLOB_SIGNATURE));
}

const QUEUE_SIGNATURE: &str = "SharedKey contoso:3Oes3sGJ7eWbNdtj0goBXt6G1jwhJw31KiO+MG0oPb8=";
const BLOB_SIGNATURE: &str = "SharedKey contoso:HjbTVlQV5+gnu033Ax0yUNqh0NWbdCwqWxaGwg6CF1A=";
