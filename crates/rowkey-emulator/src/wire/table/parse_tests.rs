//! Valid and invalid requests as clients send them.

use http::HeaderValue;

use super::entity::fields;
use super::*;
use crate::wire::options::decode_path;

fn options(query: &str) -> Options<'_> {
    Options::parse(query).unwrap()
}

fn target_of(path: &str, query: &str) -> String {
    let path = decode_path(path).unwrap();
    match target(&path, &options(query)) {
        Ok(Target::Entity(address)) => {
            format!("{}|{}|{}", address.table, address.partition_key, address.row_key)
        }
        Ok(other) => format!("{other:?}"),
        Err(rejection) => rejection.code.as_str().to_owned(),
    }
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v))).collect()
}

/// The code of the error, or a summary of the operation.
fn parsed(method: &str, path: &str, query: &str, head: &HeaderMap, body: &str) -> String {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let path = decode_path(path).unwrap();
    let options = options(query);
    let fields = if body.is_empty() { Fields::default() } else { fields(body.as_bytes()).unwrap() };
    let parsed = target(&path, &options)
        .and_then(|target| op(&method, target, &options, head, &fields, Strictness::Strict));
    match parsed {
        Ok(op) => format!("{op:?}"),
        Err(rejection) => format!("{} {}", rejection.status.as_u16(), rejection.code),
    }
}

#[test]
fn addresses_are_read_raw_and_encoded() {
    // Recorded: go-legacy-storage TestDelete (all encoded, space after the comma); cosmosdb-python
    // with doubled quotes; empty keys.
    for (path, expected) in [
        ("/tab(PartitionKey='p',RowKey='r')", "tab|p|r"),
        ("/tab%28PartitionKey=%27p%27,%20RowKey=%27r%27%29", "tab|p|r"),
        ("/tab(RowKey='r',PartitionKey='p')", "tab|p|r"),
        ("/tab(PartitionKey='a''''''''b',RowKey='''')", "tab|a''''b|'"),
        ("/tab(PartitionKey='',RowKey='')", "tab||"),
        ("/tab(PartitionKey='a%25b',RowKey='%E6%97%A5')", "tab|a%b|日"),
        ("/tab(PartitionKey='a+b',RowKey=',RowKey=')", "tab|a+b|,RowKey="),
        ("/tab()", "Entities(\"tab\")"),
        ("/tab", "Entities(\"tab\")"),
        ("/Tables", "Tables"),
        ("/Tables()", "Tables"),
        ("/Tables('x')", "Table(\"x\")"),
        ("/$batch", "Batch"),
        ("/tab(PartitionKey='a%2Fb',RowKey='r')", "OutOfRangeInput"),
        ("/tab(PartitionKey='p')", "InvalidInput"),
        ("/tab(PartitionKey='p',RowKey='r'", "InvalidInput"),
        ("/tab(PartitionKey='p',PartitionKey='p')", "InvalidInput"),
        ("/tab(PartitionKey=p,RowKey=r)", "InvalidInput"),
        ("/tab(1)", "InvalidInput"),
        // Recorded by the Python library's tests of bad names, and of an endpoint that names a table.
        ("/my_table", "InvalidResourceName"),
        ("/1table(PartitionKey='p',RowKey='r')", "InvalidResourceName"),
        ("/aa()", "OutOfRangeInput"),
        ("/tab/Tables", "Entities(\"tab\")"),
        ("/tab/Tables('tab')", "InvalidInput"),
        ("/", "InvalidInput"),
    ] {
        assert_eq!(target_of(path, ""), expected, "{path}");
    }
}

#[test]
fn documents_are_told_by_their_options() {
    for (path, query, expected) in [
        ("/tab", "comp=acl", "Acl(\"tab\")"),
        ("/", "restype=service&comp=properties", "Properties"),
        ("/", "restype=service&comp=stats", "Stats"),
        ("/", "comp=properties", "NotImplemented"),
        ("/", "restype=service&comp=undelete", "NotImplemented"),
        ("/", "comp=acl", "NotImplemented"),
    ] {
        assert_eq!(target_of(path, query), expected, "{path}?{query}");
    }
}

#[test]
fn what_is_not_offered_is_said_to_be_so() {
    let none = HeaderMap::new();
    for (method, path, query, expected) in [
        ("GET", "/tab()", "$orderby=a", "501 NotImplemented"),
        ("GET", "/tab()", "$skip=1", "501 NotImplemented"),
        ("GET", "/Tables", "$count=true", "501 NotImplemented"),
        ("GET", "/tab()", "$filter=startswith(a,'b')", "501 NotImplemented"),
        ("GET", "/tab()", "$filter=a%20b", "400 InvalidInput"),
        ("GET", "/tab()", "$top=0", "400 InvalidInput"),
        ("GET", "/tab()", "$top=1001", "400 InvalidInput"),
        ("GET", "/tab()", "$top=x", "400 InvalidInput"),
        ("GET", "/tab()", "NextPartitionKey=x", "400 InvalidInput"),
        ("PUT", "/tab()", "", "405 MethodNotAllowed"),
        ("PATCH", "/Tables", "", "405 MethodNotAllowed"),
        ("POST", "/tab(PartitionKey='p',RowKey='r')", "", "405 MethodNotAllowed"),
        ("DELETE", "/tab(PartitionKey='p',RowKey='r')", "", "400 MissingRequiredHeader"),
    ] {
        assert_eq!(parsed(method, path, query, &none, ""), expected, "{method} {path}?{query}");
    }
    let sixteen = (0..16).map(|i| format!("a eq {i}")).collect::<Vec<_>>().join(" or ");
    let query = format!("$filter={}", sixteen.replace(' ', "+"));
    assert_eq!(parsed("GET", "/tab()", &query, &none, ""), "400 InvalidInput");
}

#[test]
fn an_empty_filter_or_token_is_none() {
    let query = "$filter=&$top=&NextPartitionKey=";
    let expected = r#"QueryEntities("tab", EntityQuery { filter: None, next: None, select: None, top: None })"#;
    assert_eq!(parsed("GET", "/tab()", query, &HeaderMap::new(), ""), expected);
}

#[test]
fn continuations_lead_to_a_place() {
    let query = "NextPartitionKey=1!8!cGtleQ--&NextRowKey=1%214%21cms-&$top=5";
    let parsed = parsed("GET", "/tab()", query, &HeaderMap::new(), "");
    assert!(parsed.contains(r#"next: Some(("pkey", "rk"))"#), "{parsed}");
    assert!(parsed.contains("top: Some(5)"), "{parsed}");
}

#[test]
fn selected_names_are_sorted_and_a_star_is_all() {
    let selected = |query: &str| select(&options(query)).unwrap().unwrap();
    let spaced = selected("$select=b,%20a,b");
    assert_eq!(spaced.text, "b, a,b");
    assert_eq!(spaced.names, ["a", "b"]);
    assert!(selected("$select=").names.is_empty());
    assert!(selected("$select=a,*").names.is_empty());
}

#[test]
fn conditions_are_any_a_tag_or_no_tag_at_all() {
    let of = |value: &'static str| condition(&Method::PUT, &headers(&[("if-match", value)]));
    assert_eq!(of("*"), Ok(Some(Condition::Any)));
    let at = "2017-11-10T02:46:53.636692Z".parse().unwrap();
    assert_eq!(of("W/\"datetime'2017-11-10T02%3A46%3A53.636692Z'\""), Ok(Some(Condition::Tag(at))));
    // Recorded: go-legacy-storage TestMerge, TestDelete.
    assert_eq!(
        of("W/\"datetime''2017-04-01T01%3A07%3A23.8881885Z''\""),
        Ok(Some(Condition::Unknown))
    );
    assert_eq!(of("W/\"wrong\""), Ok(Some(Condition::Unknown)));
    let rejection = of("GolangRocksOnAzure").unwrap_err();
    assert_eq!(
        rejection.message,
        "The etag value 'GolangRocksOnAzure' specified in one of the request headers is not valid. \
         Please make sure only one etag value is specified and is valid."
    );
    let both = headers(&[("if-match", "*"), ("if-none-match", "*")]);
    assert!(condition(&Method::PUT, &both).is_err());
}

#[test]
fn a_post_may_stand_for_another_method() {
    let tunnelled = |method: &Method, value: &'static str| {
        super::method(method, &headers(&[("x-http-method", value)])).map_err(|r| r.code.to_string())
    };
    assert_eq!(tunnelled(&Method::POST, "MERGE"), Ok(Method::PATCH));
    assert_eq!(tunnelled(&Method::POST, "DELETE"), Ok(Method::DELETE));
    assert_eq!(tunnelled(&Method::PUT, "MERGE"), Err("XMethodNotUsingPost".to_owned()));
    assert_eq!(tunnelled(&Method::POST, "BREW"), Err("XMethodIncorrectValue".to_owned()));
    assert_eq!(method(&Method::PUT, &HeaderMap::new()), Ok(Method::PUT));
}

#[test]
fn the_format_wins_over_what_is_accepted() {
    let asked = |query: &str, accept: &'static str| {
        response_format(&options(query), &headers(&[("accept", accept)]))
    };
    let minimal = "application/json;odata=minimalmetadata";
    // Recorded: sdk-go TestAddAnnotatedEntity.
    let full = asked("$format=application/json;odata=fullmetadata", minimal);
    assert_eq!(full, ResponseFormat { json: true, level: Metadata::Full, atom: false });
    assert_eq!(asked("", minimal).level, Metadata::Minimal);
    assert_eq!(asked("", "application/json").level, Metadata::Minimal);
    assert_eq!(asked("", "application/json; odata=nometadata").level, Metadata::None);
    assert!(!asked("", "*/*").json);
    assert!(asked("", "application/atom+xml,application/xml").atom);
}

#[test]
fn table_names_are_refused_as_recorded() {
    for (name, expected) in [
        ("\u{554a}\u{9f44}\u{4e02}", "InvalidResourceName"),
        ("my-table", "InvalidResourceName"),
        ("1abc", "InvalidResourceName"),
        ("tables", "InvalidResourceName"),
        ("ab", "OutOfRangeInput"),
        ("", "OutOfRangeInput"),
        (&"a".repeat(64), "OutOfRangeInput"),
    ] {
        assert_eq!(check_table_name(name).unwrap_err().code.as_str(), expected, "{name}");
    }
    assert_eq!(check_table_name(&"a".repeat(63)), Ok(()));
}
