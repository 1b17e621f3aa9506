//! Encodes requests, with one function for each operation.
//!
//! Keys and names must be valid; the caller checks them first, see [`rowkey_wire::key::check`] and
//! [`crate::table::name::check`].

#![expect(clippy::arithmetic_side_effects, reason = "lengths of data in memory")]

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, IF_MATCH};
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rowkey_wire::auth::Service;
use rowkey_wire::etag::Match;
use rowkey_wire::headers::{HTTP_METHOD, PREFER};
use rowkey_wire::key::write_address;

use crate::endpoint::Flavor;
use crate::paging::Token;
use crate::transport::Request;

/// The characters that are not encoded in the value of a query parameter.
const QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b',');

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const MINIMAL: HeaderValue = HeaderValue::from_static("application/json;odata=minimalmetadata");
const NO_METADATA: HeaderValue = HeaderValue::from_static("application/json;odata=nometadata");
const XML: HeaderValue = HeaderValue::from_static("application/xml");
const NO_CONTENT: HeaderValue = HeaderValue::from_static("return-no-content");
/// `DataServiceVersion`.
const DATA_SERVICE_VERSION: http::HeaderName = http::HeaderName::from_static("dataserviceversion");
const VERSION_3: HeaderValue = HeaderValue::from_static("3.0");

/// The parameters of a query, besides the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Query<'a> {
    /// `$filter`, as OData text.
    pub(crate) filter: Option<&'a str>,
    /// `$select`.
    pub(crate) select: Option<&'a [&'a str]>,
    /// `$top`: the most entities in a page, 1 to 1000.
    pub(crate) top: Option<u32>,
    /// Where the previous page ended.
    pub(crate) next: Option<&'a Token>,
}

/// [Create Table](https://learn.microsoft.com/rest/api/storageservices/create-table).
pub(crate) fn create_table(name: &str) -> Request {
    let body = format!("{{\"TableName\":\"{name}\"}}");
    let mut request = json(Method::POST, "/Tables".into(), body.into());
    request.headers.insert(PREFER, NO_CONTENT);
    request
}

/// [Delete Table](https://learn.microsoft.com/rest/api/storageservices/delete-table).
pub(crate) fn delete_table(name: &str) -> Request {
    bare(Method::DELETE, format!("/Tables('{name}')"), MINIMAL)
}

/// [Query Tables](https://learn.microsoft.com/rest/api/storageservices/query-tables).
pub(crate) fn query_tables(filter: Option<&str>, top: Option<u32>, next: Option<&str>) -> Request {
    let mut target = "/Tables".to_owned();
    let mut separator = '?';
    parameter(&mut target, &mut separator, "$filter", filter);
    parameter(&mut target, &mut separator, "$top", top.map(|n| n.to_string()).as_deref());
    parameter(&mut target, &mut separator, "NextTableName", next);
    bare(Method::GET, target, NO_METADATA)
}

/// [Insert Entity](https://learn.microsoft.com/rest/api/storageservices/insert-entity).
pub(crate) fn insert(table: &str, entity: Bytes) -> Request {
    let mut request = json(Method::POST, format!("/{table}"), entity);
    request.headers.insert(PREFER, NO_CONTENT);
    request
}

/// A point get of [Query Entities](https://learn.microsoft.com/rest/api/storageservices/query-entities).
pub(crate) fn get(
    table: &str,
    partition_key: &str,
    row_key: &str,
    select: Option<&[&str]>,
) -> Request {
    let mut target = address(table, partition_key, row_key);
    let mut separator = '?';
    parameter(&mut target, &mut separator, "$select", select.map(|s| s.join(",")).as_deref());
    bare(Method::GET, target, MINIMAL)
}

/// [Query Entities](https://learn.microsoft.com/rest/api/storageservices/query-entities).
pub(crate) fn query(table: &str, query: &Query<'_>) -> Request {
    let mut target = format!("/{table}()");
    let mut separator = '?';
    parameter(&mut target, &mut separator, "$filter", query.filter);
    parameter(&mut target, &mut separator, "$select", query.select.map(|s| s.join(",")).as_deref());
    parameter(&mut target, &mut separator, "$top", query.top.map(|n| n.to_string()).as_deref());
    if let Some(next) = query.next {
        parameter(&mut target, &mut separator, "NextPartitionKey", Some(&next.partition_key));
        parameter(&mut target, &mut separator, "NextRowKey", next.row_key.as_deref());
    }
    bare(Method::GET, target, MINIMAL)
}

/// [Update Entity](https://learn.microsoft.com/rest/api/storageservices/update-entity2) with a
/// condition, [Insert Or Replace Entity](https://learn.microsoft.com/rest/api/storageservices/insert-or-replace-entity)
/// without.
pub(crate) fn replace(
    table: &str,
    keys: (&str, &str),
    condition: Option<&Match>,
    entity: Bytes,
) -> Request {
    conditional(json(Method::PUT, address(table, keys.0, keys.1), entity), condition)
}

/// [Merge Entity](https://learn.microsoft.com/rest/api/storageservices/merge-entity) with a
/// condition, [Insert Or Merge Entity](https://learn.microsoft.com/rest/api/storageservices/insert-or-merge-entity)
/// without.
pub(crate) fn merge(
    flavor: Flavor,
    table: &str,
    keys: (&str, &str),
    condition: Option<&Match>,
    entity: Bytes,
) -> Request {
    let target = address(table, keys.0, keys.1);
    let mut request = match flavor {
        Flavor::Cosmos => json(Method::POST, target, entity),
        Flavor::Storage => json(Method::PATCH, target, entity),
    };
    if flavor == Flavor::Cosmos {
        request.headers.insert(HTTP_METHOD, HeaderValue::from_static("MERGE"));
    }
    conditional(request, condition)
}

/// [Delete Entity](https://learn.microsoft.com/rest/api/storageservices/delete-entity1).
pub(crate) fn delete(table: &str, keys: (&str, &str), condition: &Match) -> Request {
    conditional(bare(Method::DELETE, address(table, keys.0, keys.1), MINIMAL), Some(condition))
}

/// [Entity group transaction](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions).
pub(crate) fn batch(content_type: &str, body: Bytes) -> Request {
    let mut request = json(Method::POST, "/$batch".into(), body);
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        request.headers.insert(CONTENT_TYPE, content_type);
    }
    request
}

/// [Get Table ACL](https://learn.microsoft.com/rest/api/storageservices/get-table-acl).
pub(crate) fn get_acl(table: &str) -> Request {
    bare(Method::GET, format!("/{table}?comp=acl"), XML)
}

/// [Set Table ACL](https://learn.microsoft.com/rest/api/storageservices/set-table-acl).
pub(crate) fn set_acl(table: &str, document: String) -> Request {
    xml(format!("/{table}?comp=acl"), document)
}

/// `/table(PartitionKey='..',RowKey='..')`, encoded.
pub(crate) fn address(table: &str, partition_key: &str, row_key: &str) -> String {
    let mut target = String::with_capacity(table.len() + partition_key.len() + row_key.len() + 40);
    target.push('/');
    target.push_str(table);
    write_address(&mut target, partition_key, row_key);
    target
}

fn bare(method: Method, target: String, accept: HeaderValue) -> Request {
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(ACCEPT, accept);
    headers.insert(DATA_SERVICE_VERSION, VERSION_3);
    Request { service: Service::Table, method, target, headers, body: Bytes::new() }
}

fn json(method: Method, target: String, body: Bytes) -> Request {
    let mut request = bare(method, target, MINIMAL);
    request.headers.insert(CONTENT_TYPE, JSON);
    request.body = body;
    request
}

/// A request whose body is an XML document.
fn xml(target: String, document: String) -> Request {
    let mut request = bare(Method::PUT, target, XML);
    request.headers.insert(CONTENT_TYPE, XML);
    request.body = document.into();
    request
}

fn conditional(mut request: Request, condition: Option<&Match>) -> Request {
    // An ETag that is not a valid header value did not come from a service; sent as an empty header
    // it fails with 400 and never overwrites.
    if let Some(condition) = condition {
        let value = HeaderValue::from_str(condition.as_str());
        request.headers.insert(IF_MATCH, value.unwrap_or(HeaderValue::from_static("")));
    }
    request
}

fn parameter(target: &mut String, separator: &mut char, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        target.push(*separator);
        target.push_str(name);
        target.push('=');
        target.extend(utf8_percent_encode(value, QUERY));
        *separator = '&';
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowkey_wire::etag::ETag;

    #[test]
    fn a_query_encodes_its_options() {
        let next = Token { partition_key: "1!4!cGs-".into(), row_key: None };
        let request = query(
            "mytable",
            &Query {
                filter: Some("Name eq 'O''Neil & 100%'"),
                select: Some(&["age", "sex"]),
                top: Some(5),
                next: Some(&next),
            },
        );
        assert_eq!(
            request.target,
            "/mytable()?$filter=Name%20eq%20%27O%27%27Neil%20%26%20100%25%27&$select=age,sex&$top=5\
             &NextPartitionKey=1%214%21cGs-"
        );
        assert_eq!(request.headers[ACCEPT], "application/json;odata=minimalmetadata");
    }

    #[test]
    fn a_merge_is_a_patch_in_storage_and_a_tunnelled_post_in_cosmos() {
        // Recorded: sdk-python test_merge_entity (PATCH) and its Cosmos twin.
        let tag = Match::ETag(ETag::new("W/\"datetime'2020-07-21T20%3A24%3A41.1773504Z'\""));
        let storage = merge(Flavor::Storage, "t", ("a", "b"), Some(&tag), Bytes::new());
        assert_eq!(storage.method, Method::PATCH);
        assert_eq!(storage.headers[IF_MATCH], tag.as_str());
        let cosmos = merge(Flavor::Cosmos, "t", ("a", "b"), None, Bytes::new());
        assert_eq!(cosmos.method, Method::POST);
        assert_eq!(cosmos.headers[HTTP_METHOD], "MERGE");
        assert!(!cosmos.headers.contains_key(IF_MATCH));
        assert_eq!(cosmos.target, "/t(PartitionKey='a',RowKey='b')");
    }

    #[test]
    fn operations_on_tables_and_the_acl_have_their_documented_addresses() {
        assert_eq!(get_acl("t").target, "/t?comp=acl");
        assert_eq!(create_table("abc").body, "{\"TableName\":\"abc\"}");
        assert_eq!(query_tables(None, None, None).target, "/Tables");
        assert_eq!(
            query_tables(Some("TableName eq 'a'"), Some(2), Some("1!4!YWJj")).target,
            "/Tables?$filter=TableName%20eq%20%27a%27&$top=2&NextTableName=1%214%21YWJj"
        );
    }
}
