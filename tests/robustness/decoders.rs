//! Every decoder returns from everything, and takes what it writes itself.
//!
//! Filters and batches have tests of their own where they are; what every request passes through
//! (targets, options, headers) is met by the damaged requests.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use rowkey::table::Continuation;
use rowkey::{Credential, StorageAccount};
use rowkey_wire::auth::sas::{self, IpRange, Protocols};
use rowkey_wire::auth::{Sas, SigningKey, parse_authorization};
use rowkey_wire::blob::block_list;
use rowkey_wire::blob::marker::Marker;
use rowkey_wire::blob::tag::{Match, Tag};
use rowkey_wire::edm::{DateTime, double};
use rowkey_wire::error::ErrorBody;
use rowkey_wire::etag::ETag;
use rowkey_wire::headers::parse_http_date;
use rowkey_wire::odata::parse::{self, Strictness};
use rowkey_wire::odata::{Fields, decode};
use rowkey_wire::table::parse::Options;
use rowkey_wire::table::token;
use rowkey_wire::{batch, blob, filter, metadata, queue, xml};

use crate::garbage::{answers, bodies, feed, feed_text};

/// The recorded answers that hold `what`, as bytes.
fn feed_answers(what: &str, decode: impl FnMut(&[u8]) -> bool) {
    let answers = answers(what);
    assert!(!answers.is_empty(), "no answer holds {what}");
    let seeds: Vec<&[u8]> = answers.iter().map(|(body, _)| body.as_bytes()).collect();
    feed(&seeds, decode);
}

/// The recorded requests whose bodies hold `what`.
fn feed_requests(what: &str, decode: impl FnMut(&[u8]) -> bool) {
    let bodies = bodies(what);
    assert!(!bodies.is_empty(), "no request holds {what}");
    let seeds: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    feed(&seeds, decode);
}

#[test]
fn policies() {
    feed_requests("<SignedIdentifier", |body| {
        let Ok(policies) = xml::parse_acl(body) else { return false };
        let again = xml::decode_acl(xml::render_acl(&policies).as_bytes()).unwrap();
        assert_eq!(again.len(), policies.len());
        let again = xml::parse_acl(xml::encode_acl(&policies).as_bytes()).unwrap();
        assert_eq!(again, policies);
        true
    });
    feed_answers("<SignedIdentifiers", |body| xml::decode_acl(body).is_ok());
}

#[test]
fn properties_and_statistics() {
    feed_requests("<StorageServiceProperties", |body| {
        let Ok(properties) = xml::parse_properties(body) else { return false };
        let rendered = xml::render_properties(&properties);
        assert!(xml::decode_properties(rendered.as_bytes()).is_ok(), "{rendered}");
        true
    });
    feed_answers("<StorageServiceProperties", |body| xml::decode_properties(body).is_ok());
    feed_answers("<StorageServiceStats", |body| xml::decode_stats(body).is_ok());
}

#[test]
fn queues_and_messages() {
    feed_requests("<QueueMessage>", |body| match queue::parse::message(body) {
        Ok(text) => {
            // Otherwise it could never be read again.
            assert!(xml::element::can_hold(&text), "{text:?}");
            true
        }
        Err(_) => false,
    });
    feed_answers("<QueueMessagesList", |body| queue::decode::messages(body).is_ok());
    feed_answers("<Queues>", |body| queue::decode::list(body).is_ok());
    feed_text(&[&queue::receipt::gotten(5), &queue::receipt::updated(637_000_000, 3)], |text| {
        queue::receipt::parse(text).is_some()
    });
}

#[test]
fn containers_blobs_and_blocks() {
    feed_answers("<Containers>", |body| blob::decode::containers(body).is_ok());
    feed_answers("<Blobs>", |body| blob::decode::blobs(body).is_ok());
    feed_answers("<BlockList", |body| block_list::decode(body).is_ok());
    feed_requests("<BlockList", |body| {
        let Ok(blocks) = block_list::parse(body) else { return false };
        let text = block_list::encode(blocks.iter().map(|(source, id)| (*source, id.as_str())));
        assert_eq!(block_list::parse(text.as_bytes()).unwrap(), blocks);
        true
    });
    let marker = Marker { name: "a/ä b".to_owned(), snapshot: None };
    let snapshot = "2020-07-27T23:32:47.1234567Z".parse().ok();
    feed_text(&[&marker.encode(), &Marker { snapshot, ..marker }.encode()], |text| {
        let Ok(marker) = Marker::decode(text) else { return false };
        assert_eq!(Marker::decode(&marker.encode()).unwrap(), marker);
        true
    });
    feed_text(&["\"0x8D7597DA569A038\"", "0x1"], |text| {
        let _ = Match::parse(text);
        Tag::parse(text).is_some_and(|tag| Tag::parse(&tag.to_string()) == Some(tag))
    });
}

#[test]
fn entities_and_pages() {
    let entity = r#"{"PartitionKey":"p","RowKey":"r","I@odata.type":"Edm.Int64","I":"5","D":1.5,
        "B@odata.type":"Edm.Binary","B":"AQID","T":"2020-01-01T00:00:00Z","T@odata.type":
        "Edm.DateTime","G@odata.type":"Edm.Guid","G":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#;
    feed_requests("PartitionKey\"", |body| {
        // A batch among them is no entity.
        body.starts_with(b"--") || read_entity(body)
    });
    feed_text(&[entity], |text| read_entity(text.as_bytes()));
    feed_answers("\"value\":[", |body| {
        let mut count = 0;
        let page = decode::page(body, |fields| {
            count += fields.iter().filter(|field| field.answered_value().is_ok()).count();
            Ok::<_, ()>(())
        });
        let _ = decode::tables(body);
        page.is_ok()
    });
    feed_answers("odata.etag", |body| {
        let mut fields = Fields::default();
        decode::entity(body, &mut fields).is_ok()
    });
}

/// What is read of JSON is what `serde_json` reads of it, and nothing else is taken.
#[test]
fn entities_are_read_as_serde_json_reads_them() {
    let odd = r#"{"a":-0,"b":12345678901234567890,"c":-9223372036854775808,"d":1.5E-3,"e":true,
        "f":null,"g":"\u00e9\ud83d\ude00\/\n","h":{"x":[1,{}]},"i":[[],"]"],"j":0.1e1,"a":"é日😀",
        "odata.etag":"W/\"x\"","k@odata.type":"Edm.Int64","k":"5","":1e308,"l\u0022":9007199254740993.0}"#;
    let compare = |text: &str| {
        let mut fields = Fields::default();
        let read = decode::entity(text.as_bytes(), &mut fields);
        let reference = reference::object(text);
        assert_eq!(read.is_ok(), reference.is_ok(), "{text}");
        let Ok(reference) = reference else { return false };
        let is_property = |name: &str| !name.contains('@') && !name.starts_with("odata.");
        let reference = reference.iter().filter(|(name, _)| is_property(name));
        let read = fields.iter().map(|field| (field.name.as_ref(), &field.scalar));
        assert!(read.eq(reference.map(|(name, value)| (name.as_str(), value))), "{text}");
        true
    };
    let answers = answers("odata.etag");
    let whole = answers.iter().map(|(body, _)| body.as_str()).filter(|body| body.starts_with('{'));
    let seeds: Vec<&str> = whole.chain([odd]).collect();
    assert!(seeds.len() > 1, "no answer has a tag");
    feed_text(&seeds, compare);
}

/// JSON as `serde_json` reads it into the same values.
mod reference {
    use std::borrow::Cow;
    use std::fmt;

    use rowkey_wire::odata::Scalar;
    use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

    /// The members of an object. A tag that is not text is refused.
    pub(super) fn object(text: &str) -> serde_json::Result<Vec<(String, Scalar<'static>)>> {
        let Object(members) = serde_json::from_str(text.trim_start_matches('\u{feff}'))?;
        Ok(members)
    }

    struct Object(Vec<(String, Scalar<'static>)>);

    impl<'de> Deserialize<'de> for Object {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Members;
            impl<'de> Visitor<'de> for Members {
                type Value = Object;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                    let mut members = Vec::new();
                    while let Some(name) = map.next_key::<String>()? {
                        let Value(value) = map.next_value()?;
                        if name == "odata.etag" && !matches!(value, Scalar::Text(_)) {
                            return Err(A::Error::custom("a tag is text"));
                        }
                        members.push((name, value));
                    }
                    Ok(Object(members))
                }
            }
            deserializer.deserialize_map(Members)
        }
    }

    struct Value(Scalar<'static>);

    impl<'de> Deserialize<'de> for Value {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(AnyScalar).map(Value)
        }
    }

    struct AnyScalar;

    impl<'de> Visitor<'de> for AnyScalar {
        type Value = Scalar<'static>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value")
        }

        fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
            Ok(Scalar::Boolean(value))
        }

        fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
            Ok(Scalar::Integer(value))
        }

        fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
            #[expect(clippy::cast_precision_loss, reason = "beyond i64 JSON numbers are doubles")]
            Ok(i64::try_from(value).map_or(Scalar::Float(value as f64), Scalar::Integer))
        }

        fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
            Ok(Scalar::Float(value))
        }

        fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
            Ok(Scalar::Text(Cow::Owned(value.to_owned())))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Scalar::Null)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Scalar::Structure)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Scalar::Structure)
        }
    }
}

fn read_entity(body: &[u8]) -> bool {
    let Ok(fields) = parse::fields(body) else { return false };
    for strict in [Strictness::Strict, Strictness::Loose] {
        let _ = parse::entity(&fields, strict);
    }
    true
}

#[test]
fn batches_and_errors() {
    let content_type = "multipart/mixed; boundary=batch_a";
    for body in bodies("HTTP/1.1") {
        let first = body.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let boundary = String::from_utf8_lossy(&first[2..]);
        let whole = format!("multipart/mixed; boundary={boundary}");
        let shared = Bytes::from(body.clone());
        // Here the header is damaged; damaged bodies have a test of their own.
        feed_text(&[&whole, &format!("multipart/mixed; boundary=\"{boundary}\"")], |text| {
            batch::parse_request(text, &shared).is_ok()
        });
        assert!(batch::parse_request(content_type, &shared).is_err());
    }
    for (body, content_type) in answers("--batchresponse") {
        feed(&[body.as_bytes()], |body| batch::decode_response(&content_type, body).is_ok());
    }
    for what in ["{\"odata.error\"", "<Error>", "<m:error"] {
        let answers = answers(what);
        let whole = answers.iter().map(|(body, _)| body.as_bytes());
        // Those in batches are no answers by themselves.
        let seeds: Vec<&[u8]> = whole.filter(|body| !body.starts_with(b"--")).collect();
        assert!(!seeds.is_empty(), "no answer holds {what}");
        feed(&seeds, |body| {
            ErrorBody::decode(body).is_some_and(|error| {
                let _ = error.batch_index();
                true
            })
        });
    }
}

#[test]
fn filters_and_options() {
    let filter = "PartitionKey eq 'a''b' and (Count gt 5L or not (At le datetime'2020-01-01T00:00:00Z')) \
                  and Id eq guid'c9da6455-213d-42c9-9a79-3e9149a57833' and Data eq X'00ff'";
    feed_text(&[filter, "Ok", "x lt 1.5e3"], |text| {
        let Ok(parsed) = filter::parse(text) else { return false };
        let printed = filter::print(&parsed);
        assert_eq!(filter::print(&filter::parse(&printed).unwrap()), printed, "{text}");
        true
    });
    feed_text(&["$filter=a%20eq%20'b'&$top=5&$select=a,b", "comp=list&marker=2!4!abc-"], |text| {
        Options::parse(text).is_ok()
    });
}

#[test]
fn signatures_and_credentials() {
    // An example of the service's documentation, with a signature of nothing.
    let sas = "sv=2019-02-02&ss=bqt&srt=sco&sp=rwdl&st=2020-01-01T00:00Z&se=2030-01-01&sip=1.2.3.4-1.2.3.9\
               &spr=https,http&spk=a&srk=b&epk=c&erk=d&tn=t&sig=AAAA";
    let now = "2025-01-01T00:00:00Z".parse::<DateTime>().unwrap().to_chrono();
    feed_text(&[sas], |text| {
        let _ = rowkey::sas::lint(text, now);
        let Some(sas) = Sas::from_query(text) else { return false };
        assert_eq!(Sas::from_query(&sas.encode()).as_ref(), Some(&sas));
        let _ = (sas.start.as_deref().map(sas::parse_time), sas.ip.as_deref().map(IpRange::parse));
        let _ = sas.protocol.as_deref().map(Protocols::parse);
        true
    });
    feed_text(&["2021-12-12T01:00:00.1234567+02:00", "2021-12-12", "2021-12-12T01:00Z"], |text| {
        sas::parse_time(text).is_some()
    });
    feed_text(&["1.2.3.4", "1.2.3.4-1.2.3.9"], |text| IpRange::parse(text).is_some());
    feed_text(&["SharedKey a:Zm9v", "SharedKeyLite a:Zm9v", "Bearer a.b.c"], |text| {
        parse_authorization(text).is_some()
    });
    let connection = "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=YWNjZXNzLWtleQ==;\
                      EndpointSuffix=core.windows.net;TableEndpoint=http://127.0.0.1:10002/acct";
    let token =
        format!("TableEndpoint=https://acct.table.core.windows.net/;SharedAccessSignature={sas}");
    feed_text(&[connection, &token, "UseDevelopmentStorage=true"], |text| {
        match StorageAccount::from_connection_string(text) {
            Ok(_) => true,
            Err(error) => {
                assert!(!error.to_string().contains("YWNjZXNzLWtleQ"), "{error}");
                false
            }
        }
    });
    feed_text(&["YWNjZXNzLWtleQ=="], |text| {
        let _ = Credential::shared_key("acct", text);
        SigningKey::from_base64(text).is_ok_and(|key| key.verify("a", &key.sign("a")))
    });
}

#[test]
fn tokens_tags_and_times() {
    feed_text(&[&token::encode("a key"), &token::encode("")], |text| {
        let Ok(key) = token::decode(text) else { return false };
        assert_eq!(token::decode(&token::encode(&key)).unwrap(), key);
        true
    });
    feed_text(&[&token::encode_table("table", DateTime::MAX)], |text| {
        token::decode_table(text).is_ok()
    });
    let continuation =
        r#"{"q":"00000000000000ff","p":1,"pk":"1!4!cGs-","rk":"1!8!MTAxMg--","s":true,"n":5}"#;
    feed_text(&[continuation], |text| {
        let Ok(parsed) = text.parse::<Continuation>() else { return false };
        assert_eq!(parsed.to_string().parse::<Continuation>().unwrap(), parsed);
        true
    });
    feed_text(&["2020-07-27T23:32:47.1234567Z", "1601-01-01T00:00:00Z"], |text| {
        let Ok(time) = text.parse::<DateTime>() else { return false };
        time.to_iso7().parse() == Ok(time)
    });
    feed_text(&["Thu, 09 May 2019 00:42:40 GMT"], |text| parse_http_date(text).is_some());
    feed_text(&["W/\"datetime'2020-07-21T20%3A24%3A41.1773504Z'\""], |text| {
        ETag::new(text).timestamp().is_some()
    });
    feed_text(&["1.5", "-Infinity", "1E+300"], |text| double::parse(text).is_some());
}

#[test]
fn headers_of_answers() {
    let headers = "etag: \"0x8D7597DA569A038\"\nlast-modified: Fri, 25 Oct 2019 19:00:47 GMT\n\
        x-ms-lease-id: 513bc417-7d1d-4c90-952c-196260256e9a\nx-ms-lease-time: 5\n\
        x-ms-blob-append-offset: 7\nx-ms-blob-committed-block-count: 1\n\
        content-range: bytes 0-5/1024\ncontent-md5: XrY7u+Ae7tCTyyK7j1rNww==\n\
        x-ms-content-crc64: AAAAAAAAAAA=\nx-ms-approximate-messages-count: 3\n\
        x-ms-popreceipt: AgAAAAMAAAAAAAAA\nx-ms-time-next-visible: Fri, 25 Oct 2019 19:00:47 GMT\n\
        x-ms-continuation-nextpartitionkey: 1!4!cGs-\nx-ms-continuation-nexttablename: 1!4!cGs-\n\
        x-ms-meta-a: b\nx-ms-copy-id: 1\nx-ms-copy-status: success";
    feed(&[headers.as_bytes()], |text| {
        let mut headers = HeaderMap::new();
        for line in text.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&line[..colon]), value) {
                headers.append(name, value);
            }
        }
        let (blob, _) = (blob::decode::properties(&headers), blob::decode::container(&headers));
        let _ = (blob::decode::written(&headers), blob::decode::appended(&headers));
        let _ = (blob::decode::lease_id(&headers), blob::decode::lease_time(&headers));
        let _ = (blob::decode::content_md5(&headers), blob::decode::content_crc64(&headers));
        let _ = (queue::decode::approximate_count(&headers), queue::decode::updated(&headers));
        let _ = rowkey_wire::table::decode::next_table(&headers);
        let _ = (metadata::decode(&headers), metadata::Metadata::parse(&headers));
        rowkey_wire::table::decode::continuation(&headers).is_some() && blob.length == 1024
    });
}
