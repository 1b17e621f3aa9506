//! Tests against bytes that official libraries and the service exchanged.
//!
//! Recorded by azure-storage-queue (Python): `test_queue`, `test_queue_encodings`.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rowkey_wire::auth::Service;
use rowkey_wire::edm::DateTime;
use rowkey_wire::xml::Element;

use super::encode::{Lifetime, Listing};
use super::{decode, encode};
use crate::service::wire::metadata;

const REQUEST: &str = "<?xml version='1.0' encoding='utf-8'?>\n<QueueMessage><MessageText>message1</MessageText></QueueMessage>";
const PUT: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage><MessageId>e5ac7924-82bd-4ec7-9595-158aba84f660</MessageId><InsertionTime>Tue, 22 Oct 2019 21:19:20 GMT</InsertionTime><ExpirationTime>Tue, 29 Oct 2019 21:19:20 GMT</ExpirationTime><PopReceipt>AgAAAAMAAAAAAAAASV25Xh6J1QE=</PopReceipt><TimeNextVisible>Tue, 22 Oct 2019 21:19:20 GMT</TimeNextVisible></QueueMessage></QueueMessagesList>";
const GOTTEN: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage><MessageId>17e942ab-bc07-427b-837f-5b076dfbef14</MessageId><InsertionTime>Wed, 30 Oct 2019 19:51:16 GMT</InsertionTime><ExpirationTime>Wed, 06 Nov 2019 19:51:16 GMT</ExpirationTime><PopReceipt>AgAAAAMAAAAAAAAA/zhldluP1QE=</PopReceipt><TimeNextVisible>Wed, 30 Oct 2019 19:51:46 GMT</TimeNextVisible><DequeueCount>1</DequeueCount><MessageText>message1</MessageText></QueueMessage></QueueMessagesList>";
const PEEKED: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage><MessageId>e5ac7924-82bd-4ec7-9595-158aba84f660</MessageId><InsertionTime>Tue, 22 Oct 2019 21:19:20 GMT</InsertionTime><ExpirationTime>Tue, 29 Oct 2019 21:19:20 GMT</ExpirationTime><DequeueCount>0</DequeueCount><MessageText>message1</MessageText></QueueMessage></QueueMessagesList>";
const NONE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList />";
const LISTED: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://storagename.queue.core.windows.net/\"><Prefix>listqueue</Prefix><MaxResults>3</MaxResults><Queues><Queue><Name>listqueue0560410cb</Name></Queue><Queue><Name>listqueue1560410cb</Name></Queue><Queue><Name>listqueue2560410cb</Name></Queue></Queues><NextMarker>/storagename/listqueue3560410cb</NextMarker></EnumerationResults>";
const DESCRIBED: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://storagename.queue.core.windows.net/\"><Prefix>pyqueuesync665a1100</Prefix><MaxResults>1</MaxResults><Queues><Queue><Name>pyqueuesync665a1100</Name><Metadata><val1>test</val1><val2>blah</val2></Metadata></Queue></Queues><NextMarker /></EnumerationResults>";
const RECEIPT: &str = "AwAAAAMAAAAAAAAA0DXTgR6J1QEBAAAA";

fn instant(text: &str) -> DateTime {
    text.parse().unwrap()
}

#[test]
fn requests_match_those_of_official_libraries() {
    let put = encode::put("q", "message1", None, None);
    assert_eq!((put.method, put.target.as_str()), (Method::POST, "/q/messages"));
    assert_eq!((put.service, &*put.body), (Service::Queue, REQUEST.as_bytes()));
    let put = encode::put("q", "<message1>", Some(Lifetime::Forever), Some(0));
    assert_eq!(put.target, "/q/messages?visibilitytimeout=0&messagettl=-1");
    assert!(
        put.body
            .ends_with(b"<QueueMessage><MessageText>&lt;message1&gt;</MessageText></QueueMessage>")
    );
    for (request, method, target) in [
        (encode::get("q", 1, None), "GET", "/q/messages?numofmessages=1"),
        (
            encode::get("q", 32, Some(60)),
            "GET",
            "/q/messages?numofmessages=32&visibilitytimeout=60",
        ),
        (encode::peek("q", 4), "GET", "/q/messages?peekonly=true&numofmessages=4"),
        (
            encode::delete_message(
                "q",
                "17e942ab-bc07-427b-837f-5b076dfbef14",
                "AgAAAAMAAAAAAAAA/zhldluP1QE=",
            ),
            "DELETE",
            "/q/messages/17e942ab-bc07-427b-837f-5b076dfbef14?popreceipt=AgAAAAMAAAAAAAAA%2FzhldluP1QE%3D",
        ),
        (
            encode::update("q", "a", "r+", 0, None),
            "PUT",
            "/q/messages/a?popreceipt=r%2B&visibilitytimeout=0",
        ),
        (encode::clear("q"), "DELETE", "/q/messages"),
        (encode::delete("q"), "DELETE", "/q"),
        (encode::get_metadata("q"), "GET", "/q?comp=metadata"),
        (encode::get_acl("q"), "GET", "/q?comp=acl"),
        (encode::set_acl("q", &[]), "PUT", "/q?comp=acl"),
        (
            encode::list(&Listing {
                prefix: Some("listqueue"),
                marker: Some("/storagename/listqueue3560410cb"),
                max: Some(3),
                metadata: true,
            }),
            "GET",
            "/?comp=list&prefix=listqueue&marker=%2Fstoragename%2Flistqueue3560410cb&maxresults=3&include=metadata",
        ),
    ] {
        assert_eq!((request.method.as_str(), request.target.as_str()), (method, target));
    }
    let create = encode::create("q", [("hello", "world")]).unwrap();
    assert_eq!((create.method, create.target.as_str()), (Method::PUT, "/q"));
    assert_eq!(create.headers["x-ms-meta-hello"], "world");
    assert!(encode::set_metadata("q", [("he llo", "world")]).is_err());
}

#[test]
fn recorded_responses_decode() {
    let put = &decode::messages(PUT.as_bytes()).unwrap()[0];
    assert_eq!(put.id, "e5ac7924-82bd-4ec7-9595-158aba84f660");
    assert_eq!(put.inserted, instant("2019-10-22T21:19:20Z").to_chrono());
    assert_eq!(put.expires, instant("2019-10-29T21:19:20Z").to_chrono());
    assert_eq!(put.pop_receipt.as_deref(), Some("AgAAAAMAAAAAAAAASV25Xh6J1QE="));
    assert_eq!((put.dequeue_count, put.text.as_deref()), (None, None));
    let gotten = &decode::messages(GOTTEN.as_bytes()).unwrap()[0];
    assert_eq!(gotten.next_visible, Some(instant("2019-10-30T19:51:46Z").to_chrono()));
    assert_eq!((gotten.dequeue_count, gotten.text.as_deref()), (Some(1), Some("message1")));
    let peeked = &decode::messages(PEEKED.as_bytes()).unwrap()[0];
    assert_eq!((&peeked.pop_receipt, peeked.next_visible), (&None, None));
    assert_eq!((peeked.dequeue_count, peeked.text.as_deref()), (Some(0), Some("message1")));
    assert_eq!(decode::messages(NONE.as_bytes()).unwrap(), []);

    let page = decode::list(LISTED.as_bytes()).unwrap();
    assert_eq!(page.next.as_deref(), Some("/storagename/listqueue3560410cb"));
    let names: Vec<_> = page.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["listqueue0560410cb", "listqueue1560410cb", "listqueue2560410cb"]);
    let page = decode::list(DESCRIBED.as_bytes()).unwrap();
    assert_eq!(page.next, None);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(page.queues[0].metadata, [pair("val1", "test"), pair("val2", "blah")]);

    // test_sas_update, and test_client.test_request_callback_signed_header.
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-ms-popreceipt", RECEIPT),
        ("x-ms-time-next-visible", "Tue, 22 Oct 2019 21:20:19 GMT"),
        ("x-ms-approximate-messages-count", "0"),
        ("x-ms-meta-hello", "world"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let updated = decode::updated(&headers).unwrap();
    assert_eq!(updated.pop_receipt, RECEIPT);
    assert_eq!(updated.next_visible, instant("2019-10-22T21:20:19Z").to_chrono());
    assert_eq!(decode::approximate_count(&headers), Some(0));
    assert_eq!(metadata::decode(&headers), [pair("hello", "world")]);
    assert_eq!(decode::updated(&HeaderMap::new()), None);
}

#[test]
fn truncated_or_altered_responses_are_errors() {
    for end in 1..GOTTEN.len() - 1 {
        if let Some(cut) = GOTTEN.get(..end) {
            assert!(decode::messages(cut.as_bytes()).is_err(), "{cut}");
        }
    }
    for (from, to) in [
        ("<DequeueCount>1<", "<DequeueCount>one<"),
        ("Wed, 30 Oct 2019 19:51:46 GMT", "soon"),
        ("MessageId", "Id"),
        ("QueueMessagesList", "Error"),
    ] {
        assert!(decode::messages(GOTTEN.replace(from, to).as_bytes()).is_err(), "{from}");
    }
}

#[test]
fn message_text_is_escaped_and_otherwise_unchanged() {
    for text in ["<message1>", "&lt;message1&gt;", "  mess\t age1\n", "", "größe 😀", "<a>"] {
        let written = encode::put("q", text, None, None);
        let message = Element::read(&written.body).unwrap();
        assert_eq!(message.text_of("MessageText").unwrap_or_default(), text);
    }
}
