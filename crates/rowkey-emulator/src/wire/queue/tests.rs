//! Requests and responses, compared with bytes that official libraries and the service exchanged.
//!
//! Recorded by azure-storage-queue (Python) unless stated otherwise: `test_queue`,
//! `test_queue_encodings`.

use http::{HeaderMap, HeaderValue, Method};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

use super::{parse, receipt, render};
use crate::op::metadata::Metadata;
use crate::op::queue as op;
use crate::op::queue::{Handle, Op, Target};
use crate::wire::options::Options;

/// A version that has all features.
const NEWEST: &str = "2026-10-06";
const REQUEST: &str = "<?xml version='1.0' encoding='utf-8'?>\n<QueueMessage><MessageText>message1</MessageText></QueueMessage>";
const PUT: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage><MessageId>e5ac7924-82bd-4ec7-9595-158aba84f660</MessageId><InsertionTime>Tue, 22 Oct 2019 21:19:20 GMT</InsertionTime><ExpirationTime>Tue, 29 Oct 2019 21:19:20 GMT</ExpirationTime><PopReceipt>AgAAAAMAAAAAAAAASV25Xh6J1QE=</PopReceipt><TimeNextVisible>Tue, 22 Oct 2019 21:19:20 GMT</TimeNextVisible></QueueMessage></QueueMessagesList>";
const GOTTEN: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage><MessageId>17e942ab-bc07-427b-837f-5b076dfbef14</MessageId><InsertionTime>Wed, 30 Oct 2019 19:51:16 GMT</InsertionTime><ExpirationTime>Wed, 06 Nov 2019 19:51:16 GMT</ExpirationTime><PopReceipt>AgAAAAMAAAAAAAAA/zhldluP1QE=</PopReceipt><TimeNextVisible>Wed, 30 Oct 2019 19:51:46 GMT</TimeNextVisible><DequeueCount>1</DequeueCount><MessageText>message1</MessageText></QueueMessage></QueueMessagesList>";
const PEEKED: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage><MessageId>e5ac7924-82bd-4ec7-9595-158aba84f660</MessageId><InsertionTime>Tue, 22 Oct 2019 21:19:20 GMT</InsertionTime><ExpirationTime>Tue, 29 Oct 2019 21:19:20 GMT</ExpirationTime><DequeueCount>0</DequeueCount><MessageText>message1</MessageText></QueueMessage></QueueMessagesList>";
const NONE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList />";
const LISTED: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://storagename.queue.core.windows.net/\"><Prefix>listqueue</Prefix><MaxResults>3</MaxResults><Queues><Queue><Name>listqueue0560410cb</Name></Queue><Queue><Name>listqueue1560410cb</Name></Queue><Queue><Name>listqueue2560410cb</Name></Queue></Queues><NextMarker>/storagename/listqueue3560410cb</NextMarker></EnumerationResults>";
const DESCRIBED: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://storagename.queue.core.windows.net/\"><Prefix>pyqueuesync665a1100</Prefix><MaxResults>1</MaxResults><Queues><Queue><Name>pyqueuesync665a1100</Name><Metadata><val1>test</val1><val2>blah</val2></Metadata></Queue></Queues><NextMarker /></EnumerationResults>";

const ENDPOINT: &str = "https://storagename.queue.core.windows.net";
const RECEIPT: &str = "AwAAAAMAAAAAAAAA0DXTgR6J1QEBAAAA";

fn instant(text: &str) -> DateTime {
    text.parse().unwrap()
}

/// The operation that the server parses from a request below the account.
fn understood(method: &Method, target: &str, version: &str) -> Result<String, Rejection> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let options = Options::parse(query).unwrap();
    let target = parse::target(path, &options)?;
    let op = parse::op(method, target, &options, &HeaderMap::new(), version)?;
    Ok(format!("{op:?}"))
}

fn refused(
    method: &Method,
    target: &str,
    version: &str,
) -> (ErrorCode, Vec<(&'static str, String)>) {
    let rejection = understood(method, target, version).unwrap_err();
    (rejection.code, rejection.details)
}

#[test]
fn responses_match_recordings() {
    let list = |message: render::Message<'_>| {
        let mut list = render::Messages::new();
        list.push(&message);
        list.finish()
    };
    let put = render::Message {
        id: "e5ac7924-82bd-4ec7-9595-158aba84f660",
        inserted: instant("2019-10-22T21:19:20.1234567Z"),
        expires: instant("2019-10-29T21:19:20.1234567Z"),
        receipt: Some(("AgAAAAMAAAAAAAAASV25Xh6J1QE=", instant("2019-10-22T21:19:20.9Z"))),
        content: None,
    };
    assert_eq!(list(put), PUT);
    assert_eq!(
        list(render::Message { receipt: None, content: Some((0, "message1")), ..put }),
        PEEKED
    );
    let gotten = render::Message {
        id: "17e942ab-bc07-427b-837f-5b076dfbef14",
        inserted: instant("2019-10-30T19:51:16Z"),
        expires: instant("2019-11-06T19:51:16Z"),
        receipt: Some(("AgAAAAMAAAAAAAAA/zhldluP1QE=", instant("2019-10-30T19:51:46Z"))),
        content: Some((1, "message1")),
    };
    assert_eq!(list(gotten), GOTTEN);
    assert_eq!(render::Messages::new().finish(), NONE);
    // azure-storage-queues (C++), QueueClient.EnqueueMessageTTL.
    let forever = list(render::Message { expires: DateTime::MAX, ..put });
    assert!(forever.contains("<ExpirationTime>Fri, 31 Dec 9999 23:59:59 GMT</ExpirationTime>"));

    let listing = op::Listing {
        prefix: Some("listqueue".to_owned()),
        max: Some(3),
        ..op::Listing::default()
    };
    let plain = Metadata::default();
    let queues = ["listqueue0560410cb", "listqueue1560410cb", "listqueue2560410cb"];
    let queues = queues.map(|name| (name, &plain));
    let next = Some("listqueue3560410cb");
    assert_eq!(render::list(ENDPOINT, "storagename", &listing, queues, next), LISTED);
    let mut headers = HeaderMap::new();
    headers.insert("x-ms-meta-val2", HeaderValue::from_static("blah"));
    headers.insert("x-ms-meta-val1", HeaderValue::from_static("test"));
    let described = Metadata::parse(&headers).unwrap();
    let name = "pyqueuesync665a1100";
    let listing = op::Listing {
        prefix: Some(name.to_owned()),
        max: Some(1),
        metadata: true,
        ..op::Listing::default()
    };
    let queues = [(name, &described)];
    assert_eq!(render::list(ENDPOINT, "storagename", &listing, queues, None), DESCRIBED);
    assert_eq!(op::marker_name("/storagename/listqueue3560410cb"), "listqueue3560410cb");
}

#[test]
fn message_text_is_unescaped() {
    let body = |text: &str| {
        format!(
            "<?xml version='1.0' encoding='utf-8'?>\n<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"
        )
    };
    assert_eq!(parse::message(REQUEST.as_bytes(), NEWEST).unwrap(), "message1");
    for (sent, meant) in [
        ("&lt;message1&gt;", "<message1>"),
        ("&amp;lt;message1&amp;gt;", "&lt;message1&gt;"),
        ("  mess\t age1\n", "  mess\t age1\n"),
        ("", ""),
        ("größe 😀", "größe 😀"),
        ("<![CDATA[<a>]]>", "<a>"),
    ] {
        assert_eq!(parse::message(body(sent).as_bytes(), NEWEST).unwrap(), meant, "{sent}");
    }
    // Some clients leave the declaration out, or put a byte order mark before it.
    for text in ["", "\u{feff}", " "] {
        let body = format!("{text}<QueueMessage><MessageText>a</MessageText></QueueMessage> ");
        assert_eq!(parse::message(body.as_bytes(), NEWEST).unwrap(), "a");
    }
    let longest = "x".repeat(65_536);
    assert_eq!(parse::message(body(&longest).as_bytes(), NEWEST).unwrap(), longest);
}

#[test]
fn malformed_messages_are_rejected() {
    // test_queue_encodings.test_message_text_xml_invalid_chars.
    let body = REQUEST.replace("message1", "\u{1}");
    let rejection = parse::message(body.as_bytes(), NEWEST).unwrap_err();
    assert_eq!(rejection.code, ErrorCode::INVALID_XML_DOCUMENT);
    let detail = |name, text: &str| (name, text.to_owned());
    assert_eq!(
        rejection.details,
        [
            detail("LineNumber", "2"),
            detail("LinePosition", "28"),
            detail("Reason", "Error parsing Xml content")
        ]
    );
    for body in [
        &b""[..],
        b"x",
        b"<QueueMessage>",
        b"<Other><MessageText>a</MessageText></Other>",
        b"<QueueMessage><MessageText>\xFF</MessageText></QueueMessage>",
        b"<QueueMessage><MessageText><b/></MessageText></QueueMessage>",
        b"<QueueMessage><MessageText>a</MessageText></QueueMessage></QueueMessage>",
    ] {
        let rejection = parse::message(body, NEWEST).unwrap_err();
        assert_eq!(rejection.code, ErrorCode::INVALID_XML_DOCUMENT, "{body:?}");
    }
    let rejection =
        parse::message(b"<QueueMessage><Text>a</Text></QueueMessage>", NEWEST).unwrap_err();
    assert_eq!(rejection.code, ErrorCode::MISSING_REQUIRED_XML_NODE);
    // azure-storage-queue (JavaScript), enqueue negative with 65537B.
    let body = REQUEST.replace("message1", &"x".repeat(65_537));
    let rejection = parse::message(body.as_bytes(), NEWEST).unwrap_err();
    assert_eq!(rejection.code, ErrorCode::REQUEST_BODY_TOO_LARGE);
    assert_eq!(rejection.details, [detail("MaxLimit", "65536")]);
}

#[test]
fn paths_identify_queues_messages_and_documents() {
    let target = |path: &'static str, query: &'static str| {
        parse::target(path, &Options::parse(query).unwrap())
    };
    for (path, query, expected) in [
        ("/", "comp=list", Target::Queues),
        ("", "comp=list&prefix=a", Target::Queues),
        ("/", "restype=service&comp=properties", Target::Properties),
        ("/", "comp=stats&restype=service", Target::Stats),
        ("/abc", "", Target::Queue("abc")),
        ("/abc", "comp=acl", Target::Acl("abc")),
        ("/abc", "comp=metadata", Target::Metadata("abc")),
        ("/abc/messages", "", Target::Messages("abc")),
        ("/abc/messages/", "", Target::Messages("abc")),
        ("/abc/messages/m", "", Target::Message("abc", "m")),
    ] {
        assert_eq!(target(path, query), Ok(expected), "{path}?{query}");
    }
    for (path, query, code) in [
        ("/", "", ErrorCode::INVALID_URI),
        ("/", "comp=properties", ErrorCode::INVALID_QUERY_PARAMETER_VALUE),
        ("/abc", "comp=other", ErrorCode::INVALID_QUERY_PARAMETER_VALUE),
        ("/abc/other", "", ErrorCode::INVALID_URI),
        ("/abc/messages/m/n", "", ErrorCode::INVALID_URI),
        // test_queue.test_unicode_create_queue_unicode_name.
        ("/啊齄丂狛狜", "", ErrorCode::INVALID_RESOURCE_NAME),
        ("/Abc", "", ErrorCode::INVALID_RESOURCE_NAME),
        ("/ab", "", ErrorCode::OUT_OF_RANGE_INPUT),
    ] {
        assert_eq!(target(path, query).unwrap_err().code, code, "{path}?{query}");
    }
}

#[test]
fn parameters_have_defaults_and_limits() {
    const NEW: &str = "2018-03-28";
    const OLD: &str = "2016-05-31";
    let list = "/abc/messages";
    let op = |method, query: &str, version| {
        understood(method, &format!("{list}?{query}"), version).unwrap()
    };
    let get = Op::Get { queue: "abc", count: 1, visibility: 30 };
    assert_eq!(op(&Method::GET, "", NEW), format!("{get:?}"));
    let peek = Op::Peek { queue: "abc", count: 32 };
    assert_eq!(op(&Method::GET, "peekonly=true&numofmessages=32", NEW), format!("{peek:?}"));
    let put =
        |lifetime, visibility| format!("{:?}", Op::Put { queue: "abc", lifetime, visibility });
    assert_eq!(op(&Method::POST, "", NEW), put(Some(604_800), 0));
    assert_eq!(
        op(&Method::POST, "messagettl=-1&visibilitytimeout=604800", NEW),
        put(None, 604_800)
    );
    assert_eq!(op(&Method::POST, "messagettl=604801", NEW), put(Some(604_801), 0));

    let refused =
        |method, query: &str, version| refused(method, &format!("{list}?{query}"), version);
    let range = ErrorCode::OUT_OF_RANGE_QUERY_PARAMETER_VALUE;
    for (method, query, version) in [
        (&Method::GET, "numofmessages=0", NEW),
        (&Method::GET, "numofmessages=33", NEW),
        (&Method::GET, "visibilitytimeout=0", NEW),
        (&Method::GET, "visibilitytimeout=604801", NEW),
        (&Method::POST, "visibilitytimeout=-1", NEW),
        (&Method::POST, "messagettl=604801", OLD),
        (&Method::POST, "messagettl=-1", OLD),
    ] {
        assert_eq!(refused(method, query, version).0, range, "{query}");
    }
    let detail = |name, text: &str| (name, text.to_owned());
    // Recorded: a queue error of an old .NET library, numofmessages=100.
    assert_eq!(
        refused(&Method::GET, "numofmessages=100", NEW).1,
        [
            detail("QueryParameterName", "numofmessages"),
            detail("QueryParameterValue", "100"),
            detail("MinimumAllowed", "1"),
            detail("MaximumAllowed", "32")
        ]
    );
    let invalid = ErrorCode::INVALID_QUERY_PARAMETER_VALUE;
    for (method, query) in [
        (&Method::GET, "numofmessages=x"),
        (&Method::POST, "messagettl=0"),
        (&Method::POST, "messagettl=-2"),
        (&Method::POST, "visibilitytimeout=604800"),
    ] {
        assert_eq!(refused(method, query, NEW).0, invalid, "{query}");
    }
    // azure-storage-queue (JavaScript): the two times are equal.
    assert_eq!(
        refused(&Method::POST, "messagettl=30&visibilitytimeout=30", NEW),
        (
            invalid,
            vec![
                detail("QueryParameterName", "visibilitytimeout"),
                detail("QueryParameterValue", "30"),
                detail("Reason", "messagettl must be greater than visibilitytimeout")
            ]
        )
    );
}

#[test]
fn message_operations_require_a_pop_receipt() {
    let target = format!("/abc/messages/m?visibilitytimeout=0&popreceipt={RECEIPT}");
    let handle = Handle { queue: "abc", id: "m", stamp: receipt::parse(RECEIPT).unwrap() };
    let update = Op::Update { handle, visibility: 0 };
    assert_eq!(understood(&Method::PUT, &target, NEWEST).unwrap(), format!("{update:?}"));
    let delete = Op::DeleteMessage(handle);
    assert_eq!(understood(&Method::DELETE, &target, "").unwrap(), format!("{delete:?}"));
    for (method, target, code) in [
        (&Method::DELETE, "/abc/messages/m", ErrorCode::MISSING_REQUIRED_QUERY_PARAMETER),
        (
            &Method::PUT,
            "/abc/messages/m?popreceipt=AgAAAAMAAAAAAAAA/zhldluP1QE=",
            ErrorCode::MISSING_REQUIRED_QUERY_PARAMETER,
        ),
        (
            &Method::DELETE,
            "/abc/messages/m?popreceipt=abc",
            ErrorCode::INVALID_QUERY_PARAMETER_VALUE,
        ),
        (&Method::POST, "/abc/messages/m", ErrorCode::UNSUPPORTED_HTTP_VERB),
        (&Method::PUT, "/abc/messages", ErrorCode::UNSUPPORTED_HTTP_VERB),
        (&Method::GET, "/abc", ErrorCode::UNSUPPORTED_HTTP_VERB),
    ] {
        assert_eq!(refused(method, target, NEWEST).0, code, "{target}");
    }
}
