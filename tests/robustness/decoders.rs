//! Every decoder returns for every input, and accepts its own output.
//!
//! What a decoder must hold is said once, in the fuzz targets; here they meet damaged recordings. What
//! every request passes through (targets, options, headers) is met by the damaged requests.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use rowkey::internals::{self, Body};
use rowkey_emulator::fuzzing as server;
use rowkey_fuzz as checked;
use rowkey_wire::edm::double;
use rowkey_wire::etag::ETag;
use rowkey_wire::headers::parse_http_date;
use rowkey_wire::xml;

use crate::garbage::{answers, bodies, feed, feed_text};

/// Whether `body` is `what`.
fn is(what: Body, body: &[u8]) -> bool {
    internals::read(what, body, |_| ())
}

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
    feed_requests("<SignedIdentifier", checked::xml::policies);
    feed_answers("<SignedIdentifiers", checked::xml::policies_of_response);
}

#[test]
fn properties_and_statistics() {
    feed_requests("<StorageServiceProperties", checked::xml::properties);
    feed_answers("<StorageServiceProperties", |body| xml::decode_properties(body).is_ok());
    feed_answers("<StorageServiceStats", |body| is(Body::Statistics, body));
}

#[test]
fn sealed_properties_and_branch_keys() {
    let seeds = checked::sealed::seeds();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    feed(&seeds, checked::sealed::opens);
}

#[test]
fn messages_of_tasks_and_dead_letters() {
    let seeds = checked::dead_letters::seeds();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    feed(&seeds, checked::dead_letters::reads);
}

#[test]
fn rows_and_messages_of_stores() {
    let seeds = checked::store_rows::seeds();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    feed(&seeds, checked::store_rows::reads);
}

#[test]
fn queues_and_messages() {
    feed_requests("<QueueMessage>", checked::xml::message);
    feed_answers("<QueueMessagesList", |body| is(Body::Messages, body));
    feed_answers("<Queues>", |body| is(Body::Queues, body));
    feed_text(&server::receipts().each_ref().map(String::as_str), server::receipt);
}

#[test]
fn containers_blobs_and_blocks() {
    feed_answers("<Containers>", |body| is(Body::Containers, body));
    feed_answers("<Blobs>", |body| is(Body::Blobs, body));
    feed_requests("<BlockList", checked::xml::blocks);
    feed_text(&server::markers().each_ref().map(String::as_str), server::marker);
    feed_text(&["\"0x8D7597DA569A038\"", "0x1"], server::tag);
}

#[test]
fn entities_and_pages() {
    let entity = r#"{"PartitionKey":"p","RowKey":"r","I@odata.type":"Edm.Int64","I":"5","D":1.5,
        "B@odata.type":"Edm.Binary","B":"AQID","T":"2020-01-01T00:00:00Z","T@odata.type":
        "Edm.DateTime","G@odata.type":"Edm.Guid","G":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#;
    feed_requests("PartitionKey\"", |body| {
        // A batch among them is no entity.
        body.starts_with(b"--") || checked::entity::of_request(body)
    });
    feed_text(&[entity], |text| checked::entity::of_request(text.as_bytes()));
    feed_answers("\"value\":[", checked::entity::page);
    feed_answers("odata.etag", checked::entity::response);
}

/// The JSON decoder accepts the same documents as `serde_json`, with the same values.
#[test]
fn entities_are_read_as_serde_json_reads_them() {
    let odd = r#"{"a":-0,"b":12345678901234567890,"c":-9223372036854775808,"d":1.5E-3,"e":true,
        "f":null,"g":"\u00e9\ud83d\ude00\/\n","h":{"x":[1,{}]},"i":[[],"]"],"j":0.1e1,"a":"é日😀",
        "odata.etag":"W/\"x\"","k@odata.type":"Edm.Int64","k":"5","":1e308,"l\u0022":9007199254740993.0}"#;
    let answers = answers("odata.etag");
    let whole = answers.iter().map(|(body, _)| body.as_str()).filter(|body| body.starts_with('{'));
    let seeds: Vec<&str> = whole.chain([odd]).collect();
    assert!(seeds.len() > 1, "no answer has a tag");
    feed_text(&seeds, checked::entity::is_read_as_serde_json_does);
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
            server::batch(text, &shared).is_ok()
        });
        assert!(server::batch(content_type, &shared).is_err());
    }
    for (body, content_type) in answers("--batchresponse") {
        feed(&[body.as_bytes()], |body| checked::batch::response(&content_type, body));
    }
    for what in ["{\"odata.error\"", "<Error>", "<m:error"] {
        let answers = answers(what);
        let whole = answers.iter().map(|(body, _)| body.as_bytes());
        // Those in batches are no answers by themselves.
        let seeds: Vec<&[u8]> = whole.filter(|body| !body.starts_with(b"--")).collect();
        assert!(!seeds.is_empty(), "no answer holds {what}");
        feed(&seeds, checked::batch::error);
    }
}

#[test]
fn filters_and_options() {
    let filter = "PartitionKey eq 'a''b' and (Count gt 5L or not (At le datetime'2020-01-01T00:00:00Z')) \
                  and Id eq guid'c9da6455-213d-42c9-9a79-3e9149a57833' and Data eq X'00ff'";
    feed_text(&[filter, "Ok", "x lt 1.5e3"], checked::filter::is_printed_as_read);
    feed_text(&["$filter=a%20eq%20'b'&$top=5&$select=a,b", "comp=list&marker=2!4!abc-"], |text| {
        server::options(text)
    });
}

#[test]
fn signatures_and_credentials() {
    // An example of the service's documentation, with a signature of nothing.
    let sas = "sv=2019-02-02&ss=bqt&srt=sco&sp=rwdl&st=2020-01-01T00:00Z&se=2030-01-01&sip=1.2.3.4-1.2.3.9\
               &spr=https,http&spk=a&srk=b&epk=c&erk=d&tn=t&sig=AAAA";
    feed_text(&[sas], checked::auth::sas);
    feed_text(
        &["2021-12-12T01:00:00.1234567+02:00", "2021-12-12", "2021-12-12T01:00Z"],
        checked::auth::time,
    );
    feed_text(&["1.2.3.4", "1.2.3.4-1.2.3.9"], checked::auth::ip_range);
    feed_text(
        &["SharedKey a:Zm9v", "SharedKeyLite a:Zm9v", "Bearer a.b.c"],
        checked::auth::authorization,
    );
    let connection = "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=YWNjZXNzLWtleQ==;\
                      EndpointSuffix=core.windows.net;TableEndpoint=https://tables.contoso.com";
    let token =
        format!("TableEndpoint=https://acct.table.core.windows.net/;SharedAccessSignature={sas}");
    feed_text(
        &[connection, &token, "UseDevelopmentStorage=true"],
        checked::auth::connection_string,
    );
    feed_text(&["YWNjZXNzLWtleQ=="], checked::auth::key);
}

#[test]
fn tokens_tags_and_times() {
    feed_text(&server::tokens().each_ref().map(String::as_str), checked::tokens::entity_token);
    let continuation = "AQf_AAAAAAAAAAMACAAxITQhY0dzLTEhNCFjbXMtCIIMXg";
    // Its checksum detects all damage; only valid base64 reaches the checksum.
    feed_text(&[continuation], |text| {
        checked::tokens::continuation(text) || URL_SAFE_NO_PAD.decode(text).is_ok()
    });
    feed_text(&["2020-07-27T23:32:47.1234567Z", "1601-01-01T00:00:00Z"], checked::tokens::date);
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
    feed(&[headers.as_bytes()], checked::headers::read);
}
