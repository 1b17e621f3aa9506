//! Inputs that are as long as a request may bring, and the same thing over and over: a decoder
//! whose work grows with the square of its input would take minutes for one of these.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use rowkey::internals::{self, Body};
use rowkey_emulator::fuzzing as server;
use rowkey_wire::auth::{Scheme, Service, Unsigned, string_to_sign};
use rowkey_wire::limits::MAX_MESSAGE;
use rowkey_wire::xml::Element;
use rowkey_wire::{auth, filter, xml};

/// The size of each input: the limit of a batch, or less in slow builds.
const LEN: usize = if cfg!(debug_assertions) { 256 * 1024 } else { 4 * 1024 * 1024 };

/// `begin`, then `again` as often as it fits, then `end`.
fn long(begin: &str, again: &str, end: &str) -> String {
    let times = (LEN - begin.len() - end.len()) / again.len();
    let mut text = String::with_capacity(LEN);
    text.push_str(begin);
    (0..times).for_each(|_| text.push_str(again));
    text.push_str(end);
    text
}

/// The same with a number that counts up in place of every `#`.
fn numbered(begin: &str, again: &str, end: &str) -> String {
    let mut text = String::with_capacity(LEN + 64);
    text.push_str(begin);
    for number in 0.. {
        text.push_str(&again.replace('#', &format!("{number}")));
        if text.len() + end.len() >= LEN {
            break;
        }
    }
    text.push_str(end);
    text
}

#[test]
fn filters() {
    for text in [
        long("a eq 1", " and a eq 1", ""),
        long("", "(", ""),
        long("", "not ", "a"),
        long("a eq '", "''", "'"),
        long("a eq '", "😀", ""),
        long("a", " ", "eq 1"),
        long("a eq X'", "00", "'"),
        long("a eq ", "9", ""),
        long("", "a", " eq 1"),
    ] {
        if let Err(error) = filter::parse(&text) {
            assert!(error.message(&text).len() <= 4 * text.len() + 1000);
        }
    }
}

#[test]
fn entities() {
    for text in [
        numbered("{\"a\":1", ",\"p#\":1", "}"),
        numbered("{\"a\":1", ",\"p#@odata.type\":\"Edm.Int64\"", "}"),
        numbered("{\"a\":1", ",\"p#\":\"1\",\"q#@odata.type\":\"Edm.Int64\"", "}"),
        numbered("{\"a\":1", ",\"p#\":\"1\",\"q#\":2,\"p#@odata.type\":\"Edm.Int64\"", "}"),
        long("{\"a\":1", ",\"a\":1", "}"),
        long("{\"a\":", "[", ""),
        long("{\"a\":", "{\"a\":", ""),
        long("{\"a\":\"", "\\u00e4", "\"}"),
        long("{\"a\":", "9", "}"),
        long("{\"a@odata.type\":\"Edm.DateTime\",\"a\":\"", "2", "\"}"),
        long("{\"value\":[{}", ",{\"a\":1}", "]}"),
        long("", " ", "{}"),
    ] {
        let _ = server::entity(text.as_bytes());
        for what in [Body::Entity, Body::Page, Body::Tables, Body::Error] {
            let _ = internals::read(what, text.as_bytes(), |_| ());
        }
    }
}

#[test]
fn documents() {
    for text in [
        long("", "<a>", ""),
        long("<a>", "<a/>", "</a>"),
        long("<a>", "&amp;", "</a>"),
        long("<a>", "<![CDATA[x]]>", "</a>"),
        long("<a>", "<!---->", "</a>"),
        numbered("<a", " a#=\"\"", "/>"),
        long("<a>", "\r\n", "</a>"),
    ] {
        let _ = Element::read(text.as_bytes());
    }
    let text = numbered(
        "<SignedIdentifiers>",
        "<SignedIdentifier><Id>#</Id></SignedIdentifier>",
        "</SignedIdentifiers>",
    );
    assert!(xml::parse_acl(text.as_bytes()).is_err());
    assert!(xml::decode_acl(text.as_bytes()).is_ok());
    let text = numbered("<StorageServiceProperties>", "<a#/>", "</StorageServiceProperties>");
    assert!(xml::parse_properties(text.as_bytes()).is_err());
    assert!(xml::decode_properties(text.as_bytes()).is_ok());
    let (begin, end) = ("<StorageServiceProperties><Cors>", "</Cors></StorageServiceProperties>");
    let _ = xml::parse_properties(long(begin, "<CorsRule/>", end).as_bytes());
    let (begin, end) = ("<QueueMessage><MessageText>", "</MessageText></QueueMessage>");
    for again in ["a", "&lt;"] {
        let message = server::message(long(begin, again, end).as_bytes());
        if let Some(text) = message {
            assert!(text.len() <= MAX_MESSAGE);
        }
    }
    let text = long("<QueueMessagesList>", "<QueueMessage/>", "</QueueMessagesList>");
    assert!(!internals::read(Body::Messages, text.as_bytes(), |_| ()));
    let text = numbered("<BlockList>", "<Latest>#</Latest>", "</BlockList>");
    let _ = server::blocks(text.as_bytes());
    let (begin, end) = ("<EnumerationResults><Blobs>", "</Blobs></EnumerationResults>");
    let blob = "<Blob><Name>#</Name><Properties/></Blob>";
    assert!(internals::read(Body::Blobs, numbered(begin, blob, end).as_bytes(), |_| ()));
}

#[test]
fn batches() {
    let content_type = "multipart/mixed; boundary=b";
    let changeset = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n";
    let part = "--c\r\nContent-Type: application/http\r\n\r\nDELETE /t HTTP/1.1\r\n\r\n";
    for text in [
        long("", "--b\r\n", ""),
        long("", "\n", ""),
        long("", "-", ""),
        long("", changeset, "--b--"),
        long(changeset, part, "--c--\r\n--b--"),
        long(changeset, "--c\r\n", "--c--"),
        long(
            "--b\r\nContent-Type: application/http\r\n\r\nGET /t HTTP/1.1\r\n",
            "a: b\r\n",
            "--b--",
        ),
        long("--b\r\n", "a: b\r\n", "--b--"),
        long("--b\r\nContent-Type: application/http\r\n\r\n", "\r\n", "--b--"),
    ] {
        let body = Bytes::from(text);
        let _ = server::batch(content_type, &body);
        let _ = internals::batch(content_type, &body);
        let dashes = format!("multipart/mixed; boundary={}", "-".repeat(60_000));
        let _ = server::batch(&dashes, &body);
    }
    let body = Bytes::from_static(b"--b--");
    let _ = server::batch(&long("multipart/mixed", "; a=b", ""), &body);
}

#[test]
fn queries_and_tokens() {
    for text in [
        long("", "a=b&", ""),
        long("", "&", ""),
        long("", "%41", ""),
        long("a=", "+", ""),
        long("sig=a", "&sv=b", ""),
        numbered("sig=a", "&a#=b", ""),
        long("1!", "9", "!"),
        long("2!8!", "A", ""),
        long("SharedKey ", ":", ""),
        long("\"", "0x", "\""),
    ] {
        let _ = server::options(&text);
        if let Some(sas) = auth::Sas::from_query(&text) {
            let _ = sas.encode();
        }
        let _ = (server::entity_token(&text), server::marker(&text), server::authorization(&text));
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-meta-a", HeaderValue::from_str(&text).unwrap());
        let unsigned = Unsigned {
            method: "GET",
            path: &text,
            query: Some(&text),
            headers: &headers,
            content_length: 0,
        };
        for service in [Service::Blob, Service::Queue, Service::Table] {
            let signed = string_to_sign(service, Scheme::SharedKey, "a", &unsigned);
            assert!(signed.len() <= 4 * LEN);
        }
    }
}
