//! Shared access signatures of clients: what each permission and each scope allows.

use rowkey_wire::code::ErrorCode;

use super::check;
use crate::front::auth::authenticate;
use crate::front::auth::tests::{account, caller, request, signed};
use crate::op::entity::{Strictness, fields};
use crate::wire::options::Options;
use crate::wire::table::parse;

/// The result of an operation that is requested with this signature.
fn asked(query: &str, method: &str, path: &str, body: &str) -> Option<ErrorCode> {
    let account = account();
    let access = authenticate(&account, caller(), &request(query)).unwrap();
    let options = Options::parse(query).unwrap();
    let fields = fields(body.as_bytes()).unwrap();
    let mut request = request("");
    if path.contains('#') {
        request.headers.insert("if-match", "*".parse().unwrap());
    }
    let path = path.replace('#', "");
    let target = parse::target(&path, &options).unwrap();
    let method = http::Method::from_bytes(method.as_bytes()).unwrap();
    let op = parse::op(&method, target, &options, &request.headers, &fields, Strictness::Strict);
    check(&access, &op.unwrap()).err().map(|rejection| rejection.code)
}

#[test]
fn every_operation_requires_its_permissions() {
    let entity = "/Things(PartitionKey='p',RowKey='r')";
    let matched = "/Things(PartitionKey='p',RowKey='r')#";
    let body = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let denied = Some(ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH);
    for (letters, method, path, expected) in [
        ("r", "GET", entity, None),
        ("aud", "GET", entity, denied.clone()),
        ("r", "GET", "/Things()", None),
        ("a", "POST", "/Things", None),
        ("rud", "POST", "/Things", denied.clone()),
        ("u", "PUT", matched, None),
        ("u", "PUT", entity, denied.clone()),
        ("au", "PUT", entity, None),
        ("a", "PATCH", entity, denied.clone()),
        ("d", "DELETE", matched, None),
        ("rau", "DELETE", matched, denied),
        ("raud", "GET", "/Others()", Some(ErrorCode::AUTHORIZATION_FAILURE)),
        ("raud", "GET", "/Tables", Some(ErrorCode::AUTHORIZATION_FAILURE)),
        ("raud", "GET", "/tHINGS()", None),
    ] {
        let query = signed(&[("sp", letters)]);
        assert_eq!(asked(&query, method, path, body), expected, "{letters} {method} {path}");
    }
}

#[test]
fn a_key_range_hides_entities_outside_of_it() {
    let query = signed(&[("spk", "p"), ("srk", "c"), ("epk", "q"), ("erk", "f")]);
    let body = |p: &str, r: &str| format!(r#"{{"PartitionKey":"{p}","RowKey":"{r}"}}"#);
    for (p, r, inside) in [
        ("p", "b", false),
        ("p", "c", true),
        ("pp", "", true),
        ("q", "f", true),
        ("q", "g", false),
        ("r", "c", false),
    ] {
        let path = format!("/Things(PartitionKey='{p}',RowKey='{r}')");
        let not_found = (!inside).then_some(ErrorCode::RESOURCE_NOT_FOUND);
        let refused = (!inside).then_some(ErrorCode::AUTHORIZATION_FAILURE);
        assert_eq!(asked(&query, "GET", &path, "{}"), not_found, "{p} {r}");
        assert_eq!(asked(&query, "POST", "/Things", &body(p, r)), refused, "{p} {r}");
        assert_eq!(asked(&query, "PUT", &path, "{}"), refused, "{p} {r}");
    }
}

#[test]
fn an_account_sas_is_limited_to_services_and_resource_types() {
    let account = |ss: &'static str, srt: &'static str, sp: &'static str| {
        signed(&[("tn", ""), ("ss", ss), ("srt", srt), ("sp", sp)])
    };
    let entity = "/Things(PartitionKey='p',RowKey='r')";
    for (query, method, path, expected) in [
        (account("bqt", "sco", "rl"), "GET", entity, None),
        (account("bq", "sco", "r"), "GET", entity, Some(ErrorCode::AUTHORIZATION_SERVICE_MISMATCH)),
        (
            account("t", "s", "r"),
            "GET",
            entity,
            Some(ErrorCode::AUTHORIZATION_RESOURCE_TYPE_MISMATCH),
        ),
        (account("t", "o", "w"), "GET", entity, Some(ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH)),
        (account("t", "c", "l"), "GET", "/Tables", None),
        (
            account("t", "o", "l"),
            "GET",
            "/Tables",
            Some(ErrorCode::AUTHORIZATION_RESOURCE_TYPE_MISMATCH),
        ),
        (account("t", "c", "c"), "POST", "/Tables", None),
        (account("t", "c", "w"), "POST", "/Tables", None),
        (account("t", "c", "d"), "DELETE", "/Tables('Things')", None),
        (account("t", "o", "au"), "PUT", entity, None),
    ] {
        assert_eq!(
            asked(&query, method, path, r#"{"TableName":"x"}"#),
            expected,
            "{method} {path}"
        );
    }
    let acl = format!("{}&comp=acl", account("t", "sco", "rwdlacup"));
    let refused = Some(ErrorCode::AUTHORIZATION_FAILURE);
    assert_eq!(asked(&acl, "GET", "/Things", "{}"), refused, "policies are never opened");
}
