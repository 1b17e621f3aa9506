//! Tests over a socket: errors of invalid requests, and consistency.

use std::time::Duration;

use crate::support::Client;
use rowkey_emulator::Server;

async fn started() -> (Server, Client) {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let mut client = Client::of(&server);
    client.create("things");
    (server, client)
}

/// A request, and the status and the error code of its response.
type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str);

const ENTITY: &str = "/things(PartitionKey='p',RowKey='r')";

#[tokio::test]
async fn an_entity_comes_back_at_every_level() {
    let (server, mut client) = started().await;
    let inserted =
        client.insert("things", ("p", "r"), r#","n@odata.type":"Edm.Int64","n":"5","t":"\u00fc""#);
    assert_eq!(inserted.status, 201);
    let endpoint = format!("http://localhost/{}", rowkey_emulator::DEVELOPMENT_ACCOUNT);
    assert_eq!(inserted.header("location"), Some(format!("{endpoint}{ENTITY}").as_str()));
    let tag = "W/\"datetime'2026-01-01T00%3A00%3A00.0000001Z'\"";
    assert_eq!(inserted.header("etag"), Some("W/\"datetime'2026-01-01T00%3A00%3A00Z'\""));
    for (accept, expected) in [
        ("application/json;odata=nometadata", r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"2026-01-01T00:00:00Z","n":"5","t":"\u00fc"}"#.to_owned()),
        ("application/json", format!(r#"{{"odata.metadata":"{endpoint}/$metadata#things/@Element","odata.etag":"W/\"datetime'2026-01-01T00%3A00%3A00Z'\"","PartitionKey":"p","RowKey":"r","Timestamp":"2026-01-01T00:00:00Z","n@odata.type":"Edm.Int64","n":"5","t":"\u00fc"}}"#)),
        ("application/json;odata=fullmetadata", format!(r#"{{"odata.metadata":"{endpoint}/$metadata#things/@Element","odata.type":"devstoreaccount1.things","odata.id":"{endpoint}{ENTITY}","odata.etag":"W/\"datetime'2026-01-01T00%3A00%3A00Z'\"","odata.editLink":"things(PartitionKey='p',RowKey='r')","PartitionKey":"p","RowKey":"r","Timestamp@odata.type":"Edm.DateTime","Timestamp":"2026-01-01T00:00:00Z","n@odata.type":"Edm.Int64","n":"5","t":"\u00fc"}}"#)),
    ] {
        let answer = client.send("GET", ENTITY, &[("accept", accept)], "");
        assert_eq!(answer.body, expected);
    }
    let select = format!("{ENTITY}?$select=x,n");
    let answer =
        client.send("GET", &select, &[("accept", "application/json;odata=nometadata")], "");
    assert_eq!(answer.body, r#"{"n":"5","x":null}"#);
    let replaced = client.send("PUT", ENTITY, &[("if-match", "*")], "{}");
    assert_eq!((replaced.status, replaced.header("etag")), (204, Some(tag)));
    drop(server);
}

#[tokio::test]
async fn alternative_forms_of_values_are_accepted() {
    let (_server, mut client) = started().await;
    // azure-data-tables (Python), test_encoder.test_encoder_create_entity_raw
    let loose = r#","b@odata.type":"Edm.Boolean","b":"False","n":4294967296,"i":-2147483648"#;
    assert_eq!(client.insert("things", ("p", "r"), loose).status, 201);
    let none = [("accept", "application/json;odata=nometadata")];
    let answer = client.send("GET", &format!("{ENTITY}?$select=b,n,i"), &none, "");
    assert_eq!(answer.body, r#"{"b":false,"i":-2147483648,"n":4294967296.0}"#);

    // test_encoder.test_encoder_upsert_entity_complex_keys: the keys in the address count.
    let guid = "9b8fbe91-a1d8-46bb-99b6-09e1a6afd9cf";
    let instant = "2022-04-01T09:30:45.000000Z";
    let body = format!(
        r#"{{"PartitionKey":"{instant}","PartitionKey@odata.type":"Edm.DateTime","RowKey":"{guid}","RowKey@odata.type":"Edm.Guid","Data":true}}"#
    );
    let address = format!("/things(PartitionKey='{instant}',RowKey='{guid}')");
    for method in ["PUT", "MERGE"] {
        assert_eq!(client.send(method, &address, &[], &body).status, 204, "{method}");
    }
    let answer = client.send("GET", &format!("{address}?$select=PartitionKey,RowKey"), &none, "");
    assert_eq!(answer.body, format!(r#"{{"PartitionKey":"{instant}","RowKey":"{guid}"}}"#));
    // test_encoder.test_encoder_create_entity_complex_keys
    let refused = client.send("POST", "/things", &[], &body);
    assert_eq!((refused.status, refused.code()), (400, "InvalidInput"));
}

/// Each of these stopped a server that checks its arithmetic, and was read as a different year by
/// others.
#[tokio::test]
async fn years_of_more_than_four_digits_are_rejected_everywhere() {
    let (_server, mut client) = started().await;
    let year = "+60474-03-01T00:00:00Z";
    let encoded = "%2B60474-03-01T00%3A00%3A00Z";
    let typed = format!(r#","d@odata.type":"Edm.DateTime","d":"{year}""#);
    let refused = client.insert("things", ("p", "r"), &typed);
    assert_eq!((refused.status, refused.code()), (400, "InvalidInput"));
    let filter = format!("/things()?$filter=d%20eq%20datetime'{encoded}'");
    let refused = client.send("GET", &filter, &[], "");
    assert_eq!((refused.status, refused.code()), (400, "InvalidInput"));
    let tag = format!("W/\"datetime'{encoded}'\"");
    let refused = client.send("PUT", ENTITY, &[("if-match", &tag)], "{}");
    assert!(matches!(refused.status, 404 | 412), "{}: {}", refused.status, refused.body);
}

#[tokio::test]
async fn an_invalid_request_has_an_error_code_and_keeps_the_connection() {
    let (_server, mut client) = started().await;
    assert_eq!(client.insert("things", ("p", "r"), "").status, 201);
    let full = "application/json;odata=fullmetadata";
    let large = format!(r#"{{"PartitionKey":"p","RowKey":"x","a":"{}"}}"#, "a".repeat(40_000));
    let huge = format!(r#"{{"a":"{}"}}"#, "a".repeat(5 << 20));
    let cases: &[Case<'_>] = &[
        (
            "POST",
            "/things",
            &[],
            r#"{"PartitionKey":"p","RowKey":"r"}"#,
            409,
            "EntityAlreadyExists",
        ),
        ("POST", "/things", &[("accept", full)], r#"{"RowKey":"r"}"#, 400, "PropertiesNeedValue"),
        ("POST", "/things", &[], "{", 400, "InvalidInput"),
        ("POST", "/things", &[], "\u{1}", 400, "InvalidInput"),
        ("POST", "/things", &[], &large, 400, "PropertyValueTooLarge"),
        ("POST", "/things", &[], &huge, 413, "RequestBodyTooLarge"),
        (
            "POST",
            "/things",
            &[("content-type", "application/atom+xml")],
            "<a/>",
            415,
            "AtomFormatNotSupported",
        ),
        ("POST", "/none", &[], r#"{"PartitionKey":"p","RowKey":"r"}"#, 404, "TableNotFound"),
        ("GET", "/none()", &[], "", 404, "TableNotFound"),
        ("GET", ENTITY, &[("accept", "application/atom+xml")], "", 415, "AtomFormatNotSupported"),
        ("GET", "/things(PartitionKey='p',RowKey='none')", &[], "", 404, "ResourceNotFound"),
        ("GET", "/things(PartitionKey='a%2Fb',RowKey='r')", &[], "", 400, "OutOfRangeInput"),
        ("GET", "/things(PartitionKey='%FF',RowKey='r')", &[], "", 400, "InvalidUri"),
        ("GET", "/things()?$filter=a%20b", &[], "", 400, "InvalidInput"),
        ("GET", "/things()?$orderby=a", &[], "", 501, "NotImplemented"),
        ("GET", "/?comp=blobs", &[], "", 501, "NotImplemented"),
        (
            "GET",
            "/things?restype=service&comp=properties",
            &[],
            "",
            400,
            "InvalidQueryParameterValue",
        ),
        ("GET", "/?restype=service&comp=stats", &[], "", 400, "InvalidQueryParameterValue"),
        ("POST", "/Tables", &[], "", 400, "InvalidInput"),
        ("POST", "/Tables", &[], r#"{"TableName":"THINGS"}"#, 409, "TableAlreadyExists"),
        ("POST", "/Tables", &[], r#"{"TableName":"a-b"}"#, 400, "InvalidResourceName"),
        ("DELETE", "/Tables('none')", &[], "", 404, "ResourceNotFound"),
        ("DELETE", ENTITY, &[], "", 400, "MissingRequiredHeader"),
        ("DELETE", ENTITY, &[("if-match", "x")], "", 400, "InvalidInput"),
        ("DELETE", ENTITY, &[("if-match", "W/\"x\"")], "", 412, "ConditionNotMet"),
        ("PUT", ENTITY, &[("x-http-method", "MERGE")], "{}", 400, "XMethodNotUsingPost"),
        ("PUT", "/things", &[], "{}", 405, "MethodNotAllowed"),
        ("PUT", "/things?comp=acl", &[], "<x>", 400, "InvalidXmlDocument"),
        (
            "PUT",
            "/?restype=service&comp=properties",
            &[],
            "<StorageServiceProperties/>",
            400,
            "InvalidXmlDocument",
        ),
        ("POST", "/$batch", &[("content-type", "text/plain")], "x", 400, "InvalidInput"),
        ("GET", ENTITY, &[("x-ms-version", "12.0.0b1")], "", 400, "InvalidHeaderValue"),
        (
            "GET",
            ENTITY,
            &[("x-ms-date", "Thu, 01 Jan 2026 00:15:01 GMT")],
            "",
            403,
            "AuthenticationFailed",
        ),
        ("GET", ENTITY, &[("x-ms-date", "")], "", 403, "AuthenticationFailed"),
        (
            "GET",
            ENTITY,
            &[("authorization", "SharedKey devstoreaccount1:AAAA")],
            "",
            403,
            "AuthenticationFailed",
        ),
        ("GET", ENTITY, &[("authorization", "")], "", 401, "NoAuthenticationInformation"),
        ("GET", ENTITY, &[("authorization", "Bearer x")], "", 403, "AuthenticationFailed"),
    ];
    for (method, target, headers, body, status, code) in cases {
        let answer = client.send(method, target, headers, body);
        assert_eq!(
            (answer.status, answer.code()),
            (*status, *code),
            "{method} {target} {headers:?}"
        );
        assert!(answer.header("x-ms-request-id").is_some(), "{method} {target}");
    }
    let answer = client.send("GET", ENTITY, &[("x-ms-client-request-id", "mine")], "");
    assert_eq!((answer.status, answer.header("x-ms-client-request-id")), (200, Some("mine")));
}

#[tokio::test]
async fn errors_have_the_requested_format() {
    let (_server, mut client) = started().await;
    let missing = "/things(PartitionKey='p',RowKey='none')";
    let answer =
        client.send("GET", missing, &[("accept", "application/json;odata=nometadata")], "");
    let kind = "application/json;odata=nometadata;streaming=true;charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(kind));
    assert_eq!(answer.header("x-ms-error-code"), None);
    let start = r#"{"odata.error":{"code":"ResourceNotFound","message":{"lang":"en-US","value":"The specified resource does not exist.\nRequestId:"#;
    assert!(answer.body.starts_with(start), "{}", answer.body);
    assert!(answer.body.ends_with(r#"\nTime:2026-01-01T00:00:00.0000000Z"}}}"#), "{}", answer.body);

    let answer = client.send("DELETE", missing, &[("accept", "*/*"), ("if-match", "*")], "");
    assert_eq!(answer.header("content-type"), Some("application/xml;charset=utf-8"));
    let start = r#"<?xml version="1.0" encoding="utf-8"?><error xmlns="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"><code>ResourceNotFound</code><message xml:lang="en-US">The"#;
    assert!(answer.body.starts_with(start), "{}", answer.body);

    let answer = client.send("GET", "/none?comp=acl", &[("accept", "application/xml")], "");
    assert_eq!(answer.header("content-type"), Some("application/xml"));
    assert_eq!(answer.header("x-ms-error-code"), Some("TableNotFound"));
    assert!(answer.body.contains("<m:code>TableNotFound</m:code>"), "{}", answer.body);
}

#[tokio::test]
async fn malformed_http_does_not_disturb_the_server() {
    let (server, mut client) = started().await;
    for garbage in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ] {
        let mut other = Client::of(&server);
        if garbage.ends_with(b"\r\n\r\n") {
            let answer = other.raw(garbage);
            assert!(answer.is_err() || answer.unwrap().status >= 400);
        } else {
            drop(other);
        }
    }
    let mut other = Client::of(&server);
    let answer = other.raw(b"GET /devstoreaccount1/Tables HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert_eq!((answer.status, answer.code()), (401, "NoAuthenticationInformation"));
    let answer = other.raw(b"GET /nobody/Tables HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert_eq!(answer.status, 404);
    assert_eq!(client.insert("things", ("p", "r"), "").status, 201);
}

#[tokio::test]
async fn the_secondary_is_read_only() {
    let (_server, mut client) = started().await;
    client.insert("things", ("p", "r"), "");
    let secondary = "devstoreaccount1-secondary";
    assert_eq!(client.send_at(secondary, "GET", ENTITY, &[], "").status, 200);
    let answer =
        client.send_at(secondary, "POST", "/things", &[], r#"{"PartitionKey":"p","RowKey":"x"}"#);
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("Write operations are not allowed."), "{}", answer.body);
    let stats = "/?restype=service&comp=stats";
    let answer = client.send_at(secondary, "GET", stats, &[("accept", "application/xml")], "");
    assert_eq!(answer.status, 200);
    assert!(
        answer.body.contains("<LastSyncTime>Thu, 01 Jan 2026 00:00:00 GMT</LastSyncTime>"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn timestamps_follow_the_manual_clock() {
    let (server, mut client) = started().await;
    assert_eq!(client.send("DELETE", "/Tables('things')", &[], "").status, 204);
    let again = r#"{"TableName":"things"}"#;
    assert_eq!(client.send("POST", "/Tables", &[], again).code(), "TableBeingDeleted");
    server.clock().advance(Duration::from_secs(40));
    assert_eq!(client.send("POST", "/Tables", &[], again).status, 201);
    server.clock().advance(Duration::from_secs(15 * 60));
    assert_eq!(client.send("GET", "/Tables", &[], "").code(), "AuthenticationFailed");
    client.set_date(&server);
    assert_eq!(client.send("GET", "/Tables", &[], "").status, 200);
}

#[tokio::test]
async fn pages_are_followed_by_their_tokens() {
    let (_server, mut client) = started().await;
    for i in 0..5 {
        client.insert("things", (if i < 3 { "a b" } else { "ü" }, &format!("{i}")), "");
    }
    let mut target = "/things()?$top=2".to_owned();
    let mut rows = 0;
    for more in [true, true, false] {
        let answer = client.send("GET", &target, &[], "");
        rows += answer.body.matches("\"RowKey\"").count();
        let partition_key = answer.header("x-ms-continuation-nextpartitionkey");
        let row_key = answer.header("x-ms-continuation-nextrowkey");
        assert_eq!((partition_key.is_some(), row_key.is_some()), (more, more));
        target = format!(
            "/things()?$top=2&NextPartitionKey={}&NextRowKey={}",
            partition_key.unwrap_or_default(),
            row_key.unwrap_or_default()
        );
    }
    assert_eq!(rows, 5);
}

#[tokio::test]
async fn dropping_a_server_stops_it() {
    let (server, mut client) = started().await;
    drop(server);
    assert!(client.raw(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").is_err());
}
