//! Encodes the requests for the documents of a whole service, which are the same for every service.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use rowkey_wire::auth::Service;

use crate::transport::Request;

const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// [Get Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-table-service-properties)
/// and its equivalents. [`rowkey_wire::xml::decode_properties`] decodes the response.
pub(crate) fn get_properties(service: Service) -> Request {
    bare(service, Method::GET, "properties")
}

/// [Set Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties)
/// and its equivalents, with a document from [`rowkey_wire::xml::encode_properties`].
pub(crate) fn set_properties(service: Service, document: String) -> Request {
    with_document(service, Method::PUT, "properties", document)
}

/// [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats)
/// and its equivalents, for the secondary endpoint only. [`rowkey_wire::xml::decode_stats`] decodes the response.
pub(crate) fn get_stats(service: Service) -> Request {
    bare(service, Method::GET, "stats")
}

/// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key), with a
/// document from [`super::delegation::encode`].
pub(crate) fn get_delegation_key(service: Service, document: String) -> Request {
    with_document(service, Method::POST, "userdelegationkey", document)
}

fn bare(service: Service, method: Method, component: &str) -> Request {
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(ACCEPT, XML);
    let target = format!("/?restype=service&comp={component}");
    Request { service, method, target, headers, body: Bytes::new() }
}

fn with_document(service: Service, method: Method, component: &str, document: String) -> Request {
    let mut request = bare(service, method, component);
    request.headers.insert(CONTENT_TYPE, XML);
    request.body = document.into();
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_every_service_have_their_documented_addresses() {
        for service in [Service::Blob, Service::Queue, Service::Table] {
            for (request, method, component) in [
                (get_properties(service), Method::GET, "properties"),
                (set_properties(service, "<a/>".into()), Method::PUT, "properties"),
                (get_stats(service), Method::GET, "stats"),
                (get_delegation_key(service, "<a/>".into()), Method::POST, "userdelegationkey"),
            ] {
                assert_eq!((request.service, &request.method), (service, &method));
                assert_eq!(request.target, format!("/?restype=service&comp={component}"));
                assert_eq!(request.headers[ACCEPT], "application/xml");
                let has_body = method != Method::GET;
                assert_eq!(request.headers.contains_key(CONTENT_TYPE), has_body);
                assert_eq!(request.body == "<a/>", has_body);
            }
        }
    }
}
